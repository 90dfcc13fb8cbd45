"""Exact nearest neighbours in blocks.

Squared distances come from one matrix product per block, in the precision that is fastest where the samples are: half
on a GPU, single on a CPU. That loses digits when points lie far from the origin or close together, so the product
only proposes a few candidates, and direct differences in double precision decide. What rounding may have hidden is
bounded for every query: where that could be a neighbour, the query is asked again, in double precision and with more
candidates, until nothing is left to doubt. Equal distances are ordered by index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ordrank._types import Array, FloatArray, IntArray
from ordrank.backend import Backend, backend_of

# Up to so many differences it takes longer to prepare a product than to compute them all. To sort a distance takes as
# long as so many of them.
_FEW_ELEMENTS = 200_000
_SORTING = 64
# Candidates beyond k, and those of queries that are asked again.
_SPARE = 3
_MORE = 64
# Columns that are looked at through their minimum, where there are many times more than the candidates'.
_GROUP = 64
_FEW_GROUPS = 4
# The longest vector in coarse units: its square and all products stay in the range of half precision.
_LONGEST = 128.0
# Columns that carry a squared norm in pieces of a coarse type; of halves three hold all digits of a float32.
_PIECES = 3
_ALIGNED = 8


def k_nearest(
    points: Array, queries: Array, k: int, *, exclude_self: bool = False, block_elements: int | None = None
) -> tuple[Array, Array]:
    """Indices and distances of the k rows of ``points`` nearest to each row of ``queries``.

    Parameters
    ----------
    points : array of shape (n, d)
        What is searched.
    queries : array of shape (q, d)
        What is asked, of the same kind and on the same device.
    k : int
        At most n, or n - 1 with ``exclude_self``.
    exclude_self : bool
        Query i is point i and is not its own neighbour (its exact copies are).
    block_elements : int, optional
        Bound on the elements of any temporary array; by default what suits the device.

    Returns
    -------
    indices : array of shape (q, k)
        Nearest first; equal distances in the order of the indices.
    distances : array of shape (q, k)
        Euclidean distances in double precision.
    """
    backend = backend_of(points)
    if block_elements is None and len(points) * len(queries) * (points.shape[1] + _SORTING) <= _FEW_ELEMENTS:
        return _nearest_of_few(points, queries, k, exclude_self, backend)
    search = _Search(points, queries, k, exclude_self, block_elements or backend.block_elements(points), backend)
    more = max(_MORE, 2 * k)
    for precise, n_candidates in ((False, k + _SPARE), (False, more), (True, more), (True, len(points))):
        rest = search.ask(min(n_candidates, len(points)), precise=precise)
        if not rest:
            break
    return search.indices, search.distances


def _nearest_of_few(points: Array, queries: Array, k: int, exclude_self: bool, backend: Backend) -> tuple[Array, Array]:
    """The same by all differences, with the same digits."""
    rows, columns = (backend.indices(np.arange(len(part)), points) for part in (queries, points))
    distances = backend.distances(queries, points, columns + 0 * rows[:, None])
    if exclude_self:
        distances = backend.fill(distances, rows[:, None], np.inf)
    distances, order = backend.rising(distances)
    return order[:, :k], distances[:, :k]


@dataclass(frozen=True)
class _Copy:
    """Points and queries, centred, in units in which the longest is 128 long, in some precision.

    Attributes
    ----------
    points : array of shape (n or a little more, width)
        Rows x, then ‖x‖² in pieces, then zeros. Rows beyond n are infinitely far away.
    queries : array of shape (q, width)
        The same of the queries.
    doubt : array of shape (q,)
        Bound on twice the error of ‖p‖² - 2qp as a product of such rows.
    precise : bool
        Whether in double precision.
    n_groups : int
        Of points.
    members : array of shape (64,)
        Columns of the first group; those of the others follow.
    """

    points: Array
    queries: Array
    doubt: Array
    precise: bool
    n_groups: int
    members: Array


class _Search:
    """One question for the k nearest points of every query."""

    def __init__(
        self, points: Array, queries: Array, k: int, exclude_self: bool, block_elements: int, backend: Backend
    ) -> None:
        self._points, self._queries, self._k, self._exclude_self = points, queries, k, exclude_self
        self._block_elements, self._backend = block_elements, backend
        self._rows = backend.indices(np.arange(len(queries)), points)
        self._centre = backend.mean(points)  # rounding of the product grows with the distance from the origin
        self._point_lengths = self._lengths(points)
        self._query_lengths = self._point_lengths if queries is points else self._lengths(queries)
        longest = backend.join([self._point_lengths, self._query_lengths]).max()
        self._unit = _LONGEST / longest.clip(min=1e-300)
        self._copy: _Copy | None = None
        self._open: Array | None = None  # the queries that are still in doubt; None at first, when all are
        self.indices: Array = None
        self.distances: Array = None

    def ask(self, n_candidates: int, *, precise: bool) -> int:
        """Find the neighbours of the queries in doubt, and return how many remain so."""
        if self._copy is None or self._copy.precise != precise:
            self._copy = self._make_copy(precise)
        rows = self._rows if self._open is None else self._open
        at_once = max(1, self._block_elements // max(len(self._copy.points), n_candidates * self._points.shape[1]))
        parts = [
            self._answer(rows[start : start + at_once], self._copy, n_candidates)
            for start in range(0, max(1, len(rows)), at_once)
        ]
        indices, distances, decided = (self._backend.join(column) for column in zip(*parts, strict=True))
        if self._open is None:
            self.indices, self.distances = indices, distances
        else:
            self.indices[rows], self.distances[rows] = indices, distances
        self._open = rows[~decided]
        return len(self._open)

    def _make_copy(self, precise: bool) -> _Copy:
        """Points and queries in the fastest precision, or in double."""
        backend, dim, coarse = self._backend, self._points.shape[1], not precise
        points, point_errors, norm_errors = self._rounded(self._points, self._point_lengths, coarse)
        queries, query_errors = points, point_errors
        if self._queries is not self._points:
            queries, query_errors, _ = self._rounded(self._queries, self._query_lengths, coarse)
        # Lengths of what rounding took away are measured; Cauchy and Schwarz bound what that does to a product.
        length, farthest = self._unit * self._query_lengths, self._unit * self._point_lengths.max()
        by_rounding = 2 * (query_errors * farthest + (length + query_errors) * point_errors.max()) + norm_errors.max()
        epsilon = float(np.finfo(np.float32 if coarse else np.float64).eps)
        by_summing = 2 * (dim + _ALIGNED) * epsilon * (2 * length * farthest + farthest**2)
        n_spare = -len(points) % _GROUP if len(points) >= _GROUP * _FEW_GROUPS else 0
        nowhere = np.zeros((n_spare, points.shape[1]))
        nowhere[:, dim] = np.inf
        padded = backend.join([points, backend.asarray(nowhere, points)]) if n_spare else points
        n_groups = len(padded) // _GROUP
        members = backend.indices(np.arange(_GROUP) * n_groups, points)
        return _Copy(padded, queries, 2 * (by_rounding + by_summing), precise, n_groups, members)

    def _answer(self, rows: Array, copy: _Copy, n_candidates: int) -> tuple[Array, Array, Array]:
        """Neighbours (r, k) of some queries, their distances, and whether they are beyond doubt (r,)."""
        backend, k, dim = self._backend, self._k, self._points.shape[1]
        left = -2 * copy.queries[rows]
        left[:, dim : dim + _PIECES] = 1
        product = backend.coarse_product(left, copy.points)
        if self._exclude_self:
            product = backend.fill(product, rows[:, None], np.inf)
        values, candidates, others = self._smallest(product, copy, n_candidates)
        limit = values[:, k - 1] + copy.doubt[rows]
        decided = limit < np.inf
        for lower_bound in others:
            decided &= lower_bound > limit
        candidates, _ = backend.rising(candidates)
        distances = self._direct(rows, candidates)
        if self._exclude_self and n_candidates == len(self._points):
            distances[candidates == rows[:, None]] = np.inf
        distances, order = backend.rising(distances)
        return backend.take(candidates, order[:, :k]), distances[:, :k], decided

    def _smallest(self, product: Array, copy: _Copy, n_candidates: int) -> tuple[Array, Array, list[Array]]:
        """Smallest values of each row, their columns, and lower bounds (r,) of all other values, where there are any.

        Of many columns, the minima of groups are looked at first: the k smallest values lie in the k groups of
        smallest minimum. A group takes columns far from each other, since neighbours often follow each other.
        """
        backend, n = self._backend, len(self._points)
        if copy.n_groups < _FEW_GROUPS * n_candidates:
            values, columns = backend.smallest(product[:, :n], n_candidates)
            return values, columns, [values[:, -1]] if n_candidates < n else []
        grouped = product.reshape(len(product), _GROUP, copy.n_groups)
        minima, groups = backend.smallest(backend.minimum(grouped, 1), n_candidates)
        columns = (groups[:, :, None] + copy.members).reshape(len(groups), n_candidates * _GROUP)
        values, places = backend.smallest(backend.take(product, columns), n_candidates)
        return values, backend.take(columns, places), [minima[:, -1], values[:, -1]]

    def _direct(self, rows: Array, candidates: Array) -> Array:
        """Distances (r, c) of queries to candidates, by differences in double precision."""
        queries = self._queries[rows]
        at_once = max(1, self._block_elements // max(1, len(rows) * self._points.shape[1]))
        parts = [
            self._backend.distances(queries, self._points, candidates[:, start : start + at_once])
            for start in range(0, candidates.shape[1], at_once)
        ]
        return self._backend.join(parts, 1)

    def _rounded(self, X: Array, lengths: Array, coarse: bool) -> tuple[Array, Array, Array]:
        """Rows of a :class:`_Copy`, lengths (n,) of what rounding took away, and what the squared norms lost (n,)."""
        backend, dim = self._backend, X.shape[1]
        rows, errors, norm_errors, done = [], [], [], 0
        for block in self._blocks(X):
            centred = block - self._centre
            centred *= self._unit
            rounded = backend.coarse(centred) if coarse else centred
            pieces = [rounded]
            rest = (self._unit * lengths[done : done + len(block), None]) ** 2
            done += len(block)
            for _ in range(_PIECES):
                pieces.append(backend.coarse(rest) if coarse else rest)
                rest = rest - pieces[-1]
            zeros = np.zeros((len(block), -(dim + _PIECES) % _ALIGNED))
            rows.append(backend.join([*pieces, backend.asarray(zeros, rounded)], 1))
            errors.append(backend.lengths(centred - rounded))
            norm_errors.append(abs(rest[:, 0]))
        return backend.join(rows), backend.join(errors), backend.join(norm_errors)

    def _lengths(self, X: Array) -> Array:
        """Distances (n,) of samples from the centre, in double precision."""
        return self._backend.join([self._backend.lengths(block - self._centre) for block in self._blocks(X)])

    def _blocks(self, X: Array) -> Iterator[Array]:
        """Some rows at a time, in double precision."""
        at_once = max(1, self._block_elements // max(1, X.shape[1]))
        for start in range(0, max(1, len(X)), at_once):
            yield self._backend.double(X[start : start + at_once])


def direct_squared_distances(
    queries: NDArray[np.floating],
    points: NDArray[np.floating],
    query: IntArray,
    candidate: IntArray,
    block_elements: int,
) -> FloatArray:
    """‖q - p‖² of given pairs, in double precision and in blocks of pairs."""
    squared = np.empty(len(query))
    pairs_per_block = max(1, block_elements // points.shape[1])
    for start in range(0, len(query), pairs_per_block):
        part = slice(start, start + pairs_per_block)
        difference = np.subtract(queries[query[part]], points[candidate[part]], dtype=np.float64)
        squared[part] = np.einsum("ij,ij->i", difference, difference)
    return squared
