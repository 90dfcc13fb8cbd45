"""One state of a collection in memory, which never changes, and how the next one is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.collection.answering import Comparer
from ordrank.collection.changes import Correction
from ordrank.collection.database import DATABASE, must_exist
from ordrank.collection.index import ExactIndex
from ordrank.collection.model_file import Model
from ordrank.collection.records import Header, Places
from ordrank.collection.searching import SearchedPlaces, nearest_label
from ordrank.collection.store import Store, read_store
from ordrank.collection.training import error_of, model_of
from ordrank.errors import CollectionError

# Rows from which the axes of the view are found.
_SAMPLE_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Album:
    """What stays the same of pictures when their grades change.

    Attributes
    ----------
    ids : ndarray of shape (n,)
        Rising.
    names, sha256 : tuple of str
    widths, heights : tuple of int
    """

    ids: IntArray
    names: tuple[str, ...]
    sha256: tuple[str, ...]
    widths: tuple[int, ...]
    heights: tuple[int, ...]

    def holds_what(self, other: Album) -> bool:
        """Whether the other one has the same pictures with the same content."""
        same_texts = self.names == other.names and self.sha256 == other.sha256
        return same_texts and np.array_equal(self.ids, other.ids)

    def row(self, number: int) -> int | None:
        """Row of the picture of that number."""
        row = int(np.searchsorted(self.ids, number))
        return row if row < len(self.ids) and self.ids[row] == number else None

    @cached_property
    def by_content(self) -> dict[str, int]:
        """Rows by SHA-256."""
        return {digest: row for row, digest in enumerate(self.sha256)}

    @cached_property
    def rank_of_name(self) -> IntArray:
        """Where each row comes when all are sorted by name."""
        ranks = np.empty(len(self.names), dtype=np.int64)
        ranks[sorted(range(len(self.names)), key=self.names.__getitem__)] = np.arange(len(self.names))
        return ranks


@dataclass(frozen=True, eq=False)
class Space:
    """Pictures in the learned space.

    Attributes
    ----------
    model : Model
    rows : ndarray of shape (m,)
        Which rows of the album have a place.
    vectors : ndarray of shape (m, s + d)
    index : ExactIndex
    """

    model: Model
    rows: IntArray
    vectors: NDArray[np.float32]
    index: ExactIndex

    @cached_property
    def positions(self) -> NDArray[np.float32]:
        """Where to show each, (m, 3)."""
        return self.view(self.vectors)

    def place_of(self, row: int) -> NDArray[np.float32] | None:
        """Where the picture in that row of the album is, (s + d,); None if it has no place yet."""
        place = int(np.searchsorted(self.rows, row))
        return self.vectors[place] if place < len(self.rows) and self.rows[place] == row else None

    def view(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Places (q, s + d) to where they are shown, (q, 3)."""
        origin, axes = self._frame
        return np.asarray((vectors - origin) @ axes, dtype=np.float32)

    @cached_property
    def _frame(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Origin and axes: the leading coordinates of the order, then the widest directions of the appearance."""
        width, n_order = self.vectors.shape[1], self.model.n_order
        origin, axes = np.zeros(width, dtype=np.float32), np.eye(width, 3, dtype=np.float32)
        if n_order < 3:
            sample = self.vectors[:: -(-len(self.vectors) // _SAMPLE_ROWS), n_order:].astype(np.float64)
            origin[n_order:] = sample.mean(axis=0)
            axes[:, n_order:] = 0.0
            widest = _widest_directions(sample, 3 - n_order)
            axes[n_order:, n_order : n_order + widest.shape[1]] = widest
        return origin, axes


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One state of a collection.

    Attributes
    ----------
    header : Header
    album : Album
    space : Space or None
        None before the first fit.
    grades, estimates : ndarray of shape (n,)
        Given and estimated grades in the rows of the album; NaN where there is none.
    fitted : str or None
        When the model was trained.
    error : float or None
        Of the grades of pictures that were left out of it.
    changed : int
        Pictures whose grade is another one than then.
    serial : int
        Of the last transaction that it knows.
    file : int
        Which file it was read from.
    """

    header: Header
    album: Album
    space: Space | None
    grades: FloatArray
    estimates: FloatArray
    fitted: str | None
    error: float | None
    changed: int
    serial: int
    file: int

    @cached_property
    def values(self) -> FloatArray:
        """Given grades, and estimated ones where none was given; NaN where there is neither."""
        return np.where(np.isnan(self.grades), self.estimates, self.grades)

    @cached_property
    def in_order(self) -> IntArray:
        """Rows by grade, then by name; those without a grade come last."""
        return np.lexsort((self.album.rank_of_name, self.values))

    @cached_property
    def labels(self) -> FloatArray:
        """Grades that were given, rising."""
        return np.unique(self.grades[~np.isnan(self.grades)])

    @cached_property
    def comparer(self) -> Comparer:
        """What answers queries."""
        space = self.trained
        ids, rows = self.album.ids[space.rows], space.rows
        places = Places(ids, self.grades[rows], self.estimates[rows], space.vectors)
        return Comparer(SearchedPlaces(places, space.index), space.model)

    @property
    def trained(self) -> Space:
        """The learned space, which there must be."""
        if self.space is None:
            raise CollectionError("the collection has no model yet; train it first")
        return self.space

    def corrected(self, corrections: Sequence[Correction], changed: int, serial: int) -> Snapshot:
        """Return the state after some pictures got other grades; ``changed`` and ``serial`` are its own."""
        grades, estimates = self.grades.copy(), self.estimates.copy()
        for number, grade, estimate in corrections:
            row = self.album.row(number)
            grades[row] = np.nan if grade is None else grade
            estimates[row] = np.nan if estimate is None else estimate
        return replace(self, grades=grades, estimates=estimates, changed=changed, serial=serial)

    def of_grade(self, value: float) -> NDArray[np.bool_]:
        """Which pictures count as those of a grade, (n,): as they are shown, or those that are nearest to it."""
        if self.header.order is not None:
            shown = np.clip(np.ceil(self.values - 0.5), 0, len(self.header.order) - 1)
            return np.asarray(shown == value)
        if value not in self.labels:
            return np.asarray(self.values == value)
        nearest = self.labels[nearest_label(self.labels, self.values)]
        return np.asarray((nearest == value) & ~np.isnan(self.values))


def take_snapshot(directory: Path, before: Snapshot | None = None, *, noticed: bool = True) -> Snapshot:
    """Read the state of a collection; what has not changed since the one before is taken from there.

    Parameters
    ----------
    directory : Path
    before : Snapshot, optional
        An earlier state.
    noticed : bool
        Whether something is known to have changed: if no transaction tells what, everything is read again.
    """
    must_exist(directory)
    file = file_number(directory)
    with read_store(directory) as store:
        if before is not None and before.file == file:
            corrections = store.corrections_since(before.serial)
            if corrections:
                return before.corrected(corrections, store.count_changed(), store.serial)
            if corrections is not None and not noticed:
                return before
        columns: list[tuple[object, ...]] = list(zip(*store.listing(), strict=True)) or [()] * 7
        ids, names, sha256, widths, heights, grades, estimates = columns
        album = Album(np.array(ids, dtype=np.int64), names, sha256, widths, heights)  # type: ignore[arg-type]
        if before is not None and album.holds_what(before.album):
            album = before.album
        return Snapshot(
            store.header,
            album,
            _space(store, album, before),
            np.array(grades, dtype=np.float64),
            np.array(estimates, dtype=np.float64),
            store.state("fitted"),
            error_of(store),
            store.count_changed(),
            store.serial,
            file,
        )


def file_number(directory: Path) -> int:
    """Return what tells a file from one that was put in its place."""
    return (directory / DATABASE).stat().st_ino


def _space(store: Store, album: Album, before: Snapshot | None) -> Space | None:
    if store.header.model is None:
        return None
    rows = np.searchsorted(album.ids, store.placed())
    if not len(rows):
        return None
    if before is not None and before.space is not None and before.header.model == store.header.model:
        same_model = before.space.model
        if album is before.album and np.array_equal(rows, before.space.rows):
            return before.space
    else:
        same_model = model_of(store)
    vectors = store.places().vectors
    return Space(same_model, rows, vectors, ExactIndex(vectors, same_model.n_order))


def _widest_directions(sample: FloatArray, most: int) -> FloatArray:
    """Leading principal axes as columns, (d, at most most); signs are those of their largest entries."""
    centred = sample - sample.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    axes = vectors[:, ::-1][:, :most]
    if not axes.size:
        return axes
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    return np.where(largest < 0, -axes, axes)
