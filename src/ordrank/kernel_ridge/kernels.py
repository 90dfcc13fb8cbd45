"""Feature maps in which ridge regression is linear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from copy import copy

import numpy as np
import scipy
from numpy.typing import NDArray

from ordrank._protocols import Array, FloatArray
from ordrank.backend import backend_of, convert_like
from ordrank.errors import InputError
from ordrank.kernel_ridge.rescaling import DiscriminantRescaling

# Relative to the diagonal of the landmarks' kernel matrix: duplicates must not make it singular.
_JITTER = 1e-10
# A product with a triangular matrix is computed in this many strips, each without most of the zeros.
_STRIPS = 4
# Directions with less than this fraction of the largest variance are rounding errors.
_RANK = 1e-12


class LinearMap:
    """The identity, or coordinates in the span of all samples X (N, d) if that has fewer dimensions than features."""

    def __init__(self, X: NDArray[np.floating]) -> None:
        self._basis: Array | None = None
        if X.shape[1] > len(X):
            samples = np.asarray(X, dtype=np.float64)
            values, vectors = np.linalg.eigh(samples @ samples.T)
            kept = values > _RANK * values[-1]
            self._basis = samples.T @ (vectors[:, kept] / np.sqrt(values[kept]))

    @property
    def is_identity(self) -> bool:
        """Whether features equal samples."""
        return self._basis is None

    def features(self, X: Array) -> Array:
        """Return features (n, p) of samples (n, d), in double precision."""
        samples = backend_of(X).double(X)
        return samples if self._basis is None else samples @ self._basis

    def to_device_of(self, X: Array) -> LinearMap:
        """Return the same map for samples on the device of X."""
        moved = copy(self)
        moved._basis = None if self._basis is None else convert_like(self._basis, X)
        return moved

    def input_coefficients(self, B: FloatArray) -> FloatArray:
        """Return coefficients (d, s) of the inputs from coefficients (p, s) of the features."""
        return B if self._basis is None else self._basis @ B


class KernelMap:
    r"""Nyström features of a Gaussian plus linear kernel, exact on the landmarks.

    .. math:: k(x, x') = \exp\left(-\tfrac{\omega}{2}\|x - x'\|^2\right) + \eta\langle x, x'\rangle

    after rescaling x and x'. For samples of unit mean square the mean of \|x - x'\|² is 2, so a sharpness ω means
    the same on all data. A Gaussian alone returns to the mean away from the data; the linear part extrapolates.
    With all samples as landmarks (m, d), ridge regression on these features is kernel ridge regression. ω is
    ``sharpness``, the inverse squared bandwidth, η is ``linear_weight``; the attribute ``landmarks`` is rescaled.

    References
    ----------
    C. Williams and M. Seeger, "Using the Nyström method to speed up kernel machines", NIPS 2001.
    """

    def __init__(
        self,
        landmarks: NDArray[np.floating],
        sharpness: float,
        linear_weight: float,
        rescaling: DiscriminantRescaling | None = None,
    ) -> None:
        self.rescaling = rescaling or DiscriminantRescaling.identity(landmarks.shape[1])
        self.sharpness, self.linear_weight = sharpness, linear_weight
        self.landmarks: Array = self.rescaling(landmarks)
        gram = kernel(self.landmarks, self.landmarks, sharpness, linear_weight)
        # A product with the inverse runs on all cores, a triangular solve does not.
        self._inverse: Array = scipy.linalg.lapack.dtrtri(_cholesky(gram), lower=True)[0]

    def features(self, X: Array) -> Array:
        """Return features (n, m) of samples (n, d)."""
        values = kernel(self.rescaling(X), self.landmarks, self.sharpness, self.linear_weight)
        width = len(self.landmarks)
        features = backend_of(X).empty(values.shape, values)
        step = -(-width // _STRIPS)
        for start in range(0, width, step):
            rows, nonzero = slice(start, start + step), slice(min(start + step, width))
            features[:, rows] = values[:, nonzero] @ self._inverse[rows, nonzero].T
        return features

    def to_device_of(self, X: Array) -> KernelMap:
        """Return the same map for samples on the device of X."""
        moved = copy(self)
        moved.landmarks, moved._inverse = convert_like(self.landmarks, X), convert_like(self._inverse, X)
        moved.rescaling = self.rescaling.to_device_of(X)
        return moved

    def landmark_coefficients(self, B: FloatArray) -> FloatArray:
        """Return coefficients (m, s) of the kernel at the landmarks from coefficients of the features."""
        return np.asarray(self._inverse.T @ B)

    def linear_part(self, C: FloatArray) -> FloatArray:
        """Return coefficients (d, s) of the inputs in the linear part, from the landmark coefficients (m, s)."""
        return np.asarray(self.rescaling(self.linear_weight * C.T @ self.landmarks).T)


def _cholesky(gram: FloatArray) -> FloatArray:
    """Return the lower Cholesky factor of a kernel matrix, to whose diagonal a jitter is added.

    It is relative to the median of the diagonal, or to its largest element if rows are so far from the others that
    their rounding errors exceed the former.
    """
    diagonal = gram.diagonal().copy()
    for size in (np.median(diagonal), diagonal.max()):
        gram[np.diag_indices_from(gram)] = diagonal + _JITTER * size
        with suppress(np.linalg.LinAlgError):
            root = np.linalg.cholesky(gram)
            if np.isfinite(root.diagonal()).all():
                return np.asarray(root)
    raise InputError("some samples are too far from the others for a kernel; remove them, or use kernel='linear'")


def kernel(X: Array, Y: Array, sharpness: float, linear_weight: float) -> Array:
    """Return the kernel matrix between the rows of X (n, d) and Y (m, d), on one device, in double precision."""
    products, squared = _products_and_squares(X, Y)
    values = _gaussian(squared, sharpness)
    products *= linear_weight
    values += products
    return values


def gaussians(X: Array, Y: Array, sharpnesses: Iterable[float]) -> Iterator[Array]:
    """Yield the Gaussian kernel matrix (n, m) for each sharpness."""
    _, squared = _products_and_squares(X, Y)
    return (_gaussian(squared, sharpness) for sharpness in sharpnesses)


def pairwise_squared_distances(X: Array, Y: Array) -> Array:
    """Return squared distances between the rows of X (n, d) and Y (m, d), on one device, in double precision."""
    squared = _products_and_squares(X, Y)[1]
    squared[squared < 0] = 0  # rounding errors
    return squared


def _products_and_squares(X: Array, Y: Array) -> tuple[Array, Array]:
    """Return inner products and squared distances (n, m) of all rows."""
    backend = backend_of(X)
    A, B = backend.double(X), backend.double(Y)
    products = A @ B.T
    squared = -2 * products
    squared += backend.squared_norm(A)[:, None]
    squared += backend.squared_norm(B)
    return products, squared


def _gaussian(squared: Array, sharpness: float) -> Array:
    values = (-0.5 * sharpness) * squared
    return backend_of(values).exp(values, out=values)
