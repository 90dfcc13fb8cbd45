"""What people said about pictures: the grades of each grader, comparisons of two pictures, and the trainings.

The grade of a picture (``pictures.grade``) is the consensus of its graders, their median weighted by their reliability
at the last training; a grade from a labels file stands until someone grades the picture. All functions take part in
the transaction of their caller.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ordrank._protocols import FloatArray
from ordrank.collection import change_log
from ordrank.collection.change_log import NOT_GIVEN, Given, GradeChange
from ordrank.collection.stored_json import parse_stored
from ordrank.errors import ConflictError, UnknownError
from ordrank.labeling.agreement import Ratings, consensus, weighted_median
from ordrank.metrics import nearest_label

UNNAMED = ""  # the grader who gave no name
_WEIGHTS = "grader weights"  # key of the reliabilities of graders, by name
# ``estimate``: that of the model when the grade was given, which did not know it. ``confirmed``: grades that someone
# has looked at again and kept. ``implied``: grades that comparisons implied at the last training.
SCHEMA = """
CREATE TABLE gradings (
    picture INTEGER NOT NULL REFERENCES pictures ON DELETE CASCADE, grader TEXT NOT NULL, grade REAL NOT NULL,
    estimate REAL, time TEXT NOT NULL, PRIMARY KEY (picture, grader)
) WITHOUT ROWID;
CREATE TABLE comparisons (
    first INTEGER NOT NULL REFERENCES pictures ON DELETE CASCADE,
    second INTEGER NOT NULL REFERENCES pictures ON DELETE CASCADE,
    grader TEXT NOT NULL, outcome INTEGER NOT NULL, time TEXT NOT NULL, PRIMARY KEY (first, second, grader)
) WITHOUT ROWID;
CREATE INDEX comparisons_second ON comparisons (second);
CREATE INDEX gradings_grade ON gradings (grade);
CREATE INDEX pictures_grade ON pictures (grade);
CREATE TABLE confirmed (id INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE, grade REAL NOT NULL);
CREATE TABLE implied (id INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE, grade REAL NOT NULL);
CREATE TABLE trainings (
    number INTEGER PRIMARY KEY, time TEXT NOT NULL, pictures INTEGER NOT NULL, graded INTEGER NOT NULL, error REAL,
    features TEXT NOT NULL
);
"""
# The grades next to a value, each by a search in an index: there may be many pictures.
_ADJACENT = " UNION ALL ".join(
    f"SELECT {nearest}(grade) FROM checked_{table} WHERE grade {side} ?"
    for table in ("pictures", "gradings")
    for nearest, side in (("max", "<="), ("min", ">="))
)


class Grading(NamedTuple):
    """The grade that someone gave a picture, and the estimate of the model at that time."""

    picture: int
    grader: str
    grade: float
    estimate: float | None
    time: str


class StoredComparison(NamedTuple):
    """Which of two pictures is higher: the first (1), the second (-1), or neither (0); ``first`` < ``second``."""

    first: int
    second: int
    grader: str
    outcome: int
    time: str


class Training(NamedTuple):
    """A training: its time, size of the collection, and leave-one-out mean absolute error."""

    number: int
    time: str
    pictures: int
    graded: int
    error: float | None
    features: str


def now() -> str:
    """Return the time as text that sorts by time."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC")


def give_grades(
    cursor: sqlite3.Cursor, pictures: Sequence[int], grader: str, grade: float | None, key: str | None
) -> None:
    """Record the grade of one grader for pictures, or withdraw it (None), in a transaction of its own.

    A change with a key that is logged is not made again, and what changes nothing is not logged. Raise UnknownError if
    a picture does not exist, and ConflictError if the key was that of another change.
    """
    if key is not None and _was_made(cursor, pictures, grader, grade, key):
        return
    batch, agreed = None, GraderConsensus(cursor)
    for picture in pictures:
        given, (before, estimate) = _given(cursor, picture, grader), _grade_and_estimate(cursor, picture)
        if given.grade == grade and before == agreed.grade(picture):
            continue
        _put(cursor, picture, grader, NOT_GIVEN if grade is None else Given(grade, estimate, now()))
        change = GradeChange(picture, agreed.grade(picture))
        batch = change_log.change_grade(cursor, change, grader=grader, given=given, batch=batch, key=key)


def _was_made(cursor: sqlite3.Cursor, pictures: Sequence[int], grader: str, grade: float | None, key: str) -> bool:
    """Return whether a change with a key is logged. Raise ConflictError if it has other pictures or another grade."""
    serials = change_log.serials_of_key(cursor, grader, key)
    if not serials:
        return False
    later = change_log.given_until(cursor, grader, max(serials.values()))
    given = (later[picture] if picture in later else _given(cursor, picture, grader).grade for picture in pictures)
    if not serials.keys() <= set(pictures) or any(one != grade for one in given):
        raise ConflictError("the key of this change was used for another one; give each change a key of its own")
    return True


def undo_grades(cursor: sqlite3.Cursor, grader: str, key: str | None) -> list[int]:
    """Undo a change by a grader, of one grade or of several at once; return the ids of the pictures.

    It is the one with the key, else the last. The grader's own grades are as before, and those of the pictures are the
    consensus with what others gave meanwhile. Raise ConflictError if the grader has graded one of them again since.
    """
    changes, agreed = change_log.standing_changes(cursor, grader, key), GraderConsensus(cursor)
    if changes and change_log.has_later(cursor, changes):
        raise ConflictError("one of the pictures was graded again since, so that this change is not undone")
    change_log.forget_in_later(cursor, changes)
    for change in changes:
        given = _given(cursor, change.id, grader)
        _put(cursor, change.id, grader, change.given)
        grade = agreed.grade(change.id)
        before = GradeChange(change.id, change.before if grade is None else grade)
        change_log.change_grade(cursor, before, undoes=change.serial, grader=grader, given=given)
    return [change.id for change in changes]


def update_consensus(cursor: sqlite3.Cursor) -> None:
    """Estimate the reliability of the graders, and set the grades of pictures with several of them accordingly."""
    rows = cursor.execute("SELECT picture, grader, grade FROM checked_gradings ORDER BY picture, grader").fetchall()
    ratings, pictures = Ratings.from_rows(rows), dict.fromkeys(picture for picture, _, _ in rows)
    if len(ratings.graders) < 2:
        cursor.execute("DELETE FROM meta WHERE key = ?", (_WEIGHTS,))
        return
    found, agreed = consensus(ratings), GraderConsensus(cursor)
    weights = json.dumps(dict(zip(map(str, ratings.graders), found.weights.tolist(), strict=True)))
    cursor.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (_WEIGHTS, weights))
    n_graders = (~np.isnan(ratings.grades)).sum(axis=1)
    rounded = {median: agreed.rounded(median) for median in set(found.grades.tolist())}
    for picture, median, n in zip(pictures, found.grades.tolist(), n_graders.tolist(), strict=True):
        if n > 1:
            change_log.replace_grade(cursor, GradeChange(picture, rounded[median]))


class GraderConsensus:
    """The grades that the graders of pictures agree on, in one transaction."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    def grade(self, picture: int) -> float | None:
        """Return the weighted median of the grades of a picture, rounded to the scale; None if there is none."""
        statement = "SELECT grader, grade FROM checked_gradings WHERE picture = ?"
        rows = self._cursor.execute(statement, (picture,)).fetchall()
        if len(rows) < 2:
            return float(rows[0][1]) if rows else None
        grades = np.array([[grade for _, grade in rows]], dtype=np.float64)
        median = weighted_median(grades, np.array([self._weights.get(grader, 1.0) for grader, _ in rows]))
        return self.rounded(float(median[0]))

    def rounded(self, median: float) -> float:
        """Return the nearest of all grades that have names, else of those that pictures have or graders gave."""
        if self._named is not None:
            scale = self._named
        else:
            found = self._cursor.execute(_ADJACENT, (median,) * 4).fetchall()
            scale = np.unique([grade for (grade,) in found if grade is not None])
        return float(scale[nearest_label(scale, np.array([median]))[0]])

    @cached_property
    def _named(self) -> FloatArray | None:
        order = self._cursor.execute("SELECT value FROM checked_meta WHERE key = 'order'").fetchone()
        return None if order is None else np.arange(float(len(parse_stored(order[0]))))

    @cached_property
    def _weights(self) -> Mapping[str, float]:
        found = self._cursor.execute("SELECT value FROM checked_meta WHERE key = ?", (_WEIGHTS,)).fetchone()
        weights = {} if found is None else parse_stored(found[0])
        if not isinstance(weights, dict) or not all(map(_is_weight, weights.values())):
            raise sqlite3.DatabaseError("the weights of the graders are not positive numbers")
        return weights


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < 1e300  # integers of JSON may be larger than any float


def confirm_grade(cursor: sqlite3.Cursor, picture: int, grade: float) -> None:
    """Record that someone has looked at the grade of a picture again and kept it; ConflictError if it has another."""
    present, _ = _grade_and_estimate(cursor, picture)
    if present != grade:
        raise ConflictError("the picture has another grade by now; look at it again")
    cursor.execute("INSERT OR REPLACE INTO confirmed (id, grade) VALUES (?, ?)", (picture, grade))


def withdraw_confirmation(cursor: sqlite3.Cursor, picture: int) -> None:
    """Forget that the grade of a picture was confirmed."""
    cursor.execute("DELETE FROM confirmed WHERE id = ?", (picture,))


def confirmed_pictures(connection: sqlite3.Connection) -> set[int]:
    """Return the ids of the pictures whose present grades were confirmed."""
    statement = (
        "SELECT id FROM checked_confirmed AS confirmed CROSS JOIN checked_pictures AS pictures USING (id) "
        "WHERE confirmed.grade = pictures.grade"
    )
    return {picture for (picture,) in _rows(connection, statement)}


def forget_gradings(cursor: sqlite3.Cursor, grades: Iterable[tuple[float, str]]) -> None:
    """Delete what graders said about pictures that are imported with another grade; pairs of that and a name."""
    statement = "SELECT id FROM checked_pictures WHERE grade IS NOT ? AND name = ?"
    replaced = [row for pair in grades for row in cursor.execute(statement, pair)]
    cursor.executemany("DELETE FROM gradings WHERE picture = ?", replaced)
    change_log.forget_changes(cursor, [picture for (picture,) in replaced])


def gradings(connection: sqlite3.Connection, picture: int | None = None) -> list[Grading]:
    """Return the grades of all graders, of one picture or of all, in the order of time."""
    where, values = (" WHERE picture = ?", (picture,)) if picture is not None else ("", ())
    statement = (
        f"SELECT picture, grader, grade, estimate, time FROM checked_gradings{where} ORDER BY time, picture, grader"
    )
    return [Grading(*row) for row in _rows(connection, statement, values)]


def put_comparison(cursor: sqlite3.Cursor, first: int, second: int, grader: str, outcome: int) -> None:
    """Record a comparison; another one of the same pictures by the same grader is replaced."""
    if first > second:
        first, second, outcome = second, first, -outcome
    columns, row = "first, second, grader, outcome, time", (first, second, grader, outcome, now())
    try:
        cursor.execute(f"INSERT OR REPLACE INTO comparisons ({columns}) VALUES (?, ?, ?, ?, ?)", row)
    except sqlite3.IntegrityError:  # a foreign key
        raise UnknownError("one of the pictures was removed") from None


def withdraw_comparison(cursor: sqlite3.Cursor, first: int, second: int, grader: str) -> bool:
    """Delete a comparison; return whether there was one."""
    ordered = (min(first, second), max(first, second), grader)
    cursor.execute("DELETE FROM comparisons WHERE first = ? AND second = ? AND grader = ?", ordered)
    return cursor.rowcount > 0


def comparisons(connection: sqlite3.Connection) -> list[StoredComparison]:
    """Return all comparisons in the order of time."""
    statement = (
        "SELECT first, second, grader, outcome, time FROM checked_comparisons ORDER BY time, first, second, grader"
    )
    return [StoredComparison(*row) for row in _rows(connection, statement)]


def implied_grades(connection: sqlite3.Connection) -> dict[int, float]:
    """Return the grades that comparisons implied at the last training, by id."""
    return dict(_rows(connection, "SELECT id, grade FROM checked_implied"))


def replace_implied(cursor: sqlite3.Cursor, grades: Iterable[tuple[int, float]]) -> None:
    """Store the grades that comparisons implied at a training, pairs of id and grade, instead of earlier ones."""
    cursor.execute("DELETE FROM implied")
    cursor.executemany("INSERT INTO implied (id, grade) VALUES (?, ?)", grades)


def forget_content(cursor: sqlite3.Cursor, picture: int) -> None:
    """Forget what was said about the content of a picture that was replaced, but its grade: that of a file stays."""
    cursor.execute("DELETE FROM comparisons WHERE first = ? OR second = ?", (picture, picture))
    cursor.execute("DELETE FROM confirmed WHERE id = ?", (picture,))
    cursor.execute("DELETE FROM implied WHERE id = ?", (picture,))


def count_comparisons(connection: sqlite3.Connection) -> int:
    """Return the number of all comparisons."""
    rows = _rows(connection, "SELECT count(*) FROM comparisons")
    return int(rows[0][0]) if rows else 0


def put_training(cursor: sqlite3.Cursor, pictures: int, graded: int, error: float, features: str) -> None:
    """Record a training with so many pictures, of which some were graded when it began."""
    known = None if error != error else error
    statement = "INSERT INTO trainings (time, pictures, graded, error, features) VALUES (?, ?, ?, ?, ?)"
    cursor.execute(statement, (now(), pictures, graded, known, features))


def trainings(connection: sqlite3.Connection) -> list[Training]:
    """Return all trainings in the order of time."""
    statement = "SELECT number, time, pictures, graded, error, features FROM checked_trainings ORDER BY number"
    return [Training(*row) for row in _rows(connection, statement)]


def _rows(connection: sqlite3.Connection, statement: str, values: tuple[int, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a statement; none of a collection of an older format, which is read and not changed."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'gradings'").fetchone() is None:
        return []
    return connection.execute(statement, values).fetchall()


def _grade_and_estimate(cursor: sqlite3.Cursor, picture: int) -> tuple[float | None, float | None]:
    """Return the grade and the estimate of a picture. Raise UnknownError if it does not exist: it was removed."""
    found = cursor.execute("SELECT grade, estimate FROM checked_pictures WHERE id = ?", (picture,)).fetchone()
    if found is None:
        raise UnknownError(f"the picture with the id {picture} was removed")
    grade, estimate = found
    return grade, estimate


def _given(cursor: sqlite3.Cursor, picture: int, grader: str) -> Given:
    statement = "SELECT grade, estimate, time FROM checked_gradings WHERE picture = ? AND grader = ?"
    found = cursor.execute(statement, (picture, grader)).fetchone()
    return NOT_GIVEN if found is None else Given(*found)


def _put(cursor: sqlite3.Cursor, picture: int, grader: str, given: Given) -> None:
    if given.grade is None:
        cursor.execute("DELETE FROM gradings WHERE picture = ? AND grader = ?", (picture, grader))
    else:
        columns = "picture, grader, grade, estimate, time"
        statement = f"INSERT OR REPLACE INTO gradings ({columns}) VALUES (?, ?, ?, ?, ?)"
        cursor.execute(statement, (picture, grader, *given))
