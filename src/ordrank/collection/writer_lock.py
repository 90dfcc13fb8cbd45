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


@contextmanager
def writer_lock(directory: Path, timeout: float = 0.0) -> Iterator[None]:
    """Hold the write lock of a directory; raise CollectionBusyError that names the holder after a timeout in seconds.

    The lock is an open transaction on a small database of its own: it works wherever SQLite does, others can read who
    holds it, and the operating system releases it however the holder ends.
    """
    with closing(sqlite3.connect(directory / LOCK_FILE, timeout=timeout, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN IMMEDIATE")
            lock.execute("PRAGMA busy_timeout = 1000")  # others may be reading the name of the holder
            lock.execute("CREATE TABLE IF NOT EXISTS holder (text TEXT)")
            lock.execute("DELETE FROM holder")
            lock.execute("INSERT INTO holder VALUES (?)", (json.dumps(_this_process()),))
            lock.execute("COMMIT")
            lock.execute("BEGIN IMMEDIATE")
        except sqlite3.DatabaseError as error:
            code = error.sqlite_errorcode & 0xFF
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise CollectionError(
                    f"{directory / LOCK_FILE} is damaged; delete it if no other process is writing there"
                ) from None
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


def _holder(lock: sqlite3.Connection) -> str:
    try:
        (text,) = lock.execute("SELECT text FROM holder").fetchone()
        return "process {process} on {machine} (`{command}`, since {since})".format(**json.loads(text))
    except (sqlite3.OperationalError, TypeError):  # the holder has not written its name yet
        return "another process"
