"""The rows of a collection: pictures, their features and places in the learned space, in one SQLite file.

Features, places and thumbnails have tables of their own, so that reading one of them for all pictures does not read
the others from disk.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, MutableSet, Sequence
from contextlib import closing, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._types import BadPicture, FloatArray
from ordrank.collection import changes
from ordrank.collection.changes import Correction
from ordrank.collection.database import (
    DATABASE,
    FILES,
    UNFINISHED,
    as_text,
    connect,
    connect_to_read,
    create,
    decode_vectors,
    encode_vector,
    in_order,
    is_collection,
    is_text,
    must_exist,
    numbers_of,
    read_header,
    sentences,
    write_meta,
)
from ordrank.collection.records import Header, Placed, Places, Row, Stamp
from ordrank.collection.writer_lock import LOCK_FILES, only_writer
from ordrank.errors import CollectionError
from ordrank.features.reading import ReadPicture

# Most values that older versions of SQLite take in one statement.
_MOST_VALUES = 900
# Rows that are read together.
_BLOCK_ROWS = 1024
# All numbers that SQLite may give.
EVERY_NUMBER = range(2**63 - 1)

_MODELS = "models"
_ESTIMATE = "UPDATE pictures SET estimate = CASE WHEN grade IS NULL THEN ? END WHERE id = ?"
# The content of a picture whose file holds another by now is marked, so that it can come again under another name.
_MARK_OUTDATED = "UPDATE pictures SET sha256 = 'outdated ' || sha256 WHERE id = ?"
_DELETE = "DELETE FROM pictures WHERE name = ?"


class Store:
    """An open collection. Get one from :func:`read_store` or :func:`write_store`."""

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        self.directory, self._connection = directory, connection
        self.header = read_header(directory, connection)

    def __len__(self) -> int:
        (count,) = self._connection.execute("SELECT count(*) FROM pictures").fetchone()
        return int(count)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    # Reading -----------------------------------------------------------------------------------------------------

    def stamps(self) -> dict[str, Stamp]:
        """Path, size and time of change of every picture's file when it was read, by name."""
        rows = self._connection.execute("SELECT name, path, size, mtime_ns FROM pictures")
        return {name: Stamp(*stamp) for name, *stamp in rows}

    def similar_name(self, name: str) -> str | None:
        """Return the name of a picture that may have been meant."""
        return next(iter(get_close_matches(name, self.stamps(), n=1)), None)

    def grades_by_name(self) -> dict[str, float | None]:
        """Given grades of all pictures."""
        return dict(self._connection.execute("SELECT name, grade FROM pictures"))

    def rows(self, ids: Iterable[int] | None = None) -> list[Row]:
        """All pictures in the order of their numbers, or those asked for, in that order."""
        if ids is None:
            return [Row(*found) for found in self._connection.execute("SELECT * FROM pictures ORDER BY id")]
        wanted = list(ids)
        found = {row[0]: Row(*row) for row in self._select("SELECT * FROM pictures WHERE id IN", wanted)}
        return in_order(found, wanted)

    def listing(self) -> list[tuple[Any, ...]]:
        """Number, name, SHA-256, width, height, grade and estimate of all pictures in the order of their numbers."""
        statement = "SELECT id, name, sha256, width, height, grade, estimate FROM pictures ORDER BY id"
        return self._connection.execute(statement).fetchall()

    def placed(self) -> list[int]:
        """Return the numbers of the pictures that have a place, rising."""
        return [number for (number,) in self._connection.execute("SELECT id FROM embeddings ORDER BY id")]

    def find(self, name: str) -> Row | None:
        """Return the picture of that name."""
        if not is_text(name):
            return None
        found = self._connection.execute("SELECT * FROM pictures WHERE name = ?", (name,)).fetchone()
        return None if found is None else Row(*found)

    def find_content(self, sha256: str) -> Row | None:
        """Return the picture with that content."""
        found = self._connection.execute("SELECT * FROM pictures WHERE sha256 = ?", (sha256,)).fetchone()
        return None if found is None else Row(*found)

    def grades(self) -> FloatArray:
        """Grades of all pictures in the order of their numbers; NaN where there is none."""
        rows = self._connection.execute("SELECT grade FROM pictures ORDER BY id").fetchall()
        return numbers_of(rows, 1)[:, 0]

    def features(self, rows_per_block: int = _BLOCK_ROWS) -> Iterator[NDArray[np.float32]]:
        """Feature vectors of all pictures in the order of their numbers, a block (b, dim) at a time."""
        found = self._connection.execute("SELECT vector FROM features ORDER BY id")
        while block := found.fetchmany(rows_per_block):
            yield decode_vectors([blob for (blob,) in block], self.header.dim)

    def features_of(self, number: int) -> NDArray[np.float32]:
        """Feature vector of one picture, (dim,)."""
        found = dict(self._connection.execute("SELECT id, vector FROM features WHERE id = ?", (number,)))
        return decode_vectors(in_order(found, [number]), self.header.dim).reshape(-1)

    def numbers(self) -> range:
        """Return the numbers among which all are that have a place; few of them are missing."""
        first, last = self._connection.execute("SELECT min(id), max(id) FROM embeddings").fetchone()
        return range(0) if first is None else range(first, last + 1)

    def places(self, numbers: range = EVERY_NUMBER) -> Places:
        """Where every picture is that has a place, or those with numbers in a range, in the order of their numbers."""
        statement = (
            "SELECT id, grade, estimate FROM pictures "
            "WHERE id >= ? AND id < ? AND id IN (SELECT id FROM embeddings) ORDER BY id"
        )
        table = numbers_of(self._connection.execute(statement, (numbers.start, numbers.stop)).fetchall(), 3)
        vectors = self._vectors(numbers, len(table))
        return Places(table[:, 0].astype(np.int64), table[:, 1], table[:, 2], vectors)

    def _vectors(self, numbers: range, n: int) -> NDArray[np.float32]:
        """Vectors (n, s + d) of those that have a place, read in blocks: beside them little else is in memory."""
        statement = "SELECT vector FROM embeddings WHERE id >= ? AND id < ? ORDER BY id"
        found = self._connection.execute(statement, (numbers.start, numbers.stop))
        vectors, done = np.empty((n, 0), dtype=np.float32), 0
        while block := [blob for (blob,) in found.fetchmany(_BLOCK_ROWS)]:
            if not done and isinstance(block[0], bytes):
                vectors = np.empty((n, len(block[0]) // 4), dtype=np.float32)
            whole = all(isinstance(blob, bytes) and len(blob) == 4 * vectors.shape[1] for blob in block)
            if not whole or done + len(block) > n:
                raise sqlite3.DatabaseError("a place is missing")
            vectors[done : done + len(block)] = np.frombuffer(b"".join(block), dtype="<f4").reshape(len(block), -1)
            done += len(block)
        if done != n:
            raise sqlite3.DatabaseError("a place is missing")
        return vectors

    def place_of(self, number: int) -> NDArray[np.float32] | None:
        """Where one picture is, (s + d,); None if it has no place."""
        found = self._connection.execute("SELECT vector FROM embeddings WHERE id = ?", (number,)).fetchone()
        if found is None:
            return None
        if not isinstance(found[0], bytes) or len(found[0]) % 4:
            raise sqlite3.DatabaseError("a place is cut off")
        return np.frombuffer(found[0], dtype="<f4")

    def thumbnails(self, ids: Sequence[int]) -> list[bytes]:
        """Thumbnails in the order asked for."""
        found = dict(self._select("SELECT id, jpeg FROM thumbnails WHERE id IN", ids))
        return in_order(found, ids)

    def count_without_place(self) -> int:
        """Pictures that were read and have no place in the learned space yet."""
        statement = "SELECT count(*) FROM pictures WHERE id NOT IN (SELECT id FROM embeddings)"
        return int(self._connection.execute(statement).fetchone()[0])

    def state(self, key: str) -> str | None:
        """Return a note that was kept with the collection."""
        found = self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if found is None else str(found[0])

    def models(self) -> list[str]:
        """Return the names of all models whose files may be in the directory."""
        recorded = self.state(_MODELS)
        names = [] if recorded is None else json.loads(recorded)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise sqlite3.DatabaseError("the list of models is not a list of names")
        return sorted({*names, *([] if self.header.model is None else [self.header.model])})

    @property
    def serial(self) -> int:
        """Number of the last transaction."""
        return changes.number_of(self._connection, changes.SERIAL)

    def count_changed(self) -> int:
        """Pictures whose grade is not the one that the model was trained with."""
        return changes.number_of(self._connection, changes.CHANGED)

    def corrections_since(self, serial: int) -> list[Correction] | None:
        """Corrections that lead from an earlier state to this one; None if something else has changed."""
        return changes.corrections_since(self._connection, serial)

    def _select(self, statement: str, ids: Sequence[int]) -> Iterator[Any]:
        for start in range(0, len(ids), _MOST_VALUES):
            part = ids[start : start + _MOST_VALUES]
            yield from self._connection.execute(f"{statement} ({','.join('?' * len(part))})", [int(i) for i in part])

    # Writing -----------------------------------------------------------------------------------------------------

    def add(
        self,
        pictures: Sequence[ReadPicture],
        paths: Mapping[str, Path],
        grades: Mapping[str, float],
        placed: Placed | None = None,
        *,
        outdated: MutableSet[str] | None = None,
        replace_namesakes: bool = True,
    ) -> list[BadPicture]:
        """Keep pictures, all or none.

        One whose name is known replaces the old one. One whose content is known has been renamed if the old file is
        gone, and is a copy otherwise.

        Parameters
        ----------
        pictures : sequence of ReadPicture
        paths, grades : mapping
            By name; a picture without a grade keeps the one it had.
        placed : Placed, optional
            Where they are in the space of the model; None before there is one.
        outdated : mutable set of str, optional
            Names that will be added again because their files have changed: what they were is no reason to call
            another picture a copy. Those that are added leave it.
        replace_namesakes : bool
            Whether a picture may replace one of the same name whose file is elsewhere, and still there.

        Returns
        -------
        list of BadPicture
            Those that are not kept: copies, whose grades go to what they are copies of, and others with the name
            of another picture.
        """
        bad = []
        outdated = set() if outdated is None else outdated
        with self._transaction() as cursor:
            for position, picture in enumerate(pictures):
                outdated.discard(picture.name)
                path = as_text(str(paths[picture.name]))
                reason = None if replace_namesakes else self._namesake(picture, path)
                reason = reason or self._copy(cursor, picture, grades, outdated)
                if reason is not None:
                    bad.append(BadPicture(picture.name, reason))
                    continue
                number = self._put(cursor, picture, path, grades.get(picture.name))
                if placed is not None:
                    self._place(cursor, number, placed.vectors[position], float(placed.estimates[position]))
        return bad

    def set_grades(self, grades: Mapping[str, float]) -> None:
        """Give pictures their grades, by name."""
        with self._transaction() as cursor:
            changes.remember_grades(cursor, [(grade, name) for name, grade in grades.items()])
            cursor.executemany(
                "UPDATE pictures SET grade = ?, estimate = NULL WHERE name = ? AND grade IS NOT ?",
                [(grade, name, grade) for name, grade in grades.items()],
            )

    def set_grade(self, number: int, grade: float | None, estimate: float | None) -> bool:
        """Give a picture another grade, or none and an estimated one; False if there is no such picture."""
        correction = Correction(number, grade, estimate if grade is None else None)
        with self._transaction(counted=False) as cursor:
            return changes.correct(cursor, correction)

    def set_estimates(self, ids: Iterable[int], estimates: Iterable[float]) -> None:
        """Give pictures that have no grade an estimated one, by number."""
        with self._transaction() as cursor:
            cursor.executemany(_ESTIMATE, [(float(e), int(i)) for i, e in zip(ids, estimates, strict=True)])

    def set_extractor(self, name: str) -> None:
        """Say where the extractor is found now; it must give the same features."""
        with self._transaction() as cursor:
            write_meta(cursor, {"extractor": name})
        self.header = read_header(self.directory, self._connection)

    def record_models(self, names: Iterable[str]) -> None:
        """Record which models have files in the directory: no other files are ever deleted."""
        with self._transaction() as cursor:
            write_meta(cursor, {_MODELS: json.dumps(sorted(names))})

    def remove(self, names: Sequence[str]) -> None:
        """Forget pictures."""
        with self._transaction() as cursor:
            cursor.executemany(_DELETE, [(name,) for name in names])

    def place_all(self, model: str, places: Iterable[Placed], notes: Mapping[str, str]) -> None:
        """Make a model the one of the collection: every picture gets its new place, or nothing changes.

        Parameters
        ----------
        model : str
            Its name.
        places : iterable of Placed
            Blocks, in the order of the pictures' numbers.
        notes : mapping
            Kept with it, see :meth:`state`.
        """
        numbers = [number for (number,) in self._connection.execute("SELECT id FROM pictures ORDER BY id")]
        with self._transaction() as cursor:
            done = 0
            for block in places:
                for vector, estimate in zip(block.vectors, block.estimates, strict=True):
                    self._place(cursor, numbers[done], vector, float(estimate))
                    done += 1
            if done != len(numbers):
                raise ValueError(f"{done} places for {len(numbers)} pictures")
            write_meta(cursor, {"model": model, **notes})
            changes.forget_grades(cursor)
        self.header = read_header(self.directory, self._connection)

    @contextmanager
    def _transaction(self, *, counted: bool = True) -> Iterator[sqlite3.Cursor]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                if counted:
                    changes.count_transaction(cursor)
                cursor.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk may have rolled it back already
                    cursor.execute("ROLLBACK")
                raise

    def _namesake(self, picture: ReadPicture, path: str) -> str | None:
        """Why a picture cannot have its name: another one has it, whose file is elsewhere and still there."""
        known = self.find(picture.name)
        if known is None or known.path == path or known.sha256 == picture.sha256 or not os.path.exists(known.path):
            return None
        return f"has the name of another picture of the collection, {known.path}; rename one of them"

    def _copy(
        self, cursor: sqlite3.Cursor, picture: ReadPicture, grades: Mapping[str, float], outdated: MutableSet[str]
    ) -> str | None:
        """Why a picture is not kept: another one has the same content, and its file is still there."""
        twin = self.find_content(picture.sha256)
        if twin is None or twin.name == picture.name:
            return None
        gone, is_known = not os.path.exists(twin.path), self.find(picture.name) is not None
        if twin.name in outdated or (gone and is_known):
            cursor.execute(_MARK_OUTDATED, (twin.id,))
            return None
        if gone:  # it has a new name
            cursor.execute("UPDATE pictures SET name = ? WHERE id = ?", (picture.name, twin.id))
            return None
        cursor.execute(_DELETE, (picture.name,))  # what had this name is not in its file any more
        given, held = grades.get(picture.name), grades.get(twin.name, twin.grade)
        if given is not None and held is None:
            cursor.execute("UPDATE pictures SET grade = ?, estimate = NULL WHERE id = ?", (given, twin.id))
        elif given is not None and given != held:
            shown = f"{self.header.show(given)} instead of {self.header.show(held or 0.0)}"
            return f"has the same content as {twin.name!r} but another grade, {shown}; give both the same"
        return f"has the same content as {twin.name!r} and is kept once"

    def _put(self, cursor: sqlite3.Cursor, picture: ReadPicture, path: str, grade: float | None) -> int:
        known = self.find(picture.name)
        if known is not None:
            cursor.execute("DELETE FROM pictures WHERE id = ?", (known.id,))
            grade = known.grade if grade is None else grade
        columns = (picture.sha256, picture.size, picture.mtime_ns, picture.width, picture.height)
        cursor.execute(
            "INSERT INTO pictures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
            (None if known is None else known.id, picture.name, path, *columns, grade),
        )
        number = cursor.lastrowid
        assert number is not None
        cursor.execute("INSERT INTO features VALUES (?, ?)", (number, encode_vector(picture.features)))
        cursor.execute("INSERT INTO thumbnails VALUES (?, ?)", (number, picture.thumbnail))
        return number

    def _place(self, cursor: sqlite3.Cursor, number: int, vector: NDArray[np.float32], estimate: float) -> None:
        cursor.execute("INSERT OR REPLACE INTO embeddings VALUES (?, ?)", (number, vector.astype("<f4").tobytes()))
        cursor.execute(_ESTIMATE, (estimate, number))


def open_store(directory: Path) -> Store:
    """Open a collection to read from it more than once; each reading sees the state of its time."""
    must_exist(directory)
    return Store(directory, connect_to_read(directory / DATABASE))


@contextmanager
def read_store(directory: Path) -> Iterator[Store]:
    """Open a collection to read from it, while others may read and one may write."""
    must_exist(directory)
    with sentences(directory), closing(connect_to_read(directory / DATABASE)) as connection:
        # One state of everything, whatever a writer does meanwhile.
        connection.execute("BEGIN")
        yield Store(directory, connection)


@contextmanager
def write_store(directory: Path, new: Header | None = None, *, patience: float = 0.0) -> Iterator[Store]:
    """Open a collection to write in it; there is one writer at a time.

    Parameters
    ----------
    directory : Path
    new : Header, optional
        Make a collection with this header where there is none.
    patience : float
        Seconds to wait for another writer.
    """
    if new is None:
        must_exist(directory)
    else:
        _check_is_free(directory)
    new_directory = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    with sentences(directory), only_writer(directory, patience):
        for_nothing = made = not is_collection(directory)
        try:
            if made and new is not None:
                create(directory, new)
            with closing(connect(directory / DATABASE, "rw")) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA foreign_keys = ON")
                changes.prepare(connection)
                store = Store(directory, connection)
                for_nothing = False
                try:
                    yield store
                except BaseException:
                    for_nothing = made and len(store) == 0
                    raise
        except BaseException:
            if for_nothing:
                _delete(directory, whole=new_directory)
            raise


def _check_is_free(directory: Path) -> None:
    """Raise CollectionError if the directory holds anything that is not part of a collection."""
    if is_collection(directory) or not directory.is_dir():
        return
    others = sorted({path.name for path in directory.iterdir()} - {*FILES, *UNFINISHED, *LOCK_FILES})
    if others:
        raise CollectionError(
            f"{directory} is not empty and is not a collection (it holds {others[0]!r}); name a new or empty directory"
        )


def _delete(directory: Path, *, whole: bool) -> None:
    """Take back a collection that came to nothing, and only that."""
    for name in (*FILES, *UNFINISHED, *LOCK_FILES):
        (directory / name).unlink(missing_ok=True)
    if whole and not any(directory.iterdir()):
        directory.rmdir()
