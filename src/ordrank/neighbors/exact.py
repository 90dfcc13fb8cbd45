"""Exact nearest neighbours in blocks.

Squared distances come from one matrix product per block, in the fastest precision of the device: float16 on a GPU,
float32 on a CPU. Such a product loses digits when points lie far from the origin or close together, so it only proposes
a few candidates, which are measured by differences in float64. The rounding error is bounded for every query; a query
whose other points could still be nearer is searched again with more candidates, then in float64, until it is decided.
Ties are ordered by index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import Array, FloatArray, IntArray
from ordrank.backend import Backend, backend_of

# Up to this many differences, direct computation is faster than a product; sorting one distance costs about 64.
_FEW_ELEMENTS = 200_000
_SORT_COST = 64
# Candidates beyond k, and candidates of undecided queries.
_SPARE = 3
_MORE = 64
# Columns of a group that is represented by its minimum, if there are 4 times as many groups as candidates.
_GROUP = 64
_FEW_GROUPS = 4
# Largest norm after scaling: its square and all products stay in the range of float16.
_MAX_NORM = 128.0
# Columns that split a squared norm into low-precision terms; three float16 terms hold all digits of a float32.
_TERMS = 3
_ALIGNED = 8
# Elements of the differences of pairs: they fit a core's own cache.
_CACHED_ELEMENTS = 100_000


def k_nearest(
    points: Array, queries: Array, k: int, *, exclude_self: bool = False, block_elements: int | None = None
) -> tuple[Array, Array]:
    """Return indices and distances of the k rows of ``points`` nearest to each row of ``queries``.

    Parameters
    ----------
    points : array of shape (n, d)
    queries : array of shape (q, d)
        Of the same library and device.
    k : int
        At most n, or n - 1 with ``exclude_self``.
    exclude_self : bool
        Query i is point i and not its own neighbour (its duplicates are).
    block_elements : int, optional
        Bound on the elements of any temporary array; by default that of the device.

    Returns
    -------
    indices : array of shape (q, k)
        Nearest first, ties by index.
    distances : array of shape (q, k)
        Euclidean distances in float64.
    """
    backend = backend_of(points)
    if block_elements is None and len(points) * len(queries) * (points.shape[1] + _SORT_COST) <= _FEW_ELEMENTS:
        return _nearest_of_few(points, queries, k, exclude_self, backend)
    search = _BlockSearch(points, queries, k, exclude_self, block_elements or backend.block_elements(points), backend)
    more = max(_MORE, 2 * k)
    for precise, n_candidates in ((False, k + _SPARE), (False, more), (True, more), (True, len(points))):
        if not search.run(min(n_candidates, len(points)), precise=precise):
            break
    return search.indices, search.distances


def _nearest_of_few(points: Array, queries: Array, k: int, exclude_self: bool, backend: Backend) -> tuple[Array, Array]:
    """Compute all differences, with bit-equal distances."""
    rows, columns = (backend.indices(np.arange(len(part)), points) for part in (queries, points))
    distances = backend.distances(queries, points, columns + 0 * rows[:, None])
    if exclude_self:
        distances = backend.put_along_axis(distances, rows[:, None], np.inf)
    distances, order = backend.sort(distances)
    return order[:, :k], distances[:, :k]


@dataclass(frozen=True)
class _Operands:
    """Points and queries in low precision or float64, centred and scaled to norms of at most 128.

    Rows are x, then ‖x‖² in terms, then zeros.
    """

    points: Array  # (n padded to whole groups, width); padding rows are infinitely far away
    queries: Array  # (q, width)
    margin: Array  # (q,), bound on twice the error of ‖p‖² - 2qp as a product of such rows
    precise: bool  # whether in float64
    n_groups: int
    members: Array  # (64,), columns of the first group; those of group g are members + g


class _BlockSearch:
    """State of a search: neighbours found so far and undecided queries."""

    def __init__(
        self, points: Array, queries: Array, k: int, exclude_self: bool, block_elements: int, backend: Backend
    ) -> None:
        self._points, self._queries, self._k, self._exclude_self = points, queries, k, exclude_self
        self._block_elements, self._backend = block_elements, backend
        self._rows = backend.indices(np.arange(len(queries)), points)
        self._centre = backend.mean(points)  # rounding errors of the product grow with the distance from the origin
        self._point_norms = self._norms(points)
        self._query_norms = self._point_norms if queries is points else self._norms(queries)
        largest = backend.concat([self._point_norms, self._query_norms]).max()
        self._scale = _MAX_NORM / largest.clip(min=1e-300)
        self._operands: _Operands | None = None
        self._undecided: Array | None = None  # None before the first pass
        self.indices: Array = None
        self.distances: Array = None

    def run(self, n_candidates: int, *, precise: bool) -> int:
        """Search the neighbours of the undecided queries, and return how many remain undecided."""
        if self._operands is None or self._operands.precise != precise:
            self._operands = self._make_operands(precise)
        rows = self._rows if self._undecided is None else self._undecided
        size = max(1, self._block_elements // max(len(self._operands.points), n_candidates * self._points.shape[1]))
        parts = [
            self._search_block(rows[start : start + size], self._operands, n_candidates)
            for start in range(0, max(1, len(rows)), size)
        ]
        indices, distances, decided = (self._backend.concat(column) for column in zip(*parts, strict=True))
        if self._undecided is None:
            self.indices, self.distances = indices, distances
        else:
            self.indices[rows], self.distances[rows] = indices, distances
        self._undecided = rows[~decided]
        return len(self._undecided)

    def _make_operands(self, precise: bool) -> _Operands:
        backend, dim = self._backend, self._points.shape[1]
        points, point_errors, norm_errors = self._rounded(self._points, self._point_norms, precise)
        queries, query_errors = points, point_errors
        if self._queries is not self._points:
            queries, query_errors, _ = self._rounded(self._queries, self._query_norms, precise)
        # Norms of the rounding errors are measured; Cauchy-Schwarz bounds their effect on a product.
        norms, farthest = self._scale * self._query_norms, self._scale * self._point_norms.max()
        by_rounding = 2 * (query_errors * farthest + (norms + query_errors) * point_errors.max()) + norm_errors.max()
        epsilon = float(np.finfo(np.float64 if precise else np.float32).eps)
        by_summing = 2 * (dim + _ALIGNED) * epsilon * (2 * norms * farthest + farthest**2)
        n_padding = -len(points) % _GROUP if len(points) >= _GROUP * _FEW_GROUPS else 0
        padding = np.zeros((n_padding, points.shape[1]))
        padding[:, dim] = np.inf
        padded = backend.concat([points, backend.asarray(padding, points)]) if n_padding else points
        n_groups = len(padded) // _GROUP
        members = backend.indices(np.arange(_GROUP) * n_groups, points)
        return _Operands(padded, queries, 2 * (by_rounding + by_summing), precise, n_groups, members)

    def _search_block(self, rows: Array, operands: _Operands, n_candidates: int) -> tuple[Array, Array, Array]:
        """Return neighbours (r, k) of some queries, their distances, and whether they are decided (r,)."""
        backend, k, dim = self._backend, self._k, self._points.shape[1]
        left = -2 * operands.queries[rows]
        left[:, dim : dim + _TERMS] = 1
        product = backend.low_precision_product(left, operands.points)
        if self._exclude_self:
            product = backend.put_along_axis(product, rows[:, None], np.inf)
        values, candidates, lower_bounds = self._smallest(product, operands, n_candidates)
        limit = values[:, k - 1] + operands.margin[rows]
        decided = limit < np.inf
        for lower_bound in lower_bounds:
            decided &= lower_bound > limit
        candidates, _ = backend.sort(candidates)
        distances = self._direct(rows, candidates)
        if self._exclude_self and n_candidates == len(self._points):
            distances[candidates == rows[:, None]] = np.inf
        distances, order = backend.sort(distances)
        return backend.take_along_axis(candidates, order[:, :k]), distances[:, :k], decided

    def _smallest(self, product: Array, operands: _Operands, n_candidates: int) -> tuple[Array, Array, list[Array]]:
        """Return the smallest values of each row, their columns, and lower bounds (r,) of all other values, if any.

        With many columns, groups are ranked by their minima first: the k smallest values lie in the k groups of
        smallest minimum. Groups are interleaved, since neighbours often have consecutive indices.
        """
        backend, n = self._backend, len(self._points)
        if operands.n_groups < _FEW_GROUPS * n_candidates:
            values, columns = backend.nsmallest(product[:, :n], n_candidates)
            return values, columns, [values[:, -1]] if n_candidates < n else []
        grouped = product.reshape(len(product), _GROUP, operands.n_groups)
        minima, groups = backend.nsmallest(backend.amin(grouped, 1), n_candidates)
        columns = (groups[:, :, None] + operands.members).reshape(len(groups), n_candidates * _GROUP)
        values, order = backend.nsmallest(backend.take_along_axis(product, columns), n_candidates)
        return values, backend.take_along_axis(columns, order), [minima[:, -1], values[:, -1]]

    def _direct(self, rows: Array, candidates: Array) -> Array:
        """Return distances (r, c) of queries to candidates, by differences in float64."""
        queries = self._queries[rows]
        size = max(1, self._block_elements // max(1, len(rows) * self._points.shape[1]))
        parts = [
            self._backend.distances(queries, self._points, candidates[:, start : start + size])
            for start in range(0, candidates.shape[1], size)
        ]
        return self._backend.concat(parts, 1)

    def _rounded(self, X: Array, norms: Array, precise: bool) -> tuple[Array, Array, Array]:
        """Return rows of :class:`_Operands`, norms (n,) of their rounding errors, and errors (n,) of ‖x‖²."""
        backend, dim = self._backend, X.shape[1]
        rows, errors, norm_errors, done = [], [], [], 0
        for block in self._blocks(X):
            centred = block - self._centre
            centred *= self._scale
            rounded = centred if precise else backend.to_low_precision(centred)
            columns = [rounded]
            rest = (self._scale * norms[done : done + len(block), None]) ** 2
            done += len(block)
            for _ in range(_TERMS):
                columns.append(rest if precise else backend.to_low_precision(rest))
                rest = rest - columns[-1]
            zeros = np.zeros((len(block), -(dim + _TERMS) % _ALIGNED))
            rows.append(backend.concat([*columns, backend.asarray(zeros, rounded)], 1))
            errors.append(backend.norm(centred - rounded))
            norm_errors.append(abs(rest[:, 0]))
        return backend.concat(rows), backend.concat(errors), backend.concat(norm_errors)

    def _norms(self, X: Array) -> Array:
        """Return distances (n,) from the centre, in float64."""
        return self._backend.concat([self._backend.norm(block - self._centre) for block in self._blocks(X)])

    def _blocks(self, X: Array) -> Iterator[Array]:
        """Yield blocks of rows in float64."""
        size = max(1, self._block_elements // max(1, X.shape[1]))
        for start in range(0, max(1, len(X)), size):
            yield self._backend.double(X[start : start + size])


def direct_squared_distances(
    queries: FloatArray, points: NDArray[np.floating], query: IntArray, candidate: IntArray
) -> FloatArray:
    """Return ‖q - p‖² of pairs (query, candidate) in float64, block by block."""
    squared = np.empty(len(query))
    pairs_per_block = max(1, _CACHED_ELEMENTS // points.shape[1])
    for start in range(0, len(query), pairs_per_block):
        part = slice(start, start + pairs_per_block)
        difference = queries.take(query[part], axis=0)
        difference -= points.take(candidate[part], axis=0)
        squared[part] = np.einsum("ij,ij->i", difference, difference)
    return squared
