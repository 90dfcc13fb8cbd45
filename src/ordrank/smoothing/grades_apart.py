"""The linear view of samples in which those of different grades are further apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray
from ordrank.smoothing.kernels import LinearMap, squared_distances
from ordrank.smoothing.lens import Lens

# How much the directions inside a grade shrink and those between grades stretch.
INSIDE, BETWEEN = 10.0, 30.0
# How fast neighbours lose weight with their squared distance, in units of that of the nearest.
_FALL = 6.0
# Squared distances, of samples of unit mean square, up to which samples are copies of each other.
_COPY = 1e-9


def lens_of(X: NDArray[np.floating], labels: NDArray[np.number], weights: FloatArray) -> Lens:
    r"""Return the lens for what is learned from labelled samples.

    .. math:: \mathrm{Lens}^2 = (I + 10\,qW)^{-1/2}\,(I + 30\,qB)\,(I + 10\,qW)^{-1/2}

    W is the scatter of the differences between samples and their nearest of the same grade, B that of the differences
    to their nearest of other grades, both of trace 1: how a thing changes while its grade does not, and what it takes
    to change the grade. q is the share of samples that are not alone in their grade; where labels are never the same,
    nothing is known of W, and the lens is plain glass.

    Neighbours count by how near they are, in proportion to exp(-6 d² / d²_nearest). So nothing depends on the order of
    samples, a weight of 2 means as much as a copy, and copies of a sample are not its neighbours.

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
        In the span of the samples; nothing changes in directions across it.
    """
    span = LinearMap(X)
    T = span.features(X)
    squared, same = squared_distances(T, T), labels[:, None] == labels
    squared[squared <= _COPY] = np.inf
    inside, between = (_neighbors(np.where(pairs, squared, np.inf), weights) for pairs in (same, ~same))
    known = float(weights @ inside.any(axis=1) / weights.sum())
    shrink = _power(np.eye(T.shape[1]) + INSIDE * known * _scatter(T, inside, weights), -0.5)
    squared_lens = shrink @ (np.eye(T.shape[1]) + BETWEEN * known * _scatter(T, between, weights)) @ shrink
    values, vectors = np.linalg.eigh(squared_lens)
    squared_lengths = np.einsum("ij,jk,ik->i", T, squared_lens, T, optimize=True)
    size = float(np.sqrt(np.average(squared_lengths, weights=weights)))
    return Lens(span.on_samples(vectors).T, np.sqrt(values), size)


def _neighbors(squared: FloatArray, weights: FloatArray) -> FloatArray:
    """Shares (n, n) of others as neighbours of each sample, in rows of sum 1, or 0 if all are infinitely far."""
    nearest = squared.min(axis=1, keepdims=True)
    someone = np.isfinite(nearest)
    shares = weights * np.exp(_FALL * (1 - squared / np.where(someone, nearest, 1.0)))
    return np.asarray(shares / np.where(someone, shares.sum(axis=1, keepdims=True), 1.0))


def _scatter(T: FloatArray, shares: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ_ij ω_i s_ij (t_i - t_j)(t_i - t_j)ᵀ of samples (n, p), of trace 1, or 0 if there are no neighbours."""
    pairs = weights[:, None] * shares
    ends = pairs.sum(axis=0) + pairs.sum(axis=1)
    mixed = T.T @ (pairs @ T)
    scatter = T.T @ (ends[:, None] * T) - mixed - mixed.T
    return np.asarray(scatter / max(float(scatter.trace()), np.finfo(np.float64).tiny))


def _power(matrix: FloatArray, power: float) -> FloatArray:
    """Power of a symmetric positive matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * values**power) @ vectors.T)
