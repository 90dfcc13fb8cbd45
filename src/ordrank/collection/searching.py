"""Graded places that can be searched: all of them here, or in parts whose answers are merged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.collection.index import ExactIndex, Selection
from ordrank.collection.records import Places


@dataclass(frozen=True, eq=False)
class Among:
    """Which places may be found, by their grades; estimated grades count where none was given.

    Attributes
    ----------
    given : bool
        All those, and only those, whose grade was given; nothing else matters then.
    lowest, highest : float
        Only those with grades in between, both included.
    nearest_to : (ndarray of shape (labels,), int), optional
        Labels, rising, and which of them must be the nearest one to a grade.
    """

    given: bool = False
    lowest: float = -np.inf
    highest: float = np.inf
    nearest_to: tuple[FloatArray, int] | None = None

    def allowed(self, grades: FloatArray) -> NDArray[np.bool_]:
        """Which grades (n,) qualify."""
        allowed: NDArray[np.bool_] = (grades >= self.lowest) & (grades <= self.highest)
        if self.nearest_to is not None:
            labels, wanted = self.nearest_to
            allowed &= nearest_label(labels, grades) == wanted
        return allowed


ALL, GIVEN = Among(), Among(given=True)


@dataclass(frozen=True)
class Found:
    """Places nearest to queries, nearest first, equal distances by number.

    Attributes
    ----------
    total : int
        How many may be found.
    ids, grades, distances : ndarray of shape (q, k)
        Their numbers, given grades (NaN where there is none) and distances; k is never more than the total.
    """

    total: int
    ids: IntArray
    grades: FloatArray
    distances: FloatArray


class Searchable(Protocol):
    """Graded places, wherever they are."""

    @property
    def labels(self) -> FloatArray:
        """Grades that were given, rising."""
        ...

    def nearest(self, queries: NDArray[np.floating], k: int, among: Among = ALL, *, but: int | None = None) -> Found:
        """The k places nearest to each query.

        Parameters
        ----------
        queries : ndarray of shape (q, s + d)
        k : int
            0 only counts those that may be found.
        among : Among
        but : int, optional
            Number of a place that is not found.
        """
        ...

    def take(self, ids: IntArray) -> NDArray[np.floating]:
        """Vectors (m, s + d) of the places with these numbers."""
        ...


class SearchedPlaces:
    """Places in the memory of this machine.

    Parameters
    ----------
    places : Places
    index : ExactIndex
        Of their vectors.
    """

    def __init__(self, places: Places, index: ExactIndex) -> None:
        self.places, self.index = places, index

    @cached_property
    def labels(self) -> FloatArray:
        """Grades that were given, rising."""
        return np.unique(self.places.grades[self._given])

    def nearest(self, queries: NDArray[np.floating], k: int, among: Among = ALL, *, but: int | None = None) -> Found:
        """The k places nearest to each query, see :class:`Searchable`."""
        chosen, row = self._selection(among), None if but is None else self.places.row_of(but)
        left_out = row is not None and (chosen.allowed is None or bool(chosen.allowed[row]))
        total = chosen.size - left_out
        k = min(k, total)
        if not k:
            nothing = np.empty((len(queries), 0))
            return Found(total, nothing.astype(np.int64), nothing, nothing)
        # One more than wanted: leaving one out afterwards is cheaper than a search without it.
        rows, distances = self.index.nearest(queries, k + left_out, allowed=chosen)
        if left_out:
            others = np.argsort(rows == row, axis=1, kind="stable")[:, :k]
            rows, distances = np.take_along_axis(rows, others, axis=1), np.take_along_axis(distances, others, axis=1)
        return Found(total, self.places.ids[rows], self.places.grades[rows], distances)

    def take(self, ids: IntArray) -> NDArray[np.floating]:
        """Vectors (m, s + d) of the places with these numbers."""
        return self.places.vectors[np.searchsorted(self.places.ids, ids)]

    def _selection(self, among: Among) -> Selection:
        if among.given:
            return self._voting
        lowest, highest = self._span
        if among.nearest_to is None and among.lowest <= lowest and highest <= among.highest:
            return self.index.select(None)
        return self.index.select(among.allowed(self._grades))

    @cached_property
    def _given(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.places.grades)

    @cached_property
    def _voting(self) -> Selection:
        return self.index.select(None if self._given.all() else self._given)

    @cached_property
    def _grades(self) -> FloatArray:
        """Given grades, and estimated ones where none was given."""
        return np.where(self._given, self.places.grades, self.places.estimates)

    @cached_property
    def _span(self) -> tuple[float, float]:
        """Lowest and highest grade; NaN, which no bound holds for, if a place has neither grade nor estimate."""
        return float(self._grades.min()), float(self._grades.max())


def merge(k: int, *parts: Found) -> Found:
    """The k best of the answers to the same queries from parts that have no place in common."""
    ids, grades, distances = (
        np.concatenate([getattr(part, name) for part in parts], axis=1) for name in ("ids", "grades", "distances")
    )
    best = np.lexsort((ids, distances), axis=1)[:, :k]
    nearest = (np.take_along_axis(column, best, axis=1) for column in (ids, grades, distances))
    return Found(sum(part.total for part in parts), *nearest)


def nearest_label(labels: FloatArray, grades: FloatArray) -> IntArray:
    """Position of the nearest label, the lower one half-way."""
    upper = np.minimum(np.searchsorted(labels, grades), len(labels) - 1)
    lower = np.maximum(upper - 1, 0)
    return np.where(labels[upper] - grades < grades - labels[lower], upper, lower)
