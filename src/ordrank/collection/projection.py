"""Principal components of the features of all pictures, from one block in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray
from ordrank.errors import InputError

MAX_COMPONENTS = 150
# The scatter matrix of more features would take gigabytes.
MAX_FEATURES = 16_384
# Components with less than this share of the leading variance are rounding errors of single precision.
_RANK = 1e-6


@dataclass(frozen=True)
class Projection:
    """Projection of features onto their principal components, centred and not scaled.

    Attributes
    ----------
    mean : ndarray of shape (dim,)
    components : ndarray of shape (p, dim)
        Orthonormal rows.
    """

    mean: NDArray[np.float32]
    components: NDArray[np.float32]

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Project features (n, dim) to coordinates (n, p)."""
        return np.asarray((features - self.mean) @ self.components.T, dtype=np.float32)


@dataclass(frozen=True)
class FeatureMoments:
    """Sums over rows x (dim,) of features, about a point c near their mean.

    Attributes
    ----------
    center : ndarray of shape (dim,)
        c: sums of squares lose digits far from it.
    count : int
    total : ndarray of shape (dim,)
        Σ(x - c).
    scatter : ndarray of shape (dim, dim)
        The upper triangle of Σ(x - c)(x - c)ᵀ.
    """

    center: NDArray[np.float32]
    count: int
    total: FloatArray
    scatter: NDArray[np.float32]

    def __add__(self, other: FeatureMoments) -> FeatureMoments:
        """Return the moments of the rows of both, which have the same centre."""
        return FeatureMoments(
            self.center, self.count + other.count, self.total + other.total, self.scatter + other.scatter
        )


def fit_projection(blocks: Iterable[NDArray[np.float32]], n_components: int = MAX_COMPONENTS) -> Projection:
    """Return the leading principal components of rows in blocks (b, dim); fewer if they span fewer dimensions."""
    return components_of(moments_of(blocks), n_components)


def moments_of(blocks: Iterable[NDArray[np.float32]], center: NDArray[np.float32] | None = None) -> FeatureMoments:
    """Return the moments of rows in blocks (b, dim), about the mean of the first block or a given centre (dim,)."""
    from scipy.linalg.blas import ssyrk

    count, total, scatter = 0, None, None
    # More threads wait for each other on blocks, and give other last digits.
    with one_blas_thread():
        for block in blocks:
            if total is None or scatter is None or center is None:
                center = block.mean(axis=0) if center is None else center
                total = np.zeros(block.shape[1])
                scatter = np.zeros((block.shape[1],) * 2, dtype=np.float32, order="F")
            centred = block - center
            total += centred.sum(axis=0, dtype=np.float64)
            scatter = ssyrk(1.0, centred.T, beta=1.0, c=scatter, overwrite_c=True)
            count += len(block)
    if total is None or scatter is None or center is None:
        raise InputError("there are no pictures to compute components of")
    return FeatureMoments(center, count, total, scatter)


def components_of(moments: FeatureMoments, n_components: int = MAX_COMPONENTS) -> Projection:
    """Return the leading principal components of rows with these moments, by a randomised SVD (Halko et al. 2011)."""
    from sklearn.utils.extmath import randomized_svd  # late: reading a model needs no scikit-learn

    count, scatter, offset = moments.count, moments.scatter, moments.total / moments.count
    scatter = np.triu(scatter) + np.triu(scatter, 1).T - (count * np.outer(offset, offset)).astype(np.float32)
    if not np.isfinite(scatter).all():
        raise InputError("the features are too large to compute components of")
    kept = min(n_components, count - 1, len(offset))
    with one_blas_thread():  # threads would only wait for each other on narrow matrices
        _, variances, components = randomized_svd(scatter, max(1, kept), n_iter=4, random_state=0)
    components = components[variances > _RANK * max(float(variances[0]), float(np.finfo(np.float32).tiny))]
    if not len(components):
        raise InputError("all pictures give the same features; they cannot be distinguished")
    return Projection((moments.center + offset).astype(np.float32), np.ascontiguousarray(components, dtype=np.float32))


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1, "blas")
    return limits
