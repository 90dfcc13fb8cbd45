"""Several graders: how far they agree, where they differ, and one grade for each sample."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from ordrank._protocols import FloatArray
from ordrank.errors import InputError
from ordrank.metrics import mean_absolute_error, nearest_label, quadratic_weighted_kappa

# With one common sample there is no variance, and so no kappa.
_MIN_COMMON = 2
# The error of a grader is shrunk towards that of all, as if by so many more samples of mean error: a grader of a few
# samples is neither perfect nor useless.
_SHRINKAGE = 10.0
# Weights of graders below and above a value count as equal if they differ from one half by this share of the mean
# weight. Between two graders, one is followed if it is 1.5 times as reliable as the other.
_NEAR_TIE = 0.2
_MAX_ITERATIONS = 50
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Ratings:
    """Grades of n samples by g graders.

    Attributes
    ----------
    samples, graders : tuple
        Names of the rows and the columns, in the order of their first appearance.
    grades : ndarray of shape (n, g)
        NaN where a grader has not graded a sample.
    """

    samples: tuple[Hashable, ...]
    graders: tuple[Hashable, ...]
    grades: FloatArray

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[Hashable, Hashable, float]]) -> Ratings:
        """Return the ratings of rows (sample, grader, grade); if a grader changed a grade, the last row counts."""
        given: dict[tuple[int, int], float] = {}
        samples: dict[Hashable, int] = {}
        graders: dict[Hashable, int] = {}
        for sample, grader, grade in rows:
            if not np.isfinite(grade):
                raise InputError(f"grades must be finite numbers; {grader!r} gave {sample!r} the grade {grade!r}")
            given[samples.setdefault(sample, len(samples)), graders.setdefault(grader, len(graders))] = float(grade)
        grades = np.full((len(samples), len(graders)), np.nan)
        for cell, grade in given.items():
            grades[cell] = grade
        return cls(tuple(samples), tuple(graders), grades)


@dataclass(frozen=True)
class PairAgreement:
    """Agreement of two graders: quadratically weighted κ of their common samples, NaN if these are fewer than two."""

    first: Hashable
    second: Hashable
    n_common: int
    kappa: float


@dataclass(frozen=True)
class Consensus:
    """One grade for each sample.

    Attributes
    ----------
    grades : ndarray of shape (n,)
    weights : ndarray of shape (g,)
        Of the graders, with mean 1.
    converged : bool
        Whether the weights stopped changing.
    """

    grades: FloatArray
    weights: FloatArray
    converged: bool


@dataclass(frozen=True)
class GraderScore:
    """A grader compared with the consensus of the others, on samples that others have graded too.

    Attributes
    ----------
    grader : hashable
    n_graded, n_compared : int
        Samples of this grader, and those of them that others have graded.
    bias, error : float
        Mean of grade - consensus and of its absolute value; NaN if no sample can be compared.
    weight : float
        Of this grader in the consensus.
    """

    grader: Hashable
    n_graded: int
    n_compared: int
    bias: float
    error: float
    weight: float


@dataclass(frozen=True)
class Disagreement:
    """A sample with different grades.

    Attributes
    ----------
    sample : hashable
    grades : tuple of (grader, grade)
    spread : float
        Largest minus smallest grade.
    consensus : float
    """

    sample: Hashable
    grades: tuple[tuple[Hashable, float], ...]
    spread: float
    consensus: float


def pairwise_agreement(ratings: Ratings) -> tuple[PairAgreement, ...]:
    """Return the agreement of every two graders."""
    return tuple(_agreement(ratings, i, j) for i, j in combinations(range(len(ratings.graders)), 2))


def consensus(ratings: Ratings, *, labels: ArrayLike | None = None) -> Consensus:
    r"""Return the weighted median of the grades of each sample, with weights by the reliability of the graders.

    Grades are taken as the true value plus errors with a Laplace distribution of scale :math:`b_g`, whose likelihood

    .. math:: \sum_{g, i} |y_{gi} - c_i| / b_g + \log b_g

    is maximised by the median :math:`c_i` with weights :math:`1 / b_g`. Scales and medians are estimated in turns,
    as by Dawid and Skene (1979) for classes. The error of a grader is measured against the consensus of the others:
    measured against a consensus that it contributes to, the grader with the largest weight would look perfect. It
    is shrunk towards the mean error of all graders by ten samples.

    One grader has the last word alone. Two graders cannot be told apart, nor can graders with equal errors: the
    consensus is then the median, the mean of both middle grades if their number is even.

    Parameters
    ----------
    ratings : Ratings
    labels : array-like of shape (m,), optional
        If given, the consensus is rounded to the nearest of these, the lower one on ties.

    References
    ----------
    A. P. Dawid and A. M. Skene (1979). Maximum likelihood estimation of observer error-rates using the EM algorithm.
    """
    weights, converged = np.ones(len(ratings.graders)), False
    for _ in range(_MAX_ITERATIONS):
        previous, weights = weights, _weights(_errors(ratings.grades, weights))
        converged = bool(np.abs(weights - previous).max(initial=0.0) <= _TOLERANCE)
        if converged:
            break
    medians = weighted_median(ratings.grades, weights)
    if labels is not None:
        known = np.unique(np.asarray(labels, dtype=np.float64))
        medians = known[nearest_label(known, medians)]
    return Consensus(medians, weights, converged)


def grader_scores(ratings: Ratings, found: Consensus) -> tuple[GraderScore, ...]:
    """Return bias and error of each grader against the consensus of the others, by the weights of a consensus."""
    errors = _errors(ratings.grades, found.weights)
    return tuple(
        _grader_score(grader, ratings.grades[:, g], errors[:, g], float(found.weights[g]))
        for g, grader in enumerate(ratings.graders)
    )


def disagreements(ratings: Ratings, found: Consensus) -> tuple[Disagreement, ...]:
    """Return the samples whose graders differ, largest difference first, of equal ones in the order of the samples."""
    present = ~np.isnan(ratings.grades)
    highest = np.where(present, ratings.grades, -np.inf).max(axis=1, initial=-np.inf)
    lowest = np.where(present, ratings.grades, np.inf).min(axis=1, initial=np.inf)
    differing = np.flatnonzero(highest > lowest)
    order = differing[np.argsort(lowest[differing] - highest[differing], kind="stable")]
    return tuple(
        Disagreement(
            sample=ratings.samples[i],
            grades=tuple((ratings.graders[g], float(ratings.grades[i, g])) for g in np.flatnonzero(present[i])),
            spread=float(highest[i] - lowest[i]),
            consensus=float(found.grades[i]),
        )
        for i in order.tolist()
    )


def weighted_median(grades: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted median (n,) of the rows of grades (n, g), given weights (g,); NaN grades do not count.

    The mean of two adjacent grades if the weights on both sides are equal, or nearly so: within a fifth of the mean
    weight of a row. NaN for rows without grades.
    """
    if not grades.size:
        return np.full(len(grades), np.nan)
    order = np.argsort(grades, axis=1, kind="stable")  # NaN last
    values = np.take_along_axis(grades, order, axis=1)
    mass = np.where(np.isnan(values), 0.0, weights[order])
    count = (~np.isnan(values)).sum(axis=1)
    below = mass.cumsum(axis=1)
    half = 0.5 * below[:, -1:]
    slack = _NEAR_TIE * 2 * half / np.maximum(count, 1)[:, None]
    lower = (below >= half - slack).argmax(axis=1)
    upper = np.minimum((below > half + slack).argmax(axis=1), np.maximum(count - 1, 0))
    rows = np.arange(len(grades))
    return np.asarray((values[rows, lower] + values[rows, upper]) / 2)


def _agreement(ratings: Ratings, i: int, j: int) -> PairAgreement:
    common = ~np.isnan(ratings.grades[:, [i, j]]).any(axis=1)
    first, second = ratings.grades[common, i], ratings.grades[common, j]
    kappa = quadratic_weighted_kappa(first, second) if len(first) >= _MIN_COMMON else float("nan")
    return PairAgreement(ratings.graders[i], ratings.graders[j], len(first), kappa)


def _errors(grades: FloatArray, weights: FloatArray) -> FloatArray:
    """Return grade minus consensus of the other graders (n, g); NaN where a sample has no other."""
    errors = np.full(grades.shape, np.nan)
    for g in range(grades.shape[1]):
        errors[:, g] = grades[:, g] - weighted_median(np.delete(grades, g, axis=1), np.delete(weights, g))
    return errors


def _weights(errors: FloatArray) -> FloatArray:
    """Return weights (g,) inversely proportional to the mean absolute errors, with mean 1; 1 if nobody errs."""
    known = ~np.isnan(errors)
    total, count = np.where(known, np.abs(errors), 0.0).sum(axis=0), known.sum(axis=0)
    mean = total.sum() / max(count.sum(), 1)
    if mean == 0:
        return np.ones(errors.shape[1])
    weights = (count + _SHRINKAGE) / (total + _SHRINKAGE * mean)
    return np.asarray(weights / weights.mean())


def _grader_score(grader: Hashable, grades: FloatArray, errors: FloatArray, weight: float) -> GraderScore:
    compared = errors[~np.isnan(errors)]
    bias = float(compared.mean()) if len(compared) else float("nan")
    error = mean_absolute_error(compared, np.zeros(len(compared))) if len(compared) else float("nan")
    return GraderScore(grader, int((~np.isnan(grades)).sum()), len(compared), bias, error, weight)
