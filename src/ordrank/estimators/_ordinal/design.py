"""Features of the selection samples in which the ordinal map is a ridge regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import Array, FloatArray, IntArray
from ordrank.backend import backend_of, convert_like
from ordrank.estimators._defaults import Defaults
from ordrank.estimators._ordinal.training_data import SelectionSubset, TrainingData
from ordrank.kernel_ridge import (
    DiscriminantRescaling,
    GramRidge,
    KernelMap,
    LinearMap,
    RidgePath,
    moments_of,
    row_blocks,
)


@dataclass(frozen=True)
class RidgeMap:
    """Map f(u) = Wᵀu + Σ_ω C_ωᵀk_ω(u) - o of normalised samples, with Gaussians k_ω at common landmarks."""

    slope: FloatArray  # W, (d, s)
    offset: FloatArray  # o, (s,)
    coefficients: dict[float, FloatArray]  # C (m, s) by sharpness ω; empty for a linear map

    @classmethod
    def weighted_mean(cls, maps: Sequence[RidgeMap], weights: Sequence[float]) -> RidgeMap:
        """Return the mean of maps with different sharpnesses, for weights of sum 1."""
        weighted = list(zip(maps, weights, strict=True))
        return cls(
            np.sum([weight * one.slope for one, weight in weighted], axis=0),
            np.sum([weight * one.offset for one, weight in weighted], axis=0),
            {sharpness: weight * C for one, weight in weighted for sharpness, C in one.coefficients.items()},
        )


class DesignMatrix:
    """Features Φ of the labelled samples for one kernel, in the eigenvectors of the graph penalty.

    With G the Laplacian, the penalty ‖B‖² + ν tr(BᵀΦᵀGΦB) is ‖B‖² again for the features φ(I + νΦᵀGΦ)^(-1/2): in the
    eigenvectors of ΦᵀGΦ every ν is a scaling of columns (Laplacian-regularised least squares).

    References
    ----------
    M. Belkin, P. Niyogi and V. Sindhwani, "Manifold regularization", JMLR 7, 2006.
    """

    def __init__(self, subset: SelectionSubset, feature_map: LinearMap | KernelMap) -> None:
        self.feature_map, self._subset = feature_map, subset
        self._rotation: FloatArray | None = None
        self._penalties: FloatArray | None = None
        features = feature_map.features(subset.labelled if subset.laplacian is None else subset.X)
        if subset.laplacian is not None:
            penalties, self._rotation = np.linalg.eigh(features.T @ (subset.laplacian @ features))
            self._penalties = np.maximum(penalties, 0.0)
            features = features[: len(subset.Y)] @ self._rotation
        self._features: FloatArray = features

    def path(self, nu: float) -> RidgePath:
        """Return the ridge path of the subset for a graph weight ν."""
        subset = self._subset
        return RidgePath(self._features * self._scales(nu), subset.Y, subset.weights, groups=subset.groups)

    def problem(self, nu: float) -> RidgePath | GramRidge:
        """Return the ridge problem of the subset, to be solved for one α.

        That needs no eigendecomposition, which takes many times as long, unless there are groups.
        """
        subset, features = self._subset, self._features * self._scales(nu)
        if subset.groups is not None or features.shape[1] > len(features):
            return self.path(nu)
        moments = moments_of([(features, subset.Y, subset.weights)], features.mean(axis=0))
        return GramRidge(features, subset.Y, subset.weights, moments)

    def gram_ridge(self, data: TrainingData, rows: IntArray, nu: float) -> GramRidge:
        """Return the ridge problem of all samples, of which ``rows`` are the subset: one pass, no features are kept.

        Features that equal the samples are multiplied in their own precision, others in double.
        """
        if self._is_identity:
            moments = data.moments()
        else:
            center = self._features.mean(axis=0)
            center = center if self._rotation is None else self._rotation @ center
            moments = data.feature_moments(self.feature_map, center)
        if self._rotation is not None:
            moments = moments.transformed(self._rotation * self._scales(nu))
        Y, weights = data.targets(rows)
        return GramRidge(self._features * self._scales(nu), Y, weights, moments)

    def features_of(self, X: Array, nu: float) -> Array:
        """Return features (n, p) of normalised samples (n, d), on their device; samples themselves keep their type."""
        if self._is_identity and self._rotation is None:
            return X
        backend, feature_map = backend_of(X), self.feature_map.to_device_of(X)
        rotation = None if self._rotation is None else convert_like(self._rotation * self._scales(nu), X)
        width = self._features.shape[1]
        features = backend.empty((len(X), width), backend.double(X[:0]))
        # In blocks: temporaries are several times as large as the features.
        for rows in row_blocks(len(X), width, backend.block_multiplier(X)):
            block = feature_map.features(X[rows])
            features[rows] = block if rotation is None else block @ rotation
        return features

    def scatter(self, nu: float) -> float:
        """Return the total weighted scatter of the features of the subset."""
        weights, features = self._subset.weights, self._features * self._scales(nu)
        mean = weights @ features / weights.sum()
        return float(weights @ np.einsum("ij,ij->i", features, features) - weights.sum() * (mean @ mean))

    def ridge_map(self, coefficients: FloatArray, feature_mean: FloatArray, nu: float) -> RidgeMap:
        """Return the map with coefficients (p, s) of a path's features, zero at their mean (p,)."""
        scaled = self._scales(nu)[:, None] * coefficients
        B = scaled if self._rotation is None else self._rotation @ scaled
        features, offset = self.feature_map, feature_mean @ coefficients
        if isinstance(features, LinearMap):
            return RidgeMap(features.input_coefficients(B), offset, {})
        C = features.landmark_coefficients(B)
        return RidgeMap(features.linear_part(C), offset, {features.sharpness: C})

    @property
    def _is_identity(self) -> bool:
        return isinstance(self.feature_map, LinearMap) and self.feature_map.is_identity

    def _scales(self, nu: float) -> FloatArray:
        if self._penalties is None:
            return np.ones(self._features.shape[1])
        return np.asarray(1 / np.sqrt(1 + nu * self._penalties))


def feature_map(
    X: NDArray[np.floating],
    landmarks: NDArray[np.floating],
    sharpness: float | None,
    defaults: Defaults,
    rescaling: DiscriminantRescaling | None = None,
) -> LinearMap | KernelMap:
    """Return linear features of all samples X (N, d), or features of the kernel with landmarks (m, d)."""
    return LinearMap(X) if sharpness is None else KernelMap(landmarks, sharpness, defaults.linear_weight, rescaling)


def draw_landmarks(X: NDArray[np.floating], n_landmarks: int, rng: np.random.Generator) -> NDArray[np.floating]:
    """Return some rows of X in their order, or all if there are no more.

    All row numbers are permuted, which draws others than ``draw_rows``; a fit depends on this.
    """
    return X if len(X) <= n_landmarks else X[np.sort(rng.permutation(len(X))[:n_landmarks])]
