"""The rows of a collection: pictures, features, embeddings and thumbnails, in one SQLite file.

Features, embeddings and thumbnails have tables of their own, so that reading one of them for all pictures does not
read the others from disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.collection import change_log, checksums, judgements, network_samples
from ordrank.collection.change_log import GradeChange
from ordrank.collection.database import (
    DATABASE,
    OWN_FOLDER,
    STAGED_FEATURES,
    check_types,
    decode_embeddings,
    decode_vectors,
    float_table,
    in_order,
    is_text,
    read_header,
    stack_embeddings,
)
from ordrank.collection.judgements import Grading, StoredComparison, Training
from ordrank.collection.row_checks import check_rows
from ordrank.collection.stored_json import parse_stored
from ordrank.collection.types import FileStamp, ImageRow
from ordrank.errors import CollectionError
from ordrank.neighbors.search import Embeddings

# The largest number of parameters that older versions of SQLite accept in one statement.
_MAX_PARAMETERS = 900
_BLOCK_ROWS = 1024
_JPEG = b"\xff\xd8\xff"  # its first bytes
_SELECT_ROWS = (
    "SELECT id, name, path, sha256, size, mtime_ns, width, height, grade, estimate, lowest, highest, subject "
    "FROM checked_pictures"
)
ALL_IDS = range(2**63 - 1)
# Keys of notes about the last fit.
FITTED, BALANCED, ERROR = "fitted", "balanced", "error"
FINETUNED = "finetuned"  # key of what the network of the collection was trained on
MODELS = "models"


class StoreReader:
    """Reads an open collection."""

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        self.directory, self._connection = directory, connection
        self.read_header()

    def __len__(self) -> int:
        (count,) = self._connection.execute("SELECT count(*) FROM pictures").fetchone()
        return int(count)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def read_header(self) -> None:
        """Read the settings and the features in use again."""
        self.header, self.features_table = read_header(self.directory, self._connection), "features"

    def check_counts(self) -> None:
        """Raise DatabaseError if rows are missing; not of thumbnails and features, which are missed when they are read.

        These have the size of the collection, and all their pages would be read.
        """
        checksums.check_counts(self._connection, but=("thumbnails", "features", STAGED_FEATURES))

    def check_rows(self) -> None:
        """Raise DatabaseError if a row cannot be one of a collection, see :func:`row_checks.check_rows`."""
        check_rows(self._connection)

    def check_indexes(self, table: str = "pictures") -> None:
        """Raise CollectionError if an index does not lead to the rows of a table; as slow as reading all their names.

        Indexes have no checksums, and a statement that uses a damaged one may find another row, or none.
        """
        (found,) = self._connection.execute(f"PRAGMA integrity_check({table})").fetchone()
        if found != "ok":
            raise CollectionError(
                f"{self.directory}: its {DATABASE} is damaged ({found}); `ordrank check` says what restores it"
            )

    def stamps(self) -> dict[str, FileStamp]:
        """Return the stamp of every picture's file at the time it was read, by name."""
        rows = self._connection.execute("SELECT name, path, size, mtime_ns FROM checked_pictures")
        return {name: FileStamp(*stamp) for name, *stamp in rows}

    def similar_name(self, name: str) -> str | None:
        """Return the name of a picture that may have been meant."""
        return next(iter(get_close_matches(name, self.stamps(), n=1)), None)

    def named_grades(self) -> dict[int, tuple[str, float | None]]:
        """Return the name and the given grade of all pictures, by id."""
        rows = self._connection.execute("SELECT id, name, grade FROM checked_pictures")
        return {picture: (name, grade) for picture, name, grade in rows}

    def rows(self, ids: Iterable[int] | None = None) -> list[ImageRow]:
        """Return all pictures by ascending id, or the given ones in the given order."""
        if ids is None:
            found = [ImageRow(*row) for row in self._connection.execute(f"{_SELECT_ROWS} ORDER BY id")]
        else:
            selected = list(ids)
            by_id = {row[0]: ImageRow(*row) for row in self._select(f"{_SELECT_ROWS} WHERE id IN", selected)}
            found = in_order(by_id, selected)
        check_types((text for row in found for text in (row.name, row.path, row.sha256)), str)
        float_table([(row.grade, row.estimate, row.lowest, row.highest) for row in found], 4)
        return found

    def summary_rows(self) -> list[tuple[Any, ...]]:
        """Return all pictures by id, without their paths.

        Id, name, SHA-256, width, height, time of the file, grade, estimate, its interval, and group.
        """
        columns = "id, name, sha256, width, height, mtime_ns, grade, estimate, lowest, highest, subject"
        statement = f"SELECT {columns} FROM checked_pictures ORDER BY id"
        return self._connection.execute(statement).fetchall()

    def find(self, name: str) -> ImageRow | None:
        """Return the picture of that name."""
        if not is_text(name):
            return None
        found = self._connection.execute(f"{_SELECT_ROWS} WHERE name = ?", (name,)).fetchone()
        return None if found is None else ImageRow(*found)

    def find_content(self, sha256: str) -> ImageRow | None:
        """Return the picture with that content."""
        found = self._connection.execute(f"{_SELECT_ROWS} WHERE sha256 = ?", (sha256,)).fetchone()
        return None if found is None else ImageRow(*found)

    def ids(self) -> list[int]:
        """Return the ids of all pictures, ascending."""
        return [picture for (picture,) in self._connection.execute("SELECT id FROM checked_pictures ORDER BY id")]

    def grades(self) -> FloatArray:
        """Return the grades (n,) of all pictures by ascending id; NaN where none was given."""
        return float_table(self._connection.execute("SELECT grade FROM checked_pictures ORDER BY id").fetchall(), 1)[
            :, 0
        ]

    def estimates(self) -> FloatArray:
        """Return the estimated grades (n,) of all pictures by ascending id; NaN where there is none."""
        return float_table(self._connection.execute("SELECT estimate FROM checked_pictures ORDER BY id").fetchall(), 1)[
            :, 0
        ]

    def groups(self) -> list[str | None]:
        """Return the groups of all pictures by ascending id; None where none was named."""
        return [group for (group,) in self._connection.execute("SELECT subject FROM checked_pictures ORDER BY id")]

    def own_bytes(self) -> int:
        """Return the size of the picture files in the directory of the collection."""
        statement = "SELECT coalesce(sum(size), 0) FROM checked_pictures WHERE path GLOB ?"
        return int(self._connection.execute(statement, (f"{OWN_FOLDER}/*",)).fetchone()[0])

    def count_groups(self) -> int:
        """Return the number of different groups."""
        return int(self._connection.execute("SELECT count(DISTINCT subject) FROM checked_pictures").fetchone()[0])

    def features(self, ids: range = ALL_IDS) -> Iterator[NDArray[np.float32]]:
        """Yield the feature vectors of pictures with ids in a range by ascending id, in blocks (b, dim)."""
        bounds, pictures = (ids.start, ids.stop - 1), "FROM pictures WHERE id BETWEEN ? AND ?"
        statement = f"SELECT vector FROM checked_{self.features_table} WHERE id IN (SELECT id {pictures}) ORDER BY id"
        found = self._connection.execute(statement, bounds)
        count = 0
        while block := found.fetchmany(_BLOCK_ROWS):
            yield decode_vectors([blob for (blob,) in block], self.header.dim)
            count += len(block)
        (expected,) = self._connection.execute(f"SELECT count(*) {pictures}", bounds).fetchone()
        if count != expected:
            raise sqlite3.DatabaseError("the features of a picture are missing")

    def features_of(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the feature vectors (k, dim) of pictures, in the given order."""
        found = dict(self._select(f"SELECT id, vector FROM checked_{self.features_table} WHERE id IN", ids))
        return decode_vectors(in_order(found, ids), self.header.dim)

    def embedded_ids(self) -> list[int]:
        """Return the ids of the pictures that have an embedding, ascending."""
        ids = [picture for (picture,) in self._connection.execute("SELECT id FROM embeddings ORDER BY id")]
        check_types(ids, int)
        return ids

    def id_range(self) -> range:
        """Return the range of the ids of embedded pictures; few of them are unused."""
        first, last = self._connection.execute("SELECT min(id), max(id) FROM embeddings").fetchone()
        return range(0) if first is None else range(first, last + 1)

    def embeddings(self, ids: range = ALL_IDS) -> Embeddings:
        """Return the embedded pictures with ids in a range, by ascending id.

        Their grades are those that vote: given ones, else those that comparisons implied at the last training.
        """
        numbers, grades, estimates = self._embedded(ids)
        return Embeddings(numbers, grades, estimates, self.vectors(len(numbers), ids))

    def voting_embeddings(self, width: int) -> Embeddings:
        """Return the embedded pictures whose grades vote, by ascending id; vectors of others are not read.

        ``width`` is the number s + d of coordinates of each.
        """
        numbers, grades, estimates = self._embedded(ALL_IDS)
        votes = ~np.isnan(grades)
        numbers, grades, estimates = numbers[votes], grades[votes], estimates[votes]
        ids: list[int] = numbers.tolist()
        found = dict(self._select("SELECT id, vector FROM checked_embeddings WHERE id IN", ids))
        return Embeddings(numbers, grades, estimates, decode_embeddings(in_order(found, ids), width))

    def _embedded(self, ids: range) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return ids, grades that vote and estimates of the embedded pictures with ids in a range."""
        statement = (
            "SELECT id, grade, estimate FROM checked_pictures "
            "WHERE id >= ? AND id < ? AND id IN (SELECT id FROM embeddings) ORDER BY id"
        )
        table = float_table(self._connection.execute(statement, (ids.start, ids.stop)).fetchall(), 3)
        numbers = table[:, 0].astype(np.int64)
        return numbers, self.with_implied(numbers, table[:, 1]), table[:, 2]

    def vectors(self, n: int, ids: range = ALL_IDS) -> NDArray[np.float32]:
        """Return the n embeddings (n, s + d) of pictures with ids in a range, by ascending id."""
        statement = "SELECT vector FROM checked_embeddings WHERE id >= ? AND id < ? ORDER BY id"
        return stack_embeddings(self._connection.execute(statement, (ids.start, ids.stop)), n)

    def has_votes(self) -> bool:
        """Return whether a picture has a grade to vote with, given or implied."""
        graded = self._connection.execute("SELECT 1 FROM checked_pictures WHERE grade IS NOT NULL").fetchone()
        return graded is not None or bool(self.implied_grades())

    def with_implied(self, ids: IntArray, grades: FloatArray) -> FloatArray:
        """Return the grades (n,) of pictures, and for NaN those that comparisons implied at the last training."""
        implied = self.implied_grades()
        return np.where(np.isnan(grades), [implied.get(i, np.nan) for i in ids.tolist()], grades) if implied else grades

    def embedding(self, picture: int) -> NDArray[np.float32] | None:
        """Return the embedding (s + d,) of one picture; None if it has none."""
        found = self._connection.execute("SELECT vector FROM checked_embeddings WHERE id = ?", (picture,)).fetchone()
        if found is None:
            return None
        if not isinstance(found[0], bytes) or len(found[0]) % 4:
            raise sqlite3.DatabaseError("an embedding is truncated")
        return np.frombuffer(found[0], dtype="<f4")

    def held_out(self, width: int, picture: int | None = None) -> tuple[list[int], NDArray[np.float32]]:
        """Return the ids of pictures whose grades were in the fit, ascending, and rows of what they are without them.

        See :class:`EmbeddedBatch`; of one picture, if its id is given.
        """
        statement = "SELECT id, held_out FROM checked_embeddings WHERE held_out IS NOT NULL AND id"
        if picture is None:  # few may have one, and only these are verified
            found = self._connection.execute(f"{statement} IN (SELECT id FROM embeddings WHERE held_out IS NOT NULL)")
        else:
            found = self._connection.execute(f"{statement} = ?", (picture,))
        rows = sorted(found)
        return [row for row, _ in rows], decode_embeddings([blob for _, blob in rows], width)

    def is_held_out(self, picture: int) -> bool:
        """Return whether the grade of a picture was in the fit."""
        statement = "SELECT 1 FROM checked_embeddings WHERE held_out IS NOT NULL AND id = ?"
        return self._connection.execute(statement, (picture,)).fetchone() is not None

    def count_not_embedded(self) -> int:
        """Return the number of pictures without an embedding."""
        statement = "SELECT (SELECT count(*) FROM pictures) - (SELECT count(*) FROM embeddings)"
        return int(self._connection.execute(statement).fetchone()[0])

    def count(self, ids: Sequence[int]) -> int:
        """Return how many of the ids exist."""
        return sum(1 for _ in self._select("SELECT id FROM pictures WHERE id IN", ids))

    def thumbnails(self, ids: Sequence[int]) -> list[bytes]:
        """Return thumbnails as JPEG, in the given order; raise DatabaseError if one is anything else."""
        found = in_order(dict(self._select("SELECT id, jpeg FROM checked_thumbnails WHERE id IN", ids)), ids)
        check_types(found, bytes)
        if not all(content.startswith(_JPEG) for content in found):
            raise sqlite3.DatabaseError("a thumbnail is not a JPEG")
        return found

    def note(self, key: str) -> str | None:
        """Return a value that was stored with the collection."""
        found = self._connection.execute("SELECT value FROM checked_meta WHERE key = ?", (key,)).fetchone()
        return None if found is None else str(found[0])

    @property
    def error(self) -> float | None:
        """Leave-one-out mean absolute error of the last fit."""
        recorded = self.note(ERROR)
        try:
            return None if recorded is None else float(recorded)
        except ValueError:
            raise sqlite3.DatabaseError("the error of the last fit is not a number") from None

    @property
    def finetuned(self) -> dict[str, Any] | None:
        """What the network of the collection was trained on."""
        recorded = self.note(FINETUNED)
        found = None if recorded is None else parse_stored(recorded)
        if found is not None and not isinstance(found, dict):
            raise sqlite3.DatabaseError("the description of the network is not a JSON object")
        return found

    @property
    def is_balanced(self) -> bool:
        """Whether every grade had the same weight in the last fit."""
        return self.note(BALANCED) == str(True)

    def models(self) -> list[str]:
        """Return the names of all models whose files may be in the directory."""
        recorded = self.note(MODELS)
        names = [] if recorded is None else parse_stored(recorded)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise sqlite3.DatabaseError("the list of models is not a list of names")
        return sorted({*names, *([] if self.header.model is None else [self.header.model])})

    @property
    def serial(self) -> int:
        """Serial number of the last transaction."""
        return change_log.counter(self._connection, change_log.SERIAL)

    def count_changed(self) -> int:
        """Return the number of pictures whose grade is not the one that the model was trained with."""
        return change_log.counter(self._connection, change_log.CHANGED)

    def count_removed(self) -> int:
        """Return the number of pictures that the model was trained with and that were removed since."""
        return change_log.counter(self._connection, change_log.REMOVED)

    def count_added(self) -> int:
        """Return the number of pictures that the model was not trained with."""
        return change_log.count_added(self._connection)

    def changes_since(self, serial: int) -> list[GradeChange] | None:
        """Return the grade changes after a transaction; None if anything else has changed."""
        return change_log.changes_since(self._connection, serial)

    def gradings(self, picture: int | None = None) -> list[Grading]:
        """Return what graders said about one picture, or about all, in the order of time."""
        return judgements.gradings(self._connection, picture)

    def comparisons(self) -> list[StoredComparison]:
        """Return all comparisons of two pictures, in the order of time."""
        return judgements.comparisons(self._connection)

    def implied_grades(self) -> dict[int, float]:
        """Return the grades that comparisons implied at the last training, by id; not those given since."""
        return judgements.implied_grades(self._connection)

    def count_comparisons(self) -> int:
        """Return the number of all comparisons."""
        return judgements.count_comparisons(self._connection)

    def confirmed_pictures(self) -> set[int]:
        """Return the ids of the pictures whose present grades were confirmed."""
        return judgements.confirmed_pictures(self._connection)

    def trainings(self) -> list[Training]:
        """Return all trainings, in the order of time."""
        return judgements.trainings(self._connection)

    def held_out_outputs(self, sha256: str) -> NDArray[np.float32] | None:
        """Return the outputs of a picture in the network that has not seen it, if the fine-tuned network here has."""
        return network_samples.held_out_outputs(self._connection, self.header.extractor, sha256)

    def has_seen_groups(self) -> bool:
        """Return whether errors flatter, because the network here has seen pictures of the groups that are held out."""
        return network_samples.has_seen_groups(self._connection, self.header.extractor)

    def _select(self, statement: str, ids: Sequence[int]) -> Iterator[Any]:
        for start in range(0, len(ids), _MAX_PARAMETERS):
            part = ids[start : start + _MAX_PARAMETERS]
            yield from self._connection.execute(f"{statement} ({','.join('?' * len(part))})", [int(i) for i in part])
