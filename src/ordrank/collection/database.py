"""The SQLite file of a collection: its tables, how it is opened, and what is said when that fails."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray
from ordrank.collection.changes import TABLES
from ordrank.collection.records import Header
from ordrank.errors import CollectionError

_Found = TypeVar("_Found")

FORMAT = 1
DATABASE = "collection.sqlite"
_ENDINGS = ("", "-wal", "-shm", "-journal")
FILES = tuple(f"{DATABASE}{ending}" for ending in _ENDINGS)
UNFINISHED = tuple(f".{DATABASE}{ending}" for ending in _ENDINGS)
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pictures (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, path TEXT NOT NULL, sha256 TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL,
    grade REAL, estimate REAL
);
CREATE TABLE features (id INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE, vector BLOB NOT NULL);
CREATE TABLE embeddings (id INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE, vector BLOB NOT NULL);
CREATE TABLE thumbnails (id INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE, jpeg BLOB NOT NULL);
"""


def is_collection(directory: Path) -> bool:
    """Whether there is a collection, complete or not."""
    return (directory / DATABASE).exists()


def create(directory: Path, header: Header) -> None:
    """Make a database, which gets its name only when its tables are there."""
    for name in UNFINISHED:  # left by a process that was ended
        (directory / name).unlink(missing_ok=True)
    unfinished = directory / UNFINISHED[0]
    with closing(connect(unfinished, "rwc")) as connection:
        connection.execute("PRAGMA page_size = 16384")  # thumbnails would leave almost half of smaller pages empty
        connection.execute("BEGIN IMMEDIATE")
        for statement in (*_SCHEMA.split(";"), *TABLES):
            connection.execute(statement)
        meta = {"format": FORMAT, "extractor": header.extractor, "fingerprint": header.fingerprint, "dim": header.dim}
        named = {} if header.order is None else {"order": json.dumps(header.order)}
        write_meta(connection.cursor(), {key: str(value) for key, value in meta.items()} | named)
        connection.execute("COMMIT")
    unfinished.replace(directory / DATABASE)


def must_exist(directory: Path) -> None:
    """Refuse a directory that is none."""
    if not is_collection(directory):
        raise CollectionError(f"{directory} is not a collection; make one with `ordrank fit IMAGES --out {directory}`")


def connect(file: Path, mode: str) -> sqlite3.Connection:
    """Open a database; ``mode`` is one of SQLite's: ro, rw, rwc."""
    uri = f"file:{quote(os.fsencode(file.absolute()))}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30, check_same_thread=False)


def connect_to_read(file: Path) -> sqlite3.Connection:
    """Connect, also where the directory is read-only or full and cannot hold what SQLite keeps for other processes."""
    connection = connect(file, "ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        leftover = file.with_name(f"{file.name}-wal")
        if error.sqlite_errorcode & 0xFF not in _UNWRITABLE or (leftover.exists() and leftover.stat().st_size):
            raise
        return connect(file, "ro&immutable=1")
    return connection


_ANEW = "bring back a copy of that file, or make the collection anew in another directory"
_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full; make room and give the same command again",
    sqlite3.SQLITE_IOERR: "the disk reports an error or is full; make room and give the same command again",
    sqlite3.SQLITE_READONLY: "it cannot be written in; check its permissions",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check its permissions",
    sqlite3.SQLITE_PERM: "it cannot be opened; check its permissions",
    sqlite3.SQLITE_BUSY: "another process keeps it locked; try again when it is done",
    sqlite3.SQLITE_NOTADB: f"its {DATABASE} is no database; {_ANEW}",
    sqlite3.SQLITE_CORRUPT: f"its {DATABASE} is damaged; {_ANEW}",
}


@contextmanager
def sentences(directory: Path) -> Iterator[None]:
    """Say what is wrong with the file or the disk, not with SQLite."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter comes from damaged texts
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        reason = _REASONS.get(code, f"its {DATABASE} is damaged ({error}); {_ANEW}")
        raise CollectionError(f"{directory}: {reason}") from error


def read_header(directory: Path, connection: sqlite3.Connection) -> Header:
    """Read what holds for all pictures."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    if meta.get("format") != str(FORMAT):
        raise CollectionError(
            f"{directory} has the format {meta.get('format')}, this version of ordrank reads {FORMAT}; "
            "use the version that made it, or make it anew"
        )
    try:
        order = tuple(json.loads(meta["order"])) if "order" in meta else None
        return Header(meta["extractor"], meta["fingerprint"], int(meta["dim"]), order, meta.get("model"))
    except (KeyError, TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(f"{error} in what holds for all pictures") from None


def write_meta(cursor: sqlite3.Cursor, values: Mapping[str, str]) -> None:
    """Keep notes, by their keys."""
    cursor.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(values.items()))


def numbers_of(rows: Sequence[tuple[Any, ...]], width: int) -> FloatArray:
    """Rows of numbers as an array (n, width); NaN where there is none."""
    try:
        return np.array(rows, dtype=np.float64).reshape(-1, width)
    except ValueError as error:
        raise sqlite3.DatabaseError(str(error)) from None


def in_order(found: Mapping[int, _Found], ids: Iterable[int]) -> list[_Found]:
    """Return what was found for each number."""
    try:
        return [found[number] for number in ids]
    except KeyError as error:
        raise sqlite3.DatabaseError(f"a part of picture {error} is missing") from None


def is_text(name: str) -> bool:
    """Whether SQLite takes a name as it is."""
    return as_text(name) == name


def as_text(path: str) -> str:
    """Return a path as SQLite takes it: bytes that are not UTF-8 are written out."""
    return os.fsencode(path).decode(errors="backslashreplace")


def encode_vector(vector: NDArray[np.float32]) -> bytes:
    """Bytes of a vector; pixels are whole numbers up to 255 and take one byte each."""
    with np.errstate(invalid="ignore"):
        small = vector.astype(np.uint8)
    return small.tobytes() if np.array_equal(small, vector) else vector.astype("<f4").tobytes()


def decode_vectors(blobs: Sequence[bytes], dim: int) -> NDArray[np.float32]:
    """Vectors (n, dim) that :func:`encode_vector` made bytes of."""
    lengths = {len(blob) for blob in blobs}
    if not lengths <= {dim, 4 * dim}:
        raise sqlite3.DatabaseError("a feature vector is cut off")
    if len(lengths) > 1:
        return np.vstack([decode_vectors([blob], dim) for blob in blobs])
    values = np.frombuffer(b"".join(blobs), dtype=np.uint8 if lengths == {dim} else "<f4")
    return values.reshape(-1, dim).astype(np.float32)
