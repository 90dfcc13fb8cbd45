"""The SQLite file of a collection: schema, connections, and errors in plain words."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ordrank._io import sync_directory
from ordrank._protocols import FloatArray
from ordrank.collection import change_log, checksums, judgements, network_samples
from ordrank.collection.checksums import Table
from ordrank.collection.stored_json import parse_stored
from ordrank.collection.types import EmbeddedBatch, Header
from ordrank.collection.write_ahead_log import check_log
from ordrank.collection.writer_lock import LOCK_FILES
from ordrank.errors import AccessDeniedError, CollectionError, DiskFullError

_T = TypeVar("_T")

DATABASE_FORMAT = 5
_READ_FORMATS = ("4", str(DATABASE_FORMAT))
_BLOCK_ROWS = 1024
_MAX_GRADES, _MAX_TEXT = 10_000, 1_000_000  # named grades, and characters of a setting
DATABASE = "collection.sqlite"
OWN_FOLDER = "pictures"  # in the directory of a collection, of the files of pictures that were added from memory
_BY_FOLDER = "grades by folder"
SET_ESTIMATE = "UPDATE pictures SET estimate = ?, lowest = ?, highest = ? WHERE id = ?"
_ENDINGS = ("", "-wal", "-shm", "-journal")
FILES = tuple(f"{DATABASE}{ending}" for ending in _ENDINGS)
UNFINISHED = tuple(f".{DATABASE}{ending}" for ending in _ENDINGS)
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pictures (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, path TEXT NOT NULL, sha256 TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL,
    grade REAL, estimate REAL, lowest REAL, highest REAL, subject TEXT
);
CREATE TABLE features (id INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE, vector BLOB NOT NULL);
CREATE TABLE embeddings (
    id INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE, vector BLOB NOT NULL, held_out BLOB
);
CREATE TABLE thumbnails (id INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE, jpeg BLOB NOT NULL);
"""
STAGED_FEATURES = "staged_features"
_STAGED = f"""CREATE TABLE IF NOT EXISTS {STAGED_FEATURES} (
    id INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE, vector BLOB NOT NULL
)"""
_NOT_ALWAYS = (_STAGED, network_samples.SCHEMA)  # in format 4


def is_collection(directory: Path) -> bool:
    """Return whether the directory holds a collection, complete or not."""
    return (directory / DATABASE).exists()


def create(directory: Path, header: Header) -> None:
    """Create a database under a temporary name and rename it when it is complete."""
    for name in UNFINISHED:  # left by a process that was ended
        (directory / name).unlink(missing_ok=True)
    unfinished = directory / UNFINISHED[0]
    with closing(connect(unfinished, "rwc")) as connection:
        connection.execute("PRAGMA page_size = 16384")  # thumbnails would leave almost half of smaller pages empty
        connection.execute("BEGIN IMMEDIATE")
        for statement in _whole_schema():
            connection.execute(statement)
        checksums.add_checksums(connection, _tables())
        checksums.create_triggers(connection, _tables())
        settings = {"extractor": header.extractor, "fingerprint": header.fingerprint, "dim": str(header.dim)}
        if header.order is not None:
            settings["order"] = json.dumps(header.order)
        if header.by_folder:
            settings[_BY_FOLDER] = str(True)
        write_meta(connection.cursor(), {"format": str(DATABASE_FORMAT), **settings})
        connection.execute("COMMIT")
    unfinished.replace(directory / DATABASE)
    sync_directory(directory)


def connect_to_write(directory: Path, timeout: float = 30.0) -> sqlite3.Connection:
    """Connect for writing; a collection of an older format gets the present one. ``timeout`` is in seconds."""
    connection = connect(directory / DATABASE, "rw")
    try:
        check_schema(connection)
        connection.execute(f"PRAGMA busy_timeout = {int(1000 * timeout)}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # a build may have another default
        connection.execute("PRAGMA foreign_keys = ON")
        if connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchone() == ("4",):
            _upgrade(connection)
        checksums.create_views(connection, _tables())
        checksums.create_triggers(connection, _tables())
    except BaseException:
        connection.close()  # ends the transaction
        raise
    return connection


def _upgrade(connection: sqlite3.Connection) -> None:
    """Give a database of format 4 the schema of a new one, as a whole or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    if connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchone() == ("4",):  # still
        for statement in [*(change_log.UPGRADE + judgements.SCHEMA).split(";"), *_NOT_ALWAYS]:
            connection.execute(statement)
        write_meta(connection.cursor(), {"format": str(DATABASE_FORMAT)})
        checksums.add_checksums(connection, _tables())
    connection.execute("COMMIT")


def _whole_schema() -> list[str]:
    return [*(_SCHEMA + change_log.SCHEMA + change_log.GRADE_CHANGES + judgements.SCHEMA).split(";"), *_NOT_ALWAYS]


@cache
def _tables() -> list[Table]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(";".join(_whole_schema()))
        return checksums.tables(connection)


def check_schema(connection: sqlite3.Connection) -> None:
    """Raise DatabaseError if a database has something else than the tables and indexes of a collection.

    A trigger or a view would run statements of whoever made the file.
    """
    found = set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))
    for kind, name, *_ in found - _known_schema():
        raise sqlite3.DatabaseError(f"it has the {kind} {name!r}, which is not that of a collection")


@cache
def _known_schema() -> frozenset[tuple[str, str, str, str]]:
    """Return type, name, table and statement of everything that a collection of a format that is read may have."""
    known = set()
    older = [_SCHEMA, change_log.SCHEMA, change_log.GRADE_CHANGES_4, *_NOT_ALWAYS]
    for statements, is_older in ((_whole_schema(), False), (older, True)):
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(";".join(statements))
            if not is_older:
                checksums.add_checksums(connection, _tables())
            known |= set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))
    return frozenset(known)


def check_exists(directory: Path) -> None:
    """Raise CollectionError if the directory holds no collection."""
    if not is_collection(directory):
        raise CollectionError(
            f"{directory} is not a collection; create one with `ordrank fit IMAGES --labels CSV --out {directory}`"
        )


def connect(file: Path, mode: str) -> sqlite3.Connection:
    """Open a database in one of SQLite's modes: ro, rw or rwc."""
    check_log(file)
    uri = f"file:{quote(os.fsencode(file.absolute()))}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30, check_same_thread=False)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def connect_to_read(file: Path) -> tuple[sqlite3.Connection, bool]:
    """Connect for reading, also where the directory is read-only or full and SQLite cannot create its shared memory.

    Return also whether the connection sees changes by others; in such a directory it does not.
    """
    try:
        return _prepare_to_read(connect(file, "ro")), True
    except sqlite3.OperationalError as error:
        code, leftover = getattr(error, "sqlite_errorcode", 0) & 0xFF, file.with_name(f"{file.name}-wal")
        if code not in _UNWRITABLE or (leftover.exists() and leftover.stat().st_size):
            raise
    return _prepare_to_read(connect(file, "ro&immutable=1")), False


def _prepare_to_read(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Check the schema and create the views; an error closes the connection."""
    try:
        check_schema(connection)
        checksums.create_views(connection, _tables())
    except BaseException:
        connection.close()
        raise
    return connection


_RESTORE = "restore that file from a copy, or create the collection again in another directory"
_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space and run the same command again",
    sqlite3.SQLITE_IOERR: "the disk reports an error or is full; free some space and run the same command again",
    sqlite3.SQLITE_READONLY: "it is not writable; check its permissions",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check its permissions",
    sqlite3.SQLITE_PERM: "it cannot be opened; check its permissions",
    sqlite3.SQLITE_BUSY: "another process keeps it locked; try again when it is done",
    sqlite3.SQLITE_NOTADB: f"its {DATABASE} is not a database; {_RESTORE}",
    sqlite3.SQLITE_CORRUPT: f"its {DATABASE} is damaged; {_RESTORE}",
}
_KINDS = {
    sqlite3.SQLITE_FULL: DiskFullError,
    sqlite3.SQLITE_READONLY: AccessDeniedError,
    sqlite3.SQLITE_CANTOPEN: AccessDeniedError,
    sqlite3.SQLITE_PERM: AccessDeniedError,
}


@contextmanager
def translate_errors(directory: Path) -> Iterator[None]:
    """Translate SQLite errors into CollectionErrors that name the file or the disk."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # damaged text raises the latter
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        described = "a row does not match its checksum" if str(error) == checksums.RAISED else error
        reason = _REASONS.get(code, f"its {DATABASE} is damaged ({described}); {_RESTORE}")
        raise _KINDS.get(code, CollectionError)(f"{directory}: {reason}") from error


def read_header(directory: Path, connection: sqlite3.Connection) -> Header:
    """Read the settings of a collection."""
    meta = dict(connection.execute("SELECT key, value FROM checked_meta"))
    # A counter with a damaged key would not be found, and be 0.
    connection.execute("SELECT key, value FROM checked_counters").fetchall()
    if meta.get("format") not in _READ_FORMATS:
        raise CollectionError(
            f"{directory} has the format {meta.get('format')}, this version of ordrank reads {DATABASE_FORMAT}; "
            "use the version that created it, or create it again"
        )
    check_types(meta.values(), str)
    try:
        order = _parse_order(meta["order"]) if "order" in meta else None
        extractor, fingerprint, dim = meta["extractor"], meta["fingerprint"], int(meta["dim"])
    except (KeyError, ValueError) as error:
        raise sqlite3.DatabaseError(f"{error} in the settings") from None
    if dim < 1 or max(len(extractor), len(fingerprint)) > _MAX_TEXT:
        raise sqlite3.DatabaseError("the features in the settings are not possible")
    return Header(extractor, fingerprint, dim, order, meta.get("model"), _BY_FOLDER in meta)


def _parse_order(text: str) -> tuple[str, ...]:
    """Return the names of the grades. Raise ValueError if they are not different names."""
    names = parse_stored(text)
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ValueError("an order without names")
    if not 2 <= len(names) == len(set(names)) <= _MAX_GRADES or len("".join(names).encode()) > _MAX_TEXT:
        raise ValueError("an order of too few, too many or equal names")
    return tuple(names)


def write_meta(cursor: sqlite3.Cursor, values: Mapping[str, str]) -> None:
    """Write settings by key."""
    cursor.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", list(values.items()))


def float_table(rows: Sequence[tuple[Any, ...]], width: int) -> FloatArray:
    """Return rows of numbers as an array (n, width); NULL becomes NaN."""
    try:
        return np.array(rows, dtype=np.float64).reshape(-1, width)
    except ValueError as error:
        raise sqlite3.DatabaseError(str(error)) from None


def check_types(values: Iterable[object], expected: type) -> None:
    """Raise DatabaseError if a value, as those of a damaged database may, has another type than its column."""
    if not all(isinstance(value, expected) for value in values):
        raise sqlite3.DatabaseError(f"a value is not of type {expected.__name__}")


def in_order(found: Mapping[int, _T], ids: Iterable[int]) -> list[_T]:
    """Return the values of a mapping in the order of the ids."""
    try:
        return [found[picture] for picture in ids]
    except KeyError as error:
        raise sqlite3.DatabaseError(f"a part of picture {error} is missing") from None


def is_text(name: str) -> bool:
    """Return whether SQLite can store a name unchanged."""
    return as_text(name) == name


def as_text(path: str) -> str:
    """Return a path as text for SQLite, with bytes that are not UTF-8 escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")


def content_sha256(stored: str) -> str:
    """Return the SHA-256 in the column of that name, which is marked where the file holds other content by now."""
    return stored.rpartition(" ")[2]


def stored_path(directory: Path, text: str) -> Path:
    """Return the path that was stored by :func:`as_text`; a relative one begins in the directory of the collection."""
    escaped = re.sub(rb"\\x([0-9a-f]{2})", lambda match: bytes.fromhex(match[1].decode()), os.fsencode(text))
    path = directory.absolute() / text  # worker processes may have another working directory
    return path if os.path.exists(path) else directory.absolute() / os.fsdecode(escaped)


def is_own_path(text: str) -> bool:
    """Return whether the file at a stored path is in the directory of the collection: it may be the only copy."""
    return text.startswith(f"{OWN_FOLDER}/")  # all other paths are absolute


def path_exists(directory: Path, text: str) -> bool:
    """Return whether there is a file at a path that was stored by :func:`as_text`."""
    return os.path.exists(stored_path(directory, text))


def encode_vector(vector: NDArray[np.float32]) -> bytes:
    """Return the bytes of a vector: one byte per element for integers up to 255 (pixels), else float32."""
    with np.errstate(invalid="ignore"):
        small = vector.astype(np.uint8)
    return small.tobytes() if np.array_equal(small, vector) else vector.astype("<f4").tobytes()


def put_embedding(cursor: sqlite3.Cursor, picture: int, batch: EmbeddedBatch, i: int) -> None:
    """Store the embedding of picture i of a batch, what it is without its own grade, and its estimate."""
    held_out = None if batch.held_out is None or np.isnan(batch.held_out[i, 0]) else _as_float32(batch.held_out[i])
    embedding = (picture, _as_float32(batch.vectors[i]), held_out)
    cursor.execute("INSERT OR REPLACE INTO embeddings (id, vector, held_out) VALUES (?, ?, ?)", embedding)
    cursor.execute(SET_ESTIMATE, (*batch.estimates[i].tolist(), picture))


def _as_float32(vector: NDArray[np.floating]) -> bytes:
    return vector.astype("<f4").tobytes()


def decode_vectors(blobs: Sequence[bytes], dim: int) -> NDArray[np.float32]:
    """Return the vectors (n, dim) encoded by :func:`encode_vector`."""
    check_types(blobs, bytes)
    lengths = {len(blob) for blob in blobs}
    if not lengths <= {dim, 4 * dim}:
        raise sqlite3.DatabaseError("a feature vector is truncated")
    if len(lengths) > 1:
        return np.vstack([decode_vectors([blob], dim) for blob in blobs])
    values = np.frombuffer(b"".join(blobs), dtype=np.uint8 if lengths == {dim} else "<f4")
    if not np.isfinite(values).all():
        raise sqlite3.DatabaseError("a feature vector is not finite")
    return values.reshape(-1, dim).astype(np.float32)


def check_is_free(directory: Path) -> None:
    """Raise CollectionError if the directory holds anything that is not part of a collection."""
    if is_collection(directory) or not directory.is_dir():
        return
    others = sorted({path.name for path in directory.iterdir()} - {*FILES, *UNFINISHED, *LOCK_FILES})
    if others:
        raise CollectionError(
            f"{directory} is not empty and is not a collection (it holds {others[0]!r}); name a new or empty directory"
        )


def delete_files(directory: Path, *, and_directory: bool) -> None:
    """Delete the database and the lock of a collection, and its directory if asked and empty."""
    for name in (*FILES, *UNFINISHED, *LOCK_FILES):
        (directory / name).unlink(missing_ok=True)
    if and_directory and not any(directory.iterdir()):
        directory.rmdir()


def stack_embeddings(found: sqlite3.Cursor, n: int) -> NDArray[np.float32]:
    """Return the n embeddings (n, s + d) that a cursor yields, read in blocks to need little other memory."""
    vectors, done = np.empty((n, 0), dtype=np.float32), 0
    while block := [blob for (blob,) in found.fetchmany(_BLOCK_ROWS)]:
        if not done and isinstance(block[0], bytes):
            vectors = np.empty((n, len(block[0]) // 4), dtype=np.float32)
        whole = all(isinstance(blob, bytes) and len(blob) == 4 * vectors.shape[1] for blob in block)
        if not whole or done + len(block) > n:
            raise sqlite3.DatabaseError("an embedding is missing")
        vectors[done : done + len(block)] = np.frombuffer(b"".join(block), dtype="<f4").reshape(len(block), -1)
        done += len(block)
    if done != n:
        raise sqlite3.DatabaseError("an embedding is missing")
    return vectors


def decode_embeddings(blobs: Sequence[bytes], width: int) -> NDArray[np.float32]:
    """Return blobs of float32 as rows (n, width)."""
    check_types(blobs, bytes)
    if any(len(blob) != 4 * width for blob in blobs):
        raise sqlite3.DatabaseError("an embedding is truncated")
    return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), width)
