"""Ridge regression with closed-form leave-one-out errors: a whole regularisation path, or one ridge from moments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.kernel_ridge.moments import Moments

_RANK = 1e-12
# No eigenvalue exceeds the scatter, so 1/α bounds the condition number: from here on Cholesky, several times faster
# than an eigendecomposition, is accurate enough even for moments summed in single precision.
_CHOLESKY_ALPHA = 1e-6
# Lower bound of 1 - leverage: a sample of leverage 1 determines its own fitted value.
_MIN_RESIDUAL_FREEDOM = 1e-9
# The same for groups, added to the diagonal of I - S_gg.
_JITTER = 1e-12
_TINY = np.finfo(np.float64).tiny


class RidgeProblem:
    r"""Data of :math:`\min_B \tfrac12\sum_i \omega_i\|B^T\phi_i + b - y_i\|^2 + \tfrac{\rho}2\|B\|^2`.

    F (n, p) are the features φ, Y (n, s) targets of weighted mean zero, ω positive weights. The ridge is
    ρ = α Σ_i ω_i ‖φ_i - φ̄‖², so α is dimensionless. With the moments of a larger data set that includes these samples,
    solutions and leave-one-out errors refer to the larger set. With groups (n,), numbered from 0, a sample is held
    out together with its group.
    """

    scatter: float

    def __init__(
        self,
        F: FloatArray,
        Y: FloatArray,
        weights: FloatArray,
        moments: Moments | None = None,
        groups: IntArray | None = None,
    ) -> None:
        self.Y, self.weights, self.moments, self.groups = Y, weights, moments, groups
        self.root = np.sqrt(weights)
        self.total = float(weights.sum()) if moments is None else moments.total
        self.feature_mean: FloatArray = weights @ F / weights.sum() if moments is None else moments.mean
        self.centred: FloatArray = self.root[:, None] * (F - self.feature_mean)


class RidgePath(RidgeProblem):
    """Solutions for every ridge from one eigendecomposition."""

    def __init__(self, F: FloatArray, Y: FloatArray, weights: FloatArray, groups: IntArray | None = None) -> None:
        super().__init__(F, Y, weights, groups=groups)
        primal = F.shape[1] <= len(F)
        gram = self.centred.T @ self.centred if primal else self.centred @ self.centred.T
        self.spectrum, vectors = _spectrum(gram)
        self.basis: FloatArray = self.centred @ (vectors / np.sqrt(self.spectrum)) if primal else vectors
        self.squared_basis: FloatArray = self.basis**2
        self.projected_targets: FloatArray = self.basis.T @ (self.root[:, None] * Y)
        self.scatter = float(self.spectrum.sum())
        # Σω‖y‖² outside the span of the features.
        self.unexplained = float(np.sum(weights[:, None] * Y**2)) - float(np.sum(self.projected_targets**2))

    def at(self, alpha: float) -> PathFit:
        """Return the solution for one α."""
        return PathFit(self, alpha)


class GramRidge(RidgeProblem):
    """Solutions from the moments of many samples, with leave-one-out errors for some of them."""

    moments: Moments

    def __init__(self, F: FloatArray, Y: FloatArray, weights: FloatArray, moments: Moments) -> None:
        super().__init__(F, Y, weights, moments)
        self.scatter = float(moments.gram.trace())

    def at(self, alpha: float) -> GramRidgeFit:
        """Return the solution for one α."""
        gram, cross, ridge = self.moments.gram, self.moments.cross, alpha * self.scatter
        if alpha >= _CHOLESKY_ALPHA:
            with suppress(np.linalg.LinAlgError):  # rounding may leave the matrix indefinite
                root = np.linalg.cholesky(gram + ridge * np.eye(len(gram)))
                half = scipy.linalg.solve_triangular(root, self.centred.T, lower=True, check_finite=False).T
                coefficients = scipy.linalg.cho_solve((root, True), cross, check_finite=False)
                return GramRidgeFit(self, alpha, half, coefficients)
        spectrum, vectors = _spectrum(gram)
        inverse_root = vectors / np.sqrt(spectrum + ridge)
        return GramRidgeFit(self, alpha, self.centred @ inverse_root, inverse_root @ (inverse_root.T @ cross))


def _spectrum(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the numerically positive eigenvalues (r,) of a positive semidefinite matrix, and eigenvectors (p, r)."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > _RANK * max(values[-1], _TINY)
    return values[kept], vectors[:, kept]


@dataclass(frozen=True)
class RidgeFit(ABC):
    r"""One ridge solution; derived quantities are computed on first use.

    Fitted values are a linear smoother of the targets, ``Z = S Y``. Without sample i its error is
    :math:`e_i = (y_i - z_i) / (1 - S_{ii})` and every other z_j shifts by :math:`-S_{ji}e_i`; for a group g the errors
    are :math:`(I - S_{gg})^{-1}(y_g - z_g)`.

    References
    ----------
    G. Golub, M. Heath and G. Wahba, "Generalized cross-validation as a method for choosing a good ridge parameter",
    Technometrics 21(2), 1979.
    """

    problem: RidgeProblem
    alpha: float

    @property
    def ridge(self) -> float:
        """ρ."""
        return self.alpha * max(self.problem.scatter, _TINY)

    @property
    @abstractmethod
    def fitted_values(self) -> FloatArray:
        """Z, (n, s)."""

    @property
    @abstractmethod
    def leverages(self) -> FloatArray:
        """Diagonal of S without the intercept's part, (n,)."""

    @abstractmethod
    def coefficients(self) -> FloatArray:
        """B, (p, s): fitted values are ``(features - problem.feature_mean) @ B``."""

    @abstractmethod
    def _half_factors(self) -> tuple[FloatArray, FloatArray]:
        """Matrices G and H, (n, r), with HGᵀ the smoother of √ω Y without the intercept's part."""

    @cached_property
    def loo_errors(self) -> FloatArray:
        """Leave-one-out errors y - z, (n, s)."""
        problem = self.problem
        leverages = self.leverages + problem.weights / problem.total
        return np.asarray((problem.Y - self.fitted_values) / np.maximum(1 - leverages, _MIN_RESIDUAL_FREEDOM)[:, None])

    def smoother_factors(self, dtype: DTypeLike) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return A and B, each (n, r + 1), with S = BAᵀ; the last column is the intercept's."""
        problem, (G, H) = self.problem, self._half_factors()
        A, B = (np.empty((len(half), half.shape[1] + 1), dtype) for half in (G, H))
        np.multiply(G, problem.root[:, None], out=A[:, :-1], casting="same_kind")
        np.divide(H, problem.root[:, None], out=B[:, :-1], casting="same_kind")
        B[:, -1] = problem.total**-0.5
        A[:, -1] = problem.weights * problem.total**-0.5
        return A, B


@dataclass(frozen=True)
class PathFit(RidgeFit):
    """One solution of a :class:`RidgePath`, with model-selection scores."""

    problem: RidgePath

    @cached_property
    def shrinkage(self) -> FloatArray:
        """Eigenvalues of S without the intercept's, (r,)."""
        return self.problem.spectrum / (self.problem.spectrum + self.ridge)

    @cached_property
    def fitted_values(self) -> FloatArray:
        """Z, (n, s)."""
        path = self.problem
        return np.asarray((path.basis @ (self.shrinkage[:, None] * path.projected_targets)) / path.root[:, None])

    @property
    def leverages(self) -> FloatArray:
        """Diagonal of S without the intercept's part, (n,)."""
        return np.asarray(self.problem.squared_basis @ self.shrinkage)

    @cached_property
    def loo_errors(self) -> FloatArray:
        """Leave-one-out, or leave-one-group-out, errors y - z, (n, s)."""
        groups = self.problem.groups
        return super().loo_errors if groups is None else self._group_errors(groups)

    def _group_errors(self, groups: IntArray) -> FloatArray:
        """Solve (I - S_gg)e = y_g - z_g, for all groups of one size at once."""
        path, residuals = self.problem, self.problem.Y - self.fitted_values
        errors = np.empty_like(residuals)
        sizes = np.bincount(groups)
        order = np.argsort(groups, kind="stable")
        for size in np.unique(sizes[sizes > 0]):
            members = order[sizes[groups[order]] == size].reshape(-1, size)
            basis, root = path.basis[members], path.root[members][:, :, None]
            hat = (basis * self.shrinkage) @ basis.transpose(0, 2, 1) + root * root.transpose(0, 2, 1) / path.total
            freedom = (1 + _JITTER) * np.eye(size) - hat
            errors[members] = np.linalg.solve(freedom, root * residuals[members]) / root
        return errors

    @cached_property
    def loo_distances(self) -> FloatArray:
        """Norms of the leave-one-out errors, (n,)."""
        return np.asarray(np.linalg.norm(self.loo_errors, axis=1))

    @cached_property
    def weighted_loo_distance(self) -> float:
        """Mean of the leave-one-out distances, weighted by the samples' weights."""
        return float(self.loo_distances @ self.problem.weights / self.problem.weights.sum())

    @cached_property
    def negative_log_evidence(self) -> float:
        """Negative log marginal likelihood of the Gaussian process, per target and dimension, up to a constant.

        With the best overall variance it is ½ log(yᵀC⁻¹y) + ½ log det C / (n - 1), see C. Rasmussen and C. Williams,
        *Gaussian Processes for Machine Learning*, MIT Press, 2006, chapter 5.
        """
        path, ridge = self.problem, self.ridge
        n = len(path.Y) - 1
        inside = path.spectrum + ridge
        quadratic = float(np.sum(path.projected_targets**2 / inside[:, None])) + max(path.unexplained, 0.0) / ridge
        log_determinant = float(np.log(inside).sum() + (n - len(inside)) * np.log(ridge))
        return 0.5 * float(np.log(quadratic)) + 0.5 * log_determinant / n

    @property
    def score(self) -> float:
        """Negative log evidence plus the log of the weighted leave-one-out distance; lower is better.

        Both estimate the log of an out-of-sample error. Leave-one-out is unbiased and noisy, the evidence stable
        and only as good as its model; the sum selects better than either.
        """
        return self.negative_log_evidence + float(np.log(max(self.weighted_loo_distance, _TINY)))

    def coefficients(self) -> FloatArray:
        """B, (p, s)."""
        path = self.problem
        return path.centred.T @ (path.basis @ (path.projected_targets / (path.spectrum + self.ridge)[:, None]))

    def _half_factors(self) -> tuple[FloatArray, FloatArray]:
        return self.problem.basis, self.problem.basis * self.shrinkage


@dataclass(frozen=True)
class GramRidgeFit(RidgeFit):
    """One solution of a :class:`GramRidge`."""

    problem: GramRidge
    half: FloatArray  # H (n, r), with HHᵀ the smoother of √ω Y without the intercept's part
    B: FloatArray  # (p, s)

    @cached_property
    def fitted_values(self) -> FloatArray:
        """Z, (n, s)."""
        return np.asarray(self.problem.centred @ self.B / self.problem.root[:, None])

    @property
    def leverages(self) -> FloatArray:
        """Diagonal of S without the intercept's part, (n,)."""
        return np.asarray(np.einsum("ij,ij->i", self.half, self.half))

    def coefficients(self) -> FloatArray:
        """B, (p, s)."""
        return self.B

    def _half_factors(self) -> tuple[FloatArray, FloatArray]:
        return self.half, self.half
