"""Lines as people and spreadsheet programs write them, and the problems reported for invalid ones."""

import codecs
import pickle
import unicodedata

import pytest

from ordrank.collection.ingest.grades_csv import read_grades
from ordrank.errors import GradesError
from tests.collection.ingest.grades_csv.conftest import KNOWN, LEVELS


class TestValidLines:
    def test_numbers(self, read):
        assert read("file,grade\na.jpg,1\nsub/c.jpg,-2.5e1\n") == {"a.jpg": 1.0, "sub/c.jpg": -25.0}

    def test_grades_are_floats(self, read):
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
        ids=["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"],
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

    def test_columns_are_found_by_name(self, read):
        text = 'score , who,"the, file"\n1,x,a.jpg\n2,"y\nz",b.jpg\n'
        assert read(text, file_column="the, file", grade_column="score") == {"a.jpg": 1.0, "b.jpg": 2.0}

    def test_blank_lines_and_whitespace_are_ignored(self, read):
        text = "\n\nfile,grade\n\n a.jpg , 1 \n   \n,\n  b.jpg,\t2\n,,,,\n\n"
        assert read(text) == {"a.jpg": 1.0, "b.jpg": 2.0}

    def test_named_grades_become_positions(self, read):
        text = "file,grade\na.jpg,severe\nb.jpg, mild \nsub/c.jpg,moderate\n"
        assert read(text, order=LEVELS) == {"a.jpg": 2.0, "b.jpg": 0.0, "sub/c.jpg": 1.0}

    def test_repeated_file_with_the_same_grade(self, read):
        assert read("file,grade\na.jpg,1\nb.jpg,2\na.jpg,1.0\n./a.jpg,1\n") == {"a.jpg": 1.0, "b.jpg": 2.0}

    @pytest.mark.parametrize("blank", ["", " ", "\t"])
    def test_picture_with_a_blank_grade_is_ungraded(self, read, blank):
        text = f"file,grade\na.jpg,1\nb.jpg,2\nsub/c.jpg,{blank}\na.jpg,{blank}\n"
        assert read(text) == {"a.jpg": 1.0, "b.jpg": 2.0}
        assert read("file,grade\na.jpg,mild\nb.jpg,\nsub/c.jpg,severe", order=LEVELS) == {
            "a.jpg": 0.0,
            "sub/c.jpg": 2.0,
        }

    def test_single_grade_if_allowed(self, read):
        assert read("file,grade\na.jpg,1\nb.jpg,1\n", at_least_two=False) == {"a.jpg": 1.0, "b.jpg": 1.0}


class TestFileNames:
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
    def test_spellings_of_a_name(self, read, written):
        assert read(f"file,grade\n{written},1\na.jpg,2\n") == {"sub/c.jpg": 1.0, "a.jpg": 2.0}

    def test_exact_name_takes_precedence(self, read):
        known = ("a\\b.jpg", "a/b.jpg", " c.jpg", "c.jpg")
        lines = "a\\b.jpg,1\na/b.jpg,2\n c.jpg,3\nc.jpg,4\n"
        assert read(f"file,grade\n{lines}", known) == dict(zip(known, (1, 2, 3, 4), strict=True))

    def test_absolute_paths_of_files_with_the_same_name(self, read):
        known = ("a.jpg", "sub/a.jpg", "sub/sub/a.jpg")
        lines = [f"/data/{name},{grade}" for grade, name in enumerate(known)]
        assert read("\n".join(["file,grade", *lines]), known) == {name: grade for grade, name in enumerate(known)}

    @pytest.mark.parametrize("root", ["fruit", "../fruit", "all\\fruit"])
    def test_relative_paths_with_a_common_folder(self, read, root):
        lines = [f"{root}/{name},{grade}" for grade, name in enumerate(KNOWN)]
        assert read("\n".join(["file,grade", *lines])) == {name: grade for grade, name in enumerate(KNOWN)}

    def test_relative_paths_mixed_with_exact_names(self, problems):
        assert problems("file,grade\nb.jpg,1\nfruit/a.jpg,2\n") == [
            "line 3: 'fruit/a.jpg' is not among the pictures; is 'a.jpg' meant?"
        ]
        composed, apart = "é.jpg", unicodedata.normalize("NFD", "é.jpg")
        assert len(problems(f"file,grade\n{composed},1\nfruit/a.jpg,2\n", (apart, "a.jpg"))) == 1

    def test_relative_path_in_another_folder_is_unknown(self, problems):
        lines = "fruit/a.jpg,1\nfruit/b.jpg,2\nother/a.jpg,3\n"
        assert problems(f"file,grade\n{lines}") == [
            "line 4: 'other/a.jpg' is not among the pictures; is 'a.jpg' meant?"
        ]

    def test_absolute_path_in_another_folder_is_unknown(self, problems):
        lines = "/data/a.jpg,1\n/data/b.jpg,2\n/other/a.jpg,3\n/other/sub/x.jpg,3\n"
        assert problems(f"file,grade\n{lines}") == [
            "line 4: '/other/a.jpg' is not among the pictures; is 'a.jpg' meant?",
            "line 5: '/other/sub/x.jpg' is not among the pictures",
        ]

    @pytest.mark.parametrize("written", ["c.jpg", "./c.jpg", ".\\c.jpg", " c.jpg "])
    def test_bare_name_of_the_only_picture_called_so_in_any_folder(self, read, written):
        assert read(f"file,grade\n{written},1\na.jpg,2\n") == {"sub/c.jpg": 1.0, "a.jpg": 2.0}

    def test_bare_name_is_first_that_of_a_picture_outside_of_folders(self, read):
        assert read("file,grade\na.jpg,1\nsub/a.jpg,2\n", ("a.jpg", "sub/a.jpg")) == {"a.jpg": 1.0, "sub/a.jpg": 2.0}

    @pytest.mark.parametrize("form", ["NFC", "NFD"])
    def test_bare_name_in_other_unicode_composition(self, read, form):
        known = unicodedata.normalize({"NFC": "NFD", "NFD": "NFC"}[form], "sub/é.jpg")
        lines = f"file,grade\n{unicodedata.normalize(form, 'é.jpg')},1\na.jpg,2\n"
        assert read(lines, (known, "a.jpg")) == {known: 1.0, "a.jpg": 2.0}

    def test_ambiguous_bare_name_is_reported_with_the_pictures_it_may_be(self, problems):
        known = ("a.jpg", "x/b.jpg", "y/b.jpg", *(f"{i}/c.jpg" for i in range(9)))
        for skip_missing in (False, True):
            assert problems("file,grade\na.jpg,1\nb.jpg,2\nc.jpg,2\n", known, skip_missing=skip_missing) == [
                "line 3: 'b.jpg' may be 'x/b.jpg' or 'y/b.jpg'; write the folder too",
                "line 4: 'c.jpg' may be '0/c.jpg' or '1/c.jpg' or '2/c.jpg'; write the folder too",
            ]

    def test_bare_name_stands_for_pictures_of_the_folder_at_hand_only(self, read, problems):
        known, in_folder = ("a.jpg", "x/b.jpg", "y/b.jpg"), ("a.jpg", "y/b.jpg")
        text = "file,grade\na.jpg,1\nb.jpg,2\n"
        assert read(text, known, in_folder=in_folder) == {"a.jpg": 1.0, "y/b.jpg": 2.0}
        assert read(text.replace("b", "x/b"), known, in_folder=in_folder) == {"a.jpg": 1.0, "x/b.jpg": 2.0}
        assert len(problems(text, known[:2], in_folder=("a.jpg",))) == 1

    def test_bare_name_and_path_of_one_picture_may_not_contradict_each_other(self, problems):
        assert problems("file,grade\nc.jpg,1\nsub/c.jpg,2\n") == [
            "line 3: 'sub/c.jpg' has grade '2' here and grade '1' in line 2"
        ]

    @pytest.mark.parametrize("form", ["NFC", "NFD"])
    @pytest.mark.parametrize("prefix", ["", "./", "/data/"])
    def test_other_unicode_composition(self, read, form, prefix):
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
            ("other/boat.jpg", "some/long/folder/boat.jpg"),
            ("pictures/img_17.jpg", "img_17.jpg"),
            ("something else", None),
            ("x" * 1000, None),
        ],
    )
    def test_suggestions(self, problems, written, meant):
        known = ("img_17.jpg", "quite.png", "some/long/folder/boat.jpg")
        (problem,) = problems(f"file,grade\n{written},1\nquite.png,2\n", known)
        assert problem.startswith("line 2: ")
        assert problem.endswith(f"is {meant!r} meant?" if meant else "is not among the pictures")
        assert len(problem) < 200


class TestProblems:
    def test_all_problems_are_reported_with_their_lines(self, problems):
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

    def test_message_shows_the_first_problems_and_the_error_holds_all(self, read, file):
        lines = "".join(f"x{number}.jpg,1\n" for number in range(62))
        with pytest.raises(GradesError) as error:
            read(f"file,grade\na.jpg,2\n{lines}")
        shown = str(error.value).split("\n")
        assert shown[0] == f"{file} has 62 problems:"
        assert shown[51:] == [
            "… and 12 more",
            "Correct the names, or skip the lines whose pictures are missing with --skip-bad",
        ]
        assert len(error.value.problems) == 62
        assert error.value.problems[-1] == "line 64: 'x61.jpg' is not among the pictures"

    def test_words_without_order_suggest_the_option(self, read):
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

    def test_order_is_shown_once(self, read):
        with pytest.raises(GradesError) as error:
            read("file,grade\na.jpg,mild\nb.jpg,7\nsub/c.jpg,8\n", order=LEVELS)
        assert str(error.value).count("moderate") == 1
        assert str(error.value).endswith("\nThe order of grades is 'mild', 'moderate', 'severe'")

    def test_grades_unrelated_to_the_order_are_one_problem(self, problems):
        lines = [f"{i}.jpg,{i % 3}" for i in range(100)]
        known = [f"{i}.jpg" for i in range(99)]
        assert problems("\n".join(["file,grade", *lines]), known, order=LEVELS) == [
            "no grade is in the order of grades 'mild', 'moderate', 'severe': there are '0', '1', '2'",
            "line 101: '99.jpg' is not among the pictures",
        ]

    def test_grades_not_in_the_order(self, problems):
        text = "file,grade\na.jpg,Mild\nb.jpg,sever\nsub/c.jpg,2\na.jpg,severe\nb.jpg,mild\n"
        assert problems(text, order=LEVELS) == [
            "line 2: grade 'Mild' of 'a.jpg' is not in the order of grades; is 'mild' meant?",
            "line 3: grade 'sever' of 'b.jpg' is not in the order of grades; is 'severe' meant?",
            "line 4: grade '2' of 'sub/c.jpg' is not in the order of grades",
        ]

    def test_contradicting_grades_under_two_spellings(self, problems):
        text = "file,grade\na.jpg,mild\n./a.jpg,severe\n"
        assert problems(text, order=LEVELS) == ["line 3: './a.jpg' has grade 'severe' here and grade 'mild' in line 2"]

    def test_single_grade_for_all(self, problems):
        sentence = "all grades are the same: an order needs two different grades"
        assert problems("file,grade\na.jpg,1\nb.jpg,1.0\n") == [sentence]
        assert problems("file,grade\na.jpg,mild\n", order=LEVELS) == [sentence]
        assert problems("file,grade\na.jpg,1\nx,1\n") == ["line 3: 'x' is not among the pictures", sentence]
        assert len(problems("file,grade\na.jpg,1\nx,2\n")) == 1  # two grades once the name is corrected
        assert len(problems("file,grade\na.jpg,1\nb.jpg,two\n")) == 1

    def test_no_grade_at_all(self, problems, read):
        text = "file,grade\na.jpg,\nb.jpg, \n"
        assert problems(text) == ["no line has a grade: an order needs two different grades"]
        assert read(text, at_least_two=False) == {}

    @pytest.mark.parametrize("at_least_two", [True, False])
    def test_header_only(self, problems, at_least_two):
        (problem,) = problems("file,grade\n\n", at_least_two=at_least_two)
        assert problem == "there is no line below the names of the columns: add a line for every graded picture"

    def test_lines_with_another_delimiter(self, problems):
        assert problems("file;grade\na.jpg;1\nb.jpg,2\nsub/c.jpg;3;\n") == [
            "line 3: has 1 cell, but there are 2 columns",
            "line 4: has 3 cells, but there are 2 columns; a cell that holds a semicolon needs quotation marks",
            "all grades are the same: an order needs two different grades",
        ]

    def test_long_cells_are_shortened(self, problems):
        (problem,) = problems(f'file,grade\na.jpg,1\nb.jpg,"{"x" * 9000}\ny"\n')
        assert "\n" not in problem
        assert len(problem) < 200

    def test_cell_beyond_the_field_limit(self, problems):
        found = problems(f"file,grade\na.jpg,1\nb.jpg,{'9' * 200_000}\nsub/c.jpg,x\n")
        assert found[0].startswith("line 3: cannot be split into cells: field larger than field limit")
        assert found[1].startswith("line 4: grade 'x'")

    def test_error_can_be_pickled(self, read):
        with pytest.raises(GradesError) as error:
            read("file,grade\nx,1\n")
        again = pickle.loads(pickle.dumps(error.value))
        assert (str(again), again.problems) == (str(error.value), error.value.problems)


class TestMissingPictures:
    def test_skipped_lines_are_listed_once_and_their_grades_are_not_read(self, file):
        file.write_text("file,grade\na.jpg,1\nx.jpg,9\nb.jpg,2\nnone/y.jpg,word\nx.jpg,8\nz.jpg,\n")
        found = read_grades(file, KNOWN, skip_missing=True)
        assert found.grades == {"a.jpg": 1.0, "b.jpg": 2.0}
        assert found.not_found == ("x.jpg", "none/y.jpg", "z.jpg")

    def test_other_problems_are_not_skipped(self, problems):
        assert problems("file,grade\na.jpg,1\nx.jpg,2\nb.jpg,word\n,3\n", skip_missing=True) == [
            "line 4: grade 'word' of 'b.jpg' is not a number",
            "line 5: names no file",
        ]

    def test_two_grades_must_remain(self, problems):
        assert problems("file,grade\na.jpg,1\nx.jpg,2\n", skip_missing=True) == [
            "all grades are the same: an order needs two different grades"
        ]

    @pytest.mark.parametrize("at_least_two", [True, False])
    def test_a_table_of_other_pictures_is_rejected(self, problems, at_least_two):
        text = "file,grade\nx.jpg,1\ny.jpg,2\n"
        assert problems(text, skip_missing=True, at_least_two=at_least_two) == [
            "no line names one of the pictures: there are 'x.jpg', 'y.jpg'"
        ]
