"""Write lock of a collection: one writer at a time; others can read who holds it."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ordrank.errors import CollectionBusyError, CollectionError

LOCK_FILE = "writer.lock"
LOCK_FILES = (LOCK_FILE, f"{LOCK_FILE}-journal")
_HOLDER = "holder (text TEXT)"
_MAX_HOLDER = 1000


@contextmanager
def writer_lock(directory: Path, timeout: float = 0.0) -> Iterator[None]:
    """Hold the write lock of a directory; raise CollectionBusyError that names the holder after a timeout in seconds.

    The lock is an open transaction on a small database of its own: it works wherever SQLite does, others can read who
    holds it, and the operating system releases it however the holder ends.
    """
    file = directory / LOCK_FILE
    if file.is_symlink():
        raise CollectionError(f"{file} is a link, which is not followed; delete it")
    with closing(sqlite3.connect(file, timeout=timeout, isolation_level=None)) as lock:
        try:
            _check_schema(lock)
            lock.execute("BEGIN IMMEDIATE")
            lock.execute("PRAGMA busy_timeout = 1000")  # others may be reading the name of the holder
            lock.execute(f"CREATE TABLE IF NOT EXISTS {_HOLDER}")
            lock.execute("DELETE FROM holder")
            lock.execute("INSERT INTO holder VALUES (?)", (json.dumps(_this_process()),))
            lock.execute("COMMIT")
            lock.execute("BEGIN IMMEDIATE")
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
                raise CollectionError(f"{file} is damaged; delete it if no other process is writing there") from None
            if code != sqlite3.SQLITE_BUSY:
                raise
            raise CollectionBusyError(
                f"{directory} is being written by {_holder(lock)}; try again when it is done"
            ) from None
        yield


def _this_process() -> dict[str, str | int]:
    return {
        "process": os.getpid(),
        "machine": platform.node(),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "since": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _check_schema(lock: sqlite3.Connection) -> None:
    """Raise DatabaseError if the file has something else than its table: a trigger would run, whoever made it."""
    lock.execute("PRAGMA trusted_schema = OFF")
    found = lock.execute("SELECT sql FROM sqlite_master").fetchall()
    if found not in ([], [(f"CREATE TABLE {_HOLDER}",)]):
        raise sqlite3.DatabaseError("the file is not a lock")


def _holder(lock: sqlite3.Connection) -> str:
    """Describe the process that holds the lock, as it has written."""
    try:
        (text,) = lock.execute("SELECT substr(text, 1, ?) FROM holder", (_MAX_HOLDER,)).fetchone()
        described = "process {process} on {machine} (`{command}`, since {since})".format(**json.loads(text))
    except (sqlite3.Error, TypeError, ValueError, LookupError, AttributeError, RecursionError):
        return "another process"  # which has not written its name yet, or something else
    return "".join(character for character in described if character.isprintable())
