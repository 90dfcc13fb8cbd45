"""Votes on samples that were left out: how many neighbours to ask, and how much of the original distance to keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import chain

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from ordrank._types import FloatArray, IntArray
from ordrank.votes import count_votes

MOST_VOTES = 101
FEWER_VOTES = (1, 3, 7, 15, 31, 51)
# One way to grade mistakes more than another only if the difference is that many standard errors.
CLEARLY = 3.0
# With fewer samples nothing is clear.
FEWEST = 10
LOCALITIES = (0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
USUAL_LOCALITY = 0.2
# Share of the mistakes that may be added for more locality.
LITTLE = 0.05
ROWS_AT_ONCE = 100

LeftOut = Callable[[IntArray], FloatArray]


def clearly_more(errors: FloatArray, reference: FloatArray) -> bool:
    """Whether paired errors (q,) are larger than the reference's by more than chance may explain."""
    difference = errors - reference
    return len(difference) >= FEWEST and bool(difference.mean() > CLEARLY * difference.std() / np.sqrt(len(difference)))


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
        self.labels = labels
        self.rows: IntArray = np.sort(rng.permutation(len(X))[:n_ballots])
        self._appearance = euclidean_distances(X[self.rows], X, squared=True).astype(np.float64, copy=False)
        self._numbers = numbers_of_votes(len(X))

    def errors(self, order: LeftOut) -> FloatArray:
        """Absolute errors (q,) with the usual locality and the best number of votes."""
        near = self.neighborhoods(order, [USUAL_LOCALITY])[USUAL_LOCALITY]
        return min(self._errors(near), key=lambda errors: float(errors.mean()))

    def neighborhoods(self, order: LeftOut, localities: Sequence[float]) -> dict[float, Neighborhoods]:
        """Nearest neighbours for every locality.

        Parameters
        ----------
        order : callable
            Samples (q,) to their squared distances (q, n) to all samples in the order map, each having been left out;
            infinite to itself.
        localities : sequence of float
        """

        def of_part(rows: IntArray, appearance: FloatArray) -> list[Neighborhoods]:
            squared = order(rows)
            return [self._nearest(rows, squared + locality**2 * appearance) for locality in localities]

        # A block stays in the processor's cache; NumPy selects and sorts outside the interpreter's lock.
        starts = range(ROWS_AT_ONCE, len(self.rows), ROWS_AT_ONCE)
        parts = np.split(self.rows, starts), np.split(self._appearance, starts)
        with ThreadPoolExecutor(min(len(parts[0]), cpu_count())) as pool:
            found = list(pool.map(of_part, *parts))
        joined = (Neighborhoods.joined(near) for near in zip(*found, strict=True))
        return dict(zip(localities, joined, strict=True))

    def choose_locality(self, neighborhoods: dict[float, Neighborhoods]) -> float:
        """How much of the original distance to keep, given what neighbours samples have with each.

        The usual locality, unless another, with whatever number of votes, clearly mistakes fewer grades; then as
        much more as clearly costs little, since it is what keeps similar samples together inside a grade.
        """
        ways = [(locality, votes) for locality in neighborhoods for votes in self._numbers]
        with ThreadPoolExecutor(cpu_count()) as pool:
            tried = list(chain.from_iterable(pool.map(self._errors, neighborhoods.values())))
        errors = dict(zip(ways, tried, strict=True))
        chosen = USUAL_LOCALITY, self._numbers[-1]
        best = min(errors, key=lambda entry: float(errors[entry].mean()))
        if clearly_more(errors[chosen], errors[best]):
            chosen = best
        little, worst = LITTLE * errors[chosen].mean(), errors[chosen].max()

        def costs_little(locality: float) -> bool:
            # As if one more sample were graded as badly as any: few samples that agree do not prove much.
            added = np.append(errors[locality, chosen[1]] - errors[chosen], worst)
            return clearly_below(added, little)

        return max([chosen[0], *filter(costs_little, neighborhoods)])

    def _nearest(self, rows: IntArray, squared: FloatArray) -> Neighborhoods:
        """Of some samples, given their squared distances to all, (q, n)."""
        k = min(self._numbers[-1], squared.shape[1] - 1)
        nearest = np.argpartition(squared, k - 1, axis=1)[:, :k]
        of_nearest = np.take_along_axis(squared, nearest, axis=1)
        rising = np.argsort(of_nearest, axis=1)
        distances = np.sqrt(np.maximum(np.take_along_axis(of_nearest, rising, axis=1), 0.0))
        return Neighborhoods(rows, np.take_along_axis(nearest, rising, axis=1), distances)

    def _errors(self, near: Neighborhoods) -> list[FloatArray]:
        """Absolute errors (q,) with each number of votes."""
        return [near.errors(self.labels, votes) for votes in self._numbers]
