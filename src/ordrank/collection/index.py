r"""Exact nearest neighbours among many vectors z = [Lx, λx], most of which are never looked at.

The first coordinates of a vector say where it lies in the order, the others what it looks like, and

.. math:: d^2 = \|\text{order difference}\|^2 + \|\text{appearance difference}\|^2 .

A difference in a few coordinates alone is never more than d. So the vectors are split into leaves, boxes in the
order and in the widest coordinates of the appearance, and a query visits leaves by rising distance to their box until
no other box is nearer than the k-th best vector found so far. How the vectors of a leaf are compared is the matter of
:mod:`ordrank.collection.comparing`; identical vectors are searched once (:mod:`ordrank.collection.copies`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.collection.comparing import DOUBLE_ERROR, MANY, Candidates, Search, pack_region, sample
from ordrank.collection.copies import find_copies
from ordrank.errors import InputError
from ordrank.neighbors import k_nearest

# Rows of a leaf: fewer would prune better, but the calls would then cost more than the products.
_LEAF_ROWS = 1024
# Leaves of a region, the vectors with a common centre: many, because no product reaches beyond a region.
_REGION_LEAVES = 256
# Coordinates of the appearance that bound a leaf, and of a box in all.
_APPEARANCE_BOUNDS = 8
_MOST_BOUNDS = 16
# Each round visits so many times the leaves of the round before: rounds are few, and a poor first bound costs little.
_GROWTH = 8
# Beyond this part of the leaves there is nothing to gain from leaving out the others.
_MOST_OF = 0.6
# Elements of the largest temporary array of a search.
_BLOCK_ELEMENTS = 4_000_000
# So few allowed rows, or such a part of all, are compared with the query directly.
_FEW_ROWS = 2048
_FEW_PART = 1 / 200
# Squares of larger differences would overflow in double precision.
_LARGEST = 1e150


@dataclass(frozen=True, eq=False)
class Selection:
    """Which rows of an index may be found, prepared for many searches.

    Attributes
    ----------
    allowed : ndarray of shape (n,), bool, or None
        None: all.
    size : int
        How many.
    labels : ndarray of shape (u,)
        Row number that stands for each place; n where none is allowed. Empty, like the counts, where so few are allowed
        that no leaf is looked at.
    counts : ndarray of shape (leaves,)
        How many places of a leaf have one.
    """

    allowed: NDArray[np.bool_] | None
    size: int
    labels: IntArray
    counts: IntArray


class ExactIndex:
    """Nearest neighbours in double precision, ties by row number.

    Parameters
    ----------
    vectors : ndarray of shape (n, s + d), float32 or float64
        Order part first. Kept and read by every search, so it must not change; it may be mapped from a file. The
        index itself takes one copy in single precision.
    n_order : int
        s, the coordinates of the order part.
    """

    def __init__(self, vectors: NDArray[np.floating], n_order: int) -> None:
        self._vectors, limits = _checked_vectors(vectors)
        n, width = self._vectors.shape
        if not 0 <= n_order <= width:
            raise InputError(f"n_order must be between 0 and the width of the vectors, {width}; it is {n_order}")
        self._watched = _bounding_coordinates(self._vectors, n_order)
        watched = np.ascontiguousarray(self._vectors[:, self._watched])
        self._copies = find_copies(self._vectors, watched, _BLOCK_ELEMENTS)
        distinct = np.arange(n) if self._copies is None else self._copies.first
        self._rows, self._leaves = _split(watched, distinct)
        boxed = watched[self._rows]
        self._low = np.minimum.reduceat(boxed, self._leaves[:-1], axis=0).astype(np.float64)
        self._high = np.maximum.reduceat(boxed, self._leaves[:-1], axis=0).astype(np.float64)
        self._regions = [
            pack_region(self._vectors, self._rows[start:stop], start, limits)
            for start, stop in pairwise([*self._leaves[:-1:_REGION_LEAVES].tolist(), len(self._rows)])
        ]
        self._everything = Selection(None, n, self._rows, np.diff(self._leaves))

    def __len__(self) -> int:
        return len(self._vectors)

    def select(self, allowed: NDArray[np.bool_] | None) -> Selection:
        """Prepare to find some rows only.

        Parameters
        ----------
        allowed : ndarray of shape (n,), bool, or None
            Which; None: all.
        """
        if allowed is None:
            return self._everything
        if allowed.shape != (len(self),) or allowed.dtype != np.bool_:
            raise InputError(f"allowed must hold one truth value for each of the {len(self)} rows")
        size = int(np.count_nonzero(allowed))
        if self._are_few(size):
            return Selection(allowed, size, self._rows[:0], self._leaves[:0])
        if self._copies is None:
            labels = np.where(allowed[self._rows], self._rows, len(self))
        else:
            labels = self._copies.first_allowed(allowed)[self._copies.group[self._rows]]
        counts = np.add.reduceat(labels < len(self), self._leaves[:-1], dtype=np.int64)
        return Selection(allowed, size, labels, counts)

    def nearest(
        self, queries: NDArray[np.floating], k: int, *, allowed: NDArray[np.bool_] | Selection | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Rows nearest to each query, and their distances.

        Parameters
        ----------
        queries : ndarray of shape (q, s + d)
        k : int
            At least one.
        allowed : ndarray of shape (n,), bool, or Selection, optional
            Which rows may be found; all by default.

        Returns
        -------
        indices : ndarray of shape (q, k)
            Nearest first, equal distances by row number; -1 where fewer than k rows are allowed.
        distances : ndarray of shape (q, k)
            In double precision; infinite where the index is -1.
        """
        queries = self._checked_queries(queries)
        if k < 1:
            raise InputError(f"k must be at least 1; it is {k}")
        chosen = allowed if isinstance(allowed, Selection) else self.select(allowed)
        indices = np.full((len(queries), k), -1, dtype=np.int64)
        distances = np.full((len(queries), k), np.inf)
        found = min(k, chosen.size)
        if found == 0 or len(queries) == 0:
            return indices, distances
        if self._are_few(chosen.size):
            rows = np.arange(len(self)) if chosen.allowed is None else np.flatnonzero(chosen.allowed)
            nearest, distances[:, :found] = k_nearest(self._vectors[rows].astype(np.float64), queries, found)
            indices[:, :found] = rows[nearest]
            return indices, distances
        at_once = max(1, _BLOCK_ELEMENTS // max(len(chosen.counts), 4 * found))
        for start in range(0, len(queries), at_once):
            part = slice(start, start + at_once)
            search = Search(self._vectors, self._rows, chosen.labels, queries[part], found, _BLOCK_ELEMENTS)
            self._visit_leaves(search, chosen.counts)
            indices[part, :found], distances[part, :found] = self._with_copies(search, chosen.allowed)
        return indices, distances

    def _are_few(self, n_rows: int) -> bool:
        """Whether rows are so few that they are compared one by one, without looking at leaves."""
        return n_rows <= max(_FEW_ROWS, _FEW_PART * len(self))

    def _checked_queries(self, queries: NDArray[np.floating]) -> FloatArray:
        queries = np.asarray(queries)
        if queries.ndim != 2 or queries.shape[1] != self._vectors.shape[1]:
            raise InputError(
                f"queries must have two dimensions and {self._vectors.shape[1]} columns like the vectors of the "
                f"index; their shape is {queries.shape}"
            )
        asked: FloatArray = queries.astype(np.float64, copy=False)
        if not (np.abs(asked) <= _LARGEST).all():
            raise InputError(f"queries hold NaN or numbers beyond {_LARGEST:g}; leave such vectors out")
        return asked

    def _box_distances(self, queries: FloatArray) -> FloatArray:
        """Squared distance of each query to the box of each leaf: (q, leaves)."""
        squared = np.zeros((len(queries), len(self._low)))
        for column, coordinate in enumerate(self._watched):
            asked = queries[:, coordinate, None]
            gap = np.maximum(self._low[:, column] - asked, asked - self._high[:, column])
            np.maximum(gap, 0.0, out=gap)
            squared += np.square(gap, out=gap)
        return squared

    def _visit_leaves(self, search: Search, counts: IntArray) -> None:
        """Visit leaves in rounds, nearest boxes first, until no box is nearer than the k-th best."""
        bounds = self._box_distances(search.queries) * (1 - DOUBLE_ERROR)
        bounds[:, counts == 0] = np.inf
        order = np.argsort(bounds, axis=1)
        bounds = np.take_along_axis(bounds, order, axis=1)
        # The first round must find k rows for every query, and not just any k.
        too_few = np.cumsum(counts[order], axis=1) < MANY * search.k
        begin, end = 0, int(np.count_nonzero(too_few, axis=1).max()) + 1
        while begin < len(counts):
            wanted = (bounds[:, begin:] <= search.worst[:, None]) & np.isfinite(bounds[:, begin:])
            if begin and np.mean(wanted) > _MOST_OF:
                end = len(counts)  # the boxes rule out little: the rest in as few products as possible
            wanted[:, end - begin :] = False
            if not wanted.any():
                break
            visits = np.zeros(order.shape, dtype=np.bool_)
            np.put_along_axis(visits, order[:, begin:], wanted, axis=1)
            search.propose(self._products(search, _whole_regions(visits)))
            begin, end = end, end * _GROWTH

    def _products(self, search: Search, visits: NDArray[np.bool_]) -> Iterator[Candidates]:
        """Candidates of all leaves to visit."""
        for first, last, asking in _runs(visits):
            region = self._regions[first // _REGION_LEAVES]
            yield from search.compare(region, asking, slice(int(self._leaves[first]), int(self._leaves[last])))

    def _with_copies(self, search: Search, allowed: NDArray[np.bool_] | None) -> tuple[IntArray, FloatArray]:
        """Rows and distances that a search found, (q, k), every copy of a vector counted."""
        rows, distances = search.label, np.sqrt(search.squared)
        if self._copies is None:
            return rows, distances
        for query in range(len(rows)):
            known = np.isfinite(distances[query])
            expanded = self._copies.of(rows[query, known], distances[query, known], search.k, allowed)
            rows[query], distances[query] = expanded
        return rows, distances


def _checked_vectors(vectors: NDArray[np.floating]) -> tuple[NDArray[np.floating], FloatArray]:
    """Vectors (n, s + d) in a precision that is searched, and least and largest of each coordinate: (2, s + d)."""
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise InputError(f"vectors must have two dimensions, rows and columns; their shape is {vectors.shape}")
    if vectors.dtype not in (np.float32, np.float64):
        vectors = vectors.astype(np.float64)
    limits = np.stack([vectors.min(axis=0), vectors.max(axis=0)]).astype(np.float64)
    if not (np.abs(limits) <= _LARGEST).all():
        raise InputError(f"vectors hold NaN or numbers beyond {_LARGEST:g}; leave such rows out")
    return vectors, limits


def _bounding_coordinates(vectors: NDArray[np.floating], n_order: int) -> IntArray:
    """Coordinates of the boxes: the order, and the widest of the appearance."""
    spread = vectors[sample(np.arange(len(vectors)))].std(axis=0, dtype=np.float64)
    spread[:n_order] += spread.max()
    widest = np.argsort(-spread, kind="stable")
    return widest[: min(n_order + _APPEARANCE_BOUNDS, _MOST_BOUNDS)]


def _split(watched: NDArray[np.floating], rows: IntArray) -> tuple[IntArray, IntArray]:
    """Rows in the order of the leaves, and where each leaf begins: halves of halves along the widest coordinate.

    Parameters
    ----------
    watched : ndarray of shape (n, c)
        The coordinates of the boxes.
    rows : ndarray of shape (u,)
        What to split.

    Returns
    -------
    rows : ndarray of shape (u,)
    starts : ndarray of shape (leaves + 1,)
    """
    waiting, leaves = [rows], []
    while waiting:
        part = waiting.pop()
        if len(part) <= _LEAF_ROWS:
            leaves.append(np.sort(part))
            continue
        n_left = _LEAF_ROWS * (-(-len(part) // _LEAF_ROWS) // 2)
        widest = int(watched[sample(part)].std(axis=0, dtype=np.float64).argmax())
        halves = np.argpartition(watched[part, widest], n_left)
        waiting += [part[halves[n_left:]], part[halves[:n_left]]]
    starts = np.cumsum([0, *(len(leaf) for leaf in leaves)])
    return np.concatenate(leaves), starts


def _runs(visits: NDArray[np.bool_]) -> Iterator[tuple[int, int, IntArray]]:
    """Neighbouring leaves of a region that the same queries visit: first, last + 1, and those queries."""
    n_leaves = visits.shape[1]
    changes = np.any(visits[:, 1:] != visits[:, :-1], axis=0)
    changes[_REGION_LEAVES - 1 :: _REGION_LEAVES] = True
    for first, last in pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), n_leaves]):
        asking = np.flatnonzero(visits[:, first])
        if len(asking):
            yield first, last, asking


def _whole_regions(visits: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Visit all leaves of a region where most are wanted: one product is cheaper than many."""
    starts = np.arange(0, visits.shape[1], _REGION_LEAVES)
    sizes = np.diff(np.append(starts, visits.shape[1]))
    most = np.add.reduceat(visits, starts, axis=1, dtype=np.int64) > _MOST_OF * sizes
    return visits | np.repeat(most, sizes, axis=1)
