r"""Exact nearest neighbours among many vectors z = [Lx, λx], most of which are never looked at.

The first coordinates of a vector say where it lies in the order, the others what it looks like, and

.. math:: d^2 = \|\text{order difference}\|^2 + \|\text{appearance difference}\|^2 .

A difference in a few coordinates alone is never more than d. So the vectors are split into leaves, boxes in the
order and in the widest coordinates of the appearance, and a query visits leaves by rising distance to their box until
no other box is nearer than the k-th best vector found so far. A leaf costs one matrix product in single precision;
as in :mod:`ordrank.neighbors` it only proposes candidates, with a margin for its rounding, and direct differences in
double precision decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.errors import InputError
from ordrank.neighbors import _direct_squared_distances, k_nearest

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
# Candidates for each neighbour, and part of all vectors, beyond which it pays to look for better bounds first.
_MANY = 8
_MANY_PART = 1 / 16
# Rows up to which the product with one query stays on one core.
_SMALL_PRODUCT = 8192
# Elements of the largest temporary array of a search.
_BLOCK_ELEMENTS = 4_000_000
# Elements of one product: what is computed should not be far away when it is compared.
_PRODUCT_ELEMENTS = 2_000_000
# So few allowed rows, or such a part of all, are compared with the query directly.
_FEW_ROWS = 2048
_FEW_PART = 1 / 200
# Rows from which centres and spreads are taken.
_SAMPLE_ROWS = 1000
# Relative error of a squared distance that was computed in double precision, with room to spare.
_DOUBLE_ERROR = 1e-12
# Scaled squares below this may be lost in single precision, and norms above that overflow.
_TINY, _HUGE = 1e-30, 1e15
# Largest exponent of a scale: its square must still be a number.
_MOST_SCALE = 500
# Squares of larger differences would overflow in double precision.
_LARGEST = 1e150


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
        self._copies = _find_copies(self._vectors, watched)
        distinct = np.arange(n) if self._copies is None else self._copies.first
        self._rows, self._leaves = _split(watched, distinct)
        boxed = watched[self._rows]
        self._low = np.minimum.reduceat(boxed, self._leaves[:-1], axis=0).astype(np.float64)
        self._high = np.maximum.reduceat(boxed, self._leaves[:-1], axis=0).astype(np.float64)
        self._regions = [
            _pack(self._vectors, self._rows[start:stop], start, limits)
            for start, stop in pairwise([*self._leaves[:-1:_REGION_LEAVES].tolist(), len(self._rows)])
        ]

    def __len__(self) -> int:
        return len(self._vectors)

    def nearest(
        self, queries: NDArray[np.floating], k: int, *, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Rows nearest to each query, and their distances.

        Parameters
        ----------
        queries : ndarray of shape (q, s + d)
        k : int
            At least one.
        allowed : ndarray of shape (n,), bool, optional
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
        if allowed is not None and (allowed.shape != (len(self),) or allowed.dtype != np.bool_):
            raise InputError(f"allowed must hold one truth value for each of the {len(self)} rows")
        n_allowed = len(self) if allowed is None else int(np.count_nonzero(allowed))
        indices = np.full((len(queries), k), -1, dtype=np.int64)
        distances = np.full((len(queries), k), np.inf)
        found = min(k, n_allowed)
        if found == 0 or len(queries) == 0:
            return indices, distances
        if allowed is not None and n_allowed <= max(_FEW_ROWS, _FEW_PART * len(self)):
            rows = np.flatnonzero(allowed)
            nearest, distances[:, :found] = k_nearest(self._vectors[rows].astype(np.float64), queries, found)
            indices[:, :found] = rows[nearest]
            return indices, distances
        labels, counts = self._labels(allowed)
        at_once = max(1, _BLOCK_ELEMENTS // max(len(counts), 4 * found))
        for start in range(0, len(queries), at_once):
            part = slice(start, start + at_once)
            search = _Search(self._vectors, self._rows, labels, queries[part], found)
            self._visit_leaves(search, counts)
            indices[part, :found], squared = self._with_copies(search, allowed)
            distances[part, :found] = np.sqrt(squared)
        return indices, distances

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

    def _labels(self, allowed: NDArray[np.bool_] | None) -> tuple[IntArray, IntArray]:
        """Row number that stands for each place (n where none is allowed), and how many places of a leaf have one."""
        if allowed is None:
            return self._rows, np.diff(self._leaves)
        if self._copies is None:
            labels = np.where(allowed[self._rows], self._rows, len(self))
        else:
            labels = self._copies.first_allowed(allowed)[self._copies.group[self._rows]]
        return labels, np.add.reduceat(labels < len(self), self._leaves[:-1], dtype=np.int64)

    def _box_distances(self, queries: FloatArray) -> FloatArray:
        """Squared distance of each query to the box of each leaf: (q, leaves)."""
        squared = np.zeros((len(queries), len(self._low)))
        for column, coordinate in enumerate(self._watched):
            asked = queries[:, coordinate, None]
            gap = np.maximum(self._low[:, column] - asked, asked - self._high[:, column])
            np.maximum(gap, 0.0, out=gap)
            squared += np.square(gap, out=gap)
        return squared

    def _visit_leaves(self, search: _Search, counts: IntArray) -> None:
        """Visit leaves in rounds, nearest boxes first, until no box is nearer than the k-th best."""
        bounds = self._box_distances(search.queries) * (1 - _DOUBLE_ERROR)
        bounds[:, counts == 0] = np.inf
        order = np.argsort(bounds, axis=1)
        bounds = np.take_along_axis(bounds, order, axis=1)
        # The first round must find k rows for every query, and not just any k.
        too_few = np.cumsum(counts[order], axis=1) < _MANY * search.k
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

    def _products(self, search: _Search, visits: NDArray[np.bool_]) -> Iterator[_Candidates]:
        """Candidates of all leaves to visit."""
        for first, last, asking in _runs(visits):
            region = self._regions[first // _REGION_LEAVES]
            question = search.question(region)
            step = max(1, _PRODUCT_ELEMENTS // len(asking))
            for start in range(int(self._leaves[first]), int(self._leaves[last]), step):
                stop = min(start + step, int(self._leaves[last]))
                yield search.compare(region, question, asking, slice(start, stop))

    def _with_copies(self, search: _Search, allowed: NDArray[np.bool_] | None) -> tuple[IntArray, FloatArray]:
        """Rows and squared distances that a search found, (q, k), every copy of a vector counted."""
        rows, squared = search.label, search.squared
        if self._copies is None:
            return rows, squared
        for query in range(len(rows)):
            known = np.isfinite(squared[query])
            expanded = self._copies.of(rows[query, known], squared[query, known], search.k, allowed)
            rows[query], squared[query] = expanded
        return rows, squared


class _Candidates(NamedTuple):
    """Vectors that may be among the k nearest: which query, which place, and a lower bound on the squared distance."""

    query: IntArray
    place: IntArray
    lower: FloatArray


@dataclass(frozen=True)
class _Region:
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
    def ask(cls, queries: FloatArray, region: _Region) -> _Question:
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


def _multiply(questions: NDArray[np.float32], packed: NDArray[np.float32]) -> NDArray[np.float32]:
    """Products (m, q) of vectors (m, s + d + 1) and questions (q, s + d + 1)."""
    if len(questions) * len(packed) <= _SMALL_PRODUCT and len(questions) <= 2:
        # Waking the other threads of BLAS would cost more than the product, far more where the cores are busy.
        return np.asarray(np.vecdot(packed[:, None], questions[None]))
    return packed @ questions.T


def _rounded_down(values: FloatArray) -> NDArray[np.float32]:
    """Numbers of single precision that are not larger."""
    return np.nextafter(values.astype(np.float32), np.float32(-np.inf))


class _Search:
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

    Attributes
    ----------
    squared, label : ndarray of shape (q, k)
        Squared distances and row numbers, nearest first; inf and n where nothing is found yet.
    """

    def __init__(
        self, vectors: NDArray[np.floating], rows: IntArray, labels: IntArray, queries: FloatArray, k: int
    ) -> None:
        self.queries, self.k = queries, k
        self._vectors, self._rows, self._labels = vectors, rows, labels
        self._visible = labels < len(vectors)
        self._questions: dict[int, _Question] = {}
        self.squared = np.full((len(queries), k), np.inf)
        self.label = np.full((len(queries), k), len(vectors), dtype=np.int64)

    @property
    def worst(self) -> FloatArray:
        """Squared distance (q,) beyond which nothing is of interest, with room for its rounding."""
        return self.squared[:, -1] * (1 + _DOUBLE_ERROR)

    def question(self, region: _Region) -> _Question:
        """See the queries from the centre of a region."""
        if region.start not in self._questions:
            self._questions[region.start] = _Question.ask(self.queries, region)
        return self._questions[region.start]

    def compare(self, region: _Region, question: _Question, asking: IntArray, places: slice) -> _Candidates:
        """Candidates for some of the queries among neighbouring places of a region."""
        products = _multiply(
            question.packed[asking], region.packed[places.start - region.start : places.stop - region.start]
        )
        at_zero, worst = question.at_zero[asking], self.worst[asking]
        least = 0.5 * (at_zero - worst * region.scale**2)
        passing = products >= _rounded_down(least)
        passing &= self._visible[places, None]
        n_many = max(_MANY * self.k * len(asking), _MANY_PART * products.size)
        if np.count_nonzero(passing) > n_many and self.k < len(products):
            # The k-th best so far says little yet; the k-th best of these places alone says more.
            products[~self._visible[places]] = -np.inf
            kth = np.partition(products, -self.k, axis=0)[-self.k]
            passing &= products >= _rounded_down(np.maximum(least, kth - question.error[asking]))
        place, query = np.divmod(np.flatnonzero(passing), len(asking))
        lower = (at_zero[query] - 2.0 * products[place, query]) / region.scale**2
        return _Candidates(asking[query], place + places.start, lower)

    def propose(self, parts: Iterable[_Candidates]) -> None:
        """Take candidates in, and decide whenever many have gathered."""
        gathered: list[_Candidates] = []
        n_gathered = 0
        for part in parts:
            gathered.append(part)
            n_gathered += len(part.query)
            if n_gathered > _BLOCK_ELEMENTS // 4:
                self._decide(gathered)
                gathered, n_gathered = [], 0
        if gathered:
            self._decide(gathered)

    def _decide(self, gathered: list[_Candidates]) -> None:
        """Keep the k best of the candidates and of what was found before."""
        query, place, lower = (np.concatenate(column) for column in zip(*gathered, strict=True))
        possible = lower <= self.worst[query]
        query, place, lower = query[possible], place[possible], lower[possible]
        # The k most promising candidates of each query usually rule out all others.
        order = np.lexsort((lower, query))
        query, place, lower = query[order], place[order], lower[order]
        promising = _rank_within(query) < self.k
        self._keep(query[promising], place[promising])
        others = ~promising & (lower <= self.worst[query])
        self._keep(query[others], place[others])

    def _keep(self, query: IntArray, place: IntArray) -> None:
        """Measure candidates directly and keep the k best."""
        if len(query) == 0:
            return
        exact = _direct_squared_distances(self.queries, self._vectors, query, self._rows[place], _BLOCK_ELEMENTS)
        changed = np.unique(query)
        squared = np.concatenate((self.squared[changed].reshape(-1), exact))
        label = np.concatenate((self.label[changed].reshape(-1), self._labels[place]))
        query = np.concatenate((np.repeat(changed, self.k), query))
        order = np.lexsort((label, squared, query))
        # A leaf may be visited twice.
        query, label, squared = query[order], label[order], squared[order]
        again = np.append(False, (query[1:] == query[:-1]) & (label[1:] == label[:-1]) & np.isfinite(squared[1:]))
        query, label, squared = query[~again], label[~again], squared[~again]
        best = _rank_within(query) < self.k
        self.squared[changed] = squared[best].reshape(-1, self.k)
        self.label[changed] = label[best].reshape(-1, self.k)


@dataclass(frozen=True)
class _Copies:
    """Rows with the same vector: only the first of them is searched.

    Attributes
    ----------
    members : ndarray of shape (n,)
        All rows, copies side by side and in rising order.
    starts : ndarray of shape (u + 1,)
        Where the copies of each distinct vector begin among the members.
    group : ndarray of shape (n,)
        Which distinct vector each row is.
    """

    members: IntArray
    starts: IntArray
    group: IntArray

    @property
    def first(self) -> IntArray:
        """First row (u,) of every distinct vector."""
        return self.members[self.starts[:-1]]

    def first_allowed(self, allowed: NDArray[np.bool_]) -> IntArray:
        """First allowed row (u,) of every distinct vector; n where there is none."""
        n = len(self.members)
        first: IntArray = np.minimum.reduceat(np.where(allowed[self.members], self.members, n), self.starts[:-1])
        return first

    def of(
        self, rows: IntArray, squared: FloatArray, k: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[IntArray, FloatArray]:
        """The k best rows (k,) and squared distances, given the best distinct vectors, nearest first."""
        found: list[IntArray] = []
        distances: list[FloatArray] = []
        n_found = 0
        for row, distance in zip(rows, squared, strict=True):
            if n_found >= k and distance > distances[-1][-1]:
                break
            begin, end = self.starts[self.group[row]], self.starts[self.group[row] + 1]
            copies = self.members[begin:end]
            # A row number stands for its first allowed copy, so that k copies from it on are enough.
            copies = copies[:k] if allowed is None else copies[allowed[copies]][:k]
            found.append(copies)
            distances.append(np.full(len(copies), distance))
            n_found += len(copies)
        every_row, every_distance = np.concatenate(found), np.concatenate(distances)
        best = np.lexsort((every_row, every_distance))[:k]
        return every_row[best], every_distance[best]


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


def _sample(rows: IntArray) -> IntArray:
    """Evenly spaced rows, enough to see centre and spread."""
    return rows[:: max(1, len(rows) // _SAMPLE_ROWS)]


def _bounding_coordinates(vectors: NDArray[np.floating], n_order: int) -> IntArray:
    """Coordinates of the boxes: the order, and the widest of the appearance."""
    spread = vectors[_sample(np.arange(len(vectors)))].std(axis=0, dtype=np.float64)
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
        widest = int(watched[_sample(part)].std(axis=0, dtype=np.float64).argmax())
        halves = np.argpartition(watched[part, widest], n_left)
        waiting += [part[halves[n_left:]], part[halves[:n_left]]]
    starts = np.cumsum([0, *(len(leaf) for leaf in leaves)])
    return np.concatenate(leaves), starts


def _pack(vectors: NDArray[np.floating], rows: IntArray, start: int, limits: FloatArray) -> _Region:
    """Region of some rows of the vectors, the first at place ``start``.

    Parameters
    ----------
    vectors : ndarray of shape (n, s + d)
    rows : ndarray of shape (m,)
    start : int
    limits : ndarray of shape (2, s + d)
        Least and largest of each coordinate.
    """
    # The median is where most vectors are, whatever a few others do.
    centre = np.median(vectors[_sample(rows)], axis=0).astype(np.float64)
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
    return _Region(start, centre, scale, radius, reach, packed)


def _find_copies(vectors: NDArray[np.floating], watched: NDArray[np.floating]) -> _Copies | None:
    """Find rows with the same vector; None where all differ."""
    # Most rows differ already in a few coordinates; only the others are read in full.
    hashes = _hashes(watched, np.arange(len(watched)))
    order = np.argsort(hashes)
    again = hashes[order][1:] == hashes[order][:-1]
    suspects = np.unique(order[np.append(again, False) | np.insert(again, 0, False)])
    if len(suspects) == 0:
        return None
    hashes = _hashes(vectors, suspects)
    order = np.argsort(hashes, kind="stable")
    suspects = suspects[order]
    leaders = suspects[np.arange(len(order)) - _rank_within(hashes[order])]
    same = _equal_rows(vectors, suspects, leaders)
    leader = np.arange(len(vectors))
    leader[suspects[same]] = leaders[same]
    members = np.argsort(leader, kind="stable")
    is_first = _rank_within(leader[members]) == 0
    group = np.empty(len(members), dtype=np.int64)
    group[members] = np.cumsum(is_first) - 1
    return None if is_first.all() else _Copies(members, np.append(np.flatnonzero(is_first), len(members)), group)


def _hashes(values: NDArray[np.floating], rows: IntArray) -> NDArray[np.uint64]:
    """One number for each of the rows; equal rows have equal numbers."""
    width = values.shape[1]
    keys = np.random.default_rng(0).integers(1, 2**63, size=width, dtype=np.uint64) | np.uint64(1)
    hashes = np.empty(len(rows), dtype=np.uint64)
    step = max(1, _BLOCK_ELEMENTS // width)
    for start in range(0, len(rows), step):
        block = values[rows[start : start + step]] + values.dtype.type(0)  # 0 and -0 are equal
        bits = block.view(f"u{values.dtype.itemsize}").astype(np.uint64)
        # Round numbers differ in their high bits only, which a product never brings down.
        bits ^= bits >> np.uint64(23) ^ bits >> np.uint64(47)
        hashes[start : start + step] = (bits * keys).sum(axis=1, dtype=np.uint64)
    return hashes


def _equal_rows(vectors: NDArray[np.floating], first: IntArray, second: IntArray) -> NDArray[np.bool_]:
    """Whether the vectors of two lists of rows are equal, pair by pair."""
    same = np.empty(len(first), dtype=np.bool_)
    step = max(1, _BLOCK_ELEMENTS // vectors.shape[1])
    for start in range(0, len(first), step):
        part = slice(start, start + step)
        same[part] = (vectors[first[part]] == vectors[second[part]]).all(axis=1)
    return same


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


def _rank_within(group: NDArray[np.integer]) -> IntArray:
    """Position of each element among its equals, which lie side by side."""
    places = np.arange(len(group))
    is_first = np.append(True, group[1:] != group[:-1])[: len(group)]
    return places - np.maximum.accumulate(np.where(is_first, places, 0))
