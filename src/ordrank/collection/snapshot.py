"""One immutable state of a collection in memory, and how the next one is derived from it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.collection.access import read_store
from ordrank.collection.browsing import PictureOrders
from ordrank.collection.change_log import GradeChange
from ordrank.collection.database import DATABASE, check_exists, float_table
from ordrank.collection.model_file import Model, current_model
from ordrank.collection.search import NO_GRADES, Groups, Searcher
from ordrank.collection.store import Store
from ordrank.collection.store_reader import ALL_IDS
from ordrank.collection.types import Header, Picture, Points, RankRequest
from ordrank.errors import CollectionError, InputError, UnknownError
from ordrank.metrics import nearest_label
from ordrank.neighbors.index import ExactIndex
from ordrank.neighbors.search import Embeddings, InMemoryIndex

# Rows from which the display axes are computed.
_SAMPLE_ROWS = 20_000
_FEW_GRADES = 12


@dataclass(frozen=True, eq=False)
class ImageTable:
    """The columns of all pictures that do not depend on grades; ``ids`` (n,) ascending."""

    ids: IntArray
    names: tuple[str, ...]
    sha256: tuple[str, ...]
    widths: tuple[int, ...]
    heights: tuple[int, ...]
    times: tuple[int, ...]  # of the last change of the files, in nanoseconds

    def extends(self, other: ImageTable) -> bool:
        """Return whether the table begins with the pictures of the other one, with the same content."""
        n = len(other.ids)
        same_files = self.names[:n] == other.names and self.sha256[:n] == other.sha256 and self.times[:n] == other.times
        return same_files and np.array_equal(self.ids[:n], other.ids)

    def row(self, picture: int) -> int | None:
        """Return the row of a picture."""
        row = int(np.searchsorted(self.ids, picture))
        return row if row < len(self.ids) and self.ids[row] == picture else None

    @cached_property
    def by_name(self) -> dict[str, int]:
        """Rows by name."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def by_content(self) -> dict[str, int]:
        """Rows by SHA-256."""
        return {digest: row for row, digest in enumerate(self.sha256)}

    @cached_property
    def name_ranks(self) -> IntArray:
        """Rank (n,) of each row by name."""
        ranks = np.empty(len(self.names), dtype=np.int64)
        ranks[sorted(range(len(self.names)), key=self.names.__getitem__)] = np.arange(len(self.names))
        return ranks


@dataclass(frozen=True, eq=False)
class EmbeddingSpace:
    """The embeddings ``vectors`` (m, s + d) of the pictures in ``rows`` (m,), with s leading ordinal coordinates.

    ``held_out`` (h, ...) is what the pictures in ``held_out_rows`` (h,) are without their own grades, see
    :class:`EmbeddedBatch`.
    """

    rows: IntArray
    vectors: NDArray[np.float32]
    n_order: int
    index: ExactIndex
    held_out_rows: IntArray
    held_out: NDArray[np.float32]

    def vector(self, row: int) -> NDArray[np.float32] | None:
        """Return the embedding (s + d,) of the picture in a row of the table; None if it has none."""
        i = int(np.searchsorted(self.rows, row))
        return self.vectors[i] if i < len(self.rows) and self.rows[i] == row else None

    def held_out_of(self, row: int) -> NDArray[np.float32] | None:
        """Return what the picture in a row of the table is without its own grade; None if that was not in the fit."""
        i = int(np.searchsorted(self.held_out_rows, row))
        return self.held_out[i] if i < len(self.held_out_rows) and self.held_out_rows[i] == row else None

    @cached_property
    def positions(self) -> NDArray[np.float32]:
        """Display positions (m, 3)."""
        return self.project(self.vectors)

    def project(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Project embeddings (q, s + d) to display positions (q, 3)."""
        origin, axes = self._display_frame
        return np.asarray((vectors - origin) @ axes, dtype=np.float32)

    @cached_property
    def _display_frame(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Origin and axes: the leading ordinal coordinates, then principal axes of the appearance."""
        width, n_order = self.vectors.shape[1], self.n_order
        origin, axes = np.zeros(width, dtype=np.float32), np.eye(width, 3, dtype=np.float32)
        if n_order < 3:
            sample = self.vectors[:: -(-len(self.vectors) // _SAMPLE_ROWS), n_order:].astype(np.float64)
            origin[n_order:] = sample.mean(axis=0)
            axes[:, n_order:] = 0.0
            leading = _principal_axes(sample, 3 - n_order)
            axes[n_order:, n_order : n_order + leading.shape[1]] = leading
        return origin, axes


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One state of a collection.

    Attributes
    ----------
    header : Header
    images : ImageTable
    grades, estimates : ndarray of shape (n,)
        Given and estimated grades; NaN where there is none.
    intervals : ndarray of shape (n, 2)
        Lowest and highest grade of the intervals of the estimates.
    groups : Groups
    model : Model or None
        None before the first fit.
    space : EmbeddingSpace or None
        None before the first fit, and if the embeddings are searched elsewhere.
    serial : int
        Of the last transaction it contains.
    inode : int
        Of the database file it was read from.
    implied : ndarray of shape (n,)
        Grades that comparisons implied at the last training; NaN for others. They vote where none is given.
    """

    header: Header
    images: ImageTable
    grades: FloatArray
    estimates: FloatArray
    intervals: FloatArray
    groups: Groups
    model: Model | None
    space: EmbeddingSpace | None
    serial: int
    inode: int
    implied: FloatArray

    @cached_property
    def values(self) -> FloatArray:
        """Given grades (n,), else estimated ones, else NaN."""
        return np.where(np.isnan(self.grades), self.estimates, self.grades)

    @cached_property
    def orders(self) -> PictureOrders:
        """Orders of all pictures."""
        coordinates = np.full(len(self.images.ids), np.nan)
        if self.space is not None:
            coordinates[self.space.rows] = self.space.vectors[:, 0]
        times = np.array(self.images.times, dtype=np.int64)
        widths = self.intervals[:, 1] - self.intervals[:, 0]
        names, ranks = self.images.names, self.images.name_ranks
        return PictureOrders(names, ranks, times, self.values, self.estimates, widths, coordinates)

    @cached_property
    def labels(self) -> FloatArray:
        """Distinct given grades, ascending."""
        return np.unique(self.grades[~np.isnan(self.grades)])

    @cached_property
    def voting(self) -> FloatArray:
        """Grades (n,) to vote with: given ones, else implied ones, else NaN."""
        return np.where(np.isnan(self.grades), self.implied, self.grades)

    @cached_property
    def scale(self) -> FloatArray:
        """Grades to which estimates are rounded, ascending: all named ones, else the distinct ones that vote."""
        order = self.header.order
        return np.unique(self.voting[~np.isnan(self.voting)]) if order is None else np.arange(float(len(order)))

    def parse_grade(self, text: str) -> float:
        """Return the number of a grade as a user wrote it; a given grade also from its text, which has fewer digits.

        Raise InputError if it is not a grade of this collection.
        """
        value = self.header.parse_grade(text)
        if not len(self.labels):
            return value
        nearest = float(self.labels[nearest_label(self.labels, np.array([value]))[0]])
        return nearest if self.header.format_grade(nearest) == self.header.format_grade(value) else value

    def is_off_scale(self, value: float) -> bool:
        """Return whether a grade may be a mistake: outside the grades of a trained collection, or between few ones.

        With many grades, as with ages, a new one between others is nothing special.
        """
        if self.model is None or self.header.order is not None or not len(self.labels):
            return False
        is_outside = not self.labels[0] <= value <= self.labels[-1]
        return is_outside or (len(self.labels) <= _FEW_GRADES and value not in self.labels)

    def grade_range(self, request: RankRequest) -> tuple[float, float]:
        """Return the range of grades of a request as numbers. Raise InputError if it is empty or holds no grades."""
        lowest = -np.inf if request.lowest is None else self.parse_grade(request.lowest)
        highest = np.inf if request.highest is None else self.parse_grade(request.highest)
        if lowest > highest:
            raise InputError(f"{request.lowest} is above {request.highest}: the range of grades is empty")
        return lowest, highest

    @property
    def trained_model(self) -> Model:
        """The model. Raise CollectionError before the first fit."""
        if self.model is None:
            raise CollectionError(
                "the collection has no model yet; grade pictures, then train it with `ordrank fit --out COLLECTION`"
            )
        return self.model

    @property
    def has_votes(self) -> bool:
        """Whether a picture has a grade to vote with, given or implied."""
        return not np.isnan(self.voting).all()

    @property
    def searcher(self) -> Searcher:
        """Searcher of the embeddings in memory. Raise CollectionError if there are none."""
        _ = self.trained_model
        return Searcher(self, self._index)  # not cached: a cycle of references would keep replaced snapshots in memory

    @cached_property
    def _index(self) -> InMemoryIndex:
        if self.space is None:
            raise CollectionError(NO_GRADES)
        rows = self.space.rows
        embeddings = Embeddings(self.images.ids[rows], self.voting[rows], self.estimates[rows], self.space.vectors)
        return InMemoryIndex(embeddings, self.space.index)

    def warm_up(self) -> str | None:
        """Compute what the first queries need, so that forked processes share it; return the name of the model."""
        _ = self.orders.grade, self.images.by_name, self.images.by_content
        if self.space is not None:
            _ = self.space.positions, self._index.labels
        return self.header.model

    def find_row(self, picture: int | str) -> int | None:
        """Return the row of a picture by id or name, if there is one."""
        return self.images.by_name.get(picture) if isinstance(picture, str) else self.images.row(picture)

    def row_of(self, picture: int | str) -> int:
        """Return the row of a picture by id or name. Raise UnknownError if there is none."""
        row = self.find_row(picture)
        if row is None:
            raise unknown_picture(picture)
        return row

    def picture(self, row: int) -> Picture:
        """Return the picture in a row."""
        value, (lowest, highest) = float(self.values[row]), self.intervals[row].tolist()
        return Picture(
            id=int(self.images.ids[row]),
            name=self.images.names[row],
            grade=self._shown(self.grades[row]),
            estimate=self._shown(self.estimates[row]),
            lowest=self._shown(lowest),
            highest=self._shown(highest),
            value=None if np.isnan(value) else value,
            width=self.images.widths[row],
            height=self.images.heights[row],
            date=_date(self.images.times[row]),
        )

    def _shown(self, value: float) -> str | None:
        return None if np.isnan(value) else self.header.format_grade(value)

    def points(self, limit: int) -> Points:
        """Return the embedded pictures as points to display, or a fixed random sample of them."""
        if self.space is None:
            return Points(0, 0, b"")
        total = len(self.space.rows)
        chosen = np.arange(total)
        if total > limit:
            chosen = np.sort(np.random.default_rng(0).permutation(total)[:limit])
        rows = self.space.rows[chosen]
        columns = (
            self.images.ids[rows].astype("<i4"),
            self.space.positions[chosen].astype("<f4"),
            self.values[rows].astype("<f8"),
        )
        return Points(len(chosen), total, b"".join(column.tobytes() for column in columns))

    def display_position(
        self, vector: NDArray[np.float32], picture: int | None = None
    ) -> tuple[float, float, float] | None:
        """Return where to display an embedding (s + d,), or a picture of the collection."""
        if self.space is None:
            return None
        x, y, z = self.space.project(self.embedding_of(vector, picture)[None])[0].tolist()
        return x, y, z

    def embedding_of(self, vector: NDArray[np.float32], picture: int | None) -> NDArray[np.float32]:
        """Return the embedding (s + d,) of a picture of the collection as it is stored, else ``vector``."""
        own = None if picture is None or self.space is None else self.space.vector(self.row_of(picture))
        return vector if own is None else own

    def has_grade(self, value: float) -> NDArray[np.bool_]:
        """Return which pictures (n,) have a grade, given or estimated and rounded to the nearest grade."""
        if value not in self.scale:
            return np.asarray(self.values == value)
        return np.asarray((self.scale[nearest_label(self.scale, self.values)] == value) & ~np.isnan(self.values))

    def with_changes(self, changes: Sequence[GradeChange], serial: int) -> Snapshot:
        """Return the state after grade changes, up to a transaction."""
        grades = self.grades.copy()
        for picture, grade in changes:
            grades[self.images.row(picture)] = np.nan if grade is None else grade
        return replace(self, grades=grades, serial=serial)


def take_snapshot(
    directory: Path, previous: Snapshot | None = None, *, changed: bool = True, load_vectors: bool = True
) -> Snapshot:
    """Read the state of a collection, reusing what has not changed since a previous snapshot.

    Parameters
    ----------
    directory : Path
    previous : Snapshot, optional
    changed : bool
        Whether something is known to have changed: if the log does not say what, everything is read again.
    load_vectors : bool
        Whether to read and index the embeddings.
    """
    check_exists(directory)
    inode = inode_of(directory)
    with read_store(directory) as store:
        if previous is not None and previous.inode == inode:
            changes = store.changes_since(previous.serial)
            if changes:
                return previous.with_changes(changes, store.serial)
            if changes is not None and not changed:
                return previous
        store.check_counts()
        store.check_rows()
        columns: list[tuple[object, ...]] = list(zip(*store.summary_rows(), strict=True)) or [()] * 11
        ids, names, sha256, widths, heights, times, *numbers, groups = columns
        columns_of_grades = float_table(list(zip(*numbers, strict=True)), 4)
        images = ImageTable(np.array(ids, dtype=np.int64), names, sha256, widths, heights, times)  # type: ignore[arg-type]
        if previous is not None and len(images.ids) == len(previous.images.ids) and images.extends(previous.images):
            images = previous.images
        model = _model(store, previous)
        return Snapshot(
            store.header,
            images,
            columns_of_grades[:, 0],
            columns_of_grades[:, 1],
            columns_of_grades[:, 2:],
            Groups.from_names(images.ids, groups),  # type: ignore[arg-type]
            model,
            _space(store, images, model, previous) if load_vectors else None,
            store.serial,
            inode,
            store.with_implied(images.ids, np.full(len(images.ids), np.nan)),
        )


def inode_of(directory: Path) -> int:
    """Return the inode of the database, which changes when the file is replaced."""
    return (directory / DATABASE).stat().st_ino


def unknown_picture(picture: int | str) -> UnknownError:
    """Build the error for an id or name that does not exist."""
    described = f"named {picture!r}" if isinstance(picture, str) else f"with the id {picture}"
    return UnknownError(f"the collection has no picture {described}")


def _model(store: Store, previous: Snapshot | None) -> Model | None:
    if store.header.model is None:
        return None
    if previous is not None and previous.header.model == store.header.model:
        return previous.model
    return current_model(store.directory, store.header)


def _space(store: Store, images: ImageTable, model: Model | None, previous: Snapshot | None) -> EmbeddingSpace | None:
    embedded = store.embedded_ids()
    rows = np.searchsorted(images.ids, embedded)
    if not np.isin(embedded, images.ids, assume_unique=True).all():
        raise sqlite3.DatabaseError("embeddings names a picture that does not exist")
    if model is None or not len(rows):
        return None
    space = None if previous is None or previous.model is not model else previous.space
    if space is not None and previous is not None and images.extends(previous.images):
        n = len(space.rows)
        if np.array_equal(rows, space.rows):
            return space
        if np.array_equal(rows[:n], space.rows):  # read what was added: it was in no fit
            added = store.vectors(len(rows) - n, range(int(images.ids[rows[n]]), ALL_IDS.stop))
            vectors = np.vstack([space.vectors, added])
            return replace(space, rows=rows, vectors=vectors, index=ExactIndex(vectors, model.n_order))
    vectors, (ids, held_out) = store.vectors(len(rows)), store.held_out(model.n_held_out)
    model.check_embeddings(vectors)
    index, held_out_rows = ExactIndex(vectors, model.n_order), np.searchsorted(images.ids, ids)
    return EmbeddingSpace(rows, vectors, model.n_order, index, held_out_rows, held_out)


def _date(nanoseconds: int) -> str:
    """Return a time as ISO 8601; empty if it is beyond those of a calendar."""
    try:
        return datetime.fromtimestamp(nanoseconds // 10**9, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return ""


def _principal_axes(sample: FloatArray, n_axes: int) -> FloatArray:
    """Return leading principal axes as columns (d, at most n_axes), signed so that their largest entry is positive."""
    centred = sample - sample.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    axes = vectors[:, ::-1][:, :n_axes]
    if not axes.size:
        return axes
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    return np.where(largest < 0, -axes, axes)
