"""The local term: target neighbours should keep their distance."""

from __future__ import annotations

from ordrank._types import Array
from ordrank.backend import PairOperator, backend_of


class LocalityTerm:
    """μ Σ_p (‖z_i - z_j‖² - t_p)², as a function of the mapped samples Z (n, s).

    Only differences of mapped samples are formed, never of samples: O(Ps) for a value or gradient. Values are scalars
    that stay where the samples are.

    Parameters
    ----------
    pairs : PairOperator
        The P pairs (i, j).
    targets : array of shape (P,)
        Squared distances t_p to keep, in double precision.
    mu : float
        Weight.
    """

    def __init__(self, pairs: PairOperator, targets: Array, mu: float) -> None:
        self._pairs, self._targets, self._mu = pairs, targets, mu
        self._backend = backend_of(targets)

    def value(self, Z: Array) -> Array:
        """μ Σ q², q = ‖z_i - z_j‖² - t."""
        excess = self._excess(Z)
        return self._mu * self._backend.dot(excess, excess)

    def value_and_gradient(self, Z: Array) -> tuple[Array, Array]:
        """Value, and the gradient in Z (n, s): 4μ Eᵀ diag(q) E Z, E the incidence matrix of the pairs."""
        excess = self._excess(Z)
        pull = self._pairs.laplacian_product(excess, Z)
        pull *= 4 * self._mu
        return self._mu * self._backend.dot(excess, excess), pull

    def line_polynomial(self, Z: Array, dZ: Array) -> list[Array]:
        """Five coefficients of the value at Z + t dZ: q(t) = q + 2bt + at², squared and summed."""
        q, b, a = self._excess(Z), self._pairs.dots(Z, dZ), self._pairs.dots(dZ, dZ)
        dot = self._backend.dot
        sums = [dot(q, q), 4 * dot(q, b), 4 * dot(b, b) + 2 * dot(q, a), 4 * dot(a, b), dot(a, a)]
        return [self._mu * sum_ for sum_ in sums]

    def _excess(self, Z: Array) -> Array:
        excess = self._pairs.dots(Z, Z)
        excess -= self._targets
        return excess
