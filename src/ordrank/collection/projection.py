"""Principal components of the features of all pictures, from one block in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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


def fit_projection(blocks: Iterable[NDArray[np.float32]], n_components: int = MAX_COMPONENTS) -> Projection:
    """Return the leading principal components of rows in blocks (b, dim); fewer if they span fewer dimensions.

    The scatter matrix is accumulated over the blocks and decomposed by a randomised SVD (Halko et al. 2011).
    """
    from scipy.linalg.blas import ssyrk
    from sklearn.utils.extmath import randomized_svd  # late: reading a model needs no scikit-learn
    from threadpoolctl import threadpool_limits

    count, shift, total, scatter = 0, None, None, None
    for block in blocks:
        if shift is None or total is None or scatter is None:
            # Sums of squares lose digits far from the origin: shift by the mean of the first block.
            shift = block.mean(axis=0)
            total = np.zeros(block.shape[1])
            scatter = np.zeros((block.shape[1],) * 2, dtype=np.float32, order="F")
        centred = block - shift
        total += centred.sum(axis=0, dtype=np.float64)
        scatter = ssyrk(1.0, centred.T, beta=1.0, c=scatter, overwrite_c=True)  # upper triangle
        count += len(block)
    if shift is None or total is None or scatter is None:
        raise InputError("there are no pictures to compute components of")
    offset = total / count
    scatter = np.triu(scatter) + np.triu(scatter, 1).T - (count * np.outer(offset, offset)).astype(np.float32)
    if not np.isfinite(scatter).all():
        raise InputError("the features are too large to compute components of")
    kept = min(n_components, count - 1, len(offset))
    with threadpool_limits(1, "blas"):  # threads would only wait for each other on narrow matrices
        _, variances, components = randomized_svd(scatter, max(1, kept), n_iter=4, random_state=0)
    components = components[variances > _RANK * max(float(variances[0]), float(np.finfo(np.float32).tiny))]
    if not len(components):
        raise InputError("all pictures give the same features; they cannot be distinguished")
    return Projection((shift + offset).astype(np.float32), np.ascontiguousarray(components, dtype=np.float32))
