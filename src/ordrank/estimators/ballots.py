"""Votes on samples that were left out: how many neighbours to ask, and how much of the original distance to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
from joblib import cpu_count
from numpy.typing import DTypeLike, NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.smoothing import squared_distances
from ordrank.votes import count_votes, medians_of_first, vote_weights

MOST_VOTES = 101
FEWER_VOTES = (1, 3, 7, 15, 31, 51)
# How votes may count, the usual way last.
VOTE_WEIGHTS = ("uniform", "distance")
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
# Of more samples than these single precision is enough: it is faster, and no grade depends on the digits.
FEW_SAMPLES = 300
# Then all localities are tried on so many at first, and those that are not probably worse on more.
ROUNDS = (150, 300, 600)
PROBABLY = 2.0
# Among so many times as many as are wanted is their bound looked for.
SPARE = 2
ROWS_AT_ONCE = 100

Distances = Callable[[IntArray], NDArray[np.floating]]
LeftOut = Callable[[DTypeLike], Distances]


def clearly_more(errors: FloatArray, reference: FloatArray, how_clearly: float = CLEARLY) -> bool:
    """Whether paired errors (q,) are larger than the reference's by more than chance may explain."""
    difference = errors - reference
    chance = difference.std() / np.sqrt(len(difference))
    return len(difference) >= FEWEST and bool(difference.mean() > how_clearly * chance)


def clearly_below(differences: FloatArray, bound: float) -> bool:
    """Whether the mean of differences (q,) is below a bound by more than chance may explain."""
    return bool(differences.mean() + CLEARLY * differences.std() / np.sqrt(len(differences)) < bound)


def usual_votes(n_samples: int, n_left_out: int = 1) -> int:
    """Number of voting neighbours unless there is evidence for another: a third of the samples, at most 101.

    No more than there are when as many samples as ``n_left_out`` are left out together.
    """
    return max(1, min(MOST_VOTES, n_samples // 3, n_samples - n_left_out))


def numbers_of_votes(n_samples: int, n_left_out: int = 1) -> list[int]:
    """Numbers of voting neighbours to choose from, the usual one last."""
    usual = usual_votes(n_samples, n_left_out)
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


def choose_votes(
    near: Neighborhoods,
    labels: FloatArray,
    numbers: Sequence[int],
    kinds: Sequence[str] = VOTE_WEIGHTS,
    *,
    aggregate: str = "median",
) -> tuple[int, str]:
    """Number and weights of votes: the last of each, unless others clearly mistake fewer grades.

    Parameters
    ----------
    near : Neighborhoods
        Of samples that were left out of the fit.
    labels : ndarray of shape (n,)
        Of all samples, as numbers.
    numbers, kinds : sequence of int and of str
        To choose from.
    aggregate : {"median", "mean"}
        How votes become a grade.
    """
    errors = {
        (votes, kind): near.errors(labels, votes, aggregate=aggregate, weights=kind)
        for votes in numbers
        for kind in kinds
    }
    usual, best = (numbers[-1], kinds[-1]), min(errors, key=lambda way: float(errors[way].mean()))
    return best if clearly_more(errors[usual], errors[best]) else usual


def better_than_one_grade(
    near: Neighborhoods, labels: FloatArray, groups: IntArray, way: tuple[int, str], *, aggregate: str = "median"
) -> bool:
    """Whether votes grade samples better than if all had one grade, by a standard error over their groups.

    Samples of a group are not independent: each group counts as one. The one grade is that for which all samples here
    of other groups vote.

    Parameters
    ----------
    near : Neighborhoods
        Of samples that were left out of the fit with their groups.
    labels, groups : ndarray of shape (n,)
        Of all samples, as numbers.
    way : tuple of int and str
        Number and weights of votes.
    aggregate : {"median", "mean"}
        How votes become a grade.
    """
    n_votes, weights = way
    errors = near.errors(labels, n_votes, aggregate=aggregate, weights=weights)
    own, groups = labels[near.rows], groups[near.rows]
    gains = []
    for group in np.unique(groups):
        members, others = groups == group, own[groups != group][None]
        one_grade = count_votes(others, np.ones_like(others), aggregate=aggregate, weights="uniform")
        gains.append(float(np.mean(np.abs(one_grade - own[members]) - errors[members])))
    return float(np.mean(gains)) > float(np.std(gains, ddof=1)) / len(gains) ** 0.5


class _Block:
    """Some left-out samples (q,), as many as stay in the processor's cache, and how they differ from all X (n, d)."""

    def __init__(self, rows: IntArray, X: NDArray[np.floating], dtype: DTypeLike) -> None:
        self.rows, self._X, self._dtype = rows, X, dtype
        self._appearance: NDArray[np.floating] | None = None

    @property
    def appearance(self) -> NDArray[np.floating]:
        """Squared distances (q, n), computed in the thread that asks first."""
        if self._appearance is None:
            self._appearance = squared_distances(self._X[self.rows], self._X).astype(self._dtype, copy=False)
        return self._appearance


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

    @cached_property
    def mistakes(self) -> FloatArray:
        """Mean errors (v,)."""
        return np.asarray(self.errors.mean(axis=1))

    @property
    def fewest(self) -> FloatArray:
        """Errors (q,) with the number of votes that mistakes fewest grades."""
        return np.asarray(self.errors[self.mistakes.argmin()])


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
    n_left_out : int
        Most samples that are left out together.
    """

    def __init__(
        self,
        X: NDArray[np.floating],
        labels: FloatArray,
        n_ballots: int,
        rng: np.random.Generator,
        n_left_out: int = 1,
    ) -> None:
        self._distinct, self._index = np.unique(labels, return_inverse=True)
        self._numbers, self._n_threads = numbers_of_votes(len(X), n_left_out), cpu_count()
        self._pool = ThreadPoolExecutor(self._n_threads)  # its threads end when nobody holds the ballots any more
        self._dtype = np.float64 if len(X) <= FEW_SAMPLES else np.float32
        drawn = rng.permutation(len(X))[:n_ballots]
        ends = [0, *(end for end in ROUNDS if FEW_SAMPLES < len(drawn) > end), len(drawn)]
        self._rounds = [self._blocks(np.sort(drawn[start:end]), X) for start, end in pairwise(ends)]

    def errors(self, orders: Sequence[LeftOut]) -> list[FloatArray]:
        """Absolute errors (q,) in each of several order maps, with the usual locality and the best number of votes.

        Parameters
        ----------
        orders : sequence of callables
            From a type to a function of samples (q,) to their squared distances (q, n) of that type to all samples in
            an order map, each having been left out; infinite to itself.
        """
        maps = [order(self._dtype) for order in orders]

        def squared(block: _Block) -> NDArray[np.floating]:
            together = np.empty((len(maps), *block.appearance.shape), dtype=self._dtype)
            for room, distances in zip(together, maps, strict=True):
                room[:] = distances(block.rows)
            together += self._dtype(USUAL_LOCALITY**2) * block.appearance
            return together

        return [count.fewest for count in self._count(squared, list(chain.from_iterable(self._rounds)))]

    def choose(self, order: LeftOut, localities: Sequence[float]) -> tuple[float, Neighborhoods]:
        """How much of the original distance to keep, and what neighbours samples then have.

        The usual locality, unless another, with whatever number of votes, clearly mistakes fewer grades; then as
        much more as clearly costs little, since it is what keeps similar samples together inside a grade. Of many
        samples, localities that are probably worse on some are not tried on the others.

        Parameters
        ----------
        order : callable
            As each for :meth:`errors`.
        localities : sequence of float
            Rising. One is not a choice. Of more than 300 samples larger ones are tried while the largest is the best.
        """
        distances = order(self._dtype)

        def count(blocks: Sequence[_Block], tried: Sequence[float]) -> dict[float, _Count]:
            shares = np.square(tried, dtype=self._dtype)[:, None, None]

            def squared(block: _Block) -> NDArray[np.floating]:
                together = shares * block.appearance
                together += distances(block.rows)
                return np.asarray(together)

            return dict(zip(tried, self._count(squared, blocks), strict=True))

        counts: dict[float, _Count] = {}
        seen: list[_Block] = []
        for blocks in self._rounds:
            new = count(blocks, list(counts or localities))
            counts = {locality: _Count.joined([counts[locality], new[locality]]) for locality in counts} or new
            seen += blocks
            if len(localities) > 1 and blocks is not self._rounds[-1]:
                while _best(counts)[0] == (largest := max(counts)) < LARGEST_LOCALITY:
                    counts |= count(seen, [2 * largest])
                counts = {locality: counts[locality] for locality in _hopeful(counts)}
        chosen = _choose_locality(counts) if len(counts) > 1 else next(iter(counts))
        return chosen, counts[chosen].near

    def _blocks(self, rows: IntArray, X: NDArray[np.floating]) -> list[_Block]:
        """Blocks of left-out samples, as many for each thread."""
        n_blocks = self._n_threads * -(-len(rows) // (self._n_threads * ROWS_AT_ONCE))
        return [_Block(part, X, self._dtype) for part in np.array_split(rows, min(n_blocks, len(rows)))]

    def _count(self, squared: Callable[[_Block], NDArray[np.floating]], blocks: Sequence[_Block]) -> Iterator[_Count]:
        """Votes in several ways, given the squared distances (ways, q, n) of the samples of a block in all of them."""
        # NumPy selects and sorts outside the interpreter's lock; few long steps leave it to other threads.
        found = list(self._pool.map(lambda block: self._count_block(block.rows, squared(block)), blocks))
        return map(_Count.joined, zip(*found, strict=True))

    def _count_block(self, rows: IntArray, squared: NDArray[np.floating]) -> list[_Count]:
        indices, smallest = _k_smallest(squared.reshape(-1, squared.shape[2]), self._numbers[-1])
        distances = np.sqrt(smallest, dtype=np.float64)
        medians = medians_of_first(self._index[indices], vote_weights(distances), self._numbers, len(self._distinct))
        grades = self._distinct[medians].reshape(len(self._numbers), *squared.shape[:2])
        errors = np.abs(grades - self._distinct[self._index[rows]])
        near = zip(np.split(indices, len(squared)), np.split(distances, len(squared)), strict=True)
        return [_Count(Neighborhoods(rows, *found), errors[:, way]) for way, found in enumerate(near)]


def _best(counts: dict[float, _Count]) -> tuple[float, int]:
    """Locality and place of the number of votes that mistake fewest grades."""
    locality = min(counts, key=lambda locality: counts[locality].mistakes.min())
    return locality, int(counts[locality].mistakes.argmin())


def _hopeful(counts: dict[float, _Count]) -> list[float]:
    """Localities that do not probably mistake more grades than the best; the usual one must do so clearly."""
    fewest = counts[_best(counts)[0]].fewest

    def is_worse(locality: float) -> bool:
        return clearly_more(counts[locality].fewest, fewest, CLEARLY if locality == USUAL_LOCALITY else PROBABLY)

    return [locality for locality in counts if not is_worse(locality)]


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


def _k_smallest(values: NDArray[np.floating], k: int) -> tuple[IntArray, NDArray[np.floating]]:
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
