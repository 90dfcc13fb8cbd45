"""From the neighbours of held-out samples to the distribution of grades."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ordrank._protocols import Array, FloatArray, IntArray
from ordrank.backend import backend_of
from ordrank.estimators._defaults import DEFAULTS, Defaults
from ordrank.estimators._distribution import GradeDistribution, pool
from ordrank.estimators._knn_selection import HeldOutNeighbors
from ordrank.estimators._threads import blas_threads

_ROWS_PER_BLOCK = 1000


@dataclass(frozen=True)
class HeldOutProba:
    """Probabilities (n, m) of training samples that were held out of the fit; NaN for others."""

    proba: FloatArray
    by_threshold: FloatArray  # of the threshold model alone; NaN also if its weight is 0

    @classmethod
    def none(cls, n_samples: int, n_labels: int) -> HeldOutProba:
        """Return it for samples of which none was held out."""
        missing = np.full((n_samples, n_labels), np.nan)
        return cls(missing, missing)


def fit_distribution(
    votes_only: GradeDistribution,
    neighbors: HeldOutNeighbors,
    index: IntArray,
    embedding: Array,
    defaults: Defaults = DEFAULTS,
    *,
    threshold: bool,
) -> tuple[GradeDistribution, HeldOutProba]:
    """Choose the weights of the distribution by held-out samples, and return it with what these samples got.

    Parameters
    ----------
    votes_only : GradeDistribution
        Of the votes alone.
    neighbors : HeldOutNeighbors
    index : ndarray of shape (n,)
        Label numbers of all samples.
    embedding : array of shape (n, s + d)
        Of all samples; appearance coordinates do not depend on the labels.
    threshold : bool
        Whether to fit a threshold model to the appearance.

    Returns
    -------
    tuple of GradeDistribution and HeldOutProba
    """
    rows, own = neighbors.rows, index[neighbors.rows]
    k = min(votes_only.n_neighbors, neighbors.indices.shape[1])
    votes, distances = index[neighbors.indices[:, :k]], neighbors.distances[:, :k]
    if votes_only.n_neighbors >= len(index):  # all samples vote: their frequencies
        distribution, by_threshold = replace(votes_only, frequency_weight=1.0), None
    else:
        appearance = _take(embedding, rows)[:, votes_only.n_order :].astype(np.float64) if threshold else None
        with blas_threads(1):  # small matrices: threads would wait for each other
            distribution, by_threshold = pool(votes_only, votes, distances, own, appearance, defaults)
    held_out = distribution.proba(votes, distances, None, by_threshold)
    nearest = nearest_in_appearance(
        embedding,
        embedding[backend_of(embedding).indices(rows, embedding)],
        neighbors.indices,
        distances,
        votes_only.n_order,
    )
    proba, threshold_proba = np.full((2, len(index), held_out.shape[1]), np.nan)
    proba[rows] = held_out
    if by_threshold is not None:
        threshold_proba[rows] = by_threshold
    return distribution.with_held_out(held_out, own, nearest), HeldOutProba(proba, threshold_proba)


def nearest_in_appearance(
    embedding: Array, queries: Array, indices: IntArray, distances: FloatArray, n_order: int
) -> FloatArray:
    """Return the distance (q,) to the nearest of the first neighbours, in the coordinates after the first ``n_order``.

    Without ordinal coordinates it is the distance to the first. Only ``novelty_neighbors`` neighbours are compared.
    """
    if n_order == 0:
        return distances[:, 0]
    first = indices[:, : DEFAULTS.novelty_neighbors]
    nearest = np.empty(len(first))
    for start in range(0, len(first), _ROWS_PER_BLOCK):
        rows = slice(start, start + _ROWS_PER_BLOCK)
        others = _take(embedding, first[rows].reshape(-1)).reshape(*first[rows].shape, -1)[:, :, n_order:]
        own = backend_of(queries).to_numpy(queries[rows])[:, None, n_order:]
        nearest[rows] = np.linalg.norm(np.subtract(others, own, dtype=np.float64), axis=2).min(axis=1)
    return nearest


def _take(array: Array, rows: IntArray) -> FloatArray:
    backend = backend_of(array)
    return np.asarray(backend.to_numpy(array[backend.indices(rows, array)]))
