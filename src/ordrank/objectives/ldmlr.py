"""The convex objective of LDMLR (Li et al. 2015), equation (1) of the paper."""

from __future__ import annotations

import numpy as np

from ordrank._protocols import Array, FloatArray
from ordrank.backend import PairOperator, backend_of
from ordrank.geometry.psd import project_psd


def ordinal_scatter(X: Array, label_index: Array, weights: FloatArray) -> Array:
    r"""Return the constant matrix of LDMLR, :math:`C = \sum_{ij}\omega_{ij}(x_i - x_j)(x_i - x_j)^T`.

    Weights depend on labels only, so the sum over n² pairs reduces to one over m² labels: with the sum
    :math:`s_t` and count :math:`n_t` of each label,
    :math:`C = 2\left(\sum_i (\sum_u \omega_{t_iu}n_u)\, x_ix_i^T - \sum_{tu}\omega_{tu}s_ts_u^T\right)`.

    Parameters
    ----------
    X : array of shape (n, d)
    label_index : array of shape (n,)
    weights : ndarray of shape (m, m)
        ω between labels; zero on the diagonal.
    """
    backend = backend_of(X)
    counts = np.bincount(backend.to_numpy(label_index), minlength=len(weights))
    degree = backend.asarray(weights @ counts, X)[label_index]
    sums = backend.segment_sum(X, label_index, len(weights))
    C = 2 * (X.T @ (degree[:, None] * X) - sums.T @ backend.asarray(weights, X) @ sums)
    return (C + C.T) / 2


class LDMLRObjective:
    r"""Separate different labels and preserve distances to target neighbours, over A ⪰ 0.

    .. math:: h(A) = -\langle C, A\rangle + \mu\sum_p(\delta_p^TA\delta_p - \|\delta_p\|^2)^2

    The unknown is A (d × d). Its image is the vector of the δᵀAδ (P,), the row sums of E(XA) ∘ EX with the
    incidence matrix E of the pairs; Σ q δδᵀ is XᵀEᵀdiag(q)EX. Both cost O(nd² + Pd) without a P × d array.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples.
    scatter : array of shape (d, d)
        C, see :func:`ordinal_scatter`.
    pairs : PairOperator
        The P target pairs.
    targets : array of shape (P,)
        ‖δ_p‖², float64.
    mu : float
        Weight of the local term.
    """

    def __init__(self, X: Array, scatter: Array, pairs: PairOperator, targets: Array, *, mu: float) -> None:
        self._X, self._scatter, self._pairs, self._targets, self._mu = X, scatter, pairs, targets, mu
        self._backend = backend_of(X)

    def target_scatter(self, weights: Array | None = None) -> Array:
        """Return Σ w_p δ_pδ_pᵀ (d, d) by the graph Laplacian of the pairs; w = 1 by default."""
        w = 0 * self._targets + 1 if weights is None else weights
        total = self._X.T @ self._pairs.laplacian_product(w, self._X)
        return (total + total.T) / 2

    def image(self, x: Array) -> Array:
        """Return δ_pᵀAδ_p of every pair (P,)."""
        return self._pairs.dots(self._X @ x, self._X)

    def value(self, x: Array, z: Array) -> float:
        """Return h(A), given the image."""
        excess = z - self._targets
        return float(self._mu * self._backend.dot(excess, excess) - self._backend.dot(self._scatter, x))

    def value_and_gradient(self, x: Array, z: Array) -> tuple[float, Array]:
        """Return h(A) and ∇h = -C + 2μ Σ q_p δ_pδ_pᵀ, q = δᵀAδ - ‖δ‖²."""
        excess = z - self._targets
        return self.value(x, z), 2 * self._mu * self.target_scatter(excess) - self._scatter

    def line_polynomial(self, x: Array, z: Array, dx: Array, dz: Array) -> FloatArray:
        """Return the coefficients of h along dx; h is quadratic, so the last two are zero."""
        excess = z - self._targets
        dot, mu = self._backend.dot, self._mu
        start = mu * dot(excess, excess) - dot(self._scatter, x)
        slope = 2 * mu * dot(excess, dz) - dot(self._scatter, dx)
        return self._backend.to_host_scalars([start, slope, mu * dot(dz, dz), 0.0, 0.0])

    def project(self, x: Array) -> Array:
        """Return the nearest positive semidefinite matrix."""
        return project_psd(x)
