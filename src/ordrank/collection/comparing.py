"""Queries compared with regions of vectors: single precision proposes, double precision decides.

A matrix product in single precision is the cheapest way to compare many queries with many vectors, but it loses digits
where vectors lie far from zero or close together. So vectors are packed into regions with a centre and a scale of
their own, a product only bounds distances from below, with a margin for its rounding, and the candidates that remain
are measured by direct differences in double precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.collection.copies import rank_within
from ordrank.neighbors import direct_squared_distances

# Candidates for each neighbour, and part of all vectors, beyond which it pays to look for better bounds first.
MANY = 8
_MANY_PART = 1 / 16
# Relative error of a squared distance that was computed in double precision, with room to spare.
DOUBLE_ERROR = 1e-12
# Rows up to which the product with one query stays on one core.
_SMALL_PRODUCT = 8192
# Elements of one product: what is computed should not be far away when it is compared.
_PRODUCT_ELEMENTS = 2_000_000
# Rows from which centres and spreads are taken.
_SAMPLE_ROWS = 1000
# Scaled squares below this may be lost in single precision, and norms above that overflow.
_TINY, _HUGE = 1e-30, 1e15
# Largest exponent of a scale: its square must still be a number.
_MOST_SCALE = 500


@dataclass(frozen=True)
class Region:
    """Neighbouring leaves with a centre of their own: single precision then serves data with any offset.

    Attributes
    ----------
    start : int
        Place of the first vector.
    centre : ndarray of shape (s + d,)
    scale : float
        Power of two that brings the differences from the centre to about one.
    radius : float
        Root mean square of the scaled differences.
    reach : float
        The largest of them.
    packed : ndarray of shape (m, s + d + 1), float32
        Scaled differences x, and -‖x‖².
    """

    start: int
    centre: FloatArray
    scale: float
    radius: float
    reach: float
    packed: NDArray[np.float32]


def sample(rows: IntArray) -> IntArray:
    """Evenly spaced rows, enough to see centre and spread.

    Parameters
    ----------
    rows : ndarray of shape (m,)

    Returns
    -------
    ndarray of shape (less than 2000,)
    """
    return rows[:: max(1, len(rows) // _SAMPLE_ROWS)]


def pack_region(vectors: NDArray[np.floating], rows: IntArray, start: int, limits: FloatArray) -> Region:
    """Centre and scale some rows of the vectors for products in single precision.

    Parameters
    ----------
    vectors : ndarray of shape (n, s + d)
    rows : ndarray of shape (m,)
        Which of them, in the order of their places.
    start : int
        Place of the first.
    limits : ndarray of shape (2, s + d)
        Least and largest of each coordinate of all vectors.

    Returns
    -------
    Region
    """
    # The median is where most vectors are, whatever a few others do.
    centre = np.median(vectors[sample(rows)], axis=0).astype(np.float64)
    exponent = int(np.frexp(np.abs(limits - centre).max())[1])
    scale = float(np.ldexp(1.0, -max(-_MOST_SCALE, min(exponent, _MOST_SCALE))))
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


class _Question(NamedTuple):
    r"""Queries as one region sees them: a product with its vectors bounds the squared distances.

    The product of the scaled difference q from the centre with a vector x is wrong by at most ε(‖q‖‖x‖ + ‖x‖²/2).
    With the region's radius r, ‖q‖‖x‖ is at most ‖q‖(r + ‖x‖²/r)/2: one part depends on the query alone, the other
    only weighs ‖x‖², so that both fit into the product and distant queries keep a margin in proportion.

    Attributes
    ----------
    packed : ndarray of shape (q, s + d + 1), float32
        q and the weight of ‖x‖².
    at_zero : ndarray of shape (q,)
        Scaled squared distance is at least ``at_zero - 2 * product``; -inf where the product would be worthless.
    error : ndarray of shape (q,)
        A vector whose product is smaller than another's by more than this is further away.
    """

    packed: NDArray[np.float32]
    at_zero: FloatArray
    error: FloatArray

    @classmethod
    def ask(cls, queries: FloatArray, region: Region) -> _Question:
        """See queries (q, s + d) from the centre of a region."""
        difference = (queries - region.centre) * region.scale
        squared = np.einsum("ij,ij->i", difference, difference)
        norm = np.sqrt(squared)
        error = (queries.shape[1] + 8) * float(np.finfo(np.float32).eps)
        useful = (norm < _HUGE) & (error * norm < region.radius)
        packed = np.empty((len(queries), queries.shape[1] + 1), dtype=np.float32)
        packed[:, :-1] = np.where(useful[:, None], difference, 0.0)
        packed[:, -1] = np.where(useful, 0.5 - 0.5 * error * (1.0 + norm / region.radius), 0.0)
        at_zero = np.where(useful, squared - error * region.radius * norm - _TINY, -np.inf)
        most = error * (norm * (region.radius + region.reach**2 / region.radius) + region.reach**2) + _TINY
        return cls(packed, at_zero, np.where(useful, 2 * most, np.inf))


class Candidates(NamedTuple):
    """Vectors that may be among the k nearest of a query.

    Attributes
    ----------
    query : ndarray of shape (c,)
        Which query.
    place : ndarray of shape (c,)
        At which place the vector lies.
    lower : ndarray of shape (c,)
        Lower bound on their squared distance.
    """

    query: IntArray
    place: IntArray
    lower: FloatArray


class Search:
    """The k best vectors found so far for some queries.

    Parameters
    ----------
    vectors : ndarray of shape (n, s + d)
    rows : ndarray of shape (u,)
        Which of them lies at each place.
    labels : ndarray of shape (u,)
        Row number that stands for each place in the answer; n where it must not be found.
    queries : ndarray of shape (q, s + d)
    k : int
    block_elements : int
        Bound on the elements of the arrays in which candidates gather and are measured.

    Attributes
    ----------
    squared, label : ndarray of shape (q, k)
        Squared distances and row numbers, nearest first; inf and n where nothing is found yet.
    """

    def __init__(
        self,
        vectors: NDArray[np.floating],
        rows: IntArray,
        labels: IntArray,
        queries: FloatArray,
        k: int,
        block_elements: int,
    ) -> None:
        self.queries, self.k = queries, k
        self._vectors, self._rows, self._labels = vectors, rows, labels
        self._block_elements = block_elements
        self._visible = labels < len(vectors)
        self._questions: dict[int, _Question] = {}
        self.squared = np.full((len(queries), k), np.inf)
        self.label = np.full((len(queries), k), len(vectors), dtype=np.int64)

    @property
    def worst(self) -> FloatArray:
        """Squared distance (q,) beyond which nothing is of interest, with room for its rounding."""
        return self.squared[:, -1] * (1 + DOUBLE_ERROR)

    def compare(self, region: Region, asking: IntArray, places: slice) -> Iterator[Candidates]:
        """Candidates among neighbouring places of a region, product by product.

        Parameters
        ----------
        region : Region
        asking : ndarray of shape (a,)
            Which queries to compare with.
        places : slice
            All of them in the region.
        """
        question = self._question(region)
        step = max(1, _PRODUCT_ELEMENTS // len(asking))
        for start in range(places.start, places.stop, step):
            yield self._compare(region, question, asking, slice(start, min(start + step, places.stop)))

    def _question(self, region: Region) -> _Question:
        """See the queries from the centre of a region."""
        if region.start not in self._questions:
            self._questions[region.start] = _Question.ask(self.queries, region)
        return self._questions[region.start]

    def _compare(self, region: Region, question: _Question, asking: IntArray, places: slice) -> Candidates:
        """Candidates of one product."""
        products = _multiply(
            question.packed[asking], region.packed[places.start - region.start : places.stop - region.start]
        )
        at_zero, worst = question.at_zero[asking], self.worst[asking]
        least = 0.5 * (at_zero - worst * region.scale**2)
        passing = products >= _rounded_down(least)
        passing &= self._visible[places, None]
        n_many = max(MANY * self.k * len(asking), _MANY_PART * products.size)
        if np.count_nonzero(passing) > n_many and self.k < len(products):
            # The k-th best so far says little yet; the k-th best of these places alone says more.
            products[~self._visible[places]] = -np.inf
            kth = np.partition(products, -self.k, axis=0)[-self.k]
            passing &= products >= _rounded_down(np.maximum(least, kth - question.error[asking]))
        place, query = np.divmod(np.flatnonzero(passing), len(asking))
        lower = (at_zero[query] - 2.0 * products[place, query]) / region.scale**2
        return Candidates(asking[query], place + places.start, lower)

    def propose(self, parts: Iterable[Candidates]) -> None:
        """Take candidates in, and decide whenever many have gathered.

        Parameters
        ----------
        parts : iterable of Candidates
            Read one by one: what is decided makes the later ones fewer.
        """
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
        """Keep the k best of the candidates and of what was found before."""
        query, place, lower = (np.concatenate(column) for column in zip(*gathered, strict=True))
        possible = lower <= self.worst[query]
        query, place, lower = query[possible], place[possible], lower[possible]
        # The k most promising candidates of each query usually rule out all others.
        order = np.lexsort((lower, query))
        query, place, lower = query[order], place[order], lower[order]
        promising = rank_within(query) < self.k
        self._keep(query[promising], place[promising])
        others = ~promising & (lower <= self.worst[query])
        self._keep(query[others], place[others])

    def _keep(self, query: IntArray, place: IntArray) -> None:
        """Measure candidates directly and keep the k best."""
        if len(query) == 0:
            return
        exact = direct_squared_distances(self.queries, self._vectors, query, self._rows[place], self._block_elements)
        changed = np.unique(query)
        squared = np.concatenate((self.squared[changed].reshape(-1), exact))
        label = np.concatenate((self.label[changed].reshape(-1), self._labels[place]))
        query = np.concatenate((np.repeat(changed, self.k), query))
        # By distances, not by their squares, of which two may have the same root: equal distances go by row number.
        order = np.lexsort((label, np.sqrt(squared), query))
        # A leaf may be visited twice.
        query, label, squared = query[order], label[order], squared[order]
        again = np.append(False, (query[1:] == query[:-1]) & (label[1:] == label[:-1]) & np.isfinite(squared[1:]))
        query, label, squared = query[~again], label[~again], squared[~again]
        best = rank_within(query) < self.k
        self.squared[changed] = squared[best].reshape(-1, self.k)
        self.label[changed] = label[best].reshape(-1, self.k)


def _multiply(questions: NDArray[np.float32], packed: NDArray[np.float32]) -> NDArray[np.float32]:
    """Products (m, q) of vectors (m, s + d + 1) and questions (q, s + d + 1)."""
    if len(questions) * len(packed) <= _SMALL_PRODUCT and len(questions) <= 2:
        # Waking the other threads of BLAS would cost more than the product, far more where the cores are busy.
        return np.asarray(np.vecdot(packed[:, None], questions[None]))
    return packed @ questions.T


def _rounded_down(values: FloatArray) -> NDArray[np.float32]:
    """Numbers of single precision that are not larger."""
    return np.nextafter(values.astype(np.float32), np.float32(-np.inf))
