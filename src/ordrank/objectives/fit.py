"""The fitting term: squared error of mapped samples to their target positions."""

from __future__ import annotations

from ordrank._protocols import Array
from ordrank.backend import backend_of


class FitTerm:
    """½ Σ_i ω_i ‖z_i - cy_i‖², as a function of the mapped samples Z (n, s) and the scale c.

    Y (n, s) are target positions, ω the weights (n,), 1 in the paper. Values are scalars on the device of Y.
    """

    def __init__(self, Y: Array, weights: Array | None = None) -> None:
        self.Y = Y
        self._weights = weights
        self._backend = backend_of(Y)
        self.squared_norm = self._backend.dot(Y, self._weighted(Y))

    def value(self, Z: Array, c: Array) -> Array:
        """Return the value."""
        residual = Z - c * self.Y
        return 0.5 * self._backend.dot(residual, self._weighted(residual))

    def value_and_gradient(self, Z: Array, c: Array) -> tuple[Array, Array]:
        """Return the value and its gradient in Z (n, s)."""
        residual = Z - c * self.Y
        gradient = self._weighted(residual)
        return 0.5 * self._backend.dot(residual, gradient), gradient

    def slope(self, gradient: Array) -> Array:
        """Return the derivative in c, given the gradient in Z."""
        return -self._backend.dot(self.Y, gradient)

    def line_polynomial(self, Z: Array, c: Array, dZ: Array, dc: Array) -> list[Array]:
        """Return the three coefficients of the value at (Z + t dZ, c + t dc)."""
        residual, change = Z - c * self.Y, dZ if dc is None else dZ - dc * self.Y
        weighted, dot = self._weighted(change), self._backend.dot
        start = 0.5 * dot(residual, self._weighted(residual))
        return [start, dot(residual, weighted), 0.5 * dot(change, weighted)]

    def _weighted(self, a: Array) -> Array:
        return a if self._weights is None else self._weights[:, None] * a
