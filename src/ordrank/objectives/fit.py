"""The fitting term: how far mapped samples are from their ideal positions."""

from __future__ import annotations

import numpy as np

from ordrank._types import Array, FloatArray
from ordrank.backend import backend_of


class FitTerm:
    """½ ‖Z - cY‖², as a function of the mapped samples Z (n, s) and the scale c.

    Parameters
    ----------
    Y : array of shape (n, s)
        Ideal positions.
    """

    def __init__(self, Y: Array) -> None:
        self.Y = Y
        self._backend = backend_of(Y)
        self.squared_norm = self._backend.dot(Y, Y)

    def value(self, Z: Array, c: float) -> float:
        """½ ‖Z - cY‖²."""
        residual = Z - c * self.Y
        return 0.5 * self._backend.dot(residual, residual)

    def value_and_gradients(self, Z: Array, c: float) -> tuple[float, Array, float]:
        """Value, gradient in Z (n, s) and derivative in c."""
        residual = Z - c * self.Y
        value = 0.5 * self._backend.dot(residual, residual)
        return value, residual, -self._backend.dot(self.Y, residual)

    def line_polynomial(self, Z: Array, c: float, dZ: Array, dc: float) -> FloatArray:
        """Five coefficients of the value at (Z + t dZ, c + t dc); the last two are zero."""
        residual, change = Z - c * self.Y, dZ - dc * self.Y
        dot = self._backend.dot
        return np.array([0.5 * dot(residual, residual), dot(residual, change), 0.5 * dot(change, change), 0, 0])
