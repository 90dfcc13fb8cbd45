"""All-threshold logistic regression with closed-form approximate leave-one-out probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ordrank._protocols import FloatArray, IntArray

# Leading principal components that carry the linear predictor: bounds the time of a Newton step.
_MAX_COMPONENTS = 100
_RANK = 1e-10
_MAX_ITER = 50
_TOL = 1e-6
# Curvature added to the thresholds, which have no penalty: one between labels that a line separates tends to infinity.
_THRESHOLD_RIDGE = 1e-6


@dataclass(frozen=True)
class ThresholdModel:
    r"""Cumulative probabilities :math:`P(y \le a_t) = \sigma(\theta_t - w^Tx)` of m ordered labels.

    References
    ----------
    J. Rennie and N. Srebro, "Loss functions for preference levels: regression with discrete ordered labels", IJCAI
    Multidisciplinary Workshop on Advances in Preference Handling, 2005.
    """

    coefficients: FloatArray  # w, (d,)
    thresholds: FloatArray  # θ, (m - 1,), ascending

    def proba(self, X: FloatArray) -> FloatArray:
        """Return the probabilities (n, m) of samples (n, d)."""
        return _proba(self.thresholds - (X @ self.coefficients)[:, None])


def threshold_path(
    X: FloatArray, index: IntArray, n_labels: int, alphas: Sequence[float]
) -> Iterator[tuple[ThresholdModel, FloatArray]]:
    r"""Yield the model for each ridge α, and its leave-one-out probabilities (n, m).

    Every sample contributes the logistic loss of all m - 1 thresholds,
    :math:`\sum_i\sum_t \log(1 + e^{-s_{it}(\theta_t - w^Tx_i)}) + \tfrac{n\alpha}2\|w\|^2` with s = 1 where
    :math:`y_i \le a_t` and -1 elsewhere. It is minimised by Newton's method, each α starting from the one before.
    Leave-one-out is one Newton step from the solution without the sample, which has a closed form.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Centred samples of about unit mean square.
    index : ndarray of shape (n,)
        Label numbers from 0.
    n_labels : int
    alphas : sequence of float
        Descending.

    References
    ----------
    K. Rad and A. Maleki, "A scalable estimate of the out-of-sample prediction error via approximate leave-one-out
    cross-validation", JRSS B 82(4), 2020.
    """
    components, basis = _components(X)
    problem = _Problem(components, index, n_labels)
    parameters = problem.start()
    for alpha in alphas:
        parameters = problem.minimize(parameters, alpha)
        w, theta = parameters[: problem.d], parameters[problem.d :]
        model = ThresholdModel(basis @ w, np.maximum.accumulate(theta))
        yield model, _proba(problem.loo_margins(parameters, alpha))


class _Problem:
    """The loss as a function of the parameters (w, θ), for samples in their principal components."""

    def __init__(self, X: FloatArray, index: IntArray, n_labels: int) -> None:
        self.X, (self.n, self.d), self.n_thresholds = X, X.shape, n_labels - 1
        self.signs = np.where(np.arange(self.n_thresholds) >= index[:, None], 1.0, -1.0)

    def start(self) -> FloatArray:
        """Return w = 0 and the thresholds of the label frequencies."""
        below = (np.count_nonzero(self.signs > 0, axis=0) + 0.5) / (self.n + 1)
        return np.concatenate([np.zeros(self.d), np.log(below / (1 - below))])

    def minimize(self, parameters: FloatArray, alpha: float) -> FloatArray:
        value = self._value(parameters, alpha)
        for _ in range(_MAX_ITER):
            gradient, curvature = self._derivatives(parameters)
            full = self._regularized(parameters, gradient, alpha)
            step = np.linalg.solve(self._hessian(curvature, alpha), full)
            decrease, size = float(full @ step), 1.0
            while (reached := self._value(parameters - size * step, alpha)) > value - 1e-4 * size * decrease:
                size /= 2
                if size < 1e-6:  # rounding errors exceed what is left to gain
                    return parameters
            parameters = parameters - size * step
            if value - reached <= _TOL * abs(reached):
                break
            value = reached
        return parameters

    def loo_margins(self, parameters: FloatArray, alpha: float) -> FloatArray:
        """Return θ - wᵀx (n, m - 1) of each sample without its own loss.

        With J = [-x, I] the derivative of the margins of a sample, g and h the first and second derivatives of its
        losses and K = JH⁻¹Jᵀ, the margins shift by K(I - diag(h)K)⁻¹g.
        """
        gradient, curvature = self._derivatives(parameters)
        inverse = np.linalg.inv(self._hessian(curvature, alpha))
        d, X = self.d, self.X
        along = X @ inverse[:d, :d]
        across = X @ inverse[:d, d:]
        K = np.einsum("ij,ij->i", along, X)[:, None, None] - across[:, :, None] - across[:, None, :] + inverse[d:, d:]
        freedom = np.eye(self.n_thresholds) - curvature[:, :, None] * K
        shift = (K @ np.linalg.solve(freedom, gradient[:, :, None]))[:, :, 0]
        return self._margins(parameters) + shift

    def _margins(self, parameters: FloatArray) -> FloatArray:
        return np.asarray(parameters[self.d :] - (self.X @ parameters[: self.d])[:, None])

    def _value(self, parameters: FloatArray, alpha: float) -> float:
        w, theta = parameters[: self.d], parameters[self.d :]
        losses = np.logaddexp(0, -self.signs * self._margins(parameters))
        return float(losses.sum() + 0.5 * self.n * alpha * (w @ w) + 0.5 * _THRESHOLD_RIDGE * (theta @ theta))

    def _derivatives(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return first and second derivatives (n, m - 1) of the losses with respect to the margins."""
        wrong = _sigmoid(-self.signs * self._margins(parameters))
        return -self.signs * wrong, wrong * (1 - wrong)

    def _regularized(self, parameters: FloatArray, gradient: FloatArray, alpha: float) -> FloatArray:
        by_w = -self.X.T @ gradient.sum(axis=1) + self.n * alpha * parameters[: self.d]
        return np.concatenate([by_w, gradient.sum(axis=0) + _THRESHOLD_RIDGE * parameters[self.d :]])

    def _hessian(self, curvature: FloatArray, alpha: float) -> FloatArray:
        d = self.d
        hessian = np.empty((d + self.n_thresholds,) * 2)
        hessian[:d, :d] = (self.X * curvature.sum(axis=1)[:, None]).T @ self.X + self.n * alpha * np.eye(d)
        hessian[:d, d:] = -self.X.T @ curvature
        hessian[d:, :d] = hessian[:d, d:].T
        hessian[d:, d:] = np.diag(curvature.sum(axis=0) + _THRESHOLD_RIDGE)
        return hessian


def _components(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the leading principal components (n, p) of samples (n, d), and the basis (d, p) they refer to."""
    primal = X.shape[1] <= len(X)
    if primal and X.shape[1] <= _MAX_COMPONENTS:
        return X, np.eye(X.shape[1])
    values, vectors = np.linalg.eigh(X.T @ X if primal else X @ X.T)
    kept = np.flatnonzero(values > _RANK * max(values[-1], np.finfo(np.float64).tiny))[-_MAX_COMPONENTS:]
    basis = vectors[:, kept] if primal else X.T @ (vectors[:, kept] / np.sqrt(values[kept]))
    return X @ basis, basis


def _proba(margins: FloatArray) -> FloatArray:
    """Return probabilities (n, m) from margins (n, m - 1), made monotone where a leave-one-out step crossed them."""
    cumulative = _sigmoid(np.maximum.accumulate(margins, axis=1))
    return np.diff(cumulative, axis=1, prepend=0.0, append=1.0)


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))
