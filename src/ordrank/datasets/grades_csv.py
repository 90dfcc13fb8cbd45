"""Grades of pictures from a table of text, as spreadsheet programs and people write it."""

from __future__ import annotations

import codecs
import csv
import io
import math
import posixpath
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeAlias
from unicodedata import normalize

from ordrank.errors import GradesError, InputError

_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
_WORKBOOK = b"PK\x03\x04"  # how a zip archive begins, and so an Excel or LibreOffice workbook
_ADVICE = "Save the table as CSV in UTF-8."
_SHOWN = 50  # problems in a message; hints cost time and are worked out for these only
_SHOWN_WORDS = 10
_NEIGHBOURS = 32

_Record: TypeAlias = tuple[int, list[str]]  # number of its first line, cells
_Problem: TypeAlias = tuple[int, str]  # number of the line, what is wrong there


def read_grades(
    file: Path,
    known: Collection[str],
    *,
    file_column: str = "file",
    grade_column: str = "grade",
    order: Sequence[str] | None = None,
    at_least_two: bool = True,
) -> dict[str, float]:
    """Read the grades of pictures from a CSV file.

    The first line names the columns; columns other than the two that are asked for are passed over. Commas,
    semicolons or tabs stand between cells, and numbers may have a decimal comma where it cannot be mistaken for
    the end of a cell. A picture that is not graded has no line.

    Parameters
    ----------
    file : Path
        UTF-8, or UTF-16 that begins with its mark.
    known : collection of str
        Names of the pictures. The file may also write them as absolute paths, all with the same folder in front, with
        backslashes or after ``./``.
    file_column, grade_column : str
        Names of the two columns.
    order : sequence of str, optional
        Names of the grades, lowest first, where grades are words: a grade is then its position in this order.
    at_least_two : bool
        Whether a single grade for all pictures is a problem.

    Returns
    -------
    dict
        Names as in ``known`` to grades.

    Raises
    ------
    GradesError
        With all problems of all lines at once.
    """
    positions = None if order is None else _positions(order)
    table = _read_table(file, file_column, grade_column)
    written = (cells[table.file_at] for _, cells in table.records if len(cells) == table.width)
    reading = _Reading(table, _Names(known, written), positions)
    for line, cells in table.records:
        reading.add(line, cells)
    problems = reading.sentences()
    if at_least_two and len(reading.distinct) == 1:
        problems.append("all grades are the same: an order needs two different grades")
    if not table.records and not problems:
        problems.append("there is no line below the names of the columns: add a line for every graded picture")
    if problems:
        raise GradesError(_message(file, problems, reading.advice()), tuple(problems))
    return {name: grade.value for name, grade in reading.grades.items()}


def parse_order(text: str) -> tuple[str, ...]:
    """Names of grades, lowest first, from ``"mild, moderate, severe"``."""
    return tuple(_positions([name.strip() for name in text.split(",")]))


def _positions(order: Sequence[str]) -> dict[str, int]:
    if not all(name.strip() for name in order):
        raise InputError(f"the order of grades {', '.join(order)!r} has an empty name; remove a comma or add the name")
    doubled = [name for name, count in Counter(order).items() if count > 1]
    if doubled:
        raise InputError(f"the order of grades names {', '.join(map(repr, doubled))} more than once; name each once")
    if len(order) < 2:
        raise InputError("the order of grades needs at least two names, lowest first: mild,moderate,severe")
    return {name: position for position, name in enumerate(order)}


def _message(file: Path, problems: list[str], advice: list[str]) -> str:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    lines = [f"{file} has {count}:", *problems[:_SHOWN]]
    if len(problems) > _SHOWN:
        lines.append(f"… and {len(problems) - _SHOWN} more")
    return "\n".join(lines + advice)


# From bytes to cells


@dataclass(frozen=True)
class _Table:
    delimiter: str
    width: int
    file_at: int
    grade_at: int
    records: list[_Record]  # those below the names of the columns
    broken: list[_Problem]


def _read_table(file: Path, file_column: str, grade_column: str) -> _Table:
    if file_column == grade_column:
        raise InputError(f"column {file_column!r} cannot hold both the files and the grades; name two columns")
    text = _read_text(file)
    wanted = (file_column, grade_column)
    headers = {delimiter: _header(text, delimiter) for delimiter in _DELIMITERS}
    delimiter = max(headers, key=lambda d: (len({*wanted} & {*headers[d]}), len(headers[d])))  # the first of the best
    header = headers[delimiter]
    _check_header(file, header, delimiter, wanted)
    broken: list[_Problem] = []
    records = list(_records(text, delimiter, broken))[1:]
    return _Table(delimiter, len(header), header.index(file_column), header.index(grade_column), records, broken)


def _header(text: str, delimiter: str) -> list[str]:
    _, cells = next(_records(text, delimiter, []), (0, []))
    return [cell.strip() for cell in cells]


def _check_header(file: Path, header: list[str], delimiter: str, wanted: tuple[str, str]) -> None:
    missing = [column for column in wanted if column not in header]
    if missing:
        others = " and ".join(f"{name}s" for mark, name in _DELIMITERS.items() if mark != delimiter)
        raise InputError(
            f"{file} has no column {' and no column '.join(map(repr, missing))}: its first line, split at "
            f"{_DELIMITERS[delimiter]}s ({others} were tried too), names the columns {_listed(header)}. Name the "
            "right ones with --file-column and --grade-column, or add a first line with names if there is none."
        )
    doubled = [column for column in wanted if header.count(column) > 1]
    if doubled:
        raise InputError(f"{file} has more than one column {doubled[0]!r}; rename all but one of them")


def _records(text: str, delimiter: str, broken: list[_Problem]) -> Iterator[_Record]:
    """Cells of all records that are not blank; what cannot be split is added to ``broken``."""
    # An empty newline keeps line ends inside of quotation marks, and ends lines at CR, LF and CR LF alike.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            broken.append((line, _why_not_split(error)))
            continue
        if any(cell and not cell.isspace() for cell in cells):
            yield line, cells


def _why_not_split(error: csv.Error) -> str:
    if "unexpected end" in str(error):
        return "a quotation mark opens a cell that is not closed before the end of the file"
    return f"cannot be split into cells: {error}"


def _read_text(file: Path) -> str:
    data = _read_bytes(file)
    if data.startswith(_WORKBOOK):
        raise InputError(f"{file} is a workbook or another archive, not text. {_ADVICE}")
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = _decode(file, data, "UTF-16" if wide else "UTF-8").removeprefix("\ufeff")
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
        before = data[: error.start].decode(encoding, "replace")
        line = 1 + len(re.findall(r"\r\n|\r|\n", before))
        raise InputError(
            f"{file} is not {encoding}: byte 0x{data[error.start]:02x} at offset {error.start}, in line {line}, "
            f"does not belong there. {_ADVICE}"
        ) from None


# From cells to grades


class _Grade(NamedTuple):
    value: float
    text: str
    line: int


class _Reading:
    """The grades of the lines so far, and everything that is wrong with them."""

    def __init__(self, table: _Table, names: _Names, positions: dict[str, int] | None) -> None:
        self.grades: dict[str, _Grade] = {}
        self.distinct: set[float | str] = set()  # also what is no grade: it may become one
        self._words: dict[str, None] = {}  # a set that keeps the order in which they came
        self._strangers: list[tuple[_Problem, str]] = []  # grades that are like none of the order
        self._some_fit = False  # whether a grade is in the order, or nearly
        self._misplaced = False
        self._table = table
        self._names = names
        self._positions = positions
        self._problems = list(table.broken)

    def sentences(self) -> list[str]:
        strangers = [] if self._is_of_another_kind() else [problem for problem, _ in self._strangers]
        problems = sorted(self._problems + strangers, key=lambda problem: problem[0])
        told = [f"line {line}: {what}" for line, what in problems]
        if self._is_of_another_kind():
            there = _listed({text: None for _, text in self._strangers})
            told.insert(0, f"no grade is in the order of grades {_listed(self._positions or ())}: there are {there}")
        return told

    def advice(self) -> list[str]:
        if self._words:
            there = _listed(self._words)
            return [f"If the grades are words, name them with --order, lowest first; there are {there}"]
        if self._misplaced and not self._is_of_another_kind():
            return [f"The order of grades is {_listed(self._positions or ())}"]
        return []

    def _is_of_another_kind(self) -> bool:
        """Whether the whole table has grades that have nothing to do with the order, which is worth one sentence."""
        return len(self._strangers) > 1 and not self._some_fit

    def add(self, line: int, cells: list[str]) -> None:
        if len(cells) != self._table.width:
            self._complain(line, self._why_not_as_wide(len(cells)))
        elif any("\0" in cell for cell in cells):
            self._complain(line, "holds a NUL character: the file is damaged there")
        else:
            self._add_grade(line, cells[self._table.file_at], cells[self._table.grade_at].strip())

    def _add_grade(self, line: int, written: str, text: str) -> None:
        name = self._name(line, written)
        value = self._value(line, written, text)
        if value is None:
            return
        self.distinct.add(value)
        if name is None:
            return
        first = self.grades.setdefault(name, _Grade(value, text, line))
        if first.value != value:
            grade, other = _quoted(text), _quoted(first.text)
            self._complain(line, f"{_quoted(written)} has grade {grade} here and grade {other} in line {first.line}")

    def _name(self, line: int, written: str) -> str | None:
        name = self._names.find(written)
        if name is None and not written.strip():
            self._complain(line, "names no file")
        elif name is None:
            meant = self._names.nearest(written) if self._hints_are_shown() else None
            self._complain(line, f"{_quoted(written)} is not among the pictures{_question(meant)}")
        return name

    def _value(self, line: int, written: str, text: str) -> float | None:
        if not text:
            self._complain(line, f"{_quoted(written)} has no grade; leave the line out if the picture is not graded")
            return None
        value = self._number(text) if self._positions is None else self._positions.get(text)
        if value is not None and math.isfinite(value):
            self._some_fit = True
            return float(value)
        self.distinct.add(text)
        what = f"grade {_quoted(text)} of {_quoted(written)}"
        if self._positions is None:
            self._complain(line, f"{what} {self._why_no_number(text, value)}")
        else:
            self._complain_of_place(line, what, text, self._positions)
        return None

    def _complain_of_place(self, line: int, what: str, text: str, positions: dict[str, int]) -> None:
        self._misplaced = True
        meant = _nearest_word(text, positions) if self._hints_are_shown() else None
        what = f"{what} is not in the order of grades{_question(meant)}"
        if meant is None:
            self._strangers.append(((line, what), text))
        else:
            self._some_fit = True
            self._complain(line, what)

    def _number(self, text: str) -> float | None:
        plain = text if self._table.delimiter == "," else text.replace(",", ".")
        try:
            return None if "_" in plain else float(plain)  # Python's own 1_000 is nobody's grade
        except ValueError:
            return None

    def _why_no_number(self, text: str, value: float | None) -> str:
        if value is not None:
            return "is not a finite number"
        if re.fullmatch(r"[-+]?\d+,\d+", text):
            return f"is not a number; is {text.replace(',', '.')!r} meant?"
        if any(letter.isalpha() for letter in text):
            self._words[text] = None
        return "is not a number"

    def _why_not_as_wide(self, width: int) -> str:
        what = f"has {width} cell{'' if width == 1 else 's'}, but there are {self._table.width} columns"
        if width < self._table.width:
            return what
        return f"{what}; a cell that holds a {_DELIMITERS[self._table.delimiter]} needs quotation marks"

    def _hints_are_shown(self) -> bool:
        return len(self._problems) + len(self._strangers) < _SHOWN

    def _complain(self, line: int, what: str) -> None:
        self._problems.append((line, what))


def _quoted(text: str) -> str:
    """In quotation marks, on one line and not too long."""
    return repr(text if len(text) <= 100 else f"{text[:60]}…{text[-30:]}")


def _listed(words: Collection[str]) -> str:
    shown = [_quoted(word) for word in list(words)[:_SHOWN_WORDS]]
    return ", ".join(shown + ["…"] * (len(words) > len(shown)))


def _question(meant: str | None) -> str:
    return "" if meant is None else f"; is {_quoted(meant)} meant?"


def _nearest_word(text: str, words: Iterable[str]) -> str | None:
    folded = {word.casefold(): word for word in words}
    near = get_close_matches(text.casefold(), folded, n=1)
    return folded[near[0]] if near else None


# From what is written to names of pictures


class _Names:
    """The pictures' names, and how else a file may write them.

    Absolute paths are understood if one folder explains them: the one under which most of them are pictures. So are
    relative ones, if none of them is a picture as it is written. Taking whatever ends like a picture's name would give
    a grade to a namesake in another folder.
    """

    def __init__(self, known: Collection[str], written: Iterable[str]) -> None:
        self._known = frozenset(known)
        paths = dict.fromkeys(name if name in self._known else _tidy(name) for name in written)
        relative = [path for path in paths if not _is_absolute(path)]
        self._roots = [_common_root(filter(_is_absolute, paths), self._known)]
        if not any(self._is_known(path) for path in relative):
            self._roots.append(_common_root(relative, self._known))

    def find(self, written: str) -> str | None:
        if written in self._known:
            return written
        tidy = _tidy(written)
        ways = [tidy, *(tidy.removeprefix(root) for root in self._roots)]
        for name in ways:
            if name in self._known:
                return name
        # macOS takes accents apart in names of files, and nobody sees it.
        composed = (self._composed.get(normalize("NFC", name)) for name in ways)
        return next(filter(None, composed), None)

    def _is_known(self, path: str) -> bool:
        return path in self._known or normalize("NFC", path) in self._composed

    def nearest(self, written: str) -> str | None:
        """The picture that may be meant, sought among those that begin or end alike: all would take too long."""
        key = _tidy(written).casefold()
        if len(key) > 300:
            return None
        near = _around(self._by_beginning, key) + _around(self._by_end, key[::-1])
        folded = {name.casefold(): name for name in near}
        namesakes = [fold for fold in folded if posixpath.basename(fold) == posixpath.basename(key)]
        alike = get_close_matches(key, namesakes or folded, n=1, cutoff=0.0 if namesakes else 0.8)
        return folded[alike[0]] if alike else None

    @cached_property
    def _composed(self) -> dict[str, str]:
        return {normalize("NFC", name): name for name in sorted(self._known)}

    @cached_property
    def _by_beginning(self) -> list[tuple[str, str]]:
        return sorted((name.casefold(), name) for name in self._known)

    @cached_property
    def _by_end(self) -> list[tuple[str, str]]:
        return sorted((name.casefold()[::-1], name) for name in self._known)


def _around(ordered: list[tuple[str, str]], key: str) -> list[str]:
    at = bisect_left(ordered, (key, ""))
    return [name for _, name in ordered[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS]]


def _tidy(written: str) -> str:
    return posixpath.normpath(written.strip().replace("\\", "/"))


def _is_absolute(tidy: str) -> bool:
    return tidy.startswith("/") or re.match("[A-Za-z]:/", tidy) is not None


def _common_root(paths: Iterable[str], known: frozenset[str]) -> str:
    """The folder under which most paths are pictures; the uppermost one of several."""
    roots: Counter[str] = Counter()
    for path in paths:
        at = path.find("/") + 1
        while at:
            roots[path[:at]] += path[at:] in known
            at = path.find("/", at) + 1
    return min(roots, key=lambda root: (-roots[root], len(root)), default="")
