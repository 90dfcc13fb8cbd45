"""Comparison of queries with regions of vectors: float32 products propose, float64 differences decide.

A float32 matrix product compares many queries with many vectors at the lowest cost, but loses digits where vectors lie
far from zero or close together. Vectors are therefore packed into regions with their own centre and scale, a product
only bounds distances from below, with a margin for its rounding, and the remaining candidates are measured by direct
differences in float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.neighbors._duplicates import rank_within
from ordrank.neighbors.exact import direct_squared_distances

# Candidates per neighbour, and share of all vectors, above which tighter bounds are sought first.
MANY_CANDIDATES = 8
_MANY_SHARE = 1 / 16
# Relative error of a squared distance in float64, generously.
DOUBLE_ERROR = 1e-12
# Multiplications up to which OpenBLAS stays on one core, and rows below which such a block is inefficient.
_ONE_CORE = 2**18
_MIN_ROWS = 8
# Elements of one product, so that it is still cached when it is compared.
_PRODUCT_ELEMENTS = 2_000_000
# Rows that estimate centres and spreads.
_SAMPLE_ROWS = 1000
# Scaled squares below this may underflow in float32, norms above overflow.
_TINY, _HUGE = 1e-30, 1e15
# Largest exponent of a scale: its square must be finite.
_MAX_EXPONENT = 500


@dataclass(frozen=True)
class Region:
    """Consecutive leaves with a common centre and scale, so that float32 serves data with any offset."""

    start: int  # position of the first vector
    centre: FloatArray  # (s + d,)
    scale: float  # power of two that brings differences from the centre to about one
    radius: float  # root mean square of the scaled norms
    reach: float  # their maximum
    packed: NDArray[np.float32]  # (m, s + d + 1), scaled differences x, and -‖x‖²


def evenly_spaced(rows: IntArray) -> IntArray:
    """Return fewer than 2000 evenly spaced rows, enough to estimate centre and spread."""
    return rows[:: max(1, len(rows) // _SAMPLE_ROWS)]


def pack_region(vectors: NDArray[np.floating], rows: IntArray, start: int, limits: FloatArray) -> Region:
    """Centre and scale the rows (m,) of the vectors (n, s + d) for products in float32.

    ``start`` is the position of the first row, ``limits`` (2, s + d) the minimum and maximum of each coordinate.
    """
    centre = np.median(vectors[evenly_spaced(rows)], axis=0).astype(np.float64)  # robust to outliers
    exponent = int(np.frexp(np.abs(limits - centre).max())[1])
    scale = float(np.ldexp(1.0, -max(-_MAX_EXPONENT, min(exponent, _MAX_EXPONENT))))
    width = vectors.shape[1]
    packed = np.empty((len(rows), width + 1), dtype=np.float32)
    squared = np.empty(len(rows))
    step = max(1, _PRODUCT_ELEMENTS // width)
    for begin in range(0, len(rows), step):
        part = slice(begin, begin + step)
        difference = np.subtract(vectors[rows[part]], centre, dtype=np.float64)
        difference *= scale
        squared[part] = np.einsum("ij,ij->i", difference, difference)
        packed[part, :-1] = difference
    packed[:, -1] = -squared
    radius, reach = float(np.sqrt(squared.mean())) or 1.0, float(np.sqrt(squared.max()))
    return Region(start, centre, scale, radius, reach, packed)


class _PackedQueries(NamedTuple):
    r"""Queries in the coordinates of a region: a product with its vectors bounds the squared distances.

    The product of a scaled query q with a vector x has an error of at most ε(‖q‖‖x‖ + ‖x‖²/2). With the region's
    radius r, ‖q‖‖x‖ <= ‖q‖(r + ‖x‖²/r)/2: one term depends on the query alone, the other only scales ‖x‖², so that both
    fit into the product and distant queries have a proportional margin.
    """

    packed: NDArray[np.float32]  # (q, s + d + 1), q and the weight of ‖x‖²
    at_zero: FloatArray  # (q,), scaled d² >= at_zero - 2 * product; -inf where the product has no correct digits
    error: FloatArray  # (q,), a vector whose product is smaller than another's by more than this is farther away

    @classmethod
    def pack(cls, queries: FloatArray, region: Region) -> _PackedQueries:
        """Centre and scale queries (q, s + d) like a region."""
        difference = (queries - region.centre) * region.scale
        squared = np.einsum("ij,ij->i", difference, difference)
        norm = np.sqrt(squared)
        error = (queries.shape[1] + 8) * float(np.finfo(np.float32).eps)
        useful = (norm < _HUGE) & (error * norm < region.radius)
        packed = np.empty((len(queries), queries.shape[1] + 1), dtype=np.float32)
        packed[:, :-1] = np.where(useful[:, None], difference, 0.0)
        packed[:, -1] = np.where(useful, 0.5 - 0.5 * error * (1.0 + norm / region.radius), 0.0)
        at_zero = np.where(useful, squared - error * region.radius * norm - _TINY, -np.inf)
        largest = error * (norm * (region.radius + region.reach**2 / region.radius) + region.reach**2) + _TINY
        return cls(packed, at_zero, np.where(useful, 2 * largest, np.inf))


class Candidates(NamedTuple):
    """Vectors that may be among the k nearest."""

    query: IntArray  # (c,)
    position: IntArray  # (c,)
    lower: FloatArray  # (c,), lower bound of the squared distance


class LeafSearch:
    """The k nearest vectors (n, s + d) of queries (q, s + d) so far, in ``squared`` and ``found`` (q, k).

    Parameters
    ----------
    rows, ids : ndarray of shape (u,)
        Row of the vector at each position, and the row to report for it; n if it must not be found.
    block_elements : int
        Bound on the elements of temporary arrays of candidates.
    """

    def __init__(
        self,
        vectors: NDArray[np.floating],
        rows: IntArray,
        ids: IntArray,
        queries: FloatArray,
        k: int,
        block_elements: int,
    ) -> None:
        self.queries, self.k = queries, k
        self._vectors, self._rows, self._ids = vectors, rows, ids
        self._block_elements = block_elements
        self._allowed = ids < len(vectors)
        self._packed: dict[int, _PackedQueries] = {}
        self.squared = np.full((len(queries), k), np.inf)  # nearest first
        self.found = np.full((len(queries), k), len(vectors), dtype=np.int64)

    @property
    def worst(self) -> FloatArray:
        """Squared distance (q,) of the k-th best, with a margin for rounding."""
        return self.squared[:, -1] * (1 + DOUBLE_ERROR)

    def compare(self, region: Region, active: IntArray, positions: slice) -> Iterator[Candidates]:
        """Yield candidates of the queries ``active`` (a,) among consecutive positions of a region, by product."""
        if region.start not in self._packed:
            self._packed[region.start] = _PackedQueries.pack(self.queries, region)
        step = max(1, _PRODUCT_ELEMENTS // len(active))
        for start in range(positions.start, positions.stop, step):
            part = slice(start, min(start + step, positions.stop))
            yield self._compare(region, self._packed[region.start], active, part)

    def _compare(self, region: Region, queries: _PackedQueries, active: IntArray, positions: slice) -> Candidates:
        products = _multiply(
            queries.packed[active], region.packed[positions.start - region.start : positions.stop - region.start]
        )
        at_zero, worst = queries.at_zero[active], self.worst[active]
        threshold = 0.5 * (at_zero - worst * region.scale**2)
        passing = products >= _rounded_down(threshold)
        passing &= self._allowed[positions, None]
        n_many = max(MANY_CANDIDATES * self.k * len(active), _MANY_SHARE * products.size)
        if np.count_nonzero(passing) > n_many and self.k < len(products):
            # The k-th best so far is a poor bound yet; the k-th best of these positions alone is better.
            products[~self._allowed[positions]] = -np.inf
            kth = np.partition(products, -self.k, axis=0)[-self.k]
            passing &= products >= _rounded_down(np.maximum(threshold, kth - queries.error[active]))
        position, query = np.divmod(np.flatnonzero(passing), len(active))
        lower = (at_zero[query] - 2.0 * products[position, query]) / region.scale**2
        return Candidates(active[query], position + positions.start, lower)

    def add(self, parts: Iterable[Candidates]) -> None:
        """Take in candidates; parts are consumed lazily, since earlier ones tighten the bounds of later ones."""
        gathered: list[Candidates] = []
        n_gathered = 0
        for part in parts:
            gathered.append(part)
            n_gathered += len(part.query)
            if n_gathered > self._block_elements // 4:
                self._decide(gathered)
                gathered, n_gathered = [], 0
        if gathered:
            self._decide(gathered)

    def _decide(self, gathered: list[Candidates]) -> None:
        """Keep the k best of the candidates and of the previous hits."""
        query, position, lower = (np.concatenate(column) for column in zip(*gathered, strict=True))
        possible = lower <= self.worst[query]
        query, position, lower = query[possible], position[possible], lower[possible]
        # The k most promising candidates of each query usually exclude all others.
        order = np.lexsort((lower, query))
        query, position, lower = query[order], position[order], lower[order]
        promising = rank_within(query) < self.k
        self._keep(query[promising], position[promising])
        others = ~promising & (lower <= self.worst[query])
        self._keep(query[others], position[others])

    def _keep(self, query: IntArray, position: IntArray) -> None:
        """Measure candidates in float64 and keep the k best."""
        if len(query) == 0:
            return
        exact = direct_squared_distances(self.queries, self._vectors, query, self._rows[position])
        changed = np.unique(query)
        squared = np.concatenate((self.squared[changed].reshape(-1), exact))
        found = np.concatenate((self.found[changed].reshape(-1), self._ids[position]))
        query = np.concatenate((np.repeat(changed, self.k), query))
        # Sort by distance, since different squares may have the same root: ties go by row.
        order = np.lexsort((found, np.sqrt(squared), query))
        query, found, squared = query[order], found[order], squared[order]
        # A leaf may be visited twice.
        again = np.append(False, (query[1:] == query[:-1]) & (found[1:] == found[:-1]) & np.isfinite(squared[1:]))
        query, found, squared = query[~again], found[~again], squared[~again]
        best = rank_within(query) < self.k
        self.squared[changed] = squared[best].reshape(-1, self.k)
        self.found[changed] = found[best].reshape(-1, self.k)


def _multiply(queries: NDArray[np.float32], packed: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return products (m, q) of vectors (m, s + d + 1) and queries (q, s + d + 1).

    Waking the threads of BLAS would cost more than most of these products, far more on busy cores: those of few queries
    are computed in blocks of rows so small that BLAS stays on one core.
    """
    (n_queries, width), n_vectors = queries.shape, len(packed)
    if n_queries <= 2:
        return np.asarray(np.vecdot(packed[:, None], queries[None]))
    rows = _ONE_CORE // (n_queries * width)
    if rows < _MIN_ROWS:
        return packed @ queries.T
    products = np.empty((n_vectors, n_queries), dtype=np.float32)
    whole = n_vectors - n_vectors % rows
    blocks, block_products = packed[:whole].reshape(-1, rows, width), products[:whole].reshape(-1, rows, n_queries)
    np.matmul(blocks, queries.T, out=block_products)
    np.matmul(packed[whole:], queries.T, out=products[whole:])
    return products


def _rounded_down(values: FloatArray) -> NDArray[np.float32]:
    """Convert to float32, rounding down."""
    return np.nextafter(values.astype(np.float32), np.float32(-np.inf))
