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
from ordrank.collection.change_log import GradeChange
from ordrank.errors import ConflictError
from ordrank.labeling.agreement import Ratings, consensus, weighted_median
from ordrank.metrics import nearest_label

UNNAMED = ""  # the grader who gave no name
IMPLIED = "implied grades"  # key of the grades that comparisons implied at the last training, pairs of id and grade
_WEIGHTS = "grader weights"  # key of the reliabilities of graders, by name
# ``estimate``: that of the model when the grade was given, which did not know it. ``confirmed``: grades that someone
# has looked at again and kept.
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
CREATE TABLE confirmed (id INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE, grade REAL NOT NULL);
CREATE TABLE trainings (
    number INTEGER PRIMARY KEY, time TEXT NOT NULL, pictures INTEGER NOT NULL, graded INTEGER NOT NULL, error REAL,
    features TEXT NOT NULL
);
"""


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
) -> int | None:
    """Record the grade of one grader for pictures, or withdraw it (None), in a transaction of its own.

    A change with a key that is logged is not made again, and what changes nothing is not logged. Return the id of the
    first picture that does not exist, if there is one. Raise ConflictError if the key was that of another change.
    """
    if key is not None and _was_made(cursor, pictures, grader, grade, key):
        return None
    batch, agreed = None, GraderConsensus(cursor)
    for picture in pictures:
        found = cursor.execute("SELECT grade, estimate FROM pictures WHERE id = ?", (picture,)).fetchone()
        if found is None:
            return picture
        given, (before, estimate) = _given(cursor, picture, grader), found
        if given == grade and before == agreed.grade(picture):
            continue
        _put(cursor, picture, grader, grade, estimate)
        change = GradeChange(picture, agreed.grade(picture))
        batch = change_log.change_grade(cursor, change, grader=grader, given=given, batch=batch, key=key)
    return None


def _was_made(cursor: sqlite3.Cursor, pictures: Sequence[int], grader: str, grade: float | None, key: str) -> bool:
    """Return whether a change with a key is logged. Raise ConflictError if it has other pictures or another grade."""
    serials = change_log.serials_of_key(cursor, grader, key)
    if not serials:
        return False
    later = change_log.given_until(cursor, grader, max(serials.values()))
    given = (later[picture] if picture in later else _given(cursor, picture, grader) for picture in pictures)
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
        (estimate,) = cursor.execute("SELECT estimate FROM pictures WHERE id = ?", (change.id,)).fetchone()
        given = _given(cursor, change.id, grader)
        _put(cursor, change.id, grader, change.given, estimate)
        grade = agreed.grade(change.id)
        before = GradeChange(change.id, change.before if grade is None else grade)
        change_log.change_grade(cursor, before, undoes=change.serial, grader=grader, given=given)
    return [change.id for change in changes]


def update_consensus(cursor: sqlite3.Cursor) -> None:
    """Estimate the reliability of the graders, and set the grades of pictures with several of them accordingly."""
    rows = cursor.execute("SELECT picture, grader, grade FROM gradings ORDER BY picture, grader").fetchall()
    ratings, pictures = Ratings.from_rows(rows), dict.fromkeys(picture for picture, _, _ in rows)
    if len(ratings.graders) < 2:
        return
    found = consensus(ratings, labels=GraderConsensus(cursor).scale)
    weights = json.dumps(dict(zip(map(str, ratings.graders), found.weights.tolist(), strict=True)))
    cursor.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_WEIGHTS, weights))
    n_graders = (~np.isnan(ratings.grades)).sum(axis=1)
    for picture, grade, n in zip(pictures, found.grades.tolist(), n_graders.tolist(), strict=True):
        if n > 1:
            change_log.replace_grade(cursor, GradeChange(picture, grade))


class GraderConsensus:
    """The grades that the graders of pictures agree on, in one transaction."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    def grade(self, picture: int) -> float | None:
        """Return the weighted median of the grades of a picture, rounded to the scale; None if there is none."""
        statement = "SELECT grader, grade FROM gradings WHERE picture = ?"
        rows = self._cursor.execute(statement, (picture,)).fetchall()
        if len(rows) < 2:
            return float(rows[0][1]) if rows else None
        grades = np.array([[grade for _, grade in rows]], dtype=np.float64)
        median = weighted_median(grades, np.array([self._weights.get(grader, 1.0) for grader, _ in rows]))
        scale = np.union1d(self.scale, grades)
        return float(scale[nearest_label(scale, median)[0]])

    @cached_property
    def scale(self) -> FloatArray:
        """All grades that have names, else those that pictures have or graders gave at first, ascending."""
        order = self._cursor.execute("SELECT value FROM meta WHERE key = 'order'").fetchone()
        if order is not None:
            return np.arange(len(json.loads(order[0])), dtype=np.float64)
        statement = "SELECT grade FROM pictures WHERE grade IS NOT NULL UNION SELECT grade FROM gradings ORDER BY grade"
        return np.array([grade for (grade,) in self._cursor.execute(statement)], dtype=np.float64)

    @cached_property
    def _weights(self) -> Mapping[str, float]:
        found = self._cursor.execute("SELECT value FROM meta WHERE key = ?", (_WEIGHTS,)).fetchone()
        weights: dict[str, float] = {} if found is None else json.loads(found[0])
        return weights


def confirm_grade(cursor: sqlite3.Cursor, picture: int, grade: float) -> None:
    """Record that someone has looked at the grade of a picture again and kept it; ConflictError if it has another."""
    statement = "INSERT OR REPLACE INTO confirmed SELECT id, grade FROM pictures WHERE id = ? AND grade = ?"
    if not cursor.execute(statement, (picture, grade)).rowcount:
        raise ConflictError("the picture has another grade by now; look at it again")


def withdraw_confirmation(cursor: sqlite3.Cursor, picture: int) -> None:
    """Forget that the grade of a picture was confirmed."""
    cursor.execute("DELETE FROM confirmed WHERE id = ?", (picture,))


def confirmed_pictures(connection: sqlite3.Connection) -> set[int]:
    """Return the ids of the pictures whose present grades were confirmed."""
    statement = "SELECT id FROM confirmed JOIN pictures USING (id) WHERE confirmed.grade = pictures.grade"
    return {picture for (picture,) in _rows(connection, statement)}


def forget_gradings(cursor: sqlite3.Cursor, grades: Iterable[tuple[float, str]]) -> None:
    """Delete what graders said about pictures that are imported with another grade; pairs of that and a name."""
    statement = "SELECT id FROM pictures WHERE grade IS NOT ? AND name = ?"
    replaced = [row for pair in grades for row in cursor.execute(statement, pair)]
    cursor.executemany("DELETE FROM gradings WHERE picture = ?", replaced)
    change_log.forget_changes(cursor, [picture for (picture,) in replaced])


def gradings(connection: sqlite3.Connection, picture: int | None = None) -> list[Grading]:
    """Return the grades of all graders, of one picture or of all, in the order of time."""
    where, values = (" WHERE picture = ?", (picture,)) if picture is not None else ("", ())
    statement = f"SELECT picture, grader, grade, estimate, time FROM gradings{where} ORDER BY time, picture, grader"
    return [Grading(*row) for row in _rows(connection, statement, values)]


def put_comparison(cursor: sqlite3.Cursor, first: int, second: int, grader: str, outcome: int) -> None:
    """Record a comparison; another one of the same pictures by the same grader is replaced."""
    if first > second:
        first, second, outcome = second, first, -outcome
    cursor.execute("INSERT OR REPLACE INTO comparisons VALUES (?, ?, ?, ?, ?)", (first, second, grader, outcome, now()))


def withdraw_comparison(cursor: sqlite3.Cursor, first: int, second: int, grader: str) -> bool:
    """Delete a comparison; return whether there was one."""
    ordered = (min(first, second), max(first, second), grader)
    cursor.execute("DELETE FROM comparisons WHERE first = ? AND second = ? AND grader = ?", ordered)
    return cursor.rowcount > 0


def comparisons(connection: sqlite3.Connection) -> list[StoredComparison]:
    """Return all comparisons in the order of time."""
    statement = "SELECT first, second, grader, outcome, time FROM comparisons ORDER BY time, first, second, grader"
    return [StoredComparison(*row) for row in _rows(connection, statement)]


def implied_grades(note: str | None) -> dict[int, float]:
    """Return the grades that comparisons implied at the last training, by id, from the note about them."""
    pairs = [] if note is None else json.loads(note)
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise sqlite3.DatabaseError("the implied grades are not pairs of a picture and a grade")
    return {int(picture): float(grade) for picture, grade in pairs}


def forget_implied(cursor: sqlite3.Cursor, replaced: int | None = None) -> None:
    """Forget the implied grades of removed pictures, and of one whose content was replaced."""
    found = cursor.execute("SELECT value FROM meta WHERE key = ?", (IMPLIED,)).fetchone()
    if found is not None:
        known = {picture for (picture,) in cursor.execute("SELECT id FROM pictures")} - {replaced}
        kept = [pair for pair in implied_grades(found[0]).items() if pair[0] in known]
        cursor.execute("UPDATE meta SET value = ? WHERE key = ?", (json.dumps(kept), IMPLIED))


def count_comparisons(connection: sqlite3.Connection) -> int:
    """Return the number of all comparisons."""
    rows = _rows(connection, "SELECT count(*) FROM comparisons")
    return int(rows[0][0]) if rows else 0


def put_training(cursor: sqlite3.Cursor, error: float, features: str) -> None:
    """Record a training of the current pictures and grades."""
    pictures, graded = cursor.execute("SELECT count(*), count(grade) FROM pictures").fetchone()
    known = None if error != error else error
    statement = "INSERT INTO trainings (time, pictures, graded, error, features) VALUES (?, ?, ?, ?, ?)"
    cursor.execute(statement, (now(), pictures, graded, known, features))


def trainings(connection: sqlite3.Connection) -> list[Training]:
    """Return all trainings in the order of time."""
    statement = "SELECT number, time, pictures, graded, error, features FROM trainings ORDER BY number"
    return [Training(*row) for row in _rows(connection, statement)]


def _rows(connection: sqlite3.Connection, statement: str, values: tuple[int, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a statement; none of a collection of an older format, which is read and not changed."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'gradings'").fetchone() is None:
        return []
    return connection.execute(statement, values).fetchall()


def _given(cursor: sqlite3.Cursor, picture: int, grader: str) -> float | None:
    statement = "SELECT grade FROM gradings WHERE picture = ? AND grader = ?"
    found = cursor.execute(statement, (picture, grader)).fetchone()
    return None if found is None else float(found[0])


def _put(cursor: sqlite3.Cursor, picture: int, grader: str, grade: float | None, estimate: float | None) -> None:
    if grade is None:
        cursor.execute("DELETE FROM gradings WHERE picture = ? AND grader = ?", (picture, grader))
    else:
        cursor.execute(
            "INSERT OR REPLACE INTO gradings VALUES (?, ?, ?, ?, ?)", (picture, grader, grade, estimate, now())
        )
