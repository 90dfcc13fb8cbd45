"""k-NN votes: from labels of neighbours to a grade."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ordrank._protocols import FloatArray, IntArray

# Sums of equal weights may miss one half by rounding.
_HALF = 0.5 * (1 - 1e-12)
# Distance, relative to that of the farthest neighbour, below which a neighbour is a copy of the query: equal samples in
# different rows of a matrix product may differ in their last digits.
COPY_DISTANCE = 1e-12


def vote_weights(distances: FloatArray, weights: str = "distance") -> FloatArray:
    """Return weights 1, or 1 / distance (q, k); in a row with copies of the query only these then have weight."""
    if weights == "uniform":
        return np.ones_like(distances)
    farthest = np.where(np.isinf(distances), 0.0, distances).max(axis=1, keepdims=True)  # infinite: none was found
    is_copy = distances <= COPY_DISTANCE * farthest
    nearest = np.where(is_copy, np.inf, distances).min(axis=1, keepdims=True)
    inverse = np.divide(nearest, distances, out=np.zeros_like(distances), where=~is_copy)
    return np.asarray(np.where(is_copy.any(axis=1, keepdims=True), is_copy.astype(np.float64), inverse))


def vote_shares(votes: IntArray, distances: FloatArray, n_labels: int, weights: str = "distance") -> FloatArray:
    """Return the share (q, m) of each label in the votes: label numbers and distances (q, k) of neighbours."""
    counts = vote_weights(distances, weights)
    cells = np.arange(len(votes))[:, None] * n_labels + votes
    shares = np.bincount(cells.ravel(), counts.ravel(), len(votes) * n_labels).reshape(len(votes), n_labels)
    return np.asarray(shares / counts.sum(axis=1, keepdims=True))


def weighted_median(votes: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the lower weighted median of each row (q, k)."""
    order = np.argsort(votes, axis=1)
    votes, weights = np.take_along_axis(votes, order, axis=1), np.take_along_axis(weights, order, axis=1)
    cumulative = np.cumsum(weights, axis=1)
    position = (cumulative >= _HALF * cumulative[:, -1:]).argmax(axis=1)
    return np.asarray(votes[np.arange(len(votes)), position])


def medians_of_first(votes: IntArray, weights: FloatArray, ks: Sequence[int], n_labels: int) -> IntArray:
    """Return weighted medians (v, q) of the first k votes of each row, for v values of k at once.

    Weights are summed by label between consecutive values of k; cumulative sums over these, then over the labels, show
    where half is reached. Nothing is sorted unless there are more labels than votes.

    Parameters
    ----------
    votes : ndarray of shape (q, k)
        Label indices, below ``n_labels`` and in the order of the labels.
    weights : ndarray of shape (q, k)
    ks : sequence of int
        Ascending; the last is k.
    n_labels : int
    """
    q, k = votes.shape
    if n_labels > k:  # use ranks within the row as label indices
        order = np.argsort(votes, axis=1)
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.broadcast_to(np.arange(k), order.shape), axis=1)
        medians = medians_of_first(ranks, weights, ks, k)
        return np.take_along_axis(np.take_along_axis(votes, order, axis=1), medians.T, axis=1).T
    first_k = np.searchsorted(ks, np.arange(k), side="right")
    cells = (first_k * n_labels + votes) * q + np.arange(q)[:, None]
    sums = np.bincount(cells.ravel(), weights.ravel(), len(ks) * n_labels * q)
    cumulative = sums.reshape(len(ks), n_labels, q).cumsum(axis=0).cumsum(axis=1)
    return np.asarray(np.count_nonzero(cumulative < _HALF * cumulative[:, -1:], axis=1))


def median_vote(votes: FloatArray, distances: FloatArray, weights: str) -> FloatArray:
    """Return the weighted median (q,) of the labels of the neighbours, at distances (q, k) from each query.

    ``weights`` is "distance" (inverse distances) or "uniform".
    """
    return weighted_median(votes, vote_weights(distances, weights))
