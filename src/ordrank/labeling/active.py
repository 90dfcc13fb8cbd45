"""Which samples to grade next: those whose grades would tell most about the grades of all others.

The grades of similar samples are similar: a Gaussian process on the learned embedding says how much the grade of one
sample would tell about another's. Samples are chosen one after the other so that the expected error of all ungraded
samples is reduced most; each choice takes the grades of those before it as given, so that a
batch is diverse. A sample far from all others reduces their errors little and is not chosen for its uncertainty alone.

References
----------
D. Cohn, Z. Ghahramani and M. Jordan, "Active learning with statistical models", JAIR 1996.
S. Seo, M. Wallat, T. Graepel and K. Obermayer, "Gaussian process regression: active data selection and test point
rejection", IJCNN 2000.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ordrank._format import pluralize
from ordrank._protocols import FloatArray, IntArray
from ordrank.errors import InputError
from ordrank.kernel_ridge.kernels import pairwise_squared_distances
from ordrank.metrics import median_of_proba

Reason: TypeAlias = Literal["uncertain", "representative", "novel"]

# Of more samples a fixed random subset is considered: time and memory grow with its square.
MAX_CANDIDATES = 2000
# Variance of a given grade, relative to that of the process; results hardly depend on it between 0.01 and 0.5.
_NOISE = 0.1
# Squared errors count as at least this share of their mean: a model that is wrong about a region may be sure of it.
_LEAST_WEIGHT = 0.01
# Samples nearer than this share of the bandwidth are copies; only one of them is chosen while others remain.
_COPY = 1e-9
# A sample is novel if it is so many times as far from all graded samples as a high quantile of them from the others.
_NOVEL_DISTANCE, _NOVEL_QUANTILE = 1.5, 0.95
_MIN_LABELED = 5  # graded samples, for that to mean something
_LABELED_BLOCK = 4096


@dataclass(frozen=True)
class Choice:
    """A sample to grade.

    Attributes
    ----------
    index : int
        Its row.
    reason : {"uncertain", "representative", "novel"}
        Novel: much farther from all graded samples than nearly all of these are from each other; else uncertain:
        its expected error is above the mean; else representative.
    represents : int
        Number of other ungraded samples to which it is nearer than every graded sample and every other choice is.
    """

    index: int
    reason: Reason
    represents: int


def expected_error(proba: FloatArray, labels: FloatArray) -> FloatArray:
    r"""Return the expected absolute error :math:`E|Y - \mathrm{median}\,Y|` (n,) of estimates, in units of the grade.

    Parameters
    ----------
    proba : ndarray of shape (n, m)
        Probabilities of the grades.
    labels : ndarray of shape (m,)
        The grades, ascending.
    """
    differences = np.abs(labels - labels[median_of_proba(proba)][:, None])
    return np.asarray((proba * differences).sum(axis=1))


def random_subset(rows: IntArray, limit: int = MAX_CANDIDATES) -> IntArray:
    """Return at most ``limit`` of ascending rows, drawn at random with a fixed seed; most stay when some rows leave."""
    if len(rows) <= limit:
        return rows
    priority = np.random.default_rng(0).random(int(rows[-1]) + 1)[rows]
    return np.sort(rows[np.argpartition(priority, limit)[:limit]])


def choose_samples(
    X: ArrayLike, k: int, *, labeled: ArrayLike | None = None, error: ArrayLike | None = None
) -> list[Choice]:
    r"""Return the samples to grade next, most useful first.

    The error of the model's estimate of sample i is taken for a Gaussian process with standard deviation :math:`e_i`
    and correlation :math:`\exp(-\|x_i - x_j\|^2 / h)`, where h is the median squared distance of two ungraded samples.
    Let C be this correlation, reduced by what the graded samples and the choices before tell. The next choice reduces
    the variances of all ungraded samples most,

    .. math:: \max_i \sum_j e_j^2 \frac{C_{ij}^2}{C_{ii} + \sigma^2} .

    Parameters
    ----------
    X : array-like of shape (n, d)
        Samples without a grade, in the learned embedding; before there is a model, their features. Of more than
        ``MAX_CANDIDATES`` a fixed random subset is considered.
    k : int
        Number of choices; fewer if there are fewer samples.
    labeled : array-like of shape (l, d), optional
        Samples with a grade.
    error : array-like of shape (n,), optional
        Expected errors e, see :func:`expected_error`; equal by default.

    Returns
    -------
    list of Choice

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat(9 * np.eye(4), 25, axis=0) + np.random.default_rng(0).normal(size=(100, 4))  # four clusters
    >>> sorted(choice.index // 25 for choice in choose_samples(X, 4))
    [0, 1, 2, 3]
    """
    samples = _samples(X, "X")
    known = samples[:0] if labeled is None else _samples(labeled, "labeled")
    if known.shape[1] != samples.shape[1]:
        raise InputError(f"labeled has {pluralize(known.shape[1], 'feature')}, but X has {samples.shape[1]}")
    errors = _errors(error, len(samples))
    if k < 0:
        raise InputError(f"k is {k}; choose a number of samples that is not negative")
    rows = random_subset(np.arange(len(samples)))
    if not len(rows) or not k:
        return []
    origin = samples[rows].mean(axis=0, dtype=np.float64)
    candidates = samples[rows] - origin
    nearest, to_nearest = _nearest_labeled(candidates, known, origin)
    landmarks = known[np.unique(nearest)] - origin
    squared = pairwise_squared_distances(candidates, candidates)
    chosen = _choose(squared, candidates, landmarks, _weights(errors, rows), k)
    represented = np.round(len(samples) / len(rows) * _represented(squared[:, chosen], to_nearest))
    reasons = _reasons(None if errors is None else errors[rows], to_nearest, landmarks)
    return [
        Choice(int(rows[i]), reasons[i], int(count))
        for i, count in zip(chosen.tolist(), represented.tolist(), strict=True)
    ]


def _samples(X: ArrayLike, name: str) -> NDArray[np.floating]:
    samples = np.asarray(X)
    if samples.dtype not in (np.float32, np.float64):
        samples = samples.astype(np.float64)
    if samples.ndim != 2 or not np.isfinite(samples).all():
        raise InputError(f"{name} must be a table of finite numbers, with a row for each sample")
    return samples


def _errors(error: ArrayLike | None, n: int) -> FloatArray | None:
    if error is None:
        return None
    errors = np.asarray(error, dtype=np.float64)
    if errors.shape != (n,) or not np.isfinite(errors).all() or (errors < 0).any():
        expected = f"{pluralize(n, 'finite number')}, none of them negative: one for each row of X"
        raise InputError(f"error must hold {expected}")
    return errors


def _weights(errors: FloatArray | None, rows: IntArray) -> FloatArray:
    """Return the weights e² (c,) of candidates, relative to their mean."""
    if errors is None or not errors[rows].any():
        return np.ones(len(rows))
    squares = (errors[rows] / errors[rows].max()) ** 2
    return np.asarray(np.maximum(squares / squares.mean(), _LEAST_WEIGHT))


def _nearest_labeled(
    candidates: FloatArray, known: NDArray[np.floating], origin: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return the graded sample nearest to each candidate (c,), and its squared distance; none and infinite without any.

    ``candidates`` are relative to ``origin``, ``known`` is not.
    """
    nearest, distances = np.zeros(len(candidates), dtype=np.int64), np.full(len(candidates), np.inf)
    for start in range(0, len(known), _LABELED_BLOCK):
        squared = pairwise_squared_distances(candidates, known[start : start + _LABELED_BLOCK] - origin)
        best = squared.argmin(axis=1)
        values = squared[np.arange(len(candidates)), best]
        closer = values < distances
        nearest[closer], distances[closer] = start + best[closer], values[closer]
    return nearest if len(known) else nearest[:0], distances


def _reasons(errors: FloatArray | None, to_nearest: FloatArray, landmarks: FloatArray) -> list[Reason]:
    """Return the reason for each candidate, if it is chosen."""
    is_novel = to_nearest > _NOVEL_DISTANCE**2 * _squared_spacing(landmarks)
    is_uncertain = np.zeros(len(to_nearest), dtype=np.bool_) if errors is None else errors > errors.mean()
    return [
        "novel" if novel else "uncertain" if uncertain else "representative"
        for novel, uncertain in zip(is_novel.tolist(), is_uncertain.tolist(), strict=True)
    ]


def _squared_spacing(known: FloatArray) -> float:
    """Return a high quantile of the squared distance of graded samples to the nearest other one; infinite for few."""
    if len(known) < _MIN_LABELED:
        return np.inf
    squared = pairwise_squared_distances(known, known)
    np.fill_diagonal(squared, np.inf)
    return float(np.quantile(squared.min(axis=1), _NOVEL_QUANTILE))


def _choose(
    squared: FloatArray, candidates: FloatArray, landmarks: FloatArray, weights: FloatArray, k: int
) -> IntArray:
    """Return the numbers of at most k candidates, chosen greedily.

    ``landmarks`` (m, d) are the graded samples nearest to the candidates: others tell little more about them. The
    covariance C is stored as that before the first choice minus a product :math:`V V^T` with a column for each choice.
    """
    n = len(candidates)
    h = _bandwidth(squared)
    to_landmarks = pairwise_squared_distances(candidates, landmarks) if len(landmarks) else np.empty((n, 0))
    C = np.exp(-squared / h)
    if len(landmarks):
        C -= _explained(to_landmarks, landmarks, h)
    variances, gains = np.maximum(C.diagonal(), 0.0), _gains(C, weights)
    V = np.empty((n, min(k, n)))
    # A copy of a graded sample is chosen last.
    is_free, is_copy = np.ones(n, dtype=np.bool_), (to_landmarks <= _COPY * h).any(axis=1)
    chosen: list[int] = []
    for t in range(V.shape[1]):
        allowed = is_free & ~is_copy
        scores = np.where(allowed if allowed.any() else is_free, gains / (variances + _NOISE), -np.inf)
        i = int(scores.argmax())
        chosen.append(i)
        is_free[i] = False
        is_copy |= squared[i] <= _COPY * h
        v, noisy = C[:, i] - V[:, :t] @ V[i, :t], variances[i] + _NOISE
        weighted = weights * v
        along = C @ weighted - V[:, :t] @ (V[:, :t].T @ weighted)
        gains = np.maximum(gains - 2 * v * along / noisy + v**2 * (weighted @ v) / noisy**2, 0.0)
        variances = np.maximum(variances - v**2 / noisy, 0.0)
        V[:, t] = v / np.sqrt(noisy)
    return np.array(chosen, dtype=np.int64)


def _bandwidth(squared: FloatArray) -> float:
    """Return h, the median of the squared distances of different samples, or 1 if there are no two different ones."""
    apart = squared[np.triu_indices(len(squared), 1)]
    apart = apart[apart > _COPY * squared.max(initial=0.0)]  # others are copies, up to rounding
    return float(np.median(apart)) if len(apart) else 1.0


def _explained(to_landmarks: FloatArray, landmarks: FloatArray, h: float) -> FloatArray:
    """Return the part (n, n) of the prior covariance that the grades of landmarks explain."""
    known = np.exp(-pairwise_squared_distances(landmarks, landmarks) / h)
    known[np.diag_indices_from(known)] += _NOISE
    root = scipy.linalg.cholesky(known, lower=True, check_finite=False)
    shared = scipy.linalg.solve_triangular(root, np.exp(-to_landmarks / h).T, lower=True, check_finite=False)
    return np.asarray(shared.T @ shared)


def _gains(C: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted sums of squares (n,) of the columns of C, without a second matrix of its size."""
    return np.asarray(np.einsum("j,ji,ji->i", weights, C, C))


def _represented(to_chosen: FloatArray, to_labeled: FloatArray) -> IntArray:
    """Return how many samples (k,) each choice is nearest to, of all choices and graded samples; without itself."""
    nearest = to_chosen.argmin(axis=1)
    is_near = to_chosen.min(axis=1) < to_labeled
    return np.maximum(np.bincount(nearest[is_near], minlength=to_chosen.shape[1]) - 1, 0)
