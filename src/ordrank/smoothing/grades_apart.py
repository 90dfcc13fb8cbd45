"""The linear view of samples in which those of different grades are further apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray
from ordrank.smoothing.kernels import LinearMap, squared_distances
from ordrank.smoothing.lens import Lens

# How much the directions inside a grade shrink and those between grades stretch.
_INSIDE, _BETWEEN = 10.0, 30.0
# Neighbours count as this power of one over their squared distance.
_FALL = 6
# Squared distances, of samples of unit mean square, up to which samples are copies of each other.
_COPY = 1e-9


def lens_of(X: NDArray[np.floating], labels: NDArray[np.number], weights: FloatArray) -> Lens:
    r"""Return the lens for what is learned from labelled samples.

    .. math:: c^2\ell^2 = (I + 10W)^{-1/2}\,(I + 30B)\,(I + 10W)^{-1/2}

    W is the mean scatter of the differences between a sample and its nearest of the same grade, B that of the
    differences to its nearest of other grades: how a thing changes while its grade does not, and what it takes to
    change the grade. c makes unit size of the samples again.

    .. math:: W = \frac1{\sum_i\omega_i}\sum_i\omega_i
              \frac{\sum_j\omega_j\|\delta_{ij}\|^{-12}\delta_{ij}\delta_{ij}^T}{\sum_j\omega_j\|\delta_{ij}\|^{-10}}

    and B likewise. So every sample counts the same, wherever it lies and however far its neighbours are, nothing
    depends on the order of samples, and a weight of 2 means as much as a copy; copies of a sample are not its
    neighbours. Of a sample that is alone in its grade nothing is known; where all are, the lens is plain glass.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Samples of unit mean square.
    labels : ndarray of shape (n,)
    weights : ndarray of shape (n,)
        Positive.

    Returns
    -------
    Lens
        Its directions are in the span of the samples.
    """
    span = LinearMap(X)
    T = span.features(X)
    squared, same = squared_distances(T, T), labels[:, None] == labels
    squared[squared <= _COPY] = np.inf
    alone = np.isinf(np.where(same, squared, np.inf)).all(axis=1)
    if alone.all():
        return Lens.plain(X.shape[1])
    counted = np.where(alone, 0.0, weights / weights.sum())
    inside, between = (_scatter(T, np.where(pairs, squared, np.inf), counted, weights) for pairs in (same, ~same))
    values, vectors = np.linalg.eigh(np.eye(T.shape[1]) + _INSIDE * inside)
    shrink = (vectors / np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(shrink @ (np.eye(T.shape[1]) + _BETWEEN * between) @ shrink)
    along = T @ vectors
    size = float(np.sqrt(np.average(along**2 @ values, weights=weights)))
    return Lens(span.on_samples(vectors).T, np.sqrt(values), size)


def _scatter(T: FloatArray, squared: FloatArray, counted: FloatArray, weights: FloatArray) -> FloatArray:
    """Sum over samples (n, p), as they are counted, of the scatter of trace 1 of the differences to their neighbours.

    Neighbours are those at finite squared distances (n, n).
    """
    nearest = squared.min(axis=1, keepdims=True)
    nearest[np.isinf(nearest)] = 1.0  # of no neighbours none counts, whatever the unit
    ratios = squared / nearest
    traces = nearest * (ratios ** (1 - _FALL) @ weights)[:, None]
    pairs = counted[:, None] * weights * ratios**-_FALL / np.maximum(traces, np.finfo(np.float64).tiny)
    ends = pairs.sum(axis=0) + pairs.sum(axis=1)
    mixed = T.T @ (pairs @ T)
    return np.asarray(T.T @ (ends[:, None] * T) - mixed - mixed.T)
