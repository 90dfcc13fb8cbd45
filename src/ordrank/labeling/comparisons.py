r"""Positions of samples on an ordered scale, from comparisons of two of them and from grades, in one likelihood.

The position :math:`f_i` of a sample is unknown; all positions have the prior :math:`N(m, K)`. With
:math:`d = (f_i - f_j) / s`, a comparison of samples i and j has the probabilities of Davidson (1970)

.. math:: p(i > j) \propto e^{d/2}, \quad p(i < j) \propto e^{-d/2}, \quad p(i = j) \propto \nu,

which are those of Bradley and Terry (1952) if there are no ties, :math:`\nu = 0`. A grade is the position with normal
noise. All logarithms are concave, so that there is one most probable vector of positions; Newton's method finds it, and
the inverse of the Hessian there is the covariance of the normal approximation (Laplace) of the posterior.

References
----------
R. R. Davidson (1970). On extending the Bradley-Terry model to accommodate ties in paired comparison experiments.
W. Chu and Z. Ghahramani (2005). Preference learning with Gaussian processes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import scipy

from ordrank._protocols import FloatArray, IntArray
from ordrank.errors import InputError

_MAX_ITERATIONS = 100
_TOLERANCE = 1e-10  # of the Newton decrement: twice the expected increase of the log probability
_ARMIJO = 0.1
_SHORTEST = 1e-8  # step of the line search, where rounding hides a decrease
_JITTER = 1e-8  # relative to the prior variance: the covariance of equal samples is singular


@dataclass(frozen=True)
class Comparisons:
    """Comparisons of c pairs of samples.

    Attributes
    ----------
    first, second : ndarray of shape (c,)
        Numbers of the samples.
    outcome : ndarray of shape (c,)
        1 if the first is higher, -1 if the second is, 0 if they are equal.
    """

    first: IntArray
    second: IntArray
    outcome: IntArray

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[int, int, int]]) -> Comparisons:
        """Return the comparisons of rows (first, second, outcome)."""
        table = np.array(list(rows), dtype=np.int64).reshape(-1, 3)
        if (table[:, 0] == table[:, 1]).any():
            raise InputError("a sample cannot be compared with itself")
        if not np.isin(table[:, 2], (-1, 0, 1)).all():
            raise InputError("the outcome of a comparison is 1, -1 or 0")
        return cls(table[:, 0], table[:, 1], table[:, 2])

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class Grades:
    """Positions that were observed with noise: numbers of the samples, values, and variances, each of shape (g,)."""

    samples: IntArray
    values: FloatArray
    variances: FloatArray

    @classmethod
    def none(cls) -> Grades:
        """Return no grades."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))


@dataclass(frozen=True)
class Prior:
    """Normal distribution of the positions before anything is said: mean (n,), covariance (n, n)."""

    mean: FloatArray
    covariance: FloatArray


@dataclass(frozen=True)
class AnswerModel:
    """How people compare.

    Attributes
    ----------
    noise : float
        Scale s: a difference of 1.1 s is recognised three times in four.
    ties : float
        Weight ν: two samples at the same position are called equal with probability ν / (2 + ν).
    """

    noise: float = 1.0
    ties: float = 0.0


@dataclass(frozen=True)
class Positions:
    """Normal approximation of the posterior: mean (n,), covariance (n, n), and log evidence of the answer model."""

    mean: FloatArray
    covariance: FloatArray
    answers: AnswerModel
    evidence: float

    @property
    def deviation(self) -> FloatArray:
        """Standard deviations (n,)."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def with_answer(self, first: int, second: int, outcome: int) -> Positions:
        """Return the posterior after another comparison, by one Newton step from the present mean, in O(n²).

        The evidence stays that of the comparisons before.
        """
        s = self.answers.noise
        difference = np.array([(self.mean[first] - self.mean[second]) / s])
        _, slope, curvature = log_likelihood(difference, np.array([outcome]), self.answers.ties)
        column = (self.covariance[:, first] - self.covariance[:, second]) / s
        gain = column / (1 + curvature[0] * (column[first] - column[second]) / s)
        covariance = self.covariance - np.outer(curvature[0] * gain, column)
        return replace(self, mean=self.mean + slope[0] * gain, covariance=covariance)


def log_likelihood(difference: FloatArray, outcome: IntArray, ties: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log probabilities (c,) of outcomes, their derivatives and negative second derivatives.

    Parameters
    ----------
    difference : ndarray of shape (c,)
        Positions of the first minus those of the second samples, in units of the noise.
    outcome : ndarray of shape (c,)
    ties : float
        Weight ν.
    """
    log_ties = np.log(ties) if ties > 0 else -np.inf
    logits = np.stack([difference / 2, -difference / 2, np.full(len(difference), log_ties)])
    logits -= np.logaddexp.reduce(logits, axis=0)
    higher, lower, _ = np.exp(logits)
    mean = higher - lower
    observed = logits[np.where(outcome == 1, 0, np.where(outcome == -1, 1, 2)), np.arange(len(difference))]
    return observed, (outcome - mean) / 2, np.maximum(higher + lower - mean**2, 0.0) / 4


def fit_positions(
    comparisons: Comparisons,
    prior: Prior,
    answers: AnswerModel,
    grades: Grades | None = None,
    start: FloatArray | None = None,
) -> Positions:
    r"""Return the posterior of the positions of n samples.

    The most probable positions :math:`f = m + L u` with :math:`K = L L^T` minimise the convex function

    .. math:: \tfrac12 \|u\|^2 - \sum_c \log p_c(f) + \sum_g (f_g - y_g)^2 / (2 t_g^2);

    with the Hessian W of the last two terms the covariance is :math:`L (I + L^T W L)^{-1} L^T`.

    Parameters
    ----------
    comparisons : Comparisons
    prior : Prior
    answers : AnswerModel
    grades : Grades, optional
    start : ndarray of shape (n,), optional
        Positions near the solution.
    """
    if not answers.ties and (comparisons.outcome == 0).any():
        raise InputError("two samples were compared as equal; the weight of ties must be positive")
    problem = _Problem(comparisons, answers, Grades.none() if grades is None else grades, len(prior.mean))
    root = _root(prior.covariance)
    u = np.zeros(len(root)) if start is None else scipy.linalg.solve_triangular(root, start - prior.mean, lower=True)
    u, value, factor = _maximum(problem, prior.mean, root, u)
    half = scipy.linalg.solve_triangular(factor, root.T, lower=True)
    evidence = value - float(np.log(np.diag(factor)).sum())
    return Positions(prior.mean + root @ u, half.T @ half, answers, evidence)


def _maximum(
    problem: _Problem, mean: FloatArray, root: FloatArray, u: FloatArray
) -> tuple[FloatArray, float, FloatArray]:
    """Return the most probable u (n,), its log probability but for a constant, and the factor of the Hessian there.

    Newton's method, with halved steps as long as they do not increase the probability enough (Armijo).
    """
    value, slope, curvature = problem.at(mean + root @ u)
    value -= float(u @ u) / 2
    factor = _factor(root, curvature)
    for _ in range(_MAX_ITERATIONS):
        gradient = root.T @ slope - u
        step = scipy.linalg.cho_solve((factor, True), gradient)
        increase, length = float(gradient @ step), 1.0
        if increase <= _TOLERANCE:
            u = u + step  # the error is squared once more; the factor is that of a point as close as this step
            break
        while True:
            moved = u + length * step
            new, slope, curvature = problem.at(mean + root @ moved)
            new -= float(moved @ moved) / 2
            if new >= value + _ARMIJO * length * increase or length < _SHORTEST:
                break
            length /= 2
        u, value, factor = moved, new, _factor(root, curvature)
    return u, value, factor


class _Problem:
    """Logarithm of the likelihood of comparisons and grades as a function of the positions (n,)."""

    def __init__(self, comparisons: Comparisons, answers: AnswerModel, grades: Grades, n: int) -> None:
        c = len(comparisons)
        signs = np.repeat([1.0, -1.0], c) / answers.noise
        columns = np.concatenate([comparisons.first, comparisons.second])
        self._differences = scipy.sparse.csr_array((signs, (np.tile(np.arange(c), 2), columns)), shape=(c, n))
        self._outcome, self._ties, self._grades, self._n = comparisons.outcome, answers.ties, grades, n

    def at(self, f: FloatArray) -> tuple[float, FloatArray, scipy.sparse.csr_array]:
        """Return the value, its gradient (n,), and the negative Hessian (n, n)."""
        A, grades = self._differences, self._grades
        value, slope, curvature = log_likelihood(np.asarray(A @ f), self._outcome, self._ties)
        residual = grades.values - f[grades.samples]
        total = float(value.sum() - 0.5 * (residual**2 / grades.variances + np.log(2 * np.pi * grades.variances)).sum())
        gradient = A.T @ slope + _sums(grades.samples, residual / grades.variances, self._n)
        precision = _sums(grades.samples, 1 / grades.variances, self._n)
        hessian = A.T @ (scipy.sparse.diags_array(curvature) @ A) + scipy.sparse.diags_array(precision)
        return total, gradient, scipy.sparse.csr_array(hessian)


def _sums(samples: IntArray, values: FloatArray, n: int) -> FloatArray:
    """Return the sum (n,) of the values of each sample."""
    return np.bincount(samples, values, n).astype(np.float64)  # integers if there are none


def _root(covariance: FloatArray) -> FloatArray:
    """Return the lower triangular L (n, n) with K = L Lᵀ, after adding a little to the variances."""
    jitter = _JITTER * float(np.diag(covariance).mean())
    return np.asarray(scipy.linalg.cholesky(covariance + jitter * np.eye(len(covariance)), lower=True))


def _factor(root: FloatArray, hessian: scipy.sparse.csr_array) -> FloatArray:
    """Return the Cholesky factor of I + Lᵀ W L."""
    inner = root.T @ (hessian @ root)
    inner.flat[:: len(inner) + 1] += 1
    return np.asarray(scipy.linalg.cholesky(inner, lower=True, overwrite_a=True))
