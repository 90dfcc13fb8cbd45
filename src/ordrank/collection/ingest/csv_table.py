"""Read CSV files as spreadsheet programs write them: delimiter, encoding and line ends are detected."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ordrank.collection.csv_cells import unescape_formula
from ordrank.errors import InputError

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
_ZIP_SIGNATURE = b"PK\x03\x04"  # of Excel and LibreOffice workbooks
_ADVICE = "Save the table as CSV in UTF-8."
_MAX_QUOTED = 10

Row: TypeAlias = tuple[int, list[str]]  # number of its first line, cells
Problem: TypeAlias = tuple[int, str]  # number of the line, what is wrong there


@dataclass(frozen=True)
class Table:
    """Cells of a CSV file."""

    delimiter: str
    header: list[str]
    rows: list[Row]  # below the header, not blank, perhaps of another width
    problems: list[Problem]  # lines that cannot be split into cells

    def column(self, name: str) -> list[str]:
        """Return the cells of a column, of rows that have all columns."""
        at = self.header.index(name)
        return [cells[at] for _, cells in self.rows if len(cells) == len(self.header)]


def read_table(file: Path, columns: tuple[str, str]) -> Table:
    """Read a CSV file. Raise InputError if it is not text, or its header does not name each of the columns once."""
    text = _read_text(file)
    headers = {delimiter: _header(text, delimiter) for delimiter in DELIMITERS}
    # The delimiter that yields most of the columns, then the longest header.
    delimiter = max(headers, key=lambda d: (len({*columns} & {*headers[d]}), len(headers[d])))
    _check_header(file, headers[delimiter], delimiter, columns)
    problems: list[Problem] = []
    rows = list(_rows(text, delimiter, problems))[1:]
    return Table(delimiter, headers[delimiter], rows, problems)


def quoted(text: str) -> str:
    """Return a cell in quotation marks, on one line, shortened if it is long."""
    return repr(text if len(text) <= 100 else f"{text[:60]}…{text[-30:]}")


def quoted_list(words: Collection[str]) -> str:
    """Return the first words, quoted and separated by commas."""
    shown = [quoted(word) for word in list(words)[:_MAX_QUOTED]]
    return ", ".join(shown + ["…"] * (len(words) > len(shown)))


def _header(text: str, delimiter: str) -> list[str]:
    _, cells = next(_rows(text, delimiter, []), (0, []))
    return [cell.strip() for cell in cells]


def _check_header(file: Path, header: list[str], delimiter: str, columns: tuple[str, str]) -> None:
    missing = [column for column in columns if column not in header]
    if missing:
        others = " and ".join(f"{name}s" for mark, name in DELIMITERS.items() if mark != delimiter)
        raise InputError(
            f"{file} has no column {' and no column '.join(map(repr, missing))}: its first line, split at "
            f"{DELIMITERS[delimiter]}s ({others} were tried too), names the columns {quoted_list(header)}. Name the "
            "right ones with --file-column, --grade-column and --groups, or add a first line with names if there is "
            "none."
        )
    for column in columns:
        if header.count(column) > 1:
            raise InputError(f"{file} has more than one column {column!r}; rename all but one of them")


def _rows(text: str, delimiter: str, problems: list[Problem]) -> Iterator[Row]:
    """Yield the rows that are not blank; append lines that cannot be split to ``problems``."""
    # newline="" keeps line ends inside of quotation marks, and accepts CR, LF and CR LF elsewhere.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end" in str(error):
                reason = "a quotation mark opens a cell that is not closed before the end of the file"
            else:
                reason = f"cannot be split into cells: {error}"
            problems.append((line, reason))
            continue
        if any(cell and not cell.isspace() for cell in cells):
            yield line, [unescape_formula(cell) for cell in cells]


def _read_text(file: Path) -> str:
    data = _read_bytes(file)
    if data.startswith(_ZIP_SIGNATURE):
        raise InputError(f"{file} is a workbook or another archive, not text. {_ADVICE}")
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = _decode(file, data, "UTF-16" if utf16 else "UTF-8").removeprefix("\ufeff")
    if not text.strip():
        raise InputError(f"{file} is empty; write a first line with the names of the columns, then one for a picture")
    if "\0" in re.split(r"[\r\n]", text, maxsplit=1)[0]:
        raise InputError(f"{file} is not text in UTF-8: there are NUL characters in its first line. {_ADVICE}")
    return text


def _read_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise InputError(f"there is no file {file}; give the CSV file that holds the grades") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        raise InputError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _decode(file: Path, data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = 1 + len(re.findall(r"\r\n|\r|\n", data[: error.start].decode(encoding, "replace")))
        where = f"byte 0x{data[error.start]:02x} at offset {error.start}, in line {line}"
        raise InputError(f"{file} is not {encoding}: {where}, is invalid. {_ADVICE}") from None
