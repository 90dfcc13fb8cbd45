"""The fitting term: how far mapped samples are from their ideal positions."""

from __future__ import annotations

import numpy as np

from ordrank._types import Array, FloatArray
from ordrank.backend import backend_of


class FitTerm:
    """½ Σ_i ω_i ‖z_i - cy_i‖², as a function of the mapped samples Z (n, s) and the scale c.

    Parameters
    ----------
    Y : array of shape (n, s)
        Ideal positions.
    weights : array of shape (n,), optional
        ω; 1 in the paper.
    """

    def __init__(self, Y: Array, weights: Array | None = None) -> None:
        self.Y = Y
        self._weights = 1.0 if weights is None else weights[:, None]
        self._backend = backend_of(Y)
        self.squared_norm = self._backend.dot(Y, self._weights * Y)

    def value(self, Z: Array, c: float) -> float:
        """Return the value."""
        residual = Z - c * self.Y
        return 0.5 * self._backend.dot(residual, self._weights * residual)

    def value_and_gradients(self, Z: Array, c: float) -> tuple[float, Array, float]:
        """Value, gradient in Z (n, s) and derivative in c."""
        residual = Z - c * self.Y
        gradient = self._weights * residual
        return 0.5 * self._backend.dot(residual, gradient), gradient, -self._backend.dot(self.Y, gradient)

    def line_polynomial(self, Z: Array, c: float, dZ: Array, dc: float) -> FloatArray:
        """Five coefficients of the value at (Z + t dZ, c + t dc); the last two are zero."""
        residual, change = Z - c * self.Y, dZ - dc * self.Y
        weighted, dot = self._weights * change, self._backend.dot
        start = 0.5 * dot(residual, self._weights * residual)
        return np.array([start, dot(residual, weighted), 0.5 * dot(change, weighted), 0, 0])
