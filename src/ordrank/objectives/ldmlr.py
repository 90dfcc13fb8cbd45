"""The convex objective of LDMLR (Li et al. 2015), equation (1) of the paper."""

from __future__ import annotations

import numpy as np

from ordrank._types import Array, FloatArray
from ordrank.backend import PairOperator, backend_of
from ordrank.geometry.psd import project_psd


def ordinal_scatter(X: Array, label_index: Array, weights: FloatArray) -> Array:
    r"""The constant matrix of LDMLR, :math:`C = \sum_{ij}\omega_{ij}(x_i - x_j)(x_i - x_j)^T`.

    Weights depend on labels only, so the n × n sum is one over the m labels: with the sums
    :math:`s_t` and counts :math:`n_t` of each label,
    :math:`C = 2\left(\sum_i (\sum_u \omega_{t_iu}n_u)\, x_ix_i^T - \sum_{tu}\omega_{tu}s_ts_u^T\right)`.

    Parameters
    ----------
    X : array of shape (n, d)
    label_index : array of shape (n,)
    weights : ndarray of shape (m, m)
        ω between labels; zero on the diagonal.

    Returns
    -------
    array of shape (d, d)
    """
    backend = backend_of(X)
    counts = np.bincount(backend.to_numpy(label_index), minlength=len(weights))
    degree = backend.asarray(weights @ counts, X)[label_index]
    sums = backend.group_sums(X, label_index, len(weights))
    C = 2 * (X.T @ (degree[:, None] * X) - sums.T @ backend.asarray(weights, X) @ sums)
    return (C + C.T) / 2


class LDMLRObjective:
    r"""Push different labels apart, keep target neighbours at their distance, over A ⪰ 0.

    .. math:: h(A) = -\langle C, A\rangle + \mu\sum_p(\delta_p^TA\delta_p - \|\delta_p\|^2)^2

    The unknown is A (d × d). Its image is the vector of the δᵀAδ (P,), the row sums of E(XA) ∘ EX with the
    incidence matrix E of the pairs; the sum of the q δδᵀ is XᵀEᵀdiag(q)EX. Both cost O(nd² + Pd), and no P × d array is
    ever held.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples.
    scatter : array of shape (d, d)
        The constant matrix C, see :func:`ordinal_scatter`.
    pairs : PairOperator
        The P target pairs.
    targets : array of shape (P,)
        ‖δ_p‖², in double precision.
    mu : float
        Weight of the local term.
    """

    def __init__(self, X: Array, scatter: Array, pairs: PairOperator, targets: Array, *, mu: float) -> None:
        self._X, self._scatter, self._pairs, self._targets, self._mu = X, scatter, pairs, targets, mu
        self._backend = backend_of(X)

    def target_scatter(self, weights: Array | None = None) -> Array:
        """Σ w_p δ_pδ_pᵀ (d, d), through the Laplacian of the pairs; all w_p = 1 by default."""
        w = 0 * self._targets + 1 if weights is None else weights
        total = self._X.T @ self._pairs.laplacian_product(w, self._X)
        return (total + total.T) / 2

    def image(self, x: Array) -> Array:
        """δ_pᵀAδ_p for every pair (P,)."""
        return self._pairs.dots(self._X @ x, self._X)

    def value(self, x: Array, z: Array) -> float:
        """h(A), given the image."""
        excess = z - self._targets
        return float(self._mu * self._backend.dot(excess, excess) - self._backend.dot(self._scatter, x))

    def value_and_gradient(self, x: Array, z: Array) -> tuple[float, Array]:
        """h(A) and ∇h = -C + 2μ Σ q_p δ_pδ_pᵀ, q = δᵀAδ - ‖δ‖²."""
        excess = z - self._targets
        return self.value(x, z), 2 * self._mu * self.target_scatter(excess) - self._scatter

    def line_polynomial(self, x: Array, z: Array, dx: Array, dz: Array) -> FloatArray:
        """Coefficients of h along dx; h is quadratic, the last two are zero."""
        excess = z - self._targets
        dot, mu = self._backend.dot, self._mu
        start = mu * dot(excess, excess) - dot(self._scatter, x)
        slope = 2 * mu * dot(excess, dz) - dot(self._scatter, dx)
        return self._backend.floats([start, slope, mu * dot(dz, dz), 0.0, 0.0])

    def project(self, x: Array) -> Array:
        """Nearest positive semidefinite matrix."""
        return project_psd(x)
