"""Search among graded embeddings, in memory or in parts whose hits are merged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.errors import InputError
from ordrank.metrics import nearest_label
from ordrank.neighbors.index import ExactIndex, Selection


@dataclass(frozen=True)
class Embeddings:
    """Embedded samples."""

    ids: IntArray  # (n,), ascending
    grades: FloatArray  # (n,), NaN where unknown
    estimates: FloatArray  # (n,), estimated grades
    vectors: NDArray[np.float32]  # (n, s + d)

    def row_of(self, id_: int) -> int | None:
        """Return the row of an id, None if it is absent."""
        row = int(np.searchsorted(self.ids, id_))
        return row if row < len(self.ids) and self.ids[row] == id_ else None


@dataclass(frozen=True, eq=False)
class Filter:
    """Search filter by grade; estimated grades count where the grade is unknown."""

    graded_only: bool = False  # exactly the samples with a known grade; excludes the other conditions
    lowest: float = -np.inf  # range of grades, inclusive
    highest: float = np.inf
    nearest_to: tuple[FloatArray, int] | None = None  # ascending labels, and the index of the nearest one required

    def __post_init__(self) -> None:
        if self.graded_only and (self.lowest > -np.inf or self.highest < np.inf or self.nearest_to is not None):
            raise InputError("graded_only excludes other conditions of a filter")

    def allowed(self, grades: FloatArray) -> NDArray[np.bool_]:
        """Return the mask (n,) of grades that pass; ``graded_only`` is applied by the index, which knows the grades."""
        allowed: NDArray[np.bool_] = (grades >= self.lowest) & (grades <= self.highest)
        if self.nearest_to is not None:
            labels, label = self.nearest_to
            allowed &= nearest_label(labels, grades) == label
        return allowed


ALL, GRADED_ONLY = Filter(), Filter(graded_only=True)


@dataclass(frozen=True)
class Hits:
    """Nearest embeddings of each query, nearest first, ties by id."""

    total: int  # number of embeddings that pass the filter
    ids: IntArray  # (q, k), k at most the total
    grades: FloatArray  # (q, k), NaN where unknown
    distances: FloatArray  # (q, k)

    def row(self, i: int) -> Hits:
        """Return the hits of one query."""
        rows = slice(i, i + 1)
        return Hits(self.total, self.ids[rows], self.grades[rows], self.distances[rows])


class VectorIndex(Protocol):
    """A searchable set of graded embeddings."""

    @property
    def labels(self) -> FloatArray:
        """Distinct known grades, ascending."""

    def nearest(
        self, queries: NDArray[np.floating], k: int, where: Filter = ALL, *, exclude: int | None = None
    ) -> Hits:
        """Return the k nearest embeddings of queries (q, s + d), without the id ``exclude``; k = 0 only counts them."""

    def take(self, ids: IntArray) -> NDArray[np.floating]:
        """Return the vectors (m, s + d) of these ids."""


class InMemoryIndex:
    """:class:`VectorIndex` of embeddings in memory, given an :class:`ExactIndex` of their vectors."""

    def __init__(self, embeddings: Embeddings, index: ExactIndex) -> None:
        self.embeddings, self.index = embeddings, index

    @cached_property
    def labels(self) -> FloatArray:
        """Distinct known grades, ascending."""
        return np.unique(self.embeddings.grades[self._is_graded])

    def nearest(
        self, queries: NDArray[np.floating], k: int, where: Filter = ALL, *, exclude: int | None = None
    ) -> Hits:
        """Return the k nearest embeddings of each query, see :class:`VectorIndex`."""
        selection, row = self._selection(where), None if exclude is None else self.embeddings.row_of(exclude)
        excluded = row is not None and (selection.allowed is None or bool(selection.allowed[row]))
        total = selection.size - excluded
        k = min(k, total)
        if not k:
            nothing = np.empty((len(queries), 0))
            return Hits(total, nothing.astype(np.int64), nothing, nothing)
        # Dropping one of k + 1 hits is cheaper than a selection without it.
        rows, distances = self.index.nearest(queries, k + excluded, allowed=selection)
        if excluded:
            others = np.argsort(rows == row, axis=1, kind="stable")[:, :k]
            rows, distances = np.take_along_axis(rows, others, axis=1), np.take_along_axis(distances, others, axis=1)
        return Hits(total, self.embeddings.ids[rows], self.embeddings.grades[rows], distances)

    def take(self, ids: IntArray) -> NDArray[np.floating]:
        """Return the vectors (m, s + d) of these ids."""
        return self.embeddings.vectors[np.searchsorted(self.embeddings.ids, ids)]

    def _selection(self, where: Filter) -> Selection:
        if where.graded_only:
            return self._graded
        lowest, highest = self._grade_range
        if where.nearest_to is None and where.lowest <= lowest and highest <= where.highest:
            return self.index.select(None)
        return self.index.select(where.allowed(self._grades))

    @cached_property
    def _is_graded(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.embeddings.grades)

    @cached_property
    def _graded(self) -> Selection:
        return self.index.select(None if self._is_graded.all() else self._is_graded)

    @cached_property
    def _grades(self) -> FloatArray:
        """Known grades, estimates where unknown."""
        return np.where(self._is_graded, self.embeddings.grades, self.embeddings.estimates)

    @cached_property
    def _grade_range(self) -> tuple[float, float]:
        """Lowest and highest grade; NaN, which no range includes, if a sample has neither grade nor estimate."""
        return float(self._grades.min()), float(self._grades.max())


def merge(k: int, *parts: Hits) -> Hits:
    """Merge the hits of the same queries in disjoint parts, keeping the k nearest."""
    ids, grades, distances = (
        np.concatenate([getattr(part, name) for part in parts], axis=1) for name in ("ids", "grades", "distances")
    )
    best = np.lexsort((ids, distances), axis=1)[:, :k]
    nearest = (np.take_along_axis(column, best, axis=1) for column in (ids, grades, distances))
    return Hits(sum(part.total for part in parts), *nearest)
