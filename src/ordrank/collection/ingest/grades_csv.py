"""Read the grades of pictures from a CSV file, and report all problems of the file at once."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from ordrank._format import pluralize
from ordrank.collection.ingest.csv_table import DELIMITERS, Problem, Table, quoted, quoted_list, read_table
from ordrank.collection.ingest.picture_names import PictureNames
from ordrank.errors import GradesError, InputError

_MAX_SAME = 3  # pictures of the same file name in a message
_MAX_SHOWN = 50  # problems in a message; suggestions are slow to compute and made for these only


@dataclass(frozen=True)
class GradeTable:
    """Grades by the names of pictures, and the names in skipped lines, whose pictures are missing."""

    grades: dict[str, float]
    not_found: tuple[str, ...] = ()


def read_grades(
    file: Path,
    known: Collection[str],
    *,
    in_folder: Collection[str] | None = None,
    file_column: str = "file",
    grade_column: str = "grade",
    order: Sequence[str] | None = None,
    at_least_two: bool = True,
    skip_missing: bool = False,
) -> GradeTable:
    """Read the grades of pictures from a CSV file.

    The first line names the columns; other columns are ignored. Cells are separated by commas, semicolons or tabs;
    numbers may have a decimal comma if the comma is not the delimiter. Pictures without a line, or with an empty grade,
    are ungraded.

    Parameters
    ----------
    file : Path
        In UTF-8, or UTF-16 with a byte order mark.
    known : collection of str
        Names of the pictures. The file may also write them as absolute paths, with a common folder in front, with
        backslashes or ``./``, or without their folder where only one picture has that file name.
    in_folder : collection of str, optional
        Those of the pictures whose folder may be left out; all by default.
    file_column, grade_column : str
        Names of the two columns.
    order : sequence of str, optional
        Names of the grades, lowest first; a grade is then its position. None for numeric grades.
    at_least_two : bool
        Whether fewer than two different grades are a problem.
    skip_missing : bool
        Skip lines of pictures that are not among the known ones, unless all are, instead of reporting a problem.

    Returns
    -------
    GradeTable
        With names as in ``known``.

    Raises
    ------
    GradesError
        With all problems of all lines.
    """
    positions = None if order is None else _positions(order)
    if file_column == grade_column:
        raise InputError(f"column {file_column!r} cannot hold both the files and the grades; name two columns")
    table = read_table(file, (file_column, grade_column))
    names = PictureNames(known, table.column(file_column), in_folder)
    parser = _GradeParser(table, names, (file_column, grade_column), positions, skip_missing=skip_missing)
    for line, cells in table.rows:
        parser.add(line, cells)
    problems = parser.problems()
    if not table.rows and not problems:
        problems.append("there is no line below the names of the columns: add a line for every graded picture")
    elif parser.not_found and not parser.has_found:
        problems.append(f"no line names one of the pictures: there are {quoted_list(parser.not_found)}")
    elif at_least_two and len(parser.distinct) < 2 and not (problems and not parser.distinct):
        given = "all grades are the same" if parser.distinct else "no line has a grade"
        problems.append(f"{given}: an order needs two different grades")
    if problems:
        raise GradesError(_message(file, problems, parser.advice()), tuple(problems))
    return GradeTable({name: grade.value for name, grade in parser.grades.items()}, tuple(parser.not_found))


def parse_order(order: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of grades, lowest first, from a sequence or ``"mild, moderate, severe"``."""
    names = order.split(",") if isinstance(order, str) else order
    return tuple(_positions([str(name).strip() for name in names]))


def _positions(order: Sequence[str]) -> dict[str, int]:
    if not all(name.strip() for name in order):
        raise InputError(f"the order of grades {', '.join(order)!r} has an empty name; remove a comma or add the name")
    repeated = [name for name, count in Counter(order).items() if count > 1]
    if repeated:
        raise InputError(f"the order of grades names {', '.join(map(repr, repeated))} more than once; name each once")
    if len(order) < 2:
        raise InputError("the order of grades needs at least two names, lowest first: mild,moderate,severe")
    return {name: position for position, name in enumerate(order)}


def _message(file: Path, problems: list[str], advice: list[str]) -> str:
    lines = [f"{file} has {pluralize(len(problems), 'problem')}:", *problems[:_MAX_SHOWN]]
    if len(problems) > _MAX_SHOWN:
        lines.append(f"… and {len(problems) - _MAX_SHOWN} more")
    return "\n".join([*lines, *advice])


class _Grade(NamedTuple):
    value: float
    text: str
    line: int


class _GradeParser:
    """Collects grades and problems row by row."""

    def __init__(
        self,
        table: Table,
        names: PictureNames,
        columns: tuple[str, str],
        positions: dict[str, int] | None,
        *,
        skip_missing: bool,
    ) -> None:
        self.grades: dict[str, _Grade] = {}
        self.distinct: set[float | str] = set()  # with invalid grades, which may be valid after a correction
        self.not_found: dict[str, None] = {}  # names in skipped lines; an ordered set
        self.has_found = False  # whether a line names one of the pictures
        self._skip_missing, self._has_missing = skip_missing, False
        self._width, self._delimiter = len(table.header), table.delimiter
        self._file_at, self._grade_at = map(table.header.index, columns)
        self._names, self._positions = names, positions
        self._problems = list(table.problems)
        self._words: dict[str, None] = {}  # grades with letters where numbers are expected; an ordered set
        self._unknown: list[tuple[Problem, str]] = []  # grades that resemble no name of the order
        self._has_known = self._has_misspelt = False  # whether any grade is in the order, or resembles one

    def problems(self) -> list[str]:
        """Return all problems, sorted by line; grades that have nothing in common with the order are one problem."""
        unrelated = self._is_unrelated_to_order()
        problems = self._problems if unrelated else self._problems + [problem for problem, _ in self._unknown]
        sentences = [f"line {line}: {reason}" for line, reason in sorted(problems, key=lambda problem: problem[0])]
        if unrelated:
            found = quoted_list({text: None for _, text in self._unknown})
            order = quoted_list(self._positions or ())
            sentences.insert(0, f"no grade is in the order of grades {order}: there are {found}")
        return sentences

    def advice(self) -> list[str]:
        """Return what to do, a sentence each."""
        advice = []
        if self._has_missing:
            advice.append("Correct the names, or skip the lines whose pictures are missing with --skip-bad")
        if self._words:
            words = quoted_list(self._words)
            advice.append(f"If the grades are words, name them with --order, lowest first; there are {words}")
        elif (self._unknown or self._has_misspelt) and not self._is_unrelated_to_order():
            advice.append(f"The order of grades is {quoted_list(self._positions or ())}")
        return advice

    def _is_unrelated_to_order(self) -> bool:
        return len(self._unknown) > 1 and not (self._has_known or self._has_misspelt)

    def add(self, line: int, cells: list[str]) -> None:
        """Add a row."""
        if len(cells) != self._width:
            self._add_problem(line, self._wrong_width(len(cells)))
        elif any("\0" in cell for cell in cells):
            self._add_problem(line, "holds a NUL character: the file is damaged there")
        else:
            self._add_grade(line, cells[self._file_at], cells[self._grade_at].strip())

    def _add_grade(self, line: int, written: str, text: str) -> None:
        name = self._names.find(written)
        if name is None and self._skip_missing and written.strip() and not self._names.with_file_name(written):
            self.not_found[written.strip()] = None
            return
        if name is None:
            self._add_problem(line, self._unknown_name(written))
        else:
            self.has_found = True
        value = self._parse_grade(line, written, text) if text else None
        if value is None:
            return
        self.distinct.add(value)
        if name is None:
            return
        first = self.grades.setdefault(name, _Grade(value, text, line))
        if first.value != value:
            grades = f"grade {quoted(text)} here and grade {quoted(first.text)} in line {first.line}"
            self._add_problem(line, f"{quoted(written)} has {grades}")

    def _unknown_name(self, written: str) -> str:
        if not written.strip():
            return "names no file"
        same_file = self._names.with_file_name(written)
        if same_file:
            return f"{quoted(written)} may be {' or '.join(map(quoted, same_file[:_MAX_SAME]))}; write the folder too"
        self._has_missing = True
        similar = self._names.suggest(written) if self._is_shown() else None
        return f"{quoted(written)} is not among the pictures{_suggestion(similar)}"

    def _parse_grade(self, line: int, written: str, text: str) -> float | None:
        value = self._parse_number(text) if self._positions is None else self._positions.get(text)
        if value is not None and math.isfinite(value):
            self._has_known = True
            return float(value)
        self.distinct.add(text)
        grade = f"grade {quoted(text)} of {quoted(written)}"
        if self._positions is None:
            self._add_problem(line, f"{grade} {self._not_a_number(text, value)}")
            return None
        similar = _similar_word(text, self._positions) if self._is_shown() else None
        problem = f"{grade} is not in the order of grades{_suggestion(similar)}"
        if similar is None:
            self._unknown.append(((line, problem), text))
        else:
            self._has_misspelt = True
            self._add_problem(line, problem)
        return None

    def _parse_number(self, text: str) -> float | None:
        number = text if self._delimiter == "," else text.replace(",", ".")
        try:
            return None if "_" in number else float(number)  # float() accepts 1_000
        except ValueError:
            return None

    def _not_a_number(self, text: str, value: float | None) -> str:
        if value is not None:
            return "is not a finite number"
        if re.fullmatch(r"[-+]?\d+,\d+", text):
            return f"is not a number{_suggestion(text.replace(',', '.'))}"
        if any(letter.isalpha() for letter in text):
            self._words[text] = None
        return "is not a number"

    def _wrong_width(self, width: int) -> str:
        problem = f"has {pluralize(width, 'cell')}, but there are {self._width} columns"
        if width < self._width:
            return problem
        return f"{problem}; a cell that holds a {DELIMITERS[self._delimiter]} needs quotation marks"

    def _is_shown(self) -> bool:
        return len(self._problems) + len(self._unknown) < _MAX_SHOWN

    def _add_problem(self, line: int, reason: str) -> None:
        self._problems.append((line, reason))


def _suggestion(text: str | None) -> str:
    return "" if text is None else f"; is {quoted(text)} meant?"


def _similar_word(text: str, words: Iterable[str]) -> str | None:
    folded = {word.casefold(): word for word in words}
    matches = get_close_matches(text.casefold(), folded, n=1)
    return folded[matches[0]] if matches else None
