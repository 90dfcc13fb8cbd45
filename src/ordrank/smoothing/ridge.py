"""Ridge regression, exact for what is left out: for all strengths of the ridge, or one and any number of samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import cho_solve, solve_triangular

from ordrank._types import FloatArray, IntArray
from ordrank.smoothing.moments import Moments

_RANK = 1e-12
# No eigenvalue exceeds the scatter, so that 1/α bounds the condition: from here on a Cholesky factor, which takes a
# fraction of the time of eigenvectors, is as good even for sums of products in single precision.
_SAFE_RIDGE = 1e-6
# A sample that determines its own position (leverage 1) has no leave-one-out error; this keeps it finite.
_LEAST_FREEDOM = 1e-9
# So does this for a group, of which some directions may have none.
_JITTER = 1e-12


class Regression:
    r"""Samples of :math:`\min_B \tfrac12\sum_i \omega_i\|B^T\phi_i + b - y_i\|^2 + \tfrac{\rho}2\|B\|^2`.

    The ridge is ρ = α Σ_i ω_i ‖φ_i - φ̄‖²: its share α of the total scatter has no units.

    Parameters
    ----------
    F : ndarray of shape (n, p)
        Features φ.
    Y : ndarray of shape (n, s)
        Targets with weighted mean zero.
    weights : ndarray of shape (n,)
        ω, positive.
    moments : Moments, optional
        Of many more samples, of which these are some: the solutions are then those for all of them, and so is what
        happens when one of these is left out.
    groups : ndarray of shape (n,), optional
        Numbers of groups from 0 on: a sample is left out together with its group. Not with moments.
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


class RidgePath(Regression):
    """Solutions for every ridge from one eigendecomposition."""

    def __init__(self, F: FloatArray, Y: FloatArray, weights: FloatArray, groups: IntArray | None = None) -> None:
        super().__init__(F, Y, weights, groups=groups)
        in_features = F.shape[1] <= len(F)
        gram = self.centred.T @ self.centred if in_features else self.centred @ self.centred.T
        self.spectrum, vectors = spectrum_of(gram)
        self.basis: FloatArray = self.centred @ (vectors / np.sqrt(self.spectrum)) if in_features else vectors
        self.squared_basis: FloatArray = self.basis**2
        self.along: FloatArray = self.basis.T @ (self.root[:, None] * Y)
        self.scatter = float(self.spectrum.sum())
        self.outside = float(np.sum(weights[:, None] * Y**2)) - float(np.sum(self.along**2))

    def at(self, alpha: float) -> PathFit:
        """Return the solution with the ridge α."""
        return PathFit(self, alpha)


def spectrum_of(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues (r,) of a matrix (p, p) without negative ones, and eigenvectors (p, r), without those of rounding."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > _RANK * max(values[-1], np.finfo(np.float64).tiny)
    return values[kept], vectors[:, kept]


@dataclass(frozen=True)
class RidgeFit(ABC):
    """One solution; everything is derived when asked for.

    The fitted targets are a linear smoother of the given ones, ``Z = S Y``, so what happens when a sample is
    left out is known without fitting again: its own error is (y_i - z_i) / (1 - S_ii), and every other z_j
    moves by -S_ji times that. For a group g the errors are (I - S_gg)⁻¹(y_g - z_g).
    """

    path: Regression
    alpha: float

    @property
    def ridge(self) -> float:
        """ρ."""
        return self.alpha * max(self.path.scatter, np.finfo(np.float64).tiny)

    @property
    @abstractmethod
    def positions(self) -> FloatArray:
        """Fitted positions Z, (n, s)."""

    @property
    @abstractmethod
    def leverages(self) -> FloatArray:
        """Diagonal of S without the mean, (n,)."""

    @abstractmethod
    def coefficients(self) -> FloatArray:
        """B, (p, s); the position of a sample is ``(features - path.feature_mean) @ B``."""

    @abstractmethod
    def halves(self) -> tuple[FloatArray, FloatArray]:
        """Two matrices G and H, (n, r), with HGᵀ the smoother of √ω Y, without the mean."""

    @cached_property
    def errors(self) -> FloatArray:
        """Errors of samples that are left out, alone or with their group; (n, s)."""
        path = self.path
        leverages = self.leverages + path.weights / path.total
        return np.asarray((path.Y - self.positions) / np.maximum(1 - leverages, _LEAST_FREEDOM)[:, None])

    def factors(self, dtype: DTypeLike) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """A and B, each (n, r + 1), with S = BAᵀ; the last column is that of the mean."""
        path, (G, H) = self.path, self.halves()
        ones = np.full((len(path.Y), 1), path.total**-0.5)
        A = np.hstack([G * path.root[:, None], ones * path.weights[:, None]])
        B = np.hstack([H / path.root[:, None], ones])
        return A.astype(dtype), B.astype(dtype)


@dataclass(frozen=True)
class PathFit(RidgeFit):
    """One solution of many, with what tells how good it is."""

    path: RidgePath

    @cached_property
    def shrinkage(self) -> FloatArray:
        """Eigenvalues of S, without the mean; (r,)."""
        return self.path.spectrum / (self.path.spectrum + self.ridge)

    @cached_property
    def positions(self) -> FloatArray:
        """Fitted positions Z, (n, s)."""
        path = self.path
        return np.asarray((path.basis @ (self.shrinkage[:, None] * path.along)) / path.root[:, None])

    @property
    def leverages(self) -> FloatArray:
        """Diagonal of S without the mean, (n,)."""
        return np.asarray(self.path.squared_basis @ self.shrinkage)

    @cached_property
    def errors(self) -> FloatArray:
        """Errors of samples that are left out, alone or with their group; (n, s)."""
        groups = self.path.groups
        return super().errors if groups is None else self._errors_without_groups(groups)

    def _errors_without_groups(self, groups: IntArray) -> FloatArray:
        """All groups of one size are solved for at once."""
        path, residuals = self.path, self.path.Y - self.positions
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
    def displacements(self) -> FloatArray:
        """Length of these errors, (n,)."""
        return np.asarray(np.linalg.norm(self.errors, axis=1))

    @cached_property
    def displacement(self) -> float:
        """Their weighted mean."""
        return float(self.displacements @ self.path.weights / self.path.weights.sum())

    @cached_property
    def log_evidence_size(self) -> float:
        """Log of the size of the targets that a Gaussian process with this kernel and noise finds likely.

        The negative log marginal likelihood per target and dimension with the best overall variance, up to a
        constant: ½ log(yᵀC⁻¹y) + ½ log det C / (n - 1).
        """
        path, ridge = self.path, self.ridge
        n = len(path.Y) - 1
        inside = path.spectrum + ridge
        quadratic = float(np.sum(path.along**2 / inside[:, None])) + max(path.outside, 0.0) / ridge
        log_determinant = float(np.log(inside).sum() + (n - len(inside)) * np.log(ridge))
        return 0.5 * float(np.log(quadratic)) + 0.5 * log_determinant / n

    @property
    def score(self) -> float:
        """Sum of the logs of two estimates of one thing, the size of an error out of sample; the less the better.

        Leave-one-out is honest and noisy, the evidence steady and only as good as its model. Their mean chooses
        better than either.
        """
        return self.log_evidence_size + float(np.log(max(self.displacement, np.finfo(np.float64).tiny)))

    def coefficients(self) -> FloatArray:
        """B, (p, s)."""
        path = self.path
        return path.centred.T @ (path.basis @ (path.along / (path.spectrum + self.ridge)[:, None]))

    def halves(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvectors of S, and these times its eigenvalues."""
        return self.path.basis, self.path.basis * self.shrinkage


class SummedRegression(Regression):
    """Solutions for sums over many samples, of which some are known."""

    moments: Moments

    def __init__(self, F: FloatArray, Y: FloatArray, weights: FloatArray, moments: Moments) -> None:
        super().__init__(F, Y, weights, moments)
        self.scatter = float(moments.gram.trace())

    def at(self, alpha: float) -> SummedFit:
        """Return the solution with the ridge α."""
        gram, cross, ridge = self.moments.gram, self.moments.cross, alpha * self.scatter
        if alpha >= _SAFE_RIDGE:
            with suppress(np.linalg.LinAlgError):  # rounding may leave it without a root
                root = np.linalg.cholesky(gram + ridge * np.eye(len(gram)))
                half = solve_triangular(root, self.centred.T, lower=True, check_finite=False).T
                return SummedFit(self, alpha, half, cho_solve((root, True), cross, check_finite=False))
        spectrum, vectors = spectrum_of(gram)
        inverse_root = vectors / np.sqrt(spectrum + ridge)
        return SummedFit(self, alpha, self.centred @ inverse_root, inverse_root @ (inverse_root.T @ cross))


@dataclass(frozen=True)
class SummedFit(RidgeFit):
    """One solution for sums over many samples.

    Attributes
    ----------
    half : ndarray of shape (n, r)
        H, with HHᵀ the smoother of √ω Y, without the mean.
    B : ndarray of shape (p, s)
    """

    path: SummedRegression
    half: FloatArray
    B: FloatArray

    @cached_property
    def positions(self) -> FloatArray:
        """Fitted positions Z, (n, s)."""
        return np.asarray(self.path.centred @ self.B / self.path.root[:, None])

    @property
    def leverages(self) -> FloatArray:
        """Diagonal of S without the mean, (n,)."""
        return np.asarray(np.einsum("ij,ij->i", self.half, self.half))

    def coefficients(self) -> FloatArray:
        """B."""
        return self.B

    def halves(self) -> tuple[FloatArray, FloatArray]:
        """Twice H."""
        return self.half, self.half


def sums_of_groups(values: NDArray[np.floating], groups: IntArray) -> NDArray[np.floating]:
    """Sums (g, p) of the rows of values (n, p) over each of g groups, numbered from 0 on."""
    sums = np.zeros((int(groups.max()) + 1, values.shape[1]), dtype=values.dtype)
    np.add.at(sums, groups, values)
    return sums
