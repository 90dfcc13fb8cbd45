"""A checksum in every row: a byte of the database that has changed raises an error, and never changes an answer.

The column ``crc`` of every table is a CRC-32 of the other columns. No statement that writes sets it, and none that
reads compares it: a connection has temporary triggers that set it, and for every table a temporary view of that name
after ``checked_``, which has the other columns and raises an error at a row that does not match. So what is read from
``checked_pictures`` is what was written to ``pictures``. Rows are counted too, to notice that some are missing.
"""

from __future__ import annotations

import marshal
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

Value: TypeAlias = str | bytes | float | None

RAISED = "user-defined function raised exception"  # all that SQLite says when a view finds a damaged row
_ROWS = "rows of "  # begins the keys of the counters of rows
_COUNT = f"UPDATE counters SET value = value {{}} 1 WHERE key = '{_ROWS}{{}}'"


class Table(NamedTuple):
    """Name, columns, and primary key of a table."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


def tables(connection: sqlite3.Connection) -> list[Table]:
    """Return all tables of a database, without their column of checksums."""
    found = []
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall():
        statement = "SELECT name, pk FROM pragma_table_info(?) WHERE name != 'crc'"
        columns = connection.execute(statement, (name,)).fetchall()
        found.append(Table(name, tuple(column for column, _ in columns), tuple(column for column, pk in columns if pk)))
    return found


def has_checksums(connection: sqlite3.Connection) -> bool:
    """Return whether the rows of a database have checksums: those of an older format have none."""
    statement = "SELECT 1 FROM pragma_table_info('pictures') WHERE name = 'crc'"
    return connection.execute(statement).fetchone() is not None


def add_checksums(connection: sqlite3.Connection, known: Iterable[Table]) -> None:
    """Add the checksums of all rows to a database without any, and count the rows."""
    connection.create_function("checksum", -1, checksum, deterministic=True)
    for table in known:
        connection.execute(f"ALTER TABLE {table.name} ADD COLUMN crc INTEGER")
        connection.execute("INSERT INTO counters (key, value) VALUES (?, 0)", (_ROWS + table.name,))
    for table in known:
        count = f"UPDATE counters SET value = (SELECT count(*) FROM {table.name}) WHERE key = ?"
        connection.execute(count, (_ROWS + table.name,))
    for table in known:
        connection.execute(f"UPDATE {table.name} SET crc = checksum({', '.join(table.columns)})")


def create_views(connection: sqlite3.Connection, known: Iterable[Table]) -> None:
    """Create the views from which a connection reads; those of an older format check nothing."""
    connection.create_function("is_intact", -1, _is_intact, deterministic=True)
    has_crc = has_checksums(connection)
    for name, names, _ in known:
        columns = ", ".join(names)
        selected = f"{columns} FROM {name} WHERE is_intact(crc, {columns})" if has_crc else f"* FROM {name}"
        connection.execute(f"CREATE TEMP VIEW checked_{name} AS SELECT {selected}")


def create_triggers(connection: sqlite3.Connection, known: Iterable[Table]) -> None:
    """Create the triggers of a connection that writes. They raise an error if a damaged row is to be updated."""
    connection.create_function("checksum", -1, checksum, deterministic=True)
    connection.create_function("is_intact", -1, _is_intact, deterministic=True)
    connection.execute("PRAGMA recursive_triggers = ON")  # INSERT OR REPLACE counts what it deletes
    is_alone = not connection.in_transaction
    if is_alone:
        connection.execute("BEGIN")  # of its own for each trigger would take three times as long
    for name, names, key in known:
        columns, old = ", ".join(names), ", ".join(f"OLD.{column}" for column in names)
        row = " AND ".join(f"{column} = NEW.{column}" for column in key)
        seal = f"UPDATE {name} SET crc = checksum({columns}) WHERE {row}"
        for kind, event, statements in (
            ("inserted", "AFTER INSERT", f"{seal}; {_COUNT.format('+', name)}"),
            ("deleted", "AFTER DELETE", _COUNT.format("-", name)),
            ("changed", f"AFTER UPDATE OF {columns}", f"SELECT is_intact(OLD.crc, {old}); {seal}"),
        ):
            connection.execute(f"CREATE TEMP TRIGGER {name}_{kind} {event} ON main.{name} BEGIN {statements}; END")
    if is_alone:
        connection.execute("COMMIT")


def check_counts(connection: sqlite3.Connection, *, but: Iterable[str] = ()) -> None:
    """Raise DatabaseError if a table has not as many rows as were written, ``but`` for some tables."""
    statement = "SELECT substr(key, ?), value FROM checked_counters WHERE key GLOB ?"
    counts = dict(connection.execute(statement, (len(_ROWS) + 1, f"{_ROWS}*")).fetchall())
    for table in counts.keys() - set(but):
        (found,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        if found != counts[table]:
            raise sqlite3.DatabaseError(f"{table} has {found} rows instead of {counts[table]}")


def verify(connection: sqlite3.Connection, table: Table) -> Iterator[tuple[tuple[object, ...], bool]]:
    """Yield the primary key of each row of a table, and whether the row matches its checksum."""
    columns, n_key = ", ".join((*table.key, *table.columns)), len(table.key)
    for crc, *values in connection.execute(f"SELECT crc, {columns} FROM {table.name} NOT INDEXED"):
        yield tuple(values[:n_key]), checksum(*values[n_key:]) == crc


def checksum(*values: Value) -> int:
    """Return the CRC-32 of values of SQLite; version 2 of marshal writes equal values as equal bytes."""
    return zlib.crc32(marshal.dumps(values, 2))


def _is_intact(crc: Value, *values: Value) -> bool:
    if zlib.crc32(marshal.dumps(values, 2)) != crc:
        raise sqlite3.DatabaseError(RAISED)
    return True
