r"""The prior of positions, and the hyperparameters of it and of the answers, for :mod:`ordrank.labeling.comparisons`.

Similar samples have similar positions: with squared distances :math:`D_{ij}` of their features, relative to the median,

.. math:: K_{ij} = \sigma^2 (\rho\, e^{-D_{ij} / 2 \ell^2} + (1 - \rho)\, \delta_{ij}).

The share :math:`\rho` that features explain, the length :math:`\ell`, the noise of the answers and the weight of ties
maximise the evidence of the comparisons (Rasmussen and Williams 2006, section 5.5) times a wide prior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np

from ordrank._protocols import FloatArray, IntArray
from ordrank.errors import InputError
from ordrank.labeling.comparisons import AnswerModel, Comparisons, Grades, Positions, Prior, fit_positions

_SHARES = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.995)
_LENGTHS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)  # relative to the median distance
_NOISES = (0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.5)  # relative to the scale
_TIES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
# Comparisons that form no cycle contradict no noise: log-normal prior of the noise around a tenth of the scale.
_USUAL_NOISE, _LOG_DEVIATION = 0.1, log(4.0)
_MAX_SAMPLES = 200  # that hyperparameters are selected with: each candidate is a fit, cubic in the samples
_MIN_GAIN = 1e-3
_MAX_STEPS = 1e7  # of a scale, beyond which rounding errors exceed a step
_PROBABLE = 1.0364  # standard deviations: the order of two samples has a probability of 0.85


@dataclass(frozen=True)
class Hyperparameters:
    """Share and length of the similarity of features, noise relative to the scale, and weight of ties."""

    share: float = 0.95
    length: float = 1.0
    noise: float = 0.1
    ties: float = 0.0


@dataclass(frozen=True, eq=False)
class PositionModel:
    """What is known about n positions before anyone compares.

    Attributes
    ----------
    mean : ndarray of shape (n,)
    scale : float
        σ, the standard deviation of the positions.
    distances : ndarray of shape (n, n), or None
        Squared distances of the features; None if positions do not depend on features.
    shared : ndarray of shape (n, p), or None
        Deviations that all positions have in common, each times a standard normal number.
    """

    mean: FloatArray
    scale: float
    distances: FloatArray | None = None
    shared: FloatArray | None = None

    @property
    def start(self) -> Hyperparameters:
        """Hyperparameters before there are comparisons."""
        return Hyperparameters() if self.distances is not None else Hyperparameters(share=0.0)

    def fit(
        self,
        comparisons: Comparisons,
        hyperparameters: Hyperparameters,
        grades: Grades | None = None,
        start: FloatArray | None = None,
    ) -> Positions:
        """Return the posterior of the positions, see :func:`fit_positions`."""
        answers = AnswerModel(hyperparameters.noise * self.scale, hyperparameters.ties)
        return fit_positions(comparisons, self._prior(hyperparameters), answers, grades, start)

    def select(
        self, comparisons: Comparisons, grades: Grades | None = None, start: Hyperparameters | None = None
    ) -> Hyperparameters:
        """Return the most probable hyperparameters, by steps along one of them at a time.

        They are selected with the first comparisons, of at most 200 samples.
        """
        known = Grades.none() if grades is None else grades
        samples = _first_samples(comparisons, known)
        if not len(comparisons):
            return self.start if start is None else start
        part = self._restricted(samples)
        own = _comparisons_among(samples, comparisons), _grades_among(samples, known)
        present = _with_ties(self.start if start is None else start, has_ties=bool((comparisons.outcome == 0).any()))
        return _climb(lambda candidate: part._log_probability(candidate, *own), present, self.distances is not None)

    def _prior(self, hyperparameters: Hyperparameters) -> Prior:
        n, share = len(self.mean), hyperparameters.share
        covariance = (1 - share) * np.eye(n)
        if self.distances is not None and share > 0:
            covariance += share * np.exp(-self.distances / (2 * hyperparameters.length**2))
        covariance *= self.scale**2
        return Prior(self.mean, covariance if self.shared is None else covariance + self.shared @ self.shared.T)

    def _restricted(self, samples: IntArray) -> PositionModel:
        distances = None if self.distances is None else self.distances[np.ix_(samples, samples)]
        shared = None if self.shared is None else self.shared[samples]
        return replace(self, mean=self.mean[samples], distances=distances, shared=shared)

    def _log_probability(self, candidate: Hyperparameters, comparisons: Comparisons, grades: Grades) -> float:
        prior = -0.5 * (log(candidate.noise / _USUAL_NOISE) / _LOG_DEVIATION) ** 2
        return self.fit(comparisons, candidate, grades).evidence + prior


def unscaled_model(n_samples: int, features: FloatArray | None = None) -> PositionModel:
    """Return the model without grades: positions around 0 with deviation 1."""
    return PositionModel(np.zeros(n_samples), 1.0, None if features is None else squared_distances(features))


def graded_model(labels: FloatArray, estimates: FloatArray, features: FloatArray | None = None) -> PositionModel:
    r"""Return the model of positions on the scale of the grades.

    With estimates :math:`e_i` of a ranker and the middle :math:`c` of the scale, positions are :math:`c + a + b\,
    (e_i - c)` and a deviation that depends on the features. Shift a and slope b have wide normal priors: a ranker of
    few grades pulls all estimates towards the middle, or says nothing, and comparisons show it.

    Parameters
    ----------
    labels : ndarray of shape (m,)
        All grades, at least two, ascending.
    estimates : ndarray of shape (n,)
        Without the own grade of a sample; NaN if there is none.
    features : ndarray of shape (n, d), optional
    """
    step = grade_step(labels)
    if labels[-1] / step - labels[0] / step > _MAX_STEPS:
        raise InputError(
            f"pictures cannot be compared on a scale from {labels[0]:g} to {labels[-1]:g} in steps of {step:g}; "
            "correct the grade that is far from the others"
        )
    centre = float(labels[0] + labels[-1]) / 2
    scale = float(labels[-1] - labels[0] + step) / sqrt(12)  # if all positions are equally frequent
    slope = np.where(np.isnan(estimates), 0.0, estimates - centre)
    shared = np.column_stack([np.full(len(slope), scale / 2), slope])
    distances = None if features is None else squared_distances(features)
    return PositionModel(np.full(len(slope), centre), scale, distances, shared)


def given_grades(grades: FloatArray, labels: FloatArray) -> Grades:
    """Return grades (n,), NaN for none, as positions with a deviation of half a grade."""
    samples = np.flatnonzero(~np.isnan(grades))
    return Grades(samples, grades[samples], np.full(len(samples), (grade_step(labels) / 2) ** 2))


def grade_step(labels: FloatArray) -> float:
    """Return the median difference of neighbouring grades. Raise InputError if there are fewer than two."""
    if len(labels) < 2:
        raise InputError("positions on the scale of the grades need two different grades")
    return float(np.median(np.diff(labels)))


def implied_grades(positions: Positions, grades: FloatArray, labels: FloatArray) -> FloatArray:
    """Return the grades (n,) that the order of samples implies; NaN for graded samples and where it is open.

    As grades ascend with the position, a sample has at least the highest grade of those that are lower than it, and at
    most the lowest grade of those that are higher, each with a probability of 0.85. Its grade is implied if these are
    the same. This holds on any scale, whatever positions the grades have: comparisons tell the order of samples, and
    hardly how far apart they are.

    Parameters
    ----------
    positions : Positions
        Of n samples.
    grades : ndarray of shape (n,)
        NaN for none.
    labels : ndarray of shape (m,)
        All grades, ascending.
    """
    samples = np.flatnonzero(~np.isnan(grades))
    variances, covariance = np.diag(positions.covariance), positions.covariance[:, samples]
    deviation = np.sqrt(np.maximum(variances[:, None] + variances[samples] - 2 * covariance, np.finfo(float).tiny))
    z = (positions.mean[:, None] - positions.mean[samples]) / deviation
    least = np.where(z >= _PROBABLE, grades[samples], labels[0]).max(axis=1, initial=labels[0])
    most = np.where(z <= -_PROBABLE, grades[samples], labels[-1]).min(axis=1, initial=labels[-1])
    return np.where(np.isnan(grades) & (least == most), least, np.nan)


def squared_distances(features: FloatArray) -> FloatArray:
    """Return squared distances (n, n) of features (n, d), relative to the median of different samples."""
    centred = features - features.mean(axis=0)
    gram = centred @ centred.T
    norms = np.diag(gram)
    distances = np.maximum(norms[:, None] + norms - 2 * gram, 0.0)
    median = float(np.median(distances[np.triu_indices(len(distances), 1)])) if len(distances) > 1 else 0.0
    return np.asarray(distances / (median or 1.0))


def _climb(score: Callable[[Hyperparameters], float], present: Hyperparameters, with_features: bool) -> Hyperparameters:
    """Return a candidate no neighbour of which, along one hyperparameter, has a higher score."""
    grids: dict[str, tuple[float, ...]] = {"noise": _NOISES} | ({"ties": _TIES} if present.ties else {})
    grids |= {"share": _SHARES, "length": _LENGTHS} if with_features else {}
    best, moved = score(present), True
    while moved:
        moved = False
        for name, grid in grids.items():
            for step in (-1, 1):
                while (candidate := _neighbor(present, name, grid, step)) is not None:
                    found = score(candidate)
                    if found < best + _MIN_GAIN:
                        break
                    present, best, moved = candidate, found, True
    return present


def _neighbor(present: Hyperparameters, name: str, grid: tuple[float, ...], step: int) -> Hyperparameters | None:
    """Return the candidate with the next value of one hyperparameter; None at the end of its grid."""
    position = int(np.abs(np.array(grid) - getattr(present, name)).argmin()) + step
    return replace(present, **{name: grid[position]}) if 0 <= position < len(grid) else None


def _with_ties(present: Hyperparameters, *, has_ties: bool) -> Hyperparameters:
    return replace(present, ties=(present.ties or 0.5) if has_ties else 0.0)


def _first_samples(comparisons: Comparisons, grades: Grades) -> IntArray:
    """Return the samples that were compared, in this order, and then those with a grade, up to a limit."""
    order = np.concatenate([np.column_stack([comparisons.first, comparisons.second]).reshape(-1), grades.samples])
    return np.array(list(dict.fromkeys(order.tolist()))[:_MAX_SAMPLES], dtype=np.int64)


def _numbers(samples: IntArray, chosen: IntArray) -> IntArray:
    """Return the position of each chosen sample among the samples; -1 where it is not one of them."""
    numbers = np.full(max(samples.max(initial=0), chosen.max(initial=0)) + 1, -1)
    numbers[samples] = np.arange(len(samples))
    return numbers[chosen]


def _comparisons_among(samples: IntArray, comparisons: Comparisons) -> Comparisons:
    first, second = _numbers(samples, comparisons.first), _numbers(samples, comparisons.second)
    both = (first >= 0) & (second >= 0)
    return Comparisons(first[both], second[both], comparisons.outcome[both])


def _grades_among(samples: IntArray, grades: Grades) -> Grades:
    numbers = _numbers(samples, grades.samples)
    known = numbers >= 0
    return Grades(numbers[known], grades.values[known], grades.variances[known])
