r"""Exact nearest neighbours among many vectors z = [f(x), λx], most of which are never compared.

The first coordinates of a vector encode the order, the others the appearance, and

.. math:: d^2 = \|\text{ordinal difference}\|^2 + \|\text{appearance difference}\|^2 .

A distance in a subset of the coordinates is a lower bound of d. As in a k-d tree (Friedman, Bentley & Finkel 1977), the
vectors are split into leaves, boxes in the ordinal coordinates and the appearance coordinates of largest spread, and a
query visits leaves by ascending distance to their box until no box is nearer than the k-th best vector so far. The
vectors of a leaf are compared by :mod:`ordrank.neighbors._leaf_search`; identical vectors are searched once
(:mod:`ordrank.neighbors._duplicates`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.errors import InputError
from ordrank.neighbors._duplicates import find_duplicates
from ordrank.neighbors._leaf_search import (
    DOUBLE_ERROR,
    MANY_CANDIDATES,
    Candidates,
    LeafSearch,
    evenly_spaced,
    pack_region,
)
from ordrank.neighbors.exact import k_nearest

# Rows of a leaf: smaller leaves prune better, but calls would cost more than products.
_LEAF_ROWS = 1024
# Leaves of a region, the vectors with a common centre: many, because no product spans two regions.
_REGION_LEAVES = 256
# Appearance coordinates of a box, and coordinates of a box in all.
_APPEARANCE_BOUNDS = 8
_MAX_BOUNDS = 16
# Factor of visited leaves from round to round: few rounds, and a poor first bound costs little.
_GROWTH = 8
# Above this share of leaves, visit all of them.
_MOST = 0.6
# Queries searched together: of more, candidates do not fit the cache.
_QUERIES_PER_BLOCK = 512
# Queries that are worth a thread, and the largest number of threads.
_QUERIES_PER_THREAD = 64
_MAX_THREADS = 8
# Elements of the largest temporary array of a search.
_BLOCK_ELEMENTS = 4_000_000
# Up to this many allowed rows, or this share of all, are compared directly.
_FEW_ROWS = 2048
_FEW_SHARE = 1 / 200
# Squares of larger differences would overflow in float64.
_LARGEST = 1e150


@dataclass(frozen=True, eq=False)
class Selection:
    """The allowed rows of an index, prepared for many searches."""

    allowed: NDArray[np.bool_] | None  # (n,), None for all
    size: int  # number of allowed rows
    # Both are empty for selections so small that leaves are not used.
    ids: IntArray  # (u,), row to report for each position in the leaves; n if none is allowed
    counts: IntArray  # (leaves,), positions of each leaf with an allowed row


class ExactIndex:
    """Exact nearest neighbours in float64, ties by row.

    Parameters
    ----------
    vectors : ndarray of shape (n, s + d), float32 or float64
        Ordinal coordinates first. Read by every search, so it must not change; may be memory-mapped. The index itself
        holds one float32 copy.
    n_order : int
        Number s of ordinal coordinates.
    """

    def __init__(self, vectors: NDArray[np.floating], n_order: int) -> None:
        self._vectors, limits = _checked_vectors(vectors)
        n, width = self._vectors.shape
        if not 0 <= n_order <= width:
            raise InputError(f"n_order must be between 0 and the width of the vectors, {width}; it is {n_order}")
        self._bounded = _bounding_coordinates(self._vectors, n_order)
        bounded = np.ascontiguousarray(self._vectors[:, self._bounded])
        self._duplicates = find_duplicates(self._vectors, bounded, _BLOCK_ELEMENTS)
        distinct = np.arange(n) if self._duplicates is None else self._duplicates.first
        self._rows, self._leaves = _split(bounded, distinct)
        boxed = bounded[self._rows]
        self._low = np.minimum.reduceat(boxed, self._leaves[:-1], axis=0).astype(np.float64)
        self._high = np.maximum.reduceat(boxed, self._leaves[:-1], axis=0).astype(np.float64)
        self._regions = [
            pack_region(self._vectors, self._rows[start:stop], start, limits)
            for start, stop in pairwise([*self._leaves[:-1:_REGION_LEAVES].tolist(), len(self._rows)])
        ]
        self._all = Selection(None, n, self._rows, np.diff(self._leaves))

    def __len__(self) -> int:
        return len(self._vectors)

    def select(self, allowed: NDArray[np.bool_] | None) -> Selection:
        """Prepare searches restricted to a mask of rows (n,); None for all."""
        if allowed is None:
            return self._all
        if allowed.shape != (len(self),) or allowed.dtype != np.bool_:
            raise InputError(f"allowed must hold one truth value for each of the {len(self)} rows")
        size = int(np.count_nonzero(allowed))
        if self._are_few(size):
            return Selection(allowed, size, self._rows[:0], self._leaves[:0])
        if self._duplicates is None:
            ids = np.where(allowed[self._rows], self._rows, len(self))
        else:
            ids = self._duplicates.first_allowed(allowed)[self._duplicates.group[self._rows]]
        counts = np.add.reduceat(ids < len(self), self._leaves[:-1], dtype=np.int64)
        return Selection(allowed, size, ids, counts)

    def nearest(
        self, queries: NDArray[np.floating], k: int, *, allowed: NDArray[np.bool_] | Selection | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Return rows and distances (q, k) of the nearest vectors of queries (q, s + d), among ``allowed`` (n,) rows.

        Nearest first, ties by row; padded with -1 and infinity if fewer than k rows are allowed.
        """
        queries = self._checked_queries(queries)
        if k < 1:
            raise InputError(f"k must be at least 1; it is {k}")
        selection = allowed if isinstance(allowed, Selection) else self.select(allowed)
        indices = np.full((len(queries), k), -1, dtype=np.int64)
        distances = np.full((len(queries), k), np.inf)
        k = min(k, selection.size)
        if k == 0 or len(queries) == 0:
            return indices, distances
        # Leaves only cost if the first round would visit them all.
        all_visited = selection.size <= MANY_CANDIDATES * k and self._vectors.size <= _BLOCK_ELEMENTS
        if self._are_few(selection.size) or all_visited:
            rows = np.arange(len(self)) if selection.allowed is None else np.flatnonzero(selection.allowed)
            vectors = self._vectors if selection.allowed is None else self._vectors[rows]
            nearest, distances[:, :k] = k_nearest(vectors, queries, k)
            indices[:, :k] = rows[nearest]
            return indices, distances

        n_threads = _count_threads(len(queries))
        elements = _BLOCK_ELEMENTS // n_threads

        def search_block(part: slice) -> None:
            search = LeafSearch(self._vectors, self._rows, selection.ids, queries[part], k, elements)
            self._visit_leaves(search, selection.counts)
            indices[part, :k], distances[part, :k] = self._with_duplicates(search, selection.allowed)

        most = min(_QUERIES_PER_BLOCK, elements // max(len(selection.counts), 4 * k))
        block_rows = max(1, min(most, -(-len(queries) // n_threads)))
        blocks = [slice(start, start + block_rows) for start in range(0, len(queries), block_rows)]
        if n_threads == 1:
            for block in blocks:
                search_block(block)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(search_block, blocks))  # raises what a block has raised
        return indices, distances

    def _are_few(self, n_rows: int) -> bool:
        """Return whether rows are so few that they are compared directly, without the leaves."""
        return n_rows <= max(_FEW_ROWS, _FEW_SHARE * len(self))

    def _checked_queries(self, queries: NDArray[np.floating]) -> FloatArray:
        queries = np.asarray(queries)
        if queries.ndim != 2 or queries.shape[1] != self._vectors.shape[1]:
            raise InputError(
                f"queries must have two dimensions and {self._vectors.shape[1]} columns like the vectors of the "
                f"index; their shape is {queries.shape}"
            )
        converted: FloatArray = queries.astype(np.float64, copy=False)
        if not (np.abs(converted) <= _LARGEST).all():
            raise InputError(f"queries hold NaN or numbers beyond {_LARGEST:g}; leave such vectors out")
        return converted

    def _box_distances(self, queries: FloatArray) -> FloatArray:
        """Return squared distances (q, leaves) of queries to the boxes of leaves."""
        squared = np.zeros((len(queries), len(self._low)))
        for column, coordinate in enumerate(self._bounded):
            values = queries[:, coordinate, None]
            gap = np.maximum(self._low[:, column] - values, values - self._high[:, column])
            np.maximum(gap, 0.0, out=gap)
            squared += np.square(gap, out=gap)
        return squared

    def _visit_leaves(self, search: LeafSearch, counts: IntArray) -> None:
        """Visit leaves in rounds, nearest boxes first, until no box is nearer than the k-th best."""
        bounds = self._box_distances(search.queries) * (1 - DOUBLE_ERROR)
        bounds[:, counts == 0] = np.inf
        order = np.argsort(bounds, axis=1)
        bounds = np.take_along_axis(bounds, order, axis=1)
        # The first round must find several times k rows for every query.
        too_few = np.cumsum(counts[order], axis=1) < MANY_CANDIDATES * search.k
        begin, end = 0, int(np.count_nonzero(too_few, axis=1).max()) + 1
        while begin < len(counts):
            near = (bounds[:, begin:] <= search.worst[:, None]) & np.isfinite(bounds[:, begin:])
            if begin and np.mean(near) > _MOST:
                end = len(counts)  # the boxes exclude little: visit the rest in few products
            near[:, end - begin :] = False
            if not near.any():
                break
            visits = np.zeros(order.shape, dtype=np.bool_)
            np.put_along_axis(visits, order[:, begin:], near, axis=1)
            search.add(self._products(search, _whole_regions(visits)))
            begin, end = end, end * _GROWTH

    def _products(self, search: LeafSearch, visits: NDArray[np.bool_]) -> Iterator[Candidates]:
        """Yield the candidates of all leaves to visit."""
        for first, last, active in _runs(visits):
            region = self._regions[first // _REGION_LEAVES]
            yield from search.compare(region, active, slice(int(self._leaves[first]), int(self._leaves[last])))

    def _with_duplicates(self, search: LeafSearch, allowed: NDArray[np.bool_] | None) -> tuple[IntArray, FloatArray]:
        """Return rows and distances (q, k) of a search, including duplicates."""
        rows, distances = search.found, np.sqrt(search.squared)
        if self._duplicates is None:
            return rows, distances
        for query in range(len(rows)):
            hits = np.isfinite(distances[query])
            expanded = self._duplicates.expand(rows[query, hits], distances[query, hits], search.k, allowed)
            rows[query], distances[query] = expanded
        return rows, distances


def _count_threads(n_queries: int) -> int:
    """Return the number of threads that search for so many queries; ``OMP_NUM_THREADS`` limits it, as that of BLAS."""
    if n_queries < 2 * _QUERIES_PER_THREAD:
        return 1
    from joblib import cpu_count  # late: the query of a command needs no joblib

    given = os.environ.get("OMP_NUM_THREADS", "")
    n_cores = max(1, int(given)) if given.isdecimal() else int(cpu_count())
    return min(n_cores, _MAX_THREADS, n_queries // _QUERIES_PER_THREAD)


def _checked_vectors(vectors: NDArray[np.floating]) -> tuple[NDArray[np.floating], FloatArray]:
    """Return vectors (n, s + d) in float32 or float64, and minimum and maximum (2, s + d) of each coordinate."""
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
    """Return the coordinates of the boxes: the order, and the appearance coordinates of largest spread."""
    spread = vectors[evenly_spaced(np.arange(len(vectors)))].std(axis=0, dtype=np.float64)
    spread[:n_order] += spread.max()
    widest = np.argsort(-spread, kind="stable")
    return widest[: min(n_order + _APPEARANCE_BOUNDS, _MAX_BOUNDS)]


def _split(bounded: NDArray[np.floating], rows: IntArray) -> tuple[IntArray, IntArray]:
    """Split rows (u,) recursively at the median of the coordinate (n, c) of largest spread.

    Return the rows in the order of the leaves, and the starts (leaves + 1,) of the leaves.
    """
    pending, leaves = [rows], []
    while pending:
        part = pending.pop()
        if len(part) <= _LEAF_ROWS:
            leaves.append(np.sort(part))
            continue
        n_left = _LEAF_ROWS * (-(-len(part) // _LEAF_ROWS) // 2)
        widest = int(bounded[evenly_spaced(part)].std(axis=0, dtype=np.float64).argmax())
        halves = np.argpartition(bounded[part, widest], n_left)
        pending += [part[halves[n_left:]], part[halves[:n_left]]]
    starts = np.cumsum([0, *(len(leaf) for leaf in leaves)])
    return np.concatenate(leaves), starts


def _runs(visits: NDArray[np.bool_]) -> Iterator[tuple[int, int, IntArray]]:
    """Yield runs of leaves of one region that the same queries visit: first, last + 1, and the queries."""
    n_leaves = visits.shape[1]
    changes = np.any(visits[:, 1:] != visits[:, :-1], axis=0)
    changes[_REGION_LEAVES - 1 :: _REGION_LEAVES] = True
    for first, last in pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), n_leaves]):
        active = np.flatnonzero(visits[:, first])
        if len(active):
            yield first, last, active


def _whole_regions(visits: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Visit all leaves of a region if most are visited: one product is cheaper than many."""
    starts = np.arange(0, visits.shape[1], _REGION_LEAVES)
    sizes = np.diff(np.append(starts, visits.shape[1]))
    most = np.add.reduceat(visits, starts, axis=1, dtype=np.int64) > _MOST * sizes
    return visits | np.repeat(most, sizes, axis=1)
