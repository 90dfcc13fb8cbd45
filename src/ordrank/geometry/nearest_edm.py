"""Repair of non-Euclidean distances: an additive constant, or the nearest EDM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from numpy.typing import ArrayLike

from ordrank._protocols import FloatArray
from ordrank.errors import NotEuclideanError
from ordrank.geometry.edm import check_distance_matrix, double_center, is_edm, smallest_eigenvalue

_TOLERANCE = 1e-12  # largest norm of the diagonal of the nearest EDM, relative to the given matrix
_MAX_STEPS = 200  # of Newton's method


@dataclass(frozen=True)
class Repair:
    """A repaired distance matrix and the change that was needed."""

    D: FloatArray  # (m, m), an EDM (squared distances)
    method: str  # "none", "cailliez" or "nearest"
    constant: float  # added to every distance between different labels by "cailliez", else 0
    relative_change: float  # ‖D - D_given‖ / ‖D_given‖ in Frobenius norm


def repair_distances(distances: ArrayLike, method: Literal["error", "cailliez", "nearest"]) -> Repair:
    """Turn distances between labels into an EDM.

    Parameters
    ----------
    distances : array-like of shape (m, m)
        Distances, not squared. Euclidean ones are returned squared and unchanged.
    method : {"error", "cailliez", "nearest"}
        For non-Euclidean distances: raise NotEuclideanError, add the smallest sufficient constant, or take the
        nearest EDM in Frobenius norm (of squared distances).
    """
    given = check_distance_matrix(distances, "label_distances")
    D = given**2
    if is_edm(D):
        return Repair(D, "none", 0.0, 0.0)
    if method == "error":
        raise NotEuclideanError(
            "the label distances are not Euclidean: the smallest eigenvalue of -½JDJ is "
            f"{smallest_eigenvalue(D):.3g}, and it must not be negative. Use beta >= 0, or repair them "
            "with repair='cailliez' (adds a constant) or repair='nearest' (nearest Euclidean matrix)"
        )
    if method == "cailliez":
        constant = cailliez_constant(given)
        shifted = given + constant
        np.fill_diagonal(shifted, 0.0)
        repaired = shifted**2
    else:
        constant = 0.0
        repaired = nearest_edm(D)
    change = float(np.linalg.norm(repaired - D) / np.linalg.norm(D))
    return Repair(repaired, method, constant, change)


def cailliez_constant(distances: ArrayLike) -> float:
    r"""Return the smallest c >= 0 such that :math:`(\delta_{ij} + c)^2`, :math:`i \ne j`, and all larger ones are EDMs.

    It is the largest real eigenvalue of (F. Cailliez, "The analytical solution of the additive constant problem",
    Psychometrika 48(2), 1983)

    .. math:: \begin{pmatrix} 0 & 2B(\Delta) \\ -I & -4B(\Delta^{1/2}) \end{pmatrix},
              \qquad B(M) = -\tfrac12 JMJ .

    ``distances`` (m, m) are not squared.
    """
    delta = check_distance_matrix(distances, "distances")
    m = len(delta)
    companion = np.zeros((2 * m, 2 * m))
    companion[:m, m:] = 2 * double_center(delta**2)
    companion[m:, :m] = -np.eye(m)
    companion[m:, m:] = -4 * double_center(delta)
    values = scipy.linalg.eigvals(companion)
    real = values.real[np.abs(values.imag) <= 1e-8 * np.abs(values).max(initial=0.0)]
    return max(0.0, float(real.max(initial=0.0)))


def nearest_edm(D: ArrayLike) -> FloatArray:
    r"""Return the EDM nearest to D in Frobenius norm.

    Solves :math:`\min \tfrac12\|X - D\|^2` over hollow X that are negative semidefinite on
    :math:`\mathbf 1^\perp` through its dual in m unknowns: with
    :math:`\Pi(A) = A - \Pi_+(JAJ)`, find y such that the diagonal of
    :math:`X(y) = \Pi(D + \mathrm{Diag}\,y)` vanishes. A semismooth Newton method with a line search on the
    dual converges quadratically (H. Qi, "A semismooth Newton method for the nearest Euclidean distance matrix
    problem", SIAM J. Matrix Anal. Appl. 34(1), 2013).

    Parameters
    ----------
    D : array-like of shape (m, m)
        Squared dissimilarities.
    """
    target = check_distance_matrix(D)
    size = np.linalg.norm(target)
    if size == 0:
        return target
    y = np.zeros(len(target))
    point = _DualPoint(target / size, y)
    for _ in range(_MAX_STEPS):
        if np.linalg.norm(point.gradient) <= _TOLERANCE:
            break
        direction = point.newton_direction()
        slope = point.gradient @ direction
        step, trial = 1.0, _DualPoint(target / size, y + direction)
        while trial.value > point.value + 1e-4 * step * slope + 1e-15 and step > 1e-10:
            step /= 2
            trial = _DualPoint(target / size, y + step * direction)
        y, point = y + step * direction, trial
    else:
        raise NotEuclideanError(
            f"the nearest Euclidean matrix was not found in {_MAX_STEPS} steps (residual "
            f"{np.linalg.norm(point.gradient):.1e}); are the distances of very different magnitude?"
        )
    nearest = point.X * size
    np.fill_diagonal(nearest, 0.0)
    return np.maximum(nearest, 0.0)


class _DualPoint:
    """Value ½‖X(y)‖², gradient diag X(y) and Newton direction of the dual at y."""

    def __init__(self, D: FloatArray, y: FloatArray) -> None:
        shifted = D + np.diag(y)
        self._values, self._vectors = scipy.linalg.eigh(-2 * double_center(shifted))  # J(D + Diag y)J
        positive = np.maximum(self._values, 0.0)
        self.X = shifted - (self._vectors * positive) @ self._vectors.T
        self.value = 0.5 * float(np.vdot(self.X, self.X))
        self.gradient: FloatArray = np.diag(self.X).copy()

    def newton_direction(self) -> FloatArray:
        """Solve (V + εI) h = -gradient by conjugate gradients, V an element of the generalised Jacobian."""
        weights = _divided_differences(self._values)
        centred = self._vectors - self._vectors.mean(axis=0)
        regularisation = min(1e-6, 0.1 * float(np.linalg.norm(self.gradient)))

        def jacobian(h: FloatArray) -> FloatArray:
            inner = weights * (centred.T @ (h[:, None] * centred))
            projected = ((self._vectors @ inner) * self._vectors).sum(axis=1)  # diag(P inner Pᵀ)
            return np.asarray((1 + regularisation) * h - projected)

        m = len(self.gradient)
        operator = scipy.sparse.linalg.LinearOperator((m, m), matvec=jacobian, dtype=np.float64)
        direction, _ = scipy.sparse.linalg.cg(operator, -self.gradient, rtol=1e-4, maxiter=10 * m)
        # Truncated conjugate gradients always give a descent direction, unless they return zero.
        return np.asarray(direction if np.any(direction) else -self.gradient)


def _divided_differences(values: FloatArray) -> FloatArray:
    """Return (λᵢ⁺ - λⱼ⁺)/(λᵢ - λⱼ); the derivative of λ⁺, 1 or 0, where eigenvalues coincide."""
    positive = np.maximum(values, 0.0)
    gaps = values[:, None] - values[None, :]
    same = np.abs(gaps) < 1e-15
    quotient = (positive[:, None] - positive[None, :]) / np.where(same, 1.0, gaps)
    return np.where(same, (values > 0)[:, None].astype(np.float64), quotient)
