"""Feature maps: what ridge regression is linear in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ordrank._types import Array, FloatArray
from ordrank.backend import as_given, backend_of
from ordrank.smoothing.lens import Lens

LINEAR_SHARE = 0.25
# Added to the landmarks' own kernel: copies among them must not make its matrix singular.
_JITTER = 1e-10
# Products with a triangular matrix are taken in so many strips, each without most of its zeros.
_STRIPS = 4
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
        self._basis: Array | None = None
        if X.shape[1] > len(X):
            samples = np.asarray(X, dtype=np.float64)
            values, vectors = np.linalg.eigh(samples @ samples.T)
            kept = values > _RANK * values[-1]
            self._basis = samples.T @ (vectors[:, kept] / np.sqrt(values[kept]))

    @property
    def plain(self) -> bool:
        """Whether the features are the samples themselves."""
        return self._basis is None

    def features(self, X: Array) -> Array:
        """Samples (n, d) to features (n, p), in double precision."""
        samples = backend_of(X).double(X)
        return samples if self._basis is None else samples @ self._basis

    def beside(self, X: Array) -> LinearMap:
        """The same map, for samples that are where X is."""
        moved = copy(self)
        moved._basis = None if self._basis is None else as_given(self._basis, X)
        return moved

    def on_samples(self, B: FloatArray) -> FloatArray:
        """Coefficients of the samples, (d, s), from those of the features."""
        return B if self._basis is None else self._basis @ B


class KernelMap:
    r"""Features whose inner product is a kernel, exact on and between landmarks, Nyström's elsewhere.

    .. math:: k(x, x') = \exp\left(-\tfrac{\omega}{2}\|x - x'\|^2\right) + \tfrac14\langle x, x'\rangle

    of samples as a lens shows them; the attribute ``landmarks`` holds what it shows of the landmarks.

    For samples of unit mean square the mean of \|x - x'\|² is 2, so a sharpness ω means the same on all data. A
    Gaussian alone returns to the mean away from its samples; the linear part carries the order further.

    With all samples as landmarks, ridge regression on these features is kernel ridge regression.

    Parameters
    ----------
    landmarks : ndarray of shape (m, d)
    sharpness : float
        ω; the larger, the more local.
    lens : Lens, optional
        Through which samples and landmarks are seen.
    """

    def __init__(self, landmarks: NDArray[np.floating], sharpness: float, lens: Lens | None = None) -> None:
        self.lens, self.sharpness = lens or Lens.plain(landmarks.shape[1]), sharpness
        self.landmarks: Array = self.lens(landmarks)
        own = kernel(self.landmarks, self.landmarks, sharpness)
        own[np.diag_indices_from(own)] += _JITTER * np.median(own.diagonal())
        root, identity = np.linalg.cholesky(own), np.eye(len(own))
        # Products with the inverse are shared by all cores, solutions of triangular systems are not.
        self._inverse: Array = scipy.linalg.solve_triangular(root, identity, lower=True, check_finite=False)

    def features(self, X: Array) -> Array:
        """Samples (n, d) to features (n, m)."""
        values, width = kernel(self.lens(X), self.landmarks, self.sharpness), len(self.landmarks)
        features = backend_of(X).empty(values.shape, values)
        step = -(-width // _STRIPS)
        for start in range(0, width, step):
            rows, known = slice(start, start + step), slice(min(start + step, width))
            features[:, rows] = values[:, known] @ self._inverse[rows, known].T  # what is left out is zero
        return features

    def beside(self, X: Array) -> KernelMap:
        """The same map, for samples that are where X is."""
        moved = copy(self)
        moved.landmarks, moved._inverse = as_given(self.landmarks, X), as_given(self._inverse, X)
        moved.lens = self.lens.beside(X)
        return moved

    def on_landmarks(self, B: FloatArray) -> FloatArray:
        """Coefficients of the kernel with the landmarks, (m, s), from those of the features."""
        return np.asarray(self._inverse.T @ B)

    def slope(self, C: FloatArray) -> FloatArray:
        """Coefficients of the samples in the linear part, (d, s), from those of the kernel with the landmarks."""
        return np.asarray(self.lens(LINEAR_SHARE * C.T @ self.landmarks).T)


def kernel(X: Array, Y: Array, sharpness: float) -> Array:
    """Kernel between the rows of X (n, d) and Y (m, d), on one device, in double precision."""
    products, squared = _products_and_squares(X, Y)
    values = _gaussian(squared, sharpness)
    products *= LINEAR_SHARE
    values += products
    return values


def gaussians(X: Array, Y: Array, sharpnesses: Iterable[float]) -> Iterator[Array]:
    """Only the Gaussians of such kernels (n, m), one after the other."""
    _, squared = _products_and_squares(X, Y)
    return (_gaussian(squared, sharpness) for sharpness in sharpnesses)


def _products_and_squares(X: Array, Y: Array) -> tuple[Array, Array]:
    """Inner products and squared distances (n, m) of all rows."""
    backend = backend_of(X)
    A, B = backend.double(X), backend.double(Y)
    products = A @ B.T
    squared = -2 * products
    squared += backend.squared_lengths(A)[:, None]
    squared += backend.squared_lengths(B)
    return products, squared


def squared_distances(X: Array, Y: Array) -> Array:
    """Squared distances between the rows of X (n, d) and Y (m, d), on one device, in double precision."""
    squared = _products_and_squares(X, Y)[1]
    squared[squared < 0] = 0  # by rounding
    return squared


def _gaussian(squared: Array, sharpness: float) -> Array:
    return backend_of(squared).exp((-0.5 * sharpness) * squared)
