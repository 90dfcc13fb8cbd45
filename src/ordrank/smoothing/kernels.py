"""Feature maps: what ridge regression is linear in."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from ordrank._types import FloatArray

LINEAR_SHARE = 0.25
# Added to the landmarks' own kernel: copies among them must not make its matrix singular.
_JITTER = 1e-10
# Directions with less than this share of the largest variance are rounding.
_RANK = 1e-12


class LinearMap:
    """The samples themselves, or their coordinates in the span of all samples where that has fewer dimensions.

    Parameters
    ----------
    X : ndarray of shape (N, d)
        All samples.
    """

    def __init__(self, X: NDArray[np.floating]) -> None:
        self._basis: FloatArray | None = None
        if X.shape[1] > len(X):
            samples = np.asarray(X, dtype=np.float64)
            values, vectors = np.linalg.eigh(samples @ samples.T)
            kept = values > _RANK * values[-1]
            self._basis = samples.T @ (vectors[:, kept] / np.sqrt(values[kept]))

    @property
    def plain(self) -> bool:
        """Whether the features are the samples themselves."""
        return self._basis is None

    def features(self, X: NDArray[np.floating]) -> FloatArray:
        """Samples (n, d) to features (n, p), in double precision."""
        samples = np.asarray(X, dtype=np.float64)
        return samples if self._basis is None else samples @ self._basis

    def on_samples(self, B: FloatArray) -> FloatArray:
        """Coefficients of the samples, (d, s), from those of the features."""
        return B if self._basis is None else self._basis @ B


class KernelMap:
    r"""Features whose inner product is a kernel, exact on and between landmarks, Nyström's elsewhere.

    .. math:: k(x, x') = \exp\left(-\tfrac{\omega}{2}\|x - x'\|^2\right) + \tfrac14\langle x, x'\rangle

    For samples of unit mean square the mean of \|x - x'\|² is 2, so a sharpness ω means the same on all data. A
    Gaussian alone returns to the mean away from its samples; the linear part carries the order further.

    With all samples as landmarks, ridge regression on these features is kernel ridge regression.

    Parameters
    ----------
    landmarks : ndarray of shape (m, d)
    sharpness : float
        ω; the larger, the more local.

    """

    def __init__(self, landmarks: NDArray[np.floating], sharpness: float) -> None:
        self.landmarks, self.sharpness = landmarks, sharpness
        own = kernel(landmarks, landmarks, sharpness)
        own[np.diag_indices_from(own)] += _JITTER * np.median(own.diagonal())
        self._root = np.linalg.cholesky(own)

    def features(self, X: NDArray[np.floating]) -> FloatArray:
        """Samples (n, d) to features (n, m)."""
        return self._solve(kernel(X, self.landmarks, self.sharpness).T).T

    def on_landmarks(self, B: FloatArray) -> FloatArray:
        """Coefficients of the kernel with the landmarks, (m, s), from those of the features."""
        return self._solve(B, trans="T")

    def _solve(self, right: FloatArray, trans: Literal["N", "T"] = "N") -> FloatArray:
        solved: FloatArray = scipy.linalg.solve_triangular(
            self._root, right, lower=True, trans=trans, check_finite=False
        )
        return solved


def kernel(X: NDArray[np.floating], Y: NDArray[np.floating], sharpness: float) -> FloatArray:
    """Kernel between the rows of X (n, d) and Y (m, d), in double precision."""
    A, B = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    gaussian = euclidean_distances(A, B, squared=True)
    gaussian *= -0.5 * sharpness
    np.exp(gaussian, out=gaussian)
    gaussian += LINEAR_SHARE * (A @ B.T)
    return np.asarray(gaussian)
