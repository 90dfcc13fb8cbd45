"""Grades as people and spreadsheet programs write them, and every way in which they get them wrong."""

import codecs
import csv
import io
import pickle
import time
import unicodedata
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordrank.datasets.grades_csv import parse_order, read_grades
from ordrank.errors import GradesError, InputError

KNOWN = ("a.jpg", "b.jpg", "sub/c.jpg")
LEVELS = ("mild", "moderate", "severe")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "grades.csv"


@pytest.fixture
def read(file):
    """Reads what is given as text or bytes."""

    def read_content(content, known=KNOWN, **options):
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_grades(file, known, **options)

    return read_content


@pytest.fixture
def problems(read):
    """The problems of what is given, after checking that the message lists them."""

    def list_problems(content, known=KNOWN, **options):
        with pytest.raises(GradesError) as error:
            read(content, known, **options)
        found, lines = error.value.problems, str(error.value).split("\n")
        count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
        assert lines[0].endswith(f"grades.csv has {count}:")
        assert tuple(lines[1 : 1 + min(len(found), 50)]) == found[:50]
        return list(found)

    return list_problems


class TestWhatIsAccepted:
    def test_plain(self, read):
        assert read("file,grade\na.jpg,1\nsub/c.jpg,-2.5e1\n") == {"a.jpg": 1.0, "sub/c.jpg": -25.0}

    def test_all_values_are_floats(self, read):
        for text, order in (("1", None), ("mild", LEVELS)):
            grades = read(f"file,grade\na.jpg,{text}\n", order=order, at_least_two=False)
            assert [type(grade) for grade in grades.values()] == [float]

    @pytest.mark.parametrize("delimiter", [",", ";", "\t"])
    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    @pytest.mark.parametrize(
        "encode",
        [
            str.encode,
            lambda text: text.encode("utf-8-sig"),
            lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
            lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
        ],
        ids=["plain", "mark", "little", "big"],
    )
    @pytest.mark.parametrize("last", [True, False])
    def test_delimiters_line_ends_and_encodings(self, read, delimiter, end, encode, last):
        lines = [["file", "grade"], ["é 😀.jpg", "2.5"], ["b.jpg", "1"]]
        text = end.join(delimiter.join(cells) for cells in lines) + end * last
        assert read(encode(text), ("é 😀.jpg", "b.jpg")) == {"é 😀.jpg": 2.5, "b.jpg": 1.0}

    @pytest.mark.parametrize("delimiter", [";", "\t"])
    def test_decimal_comma(self, read, delimiter):
        text = "file;grade\na.jpg;2,5\nb.jpg;-0,25\nsub/c.jpg;3.5\n".replace(";", delimiter)
        assert read(text) == {"a.jpg": 2.5, "b.jpg": -0.25, "sub/c.jpg": 3.5}

    def test_columns_by_name_among_others_in_any_order(self, read):
        text = 'score , who,"the, file"\n1,x,a.jpg\n2,"y\nz",b.jpg\n'
        assert read(text, file_column="the, file", grade_column="score") == {"a.jpg": 1.0, "b.jpg": 2.0}

    def test_blank_lines_and_blanks_around_cells(self, read):
        text = "\n\nfile,grade\n\n a.jpg , 1 \n   \n,\n  b.jpg,\t2\n,,,,\n\n"
        assert read(text) == {"a.jpg": 1.0, "b.jpg": 2.0}

    def test_order_gives_positions(self, read):
        text = "file,grade\na.jpg,severe\nb.jpg, mild \nsub/c.jpg,moderate\n"
        assert read(text, order=LEVELS) == {"a.jpg": 2.0, "b.jpg": 0.0, "sub/c.jpg": 1.0}

    def test_same_file_twice_with_the_same_grade(self, read):
        assert read("file,grade\na.jpg,1\nb.jpg,2\na.jpg,1.0\n./a.jpg,1\n") == {"a.jpg": 1.0, "b.jpg": 2.0}

    def test_one_grade_where_that_is_enough(self, read):
        assert read("file,grade\na.jpg,1\nb.jpg,1\n", at_least_two=False) == {"a.jpg": 1.0, "b.jpg": 1.0}


class TestNamesOfFiles:
    @pytest.mark.parametrize(
        "written",
        [
            "sub/c.jpg",
            "./sub/c.jpg",
            ".\\sub\\c.jpg",
            "sub\\c.jpg",
            "sub//c.jpg",
            "sub/./c.jpg",
            "sub/x/../c.jpg",
            "/sub/c.jpg",
            "/data/pictures/sub/c.jpg",
            "C:\\data\\sub\\c.jpg",
            "\\\\server\\share\\sub\\c.jpg",
        ],
    )
    def test_ways_to_write_one(self, read, written):
        assert read(f"file,grade\n{written},1\na.jpg,2\n") == {"sub/c.jpg": 1.0, "a.jpg": 2.0}

    def test_a_name_as_it_is_comes_first(self, read):
        known = ("a\\b.jpg", "a/b.jpg", " c.jpg", "c.jpg")
        lines = "a\\b.jpg,1\na/b.jpg,2\n c.jpg,3\nc.jpg,4\n"
        assert read(f"file,grade\n{lines}", known) == dict(zip(known, (1, 2, 3, 4), strict=True))

    def test_absolute_paths_of_namesakes(self, read):
        known = ("a.jpg", "sub/a.jpg", "sub/sub/a.jpg")
        lines = [f"/data/{name},{grade}" for grade, name in enumerate(known)]
        assert read("\n".join(["file,grade", *lines]), known) == {name: grade for grade, name in enumerate(known)}

    @pytest.mark.parametrize("root", ["fruit", "../fruit", "all\\fruit"])
    def test_relative_paths_with_the_folder_in_front(self, read, root):
        lines = [f"{root}/{name},{grade}" for grade, name in enumerate(KNOWN)]
        assert read("\n".join(["file,grade", *lines])) == {name: grade for grade, name in enumerate(KNOWN)}

    def test_relative_paths_beside_names_as_they_are(self, problems):
        assert problems("file,grade\nb.jpg,1\nfruit/a.jpg,2\n") == [
            "line 3: 'fruit/a.jpg' is not among the pictures; is 'a.jpg' meant?"
        ]
        composed, apart = "é.jpg", unicodedata.normalize("NFD", "é.jpg")
        assert len(problems(f"file,grade\n{composed},1\nfruit/a.jpg,2\n", (apart, "a.jpg"))) == 1

    def test_relative_namesake_in_another_folder(self, problems):
        lines = "fruit/a.jpg,1\nfruit/b.jpg,2\nother/a.jpg,3\n"
        assert problems(f"file,grade\n{lines}") == [
            "line 4: 'other/a.jpg' is not among the pictures; is 'a.jpg' meant?"
        ]

    def test_namesake_in_another_folder_is_not_taken_for_a_picture(self, problems):
        lines = "/data/a.jpg,1\n/data/b.jpg,2\n/other/a.jpg,3\n/other/sub/x.jpg,3\n"
        assert problems(f"file,grade\n{lines}") == [
            "line 4: '/other/a.jpg' is not among the pictures; is 'a.jpg' meant?",
            "line 5: '/other/sub/x.jpg' is not among the pictures",
        ]

    @pytest.mark.parametrize("form", ["NFC", "NFD"])
    @pytest.mark.parametrize("prefix", ["", "./", "/data/"])
    def test_accents_that_are_composed_otherwise(self, read, form, prefix):
        known = unicodedata.normalize({"NFC": "NFD", "NFD": "NFC"}[form], "café.jpg")
        written = prefix + unicodedata.normalize(form, "café.jpg")
        lines = f"file,grade\n{written},1\n{prefix}b.jpg,2\n"
        assert read(lines, (known, "b.jpg")) == {known: 1.0, "b.jpg": 2.0}

    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("IMG_17.JPG", "img_17.jpg"),
            ("img_17.jpeg", "img_17.jpg"),
            ("mg_17.jpg", "img_17.jpg"),
            ("boat.jpg", "some/long/folder/boat.jpg"),
            ("pictures/img_17.jpg", "img_17.jpg"),
            ("something else", None),
            ("x" * 1000, None),
        ],
    )
    def test_hints(self, problems, written, meant):
        known = ("img_17.jpg", "quite.png", "some/long/folder/boat.jpg")
        (problem,) = problems(f"file,grade\n{written},1\nquite.png,2\n", known)
        assert problem.startswith("line 2: ")
        assert problem.endswith(f"is {meant!r} meant?" if meant else "is not among the pictures")
        assert len(problem) < 200


class TestProblems:
    def test_all_at_once_with_their_lines(self, problems):
        content = "\r\n".join(
            [
                "file,grade,note",  # 1
                "a.jpg,1,",
                '"new',  # 3 and 4: one record
                'line.jpg",2,"she said ""no"""',
                "a.jpg,1,same again",
                "",
                "a.jpg,2,another",  # 7
                "aa.jpg,1,",
                "b.jpg,,",
                "b.jpg,  ,",  # 10
                "b.jpg,mild,",
                "b.jpg,nan,",
                "b.jpg,inf,",
                "b.jpg,1e999,",
                'b.jpg,"2,5",',  # 15
                "b.jpg,1_0,",
                "b.jpg,1",
                "b.jpg,2,5,",
                ",3,",
                "b.jpg,\0,",  # 20
                "zzz,severe,two problems",
                '"b.jpg"x,1,',
                '"two',  # 23
                'lines.jpg",1,',
                '"b.jpg,1,',  # 25
                "b.jpg,1,",
            ]
        )
        assert problems(content, (*KNOWN, "new\r\nline.jpg")) == [
            "line 7: 'a.jpg' has grade '2' here and grade '1' in line 2",
            "line 8: 'aa.jpg' is not among the pictures; is 'a.jpg' meant?",
            "line 9: 'b.jpg' has no grade; leave the line out if the picture is not graded",
            "line 10: 'b.jpg' has no grade; leave the line out if the picture is not graded",
            "line 11: grade 'mild' of 'b.jpg' is not a number",
            "line 12: grade 'nan' of 'b.jpg' is not a finite number",
            "line 13: grade 'inf' of 'b.jpg' is not a finite number",
            "line 14: grade '1e999' of 'b.jpg' is not a finite number",
            "line 15: grade '2,5' of 'b.jpg' is not a number; is '2.5' meant?",
            "line 16: grade '1_0' of 'b.jpg' is not a number",
            "line 17: has 2 cells, but there are 3 columns",
            "line 18: has 4 cells, but there are 3 columns; a cell that holds a comma needs quotation marks",
            "line 19: names no file",
            "line 20: holds a NUL character: the file is damaged there",
            "line 21: 'zzz' is not among the pictures",
            "line 21: grade 'severe' of 'zzz' is not a number",
            "line 22: cannot be split into cells: ',' expected after '\"'",
            "line 23: 'two\\r\\nlines.jpg' is not among the pictures; is 'new\\r\\nline.jpg' meant?",
            "line 25: a quotation mark opens a cell that is not closed before the end of the file",
        ]

    def test_only_the_first_are_shown_but_all_are_kept(self, read, file):
        lines = "".join(f"x{number}.jpg,1\n" for number in range(62))
        with pytest.raises(GradesError) as error:
            read(f"file,grade\na.jpg,2\n{lines}")
        shown = str(error.value).split("\n")
        assert shown[0] == f"{file} has 62 problems:"
        assert shown[51] == "… and 12 more"
        assert len(shown) == 52
        assert len(error.value.problems) == 62
        assert error.value.problems[-1] == "line 64: 'x61.jpg' is not among the pictures"

    def test_words_without_an_order(self, read):
        words = [f"level{number}" for number in range(12)]
        for count, listed in (
            (3, "'level0', 'level1', 'level2'"),
            (12, ", ".join(f"'{word}'" for word in words[:10]) + ", …"),
        ):
            lines = "".join(f"a.jpg,{word}\n" for word in words[:count] * 9)
            with pytest.raises(GradesError) as error:
                read(f"file,grade\n{lines}")
            hint = f"If the grades are words, name them with --order, lowest first; there are {listed}"
            assert str(error.value).split("\n")[-1] == hint
            assert len(error.value.problems) == 9 * count

    def test_the_order_is_named_once(self, read):
        with pytest.raises(GradesError) as error:
            read("file,grade\na.jpg,mild\nb.jpg,7\nsub/c.jpg,8\n", order=LEVELS)
        assert str(error.value).count("moderate") == 1
        assert str(error.value).endswith("\nThe order of grades is 'mild', 'moderate', 'severe'")

    def test_grades_of_another_kind_are_one_sentence(self, problems):
        lines = [f"{i}.jpg,{i % 3}" for i in range(100)]
        known = [f"{i}.jpg" for i in range(99)]
        assert problems("\n".join(["file,grade", *lines]), known, order=LEVELS) == [
            "no grade is in the order of grades 'mild', 'moderate', 'severe': there are '0', '1', '2'",
            "line 101: '99.jpg' is not among the pictures",
        ]

    def test_grades_that_are_not_in_the_order(self, problems):
        text = "file,grade\na.jpg,Mild\nb.jpg,sever\nsub/c.jpg,2\na.jpg,severe\nb.jpg,mild\n"
        assert problems(text, order=LEVELS) == [
            "line 2: grade 'Mild' of 'a.jpg' is not in the order of grades; is 'mild' meant?",
            "line 3: grade 'sever' of 'b.jpg' is not in the order of grades; is 'severe' meant?",
            "line 4: grade '2' of 'sub/c.jpg' is not in the order of grades",
        ]

    def test_same_file_twice_under_two_spellings(self, problems):
        text = "file,grade\na.jpg,mild\n./a.jpg,severe\n"
        assert problems(text, order=LEVELS) == ["line 3: './a.jpg' has grade 'severe' here and grade 'mild' in line 2"]

    def test_one_grade_for_all(self, problems):
        sentence = "all grades are the same: an order needs two different grades"
        assert problems("file,grade\na.jpg,1\nb.jpg,1.0\n") == [sentence]
        assert problems("file,grade\na.jpg,mild\n", order=LEVELS) == [sentence]
        assert problems("file,grade\na.jpg,1\nx,1\n") == ["line 3: 'x' is not among the pictures", sentence]
        assert len(problems("file,grade\na.jpg,1\nx,2\n")) == 1  # there are two once that name is right
        assert len(problems("file,grade\na.jpg,1\nb.jpg,two\n")) == 1

    @pytest.mark.parametrize("at_least_two", [True, False])
    def test_names_of_columns_only(self, problems, at_least_two):
        (problem,) = problems("file,grade\n\n", at_least_two=at_least_two)
        assert problem == "there is no line below the names of the columns: add a line for every graded picture"

    def test_lines_that_do_not_agree_with_the_delimiter(self, problems):
        assert problems("file;grade\na.jpg;1\nb.jpg,2\nsub/c.jpg;3;\n") == [
            "line 3: has 1 cell, but there are 2 columns",
            "line 4: has 3 cells, but there are 2 columns; a cell that holds a semicolon needs quotation marks",
            "all grades are the same: an order needs two different grades",
        ]

    def test_cells_are_shown_on_one_line_and_shortened(self, problems):
        (problem,) = problems(f'file,grade\na.jpg,1\nb.jpg,"{"x" * 9000}\ny"\n')
        assert "\n" not in problem
        assert len(problem) < 200

    def test_a_cell_of_the_size_of_a_file(self, problems):
        found = problems(f"file,grade\na.jpg,1\nb.jpg,{'9' * 200_000}\nsub/c.jpg,x\n")
        assert found[0].startswith("line 3: cannot be split into cells: field larger than field limit")
        assert found[1].startswith("line 4: grade 'x'")

    def test_survives_pickling(self, read):
        with pytest.raises(GradesError) as error:
            read("file,grade\nx,1\n")
        again = pickle.loads(pickle.dumps(error.value))
        assert (str(again), again.problems) == (str(error.value), error.value.problems)


class TestFilesThatCannotBeRead:
    def test_missing_or_no_file(self, tmp_path):
        with pytest.raises(InputError, match=r"there is no file .*none\.csv; give the CSV file"):
            read_grades(tmp_path / "none.csv", KNOWN)
        with pytest.raises(InputError, match="cannot be read: Is a directory"):
            read_grades(tmp_path, KNOWN)
        with pytest.raises(InputError, match=r"cannot be read: .*null"):
            read_grades(Path("a\0b"), KNOWN)

    @pytest.mark.parametrize("content", [b"", b"\n \r\n\t\n", codecs.BOM_UTF8, codecs.BOM_UTF16_LE])
    def test_empty(self, read, content):
        with pytest.raises(InputError, match=r"grades\.csv is empty; write a first line"):
            read(content)

    @pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
    @pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
    def test_not_utf8(self, read, mark, end):
        start = mark + end.join([b"file,grade", b"a.jpg,1", b"caf"])
        complaint = f"is not UTF-8: byte 0xe9 at offset {len(start)}, in line 3, .* Save the table as CSV in UTF-8"
        with pytest.raises(InputError, match=complaint):
            read(start + b"\xe9.jpg,2" + end)

    def test_utf16_that_is_cut_off(self, read):
        content = "file,grade\na.jpg,1\n".encode("utf-16")[:-1]
        with pytest.raises(InputError, match=rf"is not UTF-16: byte 0x0a at offset {len(content) - 1}, in line 2"):
            read(content)

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32"])
    def test_wide_characters_without_a_mark(self, read, encoding):
        with pytest.raises(InputError, match=r"NUL characters in its first line\. Save the table as CSV in UTF-8"):
            read("file,grade\na.jpg,1\n".encode(encoding))

    def test_workbook(self, read):
        with pytest.raises(InputError, match=r"is a workbook or another archive, not text\. Save the table as CSV"):
            read(b"PK\x03\x04\x14\x00\x06\x00")

    @pytest.mark.parametrize(("delimiter", "name"), [(",", "commas"), (";", "semicolons"), ("\t", "tabs")])
    def test_missing_columns(self, read, delimiter, name):
        header = delimiter.join(["file", "score", "who"])
        with pytest.raises(InputError) as error:
            read(f"{header}\na.jpg,1,x\n")
        assert f"has no column 'grade': its first line, split at {name} (" in str(error.value)
        assert "names the columns 'file', 'score', 'who'. Name the right ones with --file-column" in str(error.value)
        with pytest.raises(InputError, match="has no column 'image' and no column 'grade'"):
            read(f"{header}\n", file_column="image")

    def test_another_delimiter(self, read):
        with pytest.raises(
            InputError, match=r"split at commas \(semicolons and tabs were tried too\), .*'file\|grade'"
        ):
            read("file|grade\na.jpg|1\n")

    def test_no_names_of_columns(self, read):
        with pytest.raises(InputError, match=r"columns 'a\.jpg', '1'\. .*or add a first line with names"):
            read("a.jpg,1\nb.jpg,2\n")

    def test_doubled_column(self, read):
        with pytest.raises(InputError, match="has more than one column 'grade'; rename"):
            read("file,grade,grade\na.jpg,1,2\n")

    def test_one_column_for_both(self, read):
        with pytest.raises(InputError, match="column 'file' cannot hold both"):
            read("file,grade\na.jpg,1\n", grade_column="file")


class TestOrder:
    def test_parsed(self):
        assert parse_order("mild,moderate,severe") == LEVELS
        assert parse_order("  mild ,very severe") == ("mild", "very severe")

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("", "empty name"),
            ("mild,,severe", "empty name"),
            ("mild,severe, ", "empty name"),
            ("mild,severe, mild", "names 'mild' more than once"),
            ("mild", "at least two names"),
        ],
    )
    def test_refused(self, read, text, complaint):
        with pytest.raises(InputError, match=complaint):
            parse_order(text)
        with pytest.raises(InputError, match=complaint):
            read("file,grade\na.jpg,mild\n", order=[name.strip() for name in text.split(",")])

    def test_nothing(self, read):
        with pytest.raises(InputError, match="at least two names"):
            read("file,grade\na.jpg,mild\n", order=())


class TestRoundTrip:
    letters = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
    names = st.text(letters | st.sampled_from("\n\r\",;\t'\\/. 😀é"), min_size=1)
    grades = st.floats(allow_nan=False, allow_infinity=False)

    @given(
        st.dictionaries(names, grades, min_size=1),
        st.sampled_from(",;\t"),
        st.sampled_from(["\n", "\r\n", "\r"]),
        st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    )
    def test_any_names_and_grades(self, tmp_path_factory, expected, delimiter, end, encoding):
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
        writer.writerow(["file", "grade"])
        writer.writerows((name, repr(grade)) for name, grade in expected.items())
        self._check(tmp_path_factory, stream.getvalue().encode(encoding), expected)

    @given(st.dictionaries(names, grades, min_size=1), st.sampled_from(",;\t"))
    def test_with_quotation_marks_where_they_are_needed(self, tmp_path_factory, expected, delimiter):
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, delimiter=delimiter)
        writer.writerow(["grade", "file"])
        writer.writerows((repr(grade), name) for name, grade in expected.items())
        self._check(tmp_path_factory, stream.getvalue().encode(), expected)

    def _check(self, tmp_path_factory, content, expected):
        file = tmp_path_factory.getbasetemp() / "round_trip.csv"
        file.write_bytes(content)
        grades = read_grades(file, list(expected), at_least_two=False)
        assert grades == expected
        assert list(map(repr, grades.values())) == list(map(repr, expected.values()))  # also the sign of zero

    @given(st.binary(max_size=200) | st.text('file,grade;\t\n\r"\0.jpg0123é ').map(lambda text: text.encode()))
    def test_anything_is_read_or_refused_with_an_input_error(self, tmp_path_factory, content):
        file = tmp_path_factory.getbasetemp() / "anything.csv"
        for start in (b"", b"file,grade\na.jpg,1\n"):
            file.write_bytes(start + content)
            with suppress(InputError):
                assert set(read_grades(file, KNOWN)) <= {*KNOWN}


class TestSpeed:
    """100,000 lines; the bounds leave room for slow machines and for measuring coverage."""

    known = tuple(f"folder{number % 100}/picture_{number:06d}.jpg" for number in range(100_000))

    @pytest.mark.parametrize("prefix", ["", "/data/of/mine/"])
    def test_right_lines(self, read, prefix):
        content = "file,grade\n" + "".join(f"{prefix}{name},{at % 7}\n" for at, name in enumerate(self.known))
        start = time.process_time()
        assert len(read(content, self.known)) == 100_000
        assert time.process_time() - start < 5

    def test_wrong_lines(self, read):
        content = "file,grade\n" + "".join(f"{name[:-5]},word{at}\n" for at, name in enumerate(self.known))
        start = time.process_time()
        with pytest.raises(GradesError, match="has 200000 problems"):
            read(content, self.known)
        assert time.process_time() - start < 10
