"""The objective of cMDS-DML, equation (9) of the paper, in the space of mapped samples."""

from __future__ import annotations

from ordrank._types import Array, FloatArray
from ordrank.backend import backend_of
from ordrank.objectives.fit import FitTerm
from ordrank.objectives.locality import LocalityTerm


class CMDSObjective:
    r"""Fit of mapped samples to ideal positions, local distances, and a ridge.

    .. math:: f(L, c) = \tfrac12\sum_i\omega_i\|Lx_i - cy_i\|^2 + \tfrac\alpha2\|L\|^2
              + \mu\sum_p\left(\|L\delta_p\|^2 - \|\delta_p\|^2\right)^2

    The unknowns are one flat vector: the rows of L (s × d), then c if the scale is free. The image of a point
    is Z = XLᵀ (n × s): with it a value costs O(ns + Ps), a gradient one more product with X.

    Parameters
    ----------
    X : array of shape (n, d)
        Centred samples.
    Y : array of shape (n, s)
        Ideal positions.
    locality : LocalityTerm, optional
        The local term; left out when there are no pairs.
    alpha : float
        Ridge; 0 in the paper.
    free_scale : bool
        Whether c is an unknown; else it is 1.
    weights : array of shape (n,), optional
        ω; 1 in the paper.
    """

    def __init__(
        self,
        X: Array,
        Y: Array,
        locality: LocalityTerm | None,
        *,
        alpha: float,
        free_scale: bool,
        weights: Array | None = None,
    ) -> None:
        self._X, self._fit, self._locality = X, FitTerm(Y, weights), locality
        self._weights = weights
        self._alpha, self._free_scale = alpha, free_scale
        self._shape = (Y.shape[1], X.shape[1])
        self._backend = backend_of(X)
        self._spectrum: tuple[Array, Array] | None = None

    def pack(self, L: Array, c: float) -> Array:
        """Vector of unknowns from L (s, d) and c."""
        parts = [L, self._backend.asarray([c], L)] if self._free_scale else [L]
        return self._backend.concatenate(parts)

    def unpack(self, x: Array) -> tuple[Array, float]:
        """L (s, d) and c from the vector of unknowns."""
        size = self._shape[0] * self._shape[1]
        return x[:size].reshape(self._shape), float(x[size]) if self._free_scale else 1.0

    def image(self, x: Array) -> Array:
        """Z = XLᵀ."""
        return self._X @ self.unpack(x)[0].T

    def value(self, x: Array, z: Array) -> float:
        """f(L, c), given Z."""
        L, c = self.unpack(x)
        value = self._fit.value(z, c) + 0.5 * self._alpha * self._backend.dot(L, L)
        return value if self._locality is None else value + self._locality.value(z)

    def value_and_gradient(self, x: Array, z: Array) -> tuple[float, Array]:
        """f(L, c) and its gradient; ∇_L f = WᵀX + αL with W the gradient in Z."""
        L, c = self.unpack(x)
        value, W, slope_c = self._fit.value_and_gradients(z, c)
        value += 0.5 * self._alpha * self._backend.dot(L, L)
        if self._locality is not None:
            local_value, local_gradient = self._locality.value_and_gradient(z)
            value, W = value + local_value, W + local_gradient
        return value, self.pack(W.T @ self._X + self._alpha * L, slope_c)

    def line_polynomial(self, x: Array, z: Array, dx: Array, dz: Array) -> FloatArray:
        """Quartic coefficients of f along dx, in O(ns + Ps)."""
        (L, c), (dL, dc) = self.unpack(x), self.unpack(dx)
        polynomial = self._fit.line_polynomial(z, c, dz, dc if self._free_scale else 0.0)
        dot = self._backend.dot
        polynomial[:3] += (
            self._alpha * 0.5 * dot(L, L),
            self._alpha * dot(L, dL),
            self._alpha * 0.5 * dot(dL, dL),
        )
        return polynomial if self._locality is None else polynomial + self._locality.line_polynomial(z, dz)

    def precondition(self, gradient: Array) -> Array:
        """(XᵀΩX + αI)⁻¹ on L and 1/‖Y‖² on c: the inverse Hessian of the fitting term, block by block.

        With α = 0 it acts on the span of the samples only, where every gradient lies.
        """
        G, slope_c = self.unpack(gradient)
        eigenvalues, basis = self.span()
        inside = G @ basis
        solved = (inside / (eigenvalues + self._alpha)) @ basis.T
        if self._alpha > 0:
            solved = solved + (G - inside @ basis.T) / self._alpha
        return self.pack(solved, slope_c / self._fit.squared_norm if self._free_scale else 1.0)

    def span(self) -> tuple[Array, Array]:
        """Non-zero eigenvalues (r,), rising, and eigenvectors (d, r) of XᵀΩX; computed once."""
        if self._spectrum is None:
            self._spectrum = _span(self._X if self._weights is None else self._weights[:, None] ** 0.5 * self._X)
        return self._spectrum


def _span(X: Array) -> tuple[Array, Array]:
    """Spectrum of XᵀX through the smaller of XᵀX and XXᵀ, in double precision; of the type of X at the end."""
    n, d = X.shape
    backend = backend_of(X)
    values, vectors = backend.eigh(backend.gram(X) if d <= n else backend.gram(X.T))
    # The Gram matrix has half the digits of X: below this share of the largest a direction is noise.
    kept = values > values[-1] * max(n, d) * backend.epsilon(values)
    values, vectors = values[kept], vectors[:, kept]
    if d > n:
        vectors = (X.T @ vectors) / values**0.5
    return backend.asarray(values, X), backend.asarray(vectors, X)
