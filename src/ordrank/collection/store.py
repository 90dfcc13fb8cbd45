"""Changes of the rows of a collection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.collection import change_log, judgements, network_samples, staged_features
from ordrank.collection.database import (
    SET_ESTIMATE,
    STAGED_FEATURES,
    put_embedding,
    write_meta,
)
from ordrank.collection.judgements import UNNAMED
from ordrank.collection.store_reader import ERROR, MODELS, StoreReader
from ordrank.collection.types import EmbeddedBatch


class Store(StoreReader):
    """An open collection; created by :func:`read_store` and :func:`write_store`."""

    @contextmanager
    def transaction(self, *, counted: bool = True) -> Iterator[sqlite3.Cursor]:
        """Commit all statements of a block or none; ``counted`` advances the serial number."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                if counted:
                    change_log.count_transaction(cursor)
                cursor.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk may have rolled it back already
                    cursor.execute("ROLLBACK")
                raise

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database file, which is all that another machine sees of a collection."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def set_grades(self, grades: Mapping[str, float]) -> None:
        """Set grades by name."""
        with self.transaction() as cursor:
            pairs = [(grade, name) for name, grade in grades.items()]
            change_log.remember_grades(cursor, pairs)
            judgements.forget_gradings(cursor, pairs)
            cursor.executemany(
                "UPDATE pictures SET grade = ? WHERE name = ? AND grade IS NOT ?",
                [(grade, name, grade) for name, grade in grades.items()],
            )

    def set_groups(self, groups: Mapping[str, str]) -> None:
        """Set the groups of pictures by name."""
        with self.transaction() as cursor:
            cursor.executemany("UPDATE pictures SET subject = ? WHERE name = ?", [(g, n) for n, g in groups.items()])

    def give_grades(
        self, pictures: Sequence[int], grade: float | None, grader: str = UNNAMED, key: str | None = None
    ) -> None:
        """Record or withdraw the grade that someone gave pictures, all or none; UnknownError if one is missing."""
        with self.transaction(counted=False) as cursor:
            judgements.give_grades(cursor, pictures, grader, grade, key)

    def undo_grades(self, grader: str = UNNAMED, key: str | None = None) -> list[int]:
        """Undo the change by a grader with a key, else the last, and return the ids of the pictures."""
        self.check_indexes("grade_changes")
        with self.transaction(counted=False) as cursor:
            return judgements.undo_grades(cursor, grader, key)

    def update_consensus(self) -> None:
        """Set the grades of pictures with several graders by the reliability of these."""
        with self.transaction() as cursor:
            judgements.update_consensus(cursor)

    def confirm_grade(self, picture: int, grade: float | None) -> None:
        """Record that someone has looked at the grade of a picture again and kept it, or with None forget it."""
        with self.transaction(counted=False) as cursor:
            if grade is None:
                judgements.withdraw_confirmation(cursor, picture)
            else:
                judgements.confirm_grade(cursor, picture, grade)
            change_log.count_judgement(cursor)

    def put_comparison(self, first: int, second: int, outcome: int, grader: str = UNNAMED) -> None:
        """Record which of two pictures is higher; see :class:`StoredComparison`."""
        with self.transaction(counted=False) as cursor:
            judgements.put_comparison(cursor, first, second, grader, outcome)
            change_log.count_judgement(cursor)

    def withdraw_comparison(self, first: int, second: int, grader: str = UNNAMED) -> bool:
        """Delete a comparison; return whether there was one."""
        with self.transaction(counted=False) as cursor:
            change_log.count_judgement(cursor)
            return judgements.withdraw_comparison(cursor, first, second, grader)

    def set_estimates(self, ids: Iterable[int], estimates: FloatArray) -> None:
        """Set the estimates and their intervals (n, 3) of pictures by id."""
        with self.transaction() as cursor:
            rows = [(*row, int(picture)) for picture, row in zip(ids, estimates.tolist(), strict=True)]
            cursor.executemany(SET_ESTIMATE, rows)

    def set_extractor(self, name: str) -> None:
        """Set the name of the extractor, which must compute the same features."""
        with self.transaction() as cursor:
            write_meta(cursor, {"extractor": name})
        self.read_header()

    def set_notes(self, notes: Mapping[str, str]) -> None:
        """Store values with the collection, see :meth:`note`."""
        with self.transaction(counted=False) as cursor:
            write_meta(cursor, notes)

    def record_network_samples(
        self, network: str, sha256: Sequence[str], units: IntArray, outputs: NDArray[np.float32]
    ) -> None:
        """Record the pictures that a network was trained on, see :func:`network_samples.record`."""
        with self.transaction(counted=False) as cursor:
            network_samples.record(cursor, network, sha256, units, outputs)

    def record_models(self, names: Iterable[str]) -> None:
        """Record which models have files in the directory: no other files are ever deleted."""
        with self.transaction() as cursor:
            write_meta(cursor, {MODELS: json.dumps(sorted(names))})

    def remove(self, names: Sequence[str]) -> None:
        """Remove pictures by name."""
        with self.transaction() as cursor:
            change_log.count_removal(cursor, names)
            cursor.executemany("DELETE FROM pictures WHERE name = ?", [(name,) for name in names])

    def rebuild_indexes(self) -> None:
        """Rebuild all indexes from the rows. Raise DatabaseError, and change nothing, if there is other damage."""
        with self.transaction(counted=False) as cursor:
            cursor.execute("REINDEX")
            (found,) = cursor.execute("PRAGMA integrity_check").fetchone()
            if found != "ok":
                raise sqlite3.DatabaseError(found)

    def store_embeddings(
        self,
        model: str,
        batches: Iterable[EmbeddedBatch],
        grades: FloatArray,
        error: float,
        notes: Mapping[str, str],
        implied: Mapping[int, float] = MappingProxyType({}),
    ) -> None:
        """Make a model the current one: all pictures get their new embeddings, or nothing changes.

        Parameters
        ----------
        model : str
            Its name.
        batches : iterable of EmbeddedBatch
            All pictures by ascending id.
        grades : ndarray of shape (n,)
            With which the model was trained, by ascending id; NaN for none.
        error : float
            Leave-one-out mean absolute error.
        notes : mapping
            Stored with it, see :meth:`note`.
        implied : mapping
            Grades that comparisons imply, by id.
        """
        ids = self.ids()
        with self.transaction() as cursor:
            done = 0
            for batch in batches:
                for i in range(len(batch.vectors)):
                    put_embedding(cursor, ids[done], batch, i)
                    done += 1
            if done != len(ids):
                raise ValueError(f"{done} embeddings for {len(ids)} pictures")
            if self.features_table == STAGED_FEATURES:
                staged_features.adopt(cursor, self.header)
            write_meta(cursor, {"model": model, ERROR: repr(error), **notes})
            trained = [None if np.isnan(grade) else float(grade) for grade in grades]
            change_log.forget_training(cursor, zip(ids, trained, strict=True))
            judgements.replace_implied(cursor, implied.items())
            n_graded = int((~np.isnan(grades)).sum())
            judgements.put_training(cursor, len(ids), n_graded, error, self.header.extractor)
        self.read_header()
