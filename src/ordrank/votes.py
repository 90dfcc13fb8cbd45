"""How the labels of neighbours become a grade."""

from __future__ import annotations

import numpy as np

from ordrank._types import FloatArray


def vote_weights(distances: FloatArray) -> FloatArray:
    """One over the distance, (q, k); where a distance is zero, only such neighbours vote."""
    exact = distances == 0
    nearest = np.where(exact, np.inf, distances).min(axis=1, keepdims=True)
    inverse = np.divide(nearest, distances, out=np.zeros_like(distances), where=~exact)
    return np.asarray(np.where(exact.any(axis=1, keepdims=True), exact.astype(np.float64), inverse))


def weighted_median(votes: FloatArray, weights: FloatArray) -> FloatArray:
    """Smallest vote of each row (q, k) at which half of the row's weight is reached."""
    order = np.argsort(votes, axis=1)
    votes, weights = np.take_along_axis(votes, order, axis=1), np.take_along_axis(weights, order, axis=1)
    reached = np.cumsum(weights, axis=1)
    half = 0.5 * reached[:, -1:]
    # Sums of equal weights may miss their half by rounding.
    position = (reached >= half * (1 - 1e-12)).argmax(axis=1)
    return np.asarray(votes[np.arange(len(votes)), position])


def count_votes(votes: FloatArray, distances: FloatArray, *, aggregate: str, weights: str) -> FloatArray:
    """Grade of each query from the labels and distances (q, k) of its neighbours.

    Parameters
    ----------
    votes, distances : ndarray of shape (q, k)
    aggregate : {"median", "mean"}
    weights : {"distance", "uniform"}
    """
    counts = vote_weights(distances) if weights == "distance" else np.ones_like(distances)
    if aggregate == "median":
        return weighted_median(votes, counts)
    return np.asarray((votes * counts).sum(axis=1) / counts.sum(axis=1))
