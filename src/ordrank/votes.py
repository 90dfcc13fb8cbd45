"""How the labels of neighbours become a grade."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ordrank._types import FloatArray, IntArray

# Sums of equal weights may miss their half by rounding.
_HALF = 0.5 * (1 - 1e-12)


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
    position = (reached >= _HALF * reached[:, -1:]).argmax(axis=1)
    return np.asarray(votes[np.arange(len(votes)), position])


def medians_of_first(votes: IntArray, weights: FloatArray, numbers: Sequence[int], n_labels: int) -> IntArray:
    """Weighted medians of the first few votes of each row, for several such numbers at once.

    The weight of every label is summed between one number and the next; cumulative sums over the numbers, then over
    the labels, say where half is reached. Nothing is sorted where there are no more labels than votes.

    Parameters
    ----------
    votes : ndarray of shape (q, k)
        Numbers of labels below ``n_labels``, which rise with them.
    weights : ndarray of shape (q, k)
    numbers : sequence of int
        Rising, at most k; the last is k.
    n_labels : int

    Returns
    -------
    ndarray of shape (v, q)
    """
    q, k = votes.shape
    if n_labels > k:  # a row has not all of them: they are numbered by their place in it
        order = np.argsort(votes, axis=1)
        places = np.empty_like(order)
        np.put_along_axis(places, order, np.broadcast_to(np.arange(k), order.shape), axis=1)
        found = medians_of_first(places, weights, numbers, k)
        return np.take_along_axis(np.take_along_axis(votes, order, axis=1), found.T, axis=1).T
    until = np.searchsorted(numbers, np.arange(k), side="right")
    cells = (until * n_labels + votes) * q + np.arange(q)[:, None]
    sums = np.bincount(cells.ravel(), weights.ravel(), len(numbers) * n_labels * q)
    reached = sums.reshape(len(numbers), n_labels, q).cumsum(axis=0).cumsum(axis=1)
    return np.asarray(np.count_nonzero(reached < _HALF * reached[:, -1:], axis=1))


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
