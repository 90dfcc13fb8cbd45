"""What has changed in a collection: grades since the last training, and the corrections between two of its states.

Every transaction has a serial number. Corrections of single grades are kept for a while with theirs, so that whoever
holds a state in memory can bring it up to date without reading all rows again.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

# Corrections that are kept; who has missed more reads everything again.
MOST_CORRECTIONS = 1000
SERIAL, CHANGED = "serial", "changed"
TABLES = (
    "CREATE TABLE IF NOT EXISTS counters (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    # Grades that changed since the last training, as they were then.
    "CREATE TABLE IF NOT EXISTS trained (id INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE, grade REAL)",
    "CREATE TABLE IF NOT EXISTS corrections "
    "(serial INTEGER PRIMARY KEY, id INTEGER NOT NULL, grade REAL, estimate REAL)",
)
_ADD = "INSERT INTO counters VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = value + excluded.value"
_PUT = "INSERT OR REPLACE INTO counters VALUES (?, ?)"
_REMEMBER = "INSERT OR IGNORE INTO trained SELECT id, grade FROM pictures WHERE"
_COUNT = "SELECT count(*) FROM trained JOIN pictures USING (id) WHERE trained.grade IS NOT pictures.grade"


class Correction(NamedTuple):
    """Another grade of one picture, or none and an estimated one."""

    id: int
    grade: float | None
    estimate: float | None


def prepare(connection: sqlite3.Connection) -> None:
    """Make the tables where an older version has made the collection."""
    for statement in TABLES:
        connection.execute(statement)


def number_of(connection: sqlite3.Connection | sqlite3.Cursor, key: str) -> int:
    """Return a number that is kept: that of the last transaction, or of the grades that changed."""
    if not connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'counters'").fetchone()[0]:
        return 0  # an older version has made the collection, and nobody has changed it since
    found = connection.execute("SELECT value FROM counters WHERE key = ?", (key,)).fetchone()
    return 0 if found is None else int(found[0])


def count_transaction(cursor: sqlite3.Cursor) -> None:
    """Give a transaction its number, and count the grades that are not those that the model was trained with."""
    cursor.execute(_ADD, (SERIAL, 1))
    cursor.execute(_PUT, (CHANGED, _count(cursor)))


def remember_grades(cursor: sqlite3.Cursor, grades: list[tuple[float, str]]) -> None:
    """Keep the grades that the model was trained with, before pictures get others: pairs of a new grade and a name."""
    cursor.executemany(f"{_REMEMBER} grade IS NOT ? AND name = ?", grades)


def forget_grades(cursor: sqlite3.Cursor) -> None:
    """Begin anew: the model was trained with the grades that are there."""
    cursor.execute("DELETE FROM trained")


def correct(cursor: sqlite3.Cursor, correction: Correction) -> bool:
    """Give a picture another grade in a transaction that does nothing else; False if there is no such picture."""
    number, grade, estimate = correction
    cursor.execute(f"{_REMEMBER} id = ?", (number,))
    before = _count(cursor, number)
    statement = "UPDATE pictures SET grade = ?, estimate = ? WHERE id = ?"
    if not cursor.execute(statement, (grade, estimate, number)).rowcount:
        return False
    cursor.execute(_ADD, (SERIAL, 1))
    cursor.execute(_ADD, (CHANGED, _count(cursor, number) - before))
    serial = number_of(cursor, SERIAL)
    cursor.execute("INSERT INTO corrections VALUES (?, ?, ?, ?)", (serial, *correction))
    cursor.execute("DELETE FROM corrections WHERE serial <= ?", (serial - MOST_CORRECTIONS,))
    return True


def corrections_since(connection: sqlite3.Connection, before: int) -> list[Correction] | None:
    """Corrections that lead from the state after one transaction to this one; None if something else has changed."""
    missed = number_of(connection, SERIAL) - before
    if not 0 <= missed <= MOST_CORRECTIONS:
        return None
    statement = "SELECT id, grade, estimate FROM corrections WHERE serial > ? ORDER BY serial"
    found = [Correction(*row) for row in connection.execute(statement, (before,))] if missed else []
    return found if len(found) == missed else None


def _count(cursor: sqlite3.Cursor, number: int | None = None) -> int:
    """Pictures, or whether one picture is one, whose grade is not the one that the model was trained with."""
    if number is None:
        return int(cursor.execute(_COUNT).fetchone()[0])
    return int(cursor.execute(f"{_COUNT} AND id = ?", (number,)).fetchone()[0])
