"""Log of changes: what is newer than the model, how a snapshot catches up, and what can be undone.

Every transaction has a serial number. Changes of single grades are logged with theirs for a while, so that a snapshot
in memory can be brought up to date without reading all rows again.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# Logged changes; a snapshot that has missed more is read again as a whole.
MAX_LOGGED = 10_000
SERIAL, CHANGED = "serial", "changed"
REMOVED = "removed"  # pictures that the model was trained with
JUDGED = "judged"  # comparisons and confirmations that were recorded: these change no picture
LAST_ID = "last id"
# ``trained``: grades that changed since the last training, as they were then. ``added``: pictures that were added or
# whose files have changed since.
SCHEMA = """
CREATE TABLE added (id INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE);
CREATE TABLE counters (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE trained (id INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE, grade REAL);
"""
GRADE_CHANGES = """
CREATE TABLE grade_changes (
    serial INTEGER PRIMARY KEY, id INTEGER NOT NULL REFERENCES pictures ON DELETE CASCADE, before REAL, grade REAL,
    undoes INTEGER, grader TEXT NOT NULL, batch INTEGER NOT NULL, key TEXT,
    given REAL, given_estimate REAL, given_time TEXT
);
CREATE INDEX grade_changes_id ON grade_changes (id);
CREATE INDEX grade_changes_batch ON grade_changes (batch);
CREATE INDEX grade_changes_key ON grade_changes (grader, key);
"""
GRADE_CHANGES_4 = """
CREATE TABLE grade_changes (
    serial INTEGER PRIMARY KEY, id INTEGER NOT NULL, before REAL, grade REAL, undoes INTEGER
);
"""
# From format 4, in which nothing kept the id of the last picture.
UPGRADE = f"""
ALTER TABLE grade_changes RENAME TO older_changes;
{GRADE_CHANGES}
INSERT INTO grade_changes
    SELECT serial, id, before, grade, undoes, '', serial, NULL, NULL, NULL, NULL FROM older_changes
    WHERE id IN (SELECT id FROM pictures);
DROP TABLE older_changes;
INSERT INTO counters SELECT '{LAST_ID}', coalesce(max(id), 0) FROM pictures;
"""
_INCREMENT = (
    "INSERT INTO counters (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = value + excluded.value"
)
_SET = "INSERT OR REPLACE INTO counters (key, value) VALUES (?, ?)"
_REMEMBER = "INSERT OR IGNORE INTO trained (id, grade) SELECT id, grade FROM checked_pictures WHERE"
_NOT_UNDONE = "undoes IS NULL AND serial NOT IN (SELECT undoes FROM checked_grade_changes WHERE undoes IS NOT NULL)"
# A cross join reads the left table first: fewer grades have changed than there are pictures.
_COUNT = (
    "SELECT count(*) FROM checked_trained AS trained CROSS JOIN checked_pictures AS pictures USING (id) "
    "WHERE trained.grade IS NOT pictures.grade"
)


class GradeChange(NamedTuple):
    """A new grade of one picture, or None; its estimate does not depend on its own grade and stays."""

    id: int
    grade: float | None


class Given(NamedTuple):
    """The grade that a grader gave a picture, or None; the estimate of the model and the time then."""

    grade: float | None = None
    estimate: float | None = None
    time: str | None = None


NOT_GIVEN = Given()


class LoggedChange(NamedTuple):
    """A logged change that has not been undone.

    Its serial number, the picture, its grade before and after, who changed it, the serial number of the first of the
    changes that were made together, and what the grader had given before.
    """

    serial: int
    id: int
    before: float | None
    grade: float | None
    grader: str
    batch: int
    given: Given


def counter(connection: sqlite3.Connection | sqlite3.Cursor, key: str) -> int:
    """Return a counter: the serial number of the last transaction, or the number of changed grades."""
    found = connection.execute("SELECT value FROM checked_counters WHERE key = ?", (key,)).fetchone()
    value = 0 if found is None else found[0]
    if not isinstance(value, int):
        raise sqlite3.DatabaseError("a counter is not an integer")
    return value


def count_transaction(cursor: sqlite3.Cursor) -> None:
    """Advance the serial number, and count the grades that differ from those of the last training."""
    cursor.execute(_INCREMENT, (SERIAL, 1))
    cursor.execute(_SET, (CHANGED, _count_changed(cursor)))


def count_judgement(cursor: sqlite3.Cursor) -> None:
    """Count a comparison or confirmation: a snapshot in memory holds neither, and stays as it is."""
    cursor.execute(_INCREMENT, (JUDGED, 1))


def new_id(cursor: sqlite3.Cursor) -> int:
    """Return an id that no picture has had: what someone says about a removed picture must not reach another one."""
    (highest,) = cursor.execute("SELECT coalesce(max(id), 0) FROM pictures").fetchone()
    picture = max(int(highest), counter(cursor, LAST_ID)) + 1
    cursor.execute(_SET, (LAST_ID, picture))
    return picture


def remember_grades(cursor: sqlite3.Cursor, grades: list[tuple[float, str]]) -> None:
    """Keep the grades of the last training before they are replaced; pairs of a new grade and a name."""
    cursor.executemany(f"{_REMEMBER} grade IS NOT ? AND name = ?", grades)


def replace_grade(cursor: sqlite3.Cursor, change: GradeChange) -> None:
    """Replace the grade of a picture in a transaction of other changes, which is not logged."""
    cursor.execute(f"{_REMEMBER} id = ? AND grade IS NOT ?", change)
    cursor.execute("UPDATE pictures SET grade = ? WHERE id = ?", (change.grade, change.id))


def remember_added(cursor: sqlite3.Cursor, picture: int) -> None:
    """Record that the model was not trained with a picture, or with what its file holds now."""
    cursor.execute("INSERT OR IGNORE INTO added (id) VALUES (?)", (picture,))


def forget_training(cursor: sqlite3.Cursor, grades: Iterable[tuple[int, float | None]]) -> None:
    """Clear what has changed since the last training: the model was trained with the current pictures.

    ``grades`` are the ids of all pictures, and the grades it was trained with: some may have changed meanwhile.
    """
    cursor.execute("DELETE FROM trained")
    cursor.execute("DELETE FROM added")
    cursor.execute(_SET, (REMOVED, 0))
    current = dict(cursor.execute("SELECT id, grade FROM checked_pictures"))
    changed = [(picture, grade) for picture, grade in grades if current[picture] != grade]
    cursor.executemany("INSERT INTO trained (id, grade) VALUES (?, ?)", changed)


def count_removal(cursor: sqlite3.Cursor, names: Sequence[str]) -> None:
    """Count pictures that are about to be removed, if the model was trained with them."""
    statement = (
        "SELECT count(*) FROM pictures WHERE name IN (SELECT value FROM json_each(?)) "
        "AND id NOT IN (SELECT id FROM added)"
    )
    (trained,) = cursor.execute(statement, (json.dumps(names),)).fetchone()
    cursor.execute(_INCREMENT, (REMOVED, trained))


def forget_changes(cursor: sqlite3.Cursor, pictures: Sequence[int]) -> None:
    """Delete the changes of pictures, which cannot be undone any more."""
    cursor.execute("DELETE FROM grade_changes WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(pictures),))


def change_grade(
    cursor: sqlite3.Cursor,
    change: GradeChange,
    *,
    undoes: int | None = None,
    grader: str = "",
    given: Given = NOT_GIVEN,
    batch: int | None = None,
    key: str | None = None,
) -> int:
    """Change the grade of an existing picture and log it; see :class:`LoggedChange`. Return its batch.

    All changes of a transaction must be such changes. A key is a name that the caller has given to the change.
    """
    (before,) = cursor.execute("SELECT grade FROM checked_pictures WHERE id = ?", (change.id,)).fetchone()
    cursor.execute(f"{_REMEMBER} id = ?", (change.id,))
    changed_before = _count_changed(cursor, change.id)
    cursor.execute("UPDATE pictures SET grade = ? WHERE id = ?", (change.grade, change.id))
    cursor.execute(_INCREMENT, (SERIAL, 1))
    cursor.execute(_INCREMENT, (CHANGED, _count_changed(cursor, change.id) - changed_before))
    serial = counter(cursor, SERIAL)
    batch = serial if batch is None else batch
    columns = "serial, id, before, grade, undoes, grader, batch, key, given, given_estimate, given_time"
    logged = (serial, change.id, before, change.grade, undoes, grader, batch, key, *given)
    cursor.execute(f"INSERT INTO grade_changes ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", logged)
    # What was changed together is forgotten together, so that all of it is undone or nothing.
    cursor.execute("DELETE FROM grade_changes WHERE batch <= ?", (serial - MAX_LOGGED,))
    return batch


def count_added(connection: sqlite3.Connection) -> int:
    """Return the number of pictures that the model was not trained with."""
    return int(connection.execute("SELECT count(*) FROM added").fetchone()[0])


def changes_since(connection: sqlite3.Connection, serial: int) -> list[GradeChange] | None:
    """Return the changes after a transaction; None if anything but single grades has changed, or too much."""
    missed = counter(connection, SERIAL) - serial
    if not 0 <= missed <= MAX_LOGGED:
        return None
    statement = "SELECT id, grade FROM checked_grade_changes WHERE serial > ? ORDER BY serial"
    found = [GradeChange(*row) for row in connection.execute(statement, (serial,))] if missed else []
    return found if len(found) == missed else None


def forget_in_later(cursor: sqlite3.Cursor, undone: Sequence[LoggedChange]) -> None:
    """Let the next change of each picture go back to where the undone ones do, which were made together."""
    statement = f"SELECT id, serial FROM checked_grade_changes WHERE serial > ? AND {_NOT_UNDONE} ORDER BY serial DESC"
    following = dict(cursor.execute(statement, (undone[-1].serial,)).fetchall()) if undone else {}
    befores = [(change.before, following[change.id]) for change in undone if change.id in following]
    cursor.executemany("UPDATE grade_changes SET before = ? WHERE serial = ?", befores)


def serials_of_key(cursor: sqlite3.Cursor, grader: str, key: str) -> dict[int, int]:
    """Return the logged changes with a key, undone or not: serial numbers by picture."""
    statement = "SELECT id, serial FROM checked_grade_changes WHERE grader = ? AND key = ?"
    return dict(cursor.execute(statement, (grader, key)).fetchall())


def given_until(cursor: sqlite3.Cursor, grader: str, serial: int) -> dict[int, float | None]:
    """Return what a grader had given after a change, by picture, for those that the grader has changed again since."""
    statement = "SELECT id, given FROM checked_grade_changes WHERE grader = ? AND serial > ? ORDER BY serial DESC"
    return dict(cursor.execute(statement, (grader, serial)).fetchall())


def standing_changes(cursor: sqlite3.Cursor, grader: str, key: str | None) -> list[LoggedChange]:
    """Return the changes by a grader that were made together and are not undone: those with a key, else the last."""
    columns = "serial, id, before, grade, grader, batch, given, given_estimate, given_time"
    standing = f"SELECT {columns} FROM checked_grade_changes WHERE grader = ? AND {_NOT_UNDONE}"
    if key is None:
        statement = f"SELECT * FROM ({standing}) WHERE batch = (SELECT max(batch) FROM ({standing})) ORDER BY serial"
        found = cursor.execute(statement, (grader, grader))
    else:
        found = cursor.execute(f"{standing} AND key = ? ORDER BY serial", (grader, key))
    return [
        LoggedChange(serial, picture, before, grade, by, batch, Given(*given))
        for serial, picture, before, grade, by, batch, *given in found
    ]


def has_later(cursor: sqlite3.Cursor, changes: Sequence[LoggedChange]) -> bool:
    """Return whether the grader has changed one of the pictures again, after changes that were made together."""
    statement = (
        f"SELECT 1 FROM checked_grade_changes WHERE serial > ? AND grader = ? AND {_NOT_UNDONE} "
        "AND id IN (SELECT value FROM json_each(?))"
    )
    last, pictures = changes[-1], json.dumps([change.id for change in changes])
    return cursor.execute(statement, (last.serial, last.grader, pictures)).fetchone() is not None


def _count_changed(cursor: sqlite3.Cursor, picture: int | None = None) -> int:
    """Count the pictures, or whether one picture, whose grade is not that of the last training."""
    if picture is None:
        return int(cursor.execute(_COUNT).fetchone()[0])
    return int(cursor.execute(f"{_COUNT} AND id = ?", (picture,)).fetchone()[0])
