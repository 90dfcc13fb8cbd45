"""The local term: target neighbours should keep their distance."""

from __future__ import annotations

import numpy as np

from ordrank._types import Array, FloatArray
from ordrank.backend import PairOperator, backend_of


class LocalityTerm:
    """μ Σ_p (‖z_i - z_j‖² - t_p)², as a function of the mapped samples Z (n, s).

    Only differences of mapped samples are formed, never of samples: O(Ps) for a value or gradient.

    Parameters
    ----------
    pairs : PairOperator
        The P pairs (i, j).
    targets : array of shape (P,)
        Squared distances t_p to keep.
    mu : float
        Weight.
    """

    def __init__(self, pairs: PairOperator, targets: Array, mu: float) -> None:
        self._pairs, self._targets, self._mu = pairs, targets, mu
        self._backend = backend_of(targets)

    def value(self, Z: Array) -> float:
        """μ Σ q², q = ‖z_i - z_j‖² - t."""
        differences = self._pairs.differences(Z)
        excess = self._excess(differences)
        return self._mu * self._backend.dot(excess, excess)

    def value_and_gradient(self, Z: Array) -> tuple[float, Array]:
        """Value, and the gradient in Z: 4μ Eᵀ(q · EZ), of shape (n, s)."""
        differences = self._pairs.differences(Z)
        excess = self._excess(differences)
        pull = self._pairs.scatter(self._backend.asarray(excess, differences)[:, None] * differences)
        return self._mu * self._backend.dot(excess, excess), 4 * self._mu * pull

    def line_polynomial(self, Z: Array, dZ: Array) -> FloatArray:
        """Five coefficients of the value at Z + t dZ: q(t) = q + 2bt + at², squared and summed."""
        differences, changes = self._pairs.differences(Z), self._pairs.differences(dZ)
        q = self._excess(differences)
        b = self._backend.row_dots(differences, changes)
        a = self._backend.row_dots(changes, changes)
        dot = self._backend.dot
        return self._mu * np.array([dot(q, q), 4 * dot(q, b), 4 * dot(b, b) + 2 * dot(q, a), 4 * dot(a, b), dot(a, a)])

    def _excess(self, differences: Array) -> Array:
        return self._backend.row_dots(differences, differences) - self._targets
