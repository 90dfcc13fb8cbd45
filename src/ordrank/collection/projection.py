"""Principal components of all pictures, one block of them in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import ssyrk
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits

from ordrank.errors import InputError

MOST_COMPONENTS = 150
# Directions with less than this share of the variance of the first are rounding of single precision.
_RANK = 1e-6


@dataclass(frozen=True)
class Projection:
    """Coordinates of features along their principal components, centred and not scaled.

    Attributes
    ----------
    mean : ndarray of shape (dim,)
    components : ndarray of shape (p, dim)
        Orthonormal rows.
    """

    mean: NDArray[np.float32]
    components: NDArray[np.float32]

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features (n, dim) to coordinates (n, p)."""
        return np.asarray((features - self.mean) @ self.components.T, dtype=np.float32)


def fit_projection(blocks: Iterable[NDArray[np.float32]], most: int = MOST_COMPONENTS) -> Projection:
    """Find the leading principal components of rows that come in blocks.

    Parameters
    ----------
    blocks : iterable of ndarray of shape (b, dim)
    most : int
        Components to keep; fewer where the rows span fewer dimensions.
    """
    count, shift, total, scatter = 0, None, None, None
    for block in blocks:
        if shift is None or total is None or scatter is None:
            # Sums of squares lose digits far from the origin; the first block is near enough to the mean.
            shift = block.mean(axis=0)
            total = np.zeros(block.shape[1])
            scatter = np.zeros((block.shape[1],) * 2, dtype=np.float32, order="F")
        centred = block - shift
        total += centred.sum(axis=0, dtype=np.float64)
        scatter = ssyrk(
            1.0, centred.T, beta=1.0, c=scatter, overwrite_c=True
        )  # its upper half: the matrix is symmetric
        count += len(block)
    if shift is None or total is None or scatter is None:
        raise InputError("there are no pictures to find components of")
    offset = total / count
    scatter = np.triu(scatter) + np.triu(scatter, 1).T - (count * np.outer(offset, offset)).astype(np.float32)
    kept = min(most, count - 1, len(offset))
    with threadpool_limits(1, "blas"):  # its matrices are narrow: threads would only wait for each other
        _, variances, components = randomized_svd(scatter, max(1, kept), n_iter=4, random_state=0)
    components = components[variances > _RANK * max(float(variances[0]), float(np.finfo(np.float32).tiny))]
    if not len(components):
        raise InputError("all pictures give the same features; there is nothing to tell them apart by")
    return Projection((shift + offset).astype(np.float32), np.ascontiguousarray(components, dtype=np.float32))
