"""The local term: preserve distances to target neighbours."""

from __future__ import annotations

from ordrank._protocols import Array
from ordrank.backend import PairOperator, backend_of


class LocalDistanceTerm:
    """μ Σ_p (‖z_i - z_j‖² - t_p)², as a function of the mapped samples Z (n, s).

    The targets t (P,) are the squared distances to preserve, float64. Only differences of mapped samples are formed,
    O(Ps) for a value or gradient. Values are scalars on the device of the targets.
    """

    def __init__(self, pairs: PairOperator, targets: Array, mu: float) -> None:
        self._pairs, self._targets, self._mu = pairs, targets, mu
        self._backend = backend_of(targets)

    def value(self, Z: Array) -> Array:
        """Return μ Σ q², q = ‖z_i - z_j‖² - t."""
        excess = self._excess(Z)
        return self._mu * self._backend.dot(excess, excess)

    def value_and_gradient(self, Z: Array) -> tuple[Array, Array]:
        """Return the value and its gradient in Z (n, s), 4μ Eᵀ diag(q) E Z with the incidence matrix E of the pairs."""
        excess = self._excess(Z)
        gradient = self._pairs.laplacian_product(excess, Z)
        gradient *= 4 * self._mu
        return self._mu * self._backend.dot(excess, excess), gradient

    def line_polynomial(self, Z: Array, dZ: Array) -> list[Array]:
        """Return the five coefficients of the value at Z + t dZ: q(t) = q + 2bt + at², squared and summed."""
        q, b, a = self._excess(Z), self._pairs.dots(Z, dZ), self._pairs.dots(dZ, dZ)
        dot = self._backend.dot
        sums = [dot(q, q), 4 * dot(q, b), 4 * dot(b, b) + 2 * dot(q, a), 4 * dot(a, b), dot(a, a)]
        return [self._mu * sum_ for sum_ in sums]

    def _excess(self, Z: Array) -> Array:
        excess = self._pairs.dots(Z, Z)
        excess -= self._targets
        return excess
