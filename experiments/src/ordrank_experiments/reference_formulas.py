"""The paper's formulas, term by term, as a reference for tests and timings.

:mod:`ordrank.objectives` computes the same values without forming differences of samples.
"""

from __future__ import annotations

import numpy as np

from ordrank._protocols import FloatArray
from ordrank.neighbors import TargetNeighbors


class ReferenceObjective:
    """f(L, c) and its gradient as printed in the paper's Section 4, with pair differences in R^d.

    Implements :class:`ordrank._protocols.Objective` with an empty image.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, s)
    neighbors : TargetNeighbors
    mu : float
    free_scale : bool
        Whether c is the last variable; else c = 1.
    """

    def __init__(
        self, X: FloatArray, Y: FloatArray, neighbors: TargetNeighbors, *, mu: float, free_scale: bool
    ) -> None:
        self._X, self._Y, self._mu, self._free_scale = X, Y, mu, free_scale
        self._deltas = X[neighbors.first] - X[neighbors.second]
        self._squared = (self._deltas**2).sum(axis=1)

    def image(self, x: FloatArray) -> FloatArray:
        """Return an empty array: values are computed from x alone."""
        return np.empty(0)

    def value(self, x: FloatArray, z: FloatArray) -> float:
        """Return equation (9) of the paper."""
        L, c = self._unpack(x)
        residual = self._X @ L.T - c * self._Y
        excess = ((self._deltas @ L.T) ** 2).sum(axis=1) - self._squared
        return float(0.5 * (residual**2).sum() + self._mu * (excess**2).sum())

    def value_and_gradient(self, x: FloatArray, z: FloatArray) -> tuple[float, FloatArray]:
        """Return equation (9) with ∇_L = Σ(Lxᵢ - cyᵢ)xᵢᵀ + 4μ Σ(‖Lδ‖² - ‖δ‖²) Lδδᵀ and ∇_c = c Σyᵢᵀyᵢ - Σyᵢᵀ Lxᵢ."""
        L, c = self._unpack(x)
        residual = self._X @ L.T - c * self._Y
        mapped = self._deltas @ L.T
        excess = (mapped**2).sum(axis=1) - self._squared
        gradient = residual.T @ self._X + 4 * self._mu * (excess[:, None] * mapped).T @ self._deltas
        slope_c = c * (self._Y**2).sum() - (self._Y * (self._X @ L.T)).sum()
        flat = np.append(gradient, slope_c) if self._free_scale else gradient.reshape(-1)
        return float(0.5 * (residual**2).sum() + self._mu * (excess**2).sum()), flat

    def _unpack(self, x: FloatArray) -> tuple[FloatArray, float]:
        shape = (self._Y.shape[1], self._X.shape[1])
        size = shape[0] * shape[1]
        return x[:size].reshape(shape), float(x[size]) if self._free_scale else 1.0


def reference_ldmlr_gradient(
    A: FloatArray, X: FloatArray, omega: FloatArray, neighbors: TargetNeighbors, *, mu: float
) -> FloatArray:
    """Return ∇h(A) of LDMLR from the outer products of all n² pairs, as its stated complexity implies.

    Parameters
    ----------
    A : ndarray of shape (d, d)
    X : ndarray of shape (n, d)
    omega : ndarray of shape (n, n)
        Weights of the pairs.
    neighbors : TargetNeighbors
    mu : float
    """
    gradient = np.zeros_like(A)
    for x, weights in zip(X, omega, strict=True):
        deltas = x - X
        gradient -= deltas.T @ (weights[:, None] * deltas)
    deltas = X[neighbors.first] - X[neighbors.second]
    excess = ((deltas @ A) * deltas).sum(axis=1) - (deltas**2).sum(axis=1)
    return np.asarray(gradient + 2 * mu * deltas.T @ (excess[:, None] * deltas))
