"""Votes on samples that were left out: how many neighbours to ask, and how much of the original distance to keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from ordrank._types import FloatArray, IntArray
from ordrank.votes import count_votes, medians_of_first, vote_weights

MOST_VOTES = 101
FEWER_VOTES = (1, 3, 7, 15, 31, 51)
# One way to grade mistakes more than another only if the difference is that many standard errors.
CLEARLY = 3.0
# With fewer samples nothing is clear.
FEWEST = 10
LOCALITIES = (0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
USUAL_LOCALITY = 0.2
# Larger ones are tried up to this, where little is left of the order.
LARGEST_LOCALITY = 8.0
# Share of the mistakes that may be added for more locality.
LITTLE = 0.05
# Of more than 300 samples, all localities are tried on so many at first, then those that are not probably worse.
FEW_BALLOTS = 300
ROUNDS = (150, 300, 600)
PROBABLY = 2.0
# Among so many times as many as are wanted is their bound looked for.
SPARE = 2
ROWS_AT_ONCE = 100

LeftOut = Callable[[IntArray], FloatArray]


def clearly_more(errors: FloatArray, reference: FloatArray, how_clearly: float = CLEARLY) -> bool:
    """Whether paired errors (q,) are larger than the reference's by more than chance may explain."""
    difference = errors - reference
    chance = difference.std() / np.sqrt(len(difference))
    return len(difference) >= FEWEST and bool(difference.mean() > how_clearly * chance)


def clearly_below(differences: FloatArray, bound: float) -> bool:
    """Whether the mean of differences (q,) is below a bound by more than chance may explain."""
    return bool(differences.mean() + CLEARLY * differences.std() / np.sqrt(len(differences)) < bound)


def usual_votes(n_samples: int) -> int:
    """Number of voting neighbours unless there is evidence for another: a third of the samples, at most 101."""
    return max(1, min(MOST_VOTES, n_samples // 3))


def numbers_of_votes(n_samples: int) -> list[int]:
    """Numbers of voting neighbours to choose from, the usual one last."""
    usual = usual_votes(n_samples)
    return [votes for votes in FEWER_VOTES if votes < usual] + [usual]


@dataclass(frozen=True)
class Neighborhoods:
    """The nearest other samples of some samples, each of which was left out of the fit.

    Attributes
    ----------
    rows : ndarray of shape (q,)
        The samples that were left out.
    indices, distances : ndarray of shape (q, k)
        Their neighbours among all samples, nearest first.
    """

    rows: IntArray
    indices: IntArray
    distances: FloatArray

    @classmethod
    def joined(cls, parts: Sequence[Neighborhoods]) -> Neighborhoods:
        """Those of all parts, one after the other."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def renumbered(self, rows: IntArray) -> Neighborhoods:
        """The same among samples of which these were the ``rows``."""
        return Neighborhoods(rows[self.rows], rows[self.indices], self.distances)

    def errors(
        self, labels: FloatArray, n_votes: int, *, aggregate: str = "median", weights: str = "distance"
    ) -> FloatArray:
        """Absolute errors (q,) of the grades that the first ``n_votes`` neighbours vote for."""
        votes = labels[self.indices[:, :n_votes]]
        grades = count_votes(votes, self.distances[:, :n_votes], aggregate=aggregate, weights=weights)
        return np.abs(grades - labels[self.rows])


class _Block:
    """Some left-out samples (q,), and how far from all samples they are, squared (q, n), in order and appearance."""

    def __init__(self, rows: IntArray, appearance: FloatArray, order: LeftOut) -> None:
        self.rows, self._appearance, self._order_of = rows, appearance, order
        self._order: FloatArray | None = None

    def squared(self, locality: float) -> FloatArray:
        """Squared distances (q, n) with a locality."""
        if self._order is None:
            self._order = self._order_of(self.rows)
        return self._order + locality**2 * self._appearance


@dataclass(frozen=True)
class _Count:
    """Neighbours of left-out samples with one locality, and absolute errors (v, q) with each number of votes."""

    near: Neighborhoods
    errors: FloatArray

    @classmethod
    def joined(cls, parts: Sequence[_Count]) -> _Count:
        """Those of all parts, one after the other."""
        near = Neighborhoods.joined([part.near for part in parts])
        return cls(near, np.concatenate([part.errors for part in parts], axis=1))

    @property
    def fewest(self) -> FloatArray:
        """Errors (q,) with the number of votes that mistakes fewest grades."""
        return np.asarray(self.errors[self.errors.mean(axis=1).argmin()])


class Ballots:
    """Grades of left-out samples by the votes of their neighbours in order and appearance.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Labelled samples of unit mean square.
    labels : ndarray of shape (n,)
        Their labels, as numbers.
    n_ballots : int
        Most samples that are left out.
    rng : Generator
        Draws them where there are more.
    """

    def __init__(self, X: NDArray[np.floating], labels: FloatArray, n_ballots: int, rng: np.random.Generator) -> None:
        self._distinct, self._index = np.unique(labels, return_inverse=True)
        self._numbers, self._n_threads = numbers_of_votes(len(X)), cpu_count()
        drawn = rng.permutation(len(X))[:n_ballots]
        ends = [0, *(end for end in ROUNDS if FEW_BALLOTS < len(drawn) > end), len(drawn)]
        self._rounds = [slice(start, end) for start, end in pairwise(ends)]
        self._rows = np.concatenate([np.sort(drawn[part]) for part in self._rounds])
        self._appearance = euclidean_distances(X[self._rows], X, squared=True).astype(np.float64, copy=False)

    def errors(self, order: LeftOut) -> FloatArray:
        """Absolute errors (q,) with the usual locality and the best number of votes.

        Parameters
        ----------
        order : callable
            Samples (q,) to their squared distances (q, n) to all samples in the order map, each having been left out;
            infinite to itself.
        """
        return self._count(self._blocks(order, slice(None)), [USUAL_LOCALITY])[USUAL_LOCALITY].fewest

    def choose(self, order: LeftOut, localities: Sequence[float]) -> tuple[float, Neighborhoods]:
        """How much of the original distance to keep, and what neighbours samples then have.

        The usual locality, unless another, with whatever number of votes, clearly mistakes fewer grades; then as
        much more as clearly costs little, since it is what keeps similar samples together inside a grade.

        Parameters
        ----------
        order : callable
            As for :meth:`errors`.
        localities : sequence of float
            Rising. One is not a choice. Of more than 300 samples larger ones are tried while the largest is the best.
        """
        counts: dict[float, _Count] = {}
        seen: list[_Block] = []
        for part in self._rounds:
            blocks = self._blocks(order, part)
            new = self._count(blocks, list(counts or localities))
            counts = {locality: _Count.joined([counts[locality], new[locality]]) for locality in counts} or new
            if len(localities) > 1 and part is not self._rounds[-1]:
                seen += blocks
                self._try_larger(seen, counts)
                counts = {locality: counts[locality] for locality in _hopeful(counts)}
        chosen = _choose_locality(counts) if len(counts) > 1 else next(iter(counts))
        return chosen, counts[chosen].near

    def _try_larger(self, blocks: Sequence[_Block], counts: dict[float, _Count]) -> None:
        """Add twice the largest locality while it is the best."""
        while _best(counts)[0] == (largest := max(counts)) < LARGEST_LOCALITY:
            counts |= self._count(blocks, [2 * largest])

    def _blocks(self, order: LeftOut, part: slice) -> list[_Block]:
        """Part of the left-out samples, in blocks that stay in the processor's cache and keep all of it busy."""
        rows, appearance = self._rows[part], self._appearance[part]
        n_blocks = self._n_threads * -(-len(rows) // (self._n_threads * ROWS_AT_ONCE))
        parts = (np.array_split(array, min(n_blocks, len(rows))) for array in (rows, appearance))
        return [_Block(*block, order) for block in zip(*parts, strict=True)]

    def _count(self, blocks: Sequence[_Block], localities: Sequence[float]) -> dict[float, _Count]:
        """Votes on the samples of some blocks with every locality."""

        def of_block(block: _Block) -> list[_Count]:
            return [self._count_block(block, locality) for locality in localities]

        # NumPy selects and sorts outside the interpreter's lock.
        with ThreadPoolExecutor(self._n_threads) as pool:
            found = list(pool.map(of_block, blocks))
        joined = map(_Count.joined, zip(*found, strict=True))
        return dict(zip(localities, joined, strict=True))

    def _count_block(self, block: _Block, locality: float) -> _Count:
        indices, squared = _k_smallest(block.squared(locality), self._numbers[-1])
        near = Neighborhoods(block.rows, indices, np.sqrt(squared))
        votes, weights = self._index[indices], vote_weights(near.distances)
        grades = self._distinct[medians_of_first(votes, weights, self._numbers, len(self._distinct))]
        return _Count(near, np.abs(grades - self._distinct[self._index[block.rows]]))


def _best(counts: dict[float, _Count]) -> tuple[float, int]:
    """Locality and place of the number of votes that mistake fewest grades."""
    ways = [(locality, place) for locality, count in counts.items() for place in range(len(count.errors))]
    return min(ways, key=lambda way: float(counts[way[0]].errors[way[1]].mean()))


def _hopeful(counts: dict[float, _Count]) -> list[float]:
    """Localities that, with some number of votes, do not probably mistake more grades than the best."""
    locality, place = _best(counts)
    fewest = counts[locality].errors[place]
    return [
        locality
        for locality, count in counts.items()
        if not all(clearly_more(errors, fewest, PROBABLY) for errors in count.errors)
    ]


def _choose_locality(counts: dict[float, _Count]) -> float:
    """The usual one or the best, then as much more as costs little."""
    locality, place = _best(counts)
    if USUAL_LOCALITY in counts and not clearly_more(counts[USUAL_LOCALITY].errors[-1], counts[locality].errors[place]):
        locality, place = USUAL_LOCALITY, -1
    reference = counts[locality].errors[place]
    little, worst = LITTLE * reference.mean(), reference.max()

    def costs_little(other: float) -> bool:
        # As if one more sample were graded as badly as any: few samples that agree do not prove much.
        return clearly_below(np.append(counts[other].errors[place] - reference, worst), little)

    return max([locality, *filter(costs_little, counts)])


def _k_smallest(values: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
    """Columns (q, k) of the k smallest values of each row (q, n), and these, rising.

    The k-th smallest of the least values of groups of columns bounds the k-th smallest of all, and little more than k
    are below it: they are found without ordering the others.
    """
    q, n = values.shape
    size = max(1, int(n / (SPARE * k)))
    n_groups = n // size
    least = values[:, : size * n_groups].reshape(q, size, n_groups).min(axis=1)
    found = np.flatnonzero(values <= np.partition(least, k - 1, axis=1)[:, k - 1, None])
    bounds = np.searchsorted(found, np.arange(0, values.size + 1, n))
    start, end = bounds[:-1, None], bounds[1:, None]
    places = start + np.arange((end - start).max())
    small = np.take(np.take(values, found), places, mode="clip")
    small[places >= end] = np.inf
    found = np.take(found, start + np.argsort(small, axis=1)[:, :k])
    return found - np.arange(0, values.size, n)[:, None], np.take(values, found)
