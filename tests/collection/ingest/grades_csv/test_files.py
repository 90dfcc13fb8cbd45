"""Files that cannot be read, orders of grades, round trips, large files."""

import codecs
import csv
import io
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordrank.collection.ingest.grades_csv import parse_order, read_grades
from ordrank.errors import GradesError, InputError
from tests.collection.ingest.grades_csv.conftest import KNOWN, LEVELS


class TestUnreadableFiles:
    def test_missing_file_or_directory(self, tmp_path):
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
        message = (
            f"is not UTF-8: byte 0xe9 at offset {len(start)}, in line 3, is invalid. Save the table as CSV in UTF-8"
        )
        with pytest.raises(InputError, match=message):
            read(start + b"\xe9.jpg,2" + end)

    def test_truncated_utf16(self, read):
        content = "file,grade\na.jpg,1\n".encode("utf-16")[:-1]
        with pytest.raises(InputError, match=rf"is not UTF-16: byte 0x0a at offset {len(content) - 1}, in line 2"):
            read(content)

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32"])
    def test_wide_characters_without_a_byte_order_mark(self, read, encoding):
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

    def test_unknown_delimiter(self, read):
        with pytest.raises(
            InputError, match=r"split at commas \(semicolons and tabs were tried too\), .*'file\|grade'"
        ):
            read("file|grade\na.jpg|1\n")

    def test_missing_header(self, read):
        with pytest.raises(InputError, match=r"columns 'a\.jpg', '1'\. .*or add a first line with names"):
            read("a.jpg,1\nb.jpg,2\n")

    def test_repeated_column(self, read):
        with pytest.raises(InputError, match="has more than one column 'grade'; rename"):
            read("file,grade,grade\na.jpg,1,2\n")

    def test_same_column_for_files_and_grades(self, read):
        with pytest.raises(InputError, match="column 'file' cannot hold both"):
            read("file,grade\na.jpg,1\n", grade_column="file")


class TestOrder:
    def test_names_are_parsed(self):
        assert parse_order("mild,moderate,severe") == LEVELS
        assert parse_order("  mild ,very severe") == ("mild", "very severe")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "empty name"),
            ("mild,,severe", "empty name"),
            ("mild,severe, ", "empty name"),
            ("mild,severe, mild", "names 'mild' more than once"),
            ("mild", "at least two names"),
        ],
    )
    def test_invalid_order_is_rejected(self, read, text, message):
        with pytest.raises(InputError, match=message):
            parse_order(text)
        with pytest.raises(InputError, match=message):
            read("file,grade\na.jpg,mild\n", order=[name.strip() for name in text.split(",")])

    def test_empty_order_is_rejected(self, read):
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
    def test_any_names_and_grades_with_all_cells_quoted(self, tmp_path_factory, expected, delimiter, end, encoding):
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
        writer.writerow(["file", "grade"])
        writer.writerows((name, repr(grade)) for name, grade in expected.items())
        self._check(tmp_path_factory, stream.getvalue().encode(encoding), expected)

    @given(st.dictionaries(names, grades, min_size=1), st.sampled_from(",;\t"))
    def test_any_names_and_grades_with_minimal_quoting(self, tmp_path_factory, expected, delimiter):
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, delimiter=delimiter)
        writer.writerow(["grade", "file"])
        writer.writerows((repr(grade), name) for name, grade in expected.items())
        self._check(tmp_path_factory, stream.getvalue().encode(), expected)

    def _check(self, tmp_path_factory, content, expected):
        file = tmp_path_factory.getbasetemp() / "round_trip.csv"
        file.write_bytes(content)
        grades = read_grades(file, list(expected), at_least_two=False).grades
        assert grades == expected
        assert list(map(repr, grades.values())) == list(map(repr, expected.values()))  # also the sign of zero

    @given(st.binary(max_size=200) | st.text('file,grade;\t\n\r"\0.jpg0123é ').map(lambda text: text.encode()))
    def test_any_content_is_read_or_raises_input_error(self, tmp_path_factory, content):
        file = tmp_path_factory.getbasetemp() / "anything.csv"
        for start in (b"", b"file,grade\na.jpg,1\n"):
            file.write_bytes(start + content)
            with suppress(InputError):
                assert set(read_grades(file, KNOWN).grades) <= {*KNOWN}


class TestLargeFiles:
    known = tuple(f"folder{number % 100}/picture_{number:06d}.jpg" for number in range(100_000))

    @pytest.mark.parametrize("prefix", ["", "/data/of/mine/"])
    def test_many_valid_lines(self, read, prefix):
        content = "file,grade\n" + "".join(f"{prefix}{name},{at % 7}\n" for at, name in enumerate(self.known))
        assert len(read(content, self.known)) == 100_000

    def test_many_invalid_lines(self, read):
        content = "file,grade\n" + "".join(f"{name[:-5]},word{at}\n" for at, name in enumerate(self.known))
        with pytest.raises(GradesError, match="has 200000 problems"):
            read(content, self.known)
