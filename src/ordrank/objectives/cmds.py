"""The objective of cMDS-DML, equation (9) of the paper, as a function of the mapped samples."""

from __future__ import annotations

import numpy as np

from ordrank._protocols import Array, FloatArray
from ordrank.backend import backend_of
from ordrank.objectives.fit import FitTerm
from ordrank.objectives.local import LocalDistanceTerm


class CMDSObjective:
    r"""Squared error to target positions, plus a local distance term and a ridge penalty.

    .. math:: f(L, c) = \tfrac12\sum_i\omega_i\|Lx_i - cy_i\|^2 + \tfrac\alpha2\|L\|^2
              + \mu\sum_p\left(\|L\delta_p\|^2 - \|\delta_p\|^2\right)^2

    The unknowns are one flat vector: the rows of L (s × d), then c if the scale is free. The image is Z = XLᵀ
    (n × s); given Z, a value costs O(ns + Ps) and a gradient one more product with X.

    Parameters
    ----------
    X : array of shape (n, d)
        Centred samples.
    Y : array of shape (n, s)
        Target positions.
    local : LocalDistanceTerm, optional
        The local term; None without pairs.
    alpha : float
        Ridge penalty; 0 in the paper.
    free_scale : bool
        Whether c is an unknown; otherwise it is 1.
    weights : array of shape (n,), optional
        ω; 1 in the paper.
    """

    def __init__(
        self,
        X: Array,
        Y: Array,
        local: LocalDistanceTerm | None,
        *,
        alpha: float,
        free_scale: bool,
        weights: Array | None = None,
    ) -> None:
        self._X, self._fit, self._local = X, FitTerm(Y, weights), local
        self._weights = weights
        self._alpha, self._free_scale = alpha, free_scale
        self._shape = (Y.shape[1], X.shape[1])
        self._backend = backend_of(X)
        self._spectrum: tuple[Array, Array] | None = None

    def pack(self, L: Array, c: Array) -> Array:
        """Return the vector of unknowns for L (s, d) and a scalar c."""
        flat = self._backend.asarray(L, self._X).reshape(-1)
        return self._backend.concat([flat, self._backend.asarray(c, flat).reshape(1)]) if self._free_scale else flat

    def unpack(self, x: Array) -> tuple[Array, Array]:
        """Return L (s, d) and the scalar c of a vector of unknowns, on its device."""
        size = self._shape[0] * self._shape[1]
        return x[:size].reshape(self._shape), x[size] if self._free_scale else 1.0

    def image(self, x: Array) -> Array:
        """Return Z = XLᵀ."""
        return self._backend.inner(self._X, self.unpack(x)[0])

    def value(self, x: Array, z: Array) -> float:
        """Return f(L, c), given Z."""
        L, c = self.unpack(x)
        value = self._fit.value(z, c) + self._ridge(L)
        return float(value if self._local is None else value + self._local.value(z))

    def value_and_gradient(self, x: Array, z: Array) -> tuple[float, Array]:
        """Return f(L, c) and its gradient; ∇_L f = WᵀX + αL with W the gradient in Z."""
        L, c = self.unpack(x)
        value, W = self._fit.value_and_gradient(z, c)
        slope_c = self._fit.slope(W) if self._free_scale else None
        value = value + self._ridge(L)
        if self._local is not None:
            local_value, local_gradient = self._local.value_and_gradient(z)
            value, W = value + local_value, W + local_gradient
        gradient = self._backend.transposed_product(W, self._X)
        return float(value), self.pack(gradient + self._alpha * L if self._alpha else gradient, slope_c)

    def line_polynomial(self, x: Array, z: Array, dx: Array, dz: Array) -> FloatArray:
        """Return the quartic coefficients of f along dx, in O(ns + Ps)."""
        (L, c), (dL, dc) = self.unpack(x), self.unpack(dx)
        parts = self._fit.line_polynomial(z, c, dz, dc if self._free_scale else None)
        parts += [self._ridge(L), self._alpha * self._backend.dot(L, dL), self._ridge(dL)]
        if self._local is not None:
            parts += self._local.line_polynomial(z, dz)
        sums = self._backend.to_host_scalars(parts)
        polynomial = np.zeros(5)
        polynomial[:3] = sums[:3] + sums[3:6]
        polynomial[: len(sums) - 6] += sums[6:]
        return polynomial

    def precondition(self, gradient: Array) -> Array:
        """Apply (XᵀΩX + αI)⁻¹ to L and 1/‖Y‖² to c, the block-diagonal inverse Hessian of the fitting term.

        With α = 0 it acts on the span of the samples only, which contains every gradient.
        """
        G, slope_c = self.unpack(gradient)
        eigenvalues, basis = self.span()
        inside = G @ basis
        solved = (inside / (eigenvalues + self._alpha)) @ basis.T
        if self._alpha > 0:
            solved = solved + (G - inside @ basis.T) / self._alpha
        return self.pack(solved, slope_c / self._fit.squared_norm if self._free_scale else None)

    def _ridge(self, L: Array) -> Array:
        return 0.5 * self._alpha * self._backend.dot(L, L)

    def span(self) -> tuple[Array, Array]:
        """Return the nonzero eigenvalues (r,), ascending, and eigenvectors (d, r) of XᵀΩX; computed once."""
        if self._spectrum is None:
            self._spectrum = _span(self._X if self._weights is None else self._weights[:, None] ** 0.5 * self._X)
        return self._spectrum


def _span(X: Array) -> tuple[Array, Array]:
    """Return the spectrum of XᵀX from the smaller of XᵀX and XXᵀ, computed in float64, in the dtype of X."""
    n, d = X.shape
    backend = backend_of(X)
    values, vectors = backend.eigh(backend.gram(X) if d <= n else backend.gram(X.T))
    # The Gram matrix has half the correct digits of X: smaller eigenvalues are noise.
    kept = values > values[-1] * max(n, d) * backend.finfo_eps(values)
    values, vectors = values[kept], vectors[:, kept]
    if d > n:
        vectors = (backend.double(X.T) @ vectors) / values**0.5
    return backend.asarray(values, X), backend.asarray(vectors, X)
