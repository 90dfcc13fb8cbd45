"""Learning the distribution of grades from samples held out of the fit of a metric."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ordrank._protocols import Array, FloatArray, IntArray
from ordrank.backend import backend_of
from ordrank.errors import warn_caller
from ordrank.estimators._defaults import DEFAULTS, Defaults
from ordrank.estimators._distribution import GradeDistribution, pool
from ordrank.estimators._knn_selection import (
    VOTE_WEIGHTS,
    HeldOutNeighbors,
    beats_constant,
    candidate_k,
    select_votes,
)
from ordrank.estimators._labels import OrdinalLabels
from ordrank.estimators._out_of_fold import held_out_neighbors
from ordrank.estimators._threads import blas_threads
from ordrank.estimators._validation import largest_group, warn_if_all_vote
from ordrank.estimators.ordinal_metric import OrdinalMetric

_ROWS_PER_BLOCK = 1000


_NO_BETTER_THAN_CONSTANT = (
    "samples of held-out groups are not predicted better than by one grade for all: nothing that was learned holds for "
    "other groups, so all samples vote. Train on more groups, or set n_neighbors"
)


@dataclass(frozen=True)
class VoteOptions:
    """Parameters of :class:`~ordrank.OrdinalRanker`; ``"auto"`` is selected."""

    n_neighbors: Any
    weights: str
    class_prior: FloatArray | None  # (m,)


@dataclass(frozen=True)
class HeldOutSamples:
    """Training samples held out of the fit: numbers of q of n samples, and what they got without their labels.

    Attributes
    ----------
    rows : ndarray of shape (q,)
    neighbors : ndarray of shape (q, k)
        Their first voting neighbours, among all samples.
    proba : ndarray of shape (n, m)
        Probabilities; NaN for samples that were not held out.
    by_threshold : ndarray of shape (n, m)
        Those of the threshold model alone; NaN also if its weight is 0.
    """

    rows: IntArray
    neighbors: IntArray
    proba: FloatArray
    by_threshold: FloatArray

    @classmethod
    def none(cls, n_samples: int, n_labels: int) -> HeldOutSamples:
        """Return it for samples of which none was held out."""
        missing, nobody = np.full((n_samples, n_labels), np.nan), np.empty(0, dtype=np.int64)
        return cls(nobody, nobody[:, None], missing, missing)


def learn_distribution(
    metric: Any,
    embedding: Array,
    X: Any,
    labels: OrdinalLabels,
    options: VoteOptions,
    *,
    unlabeled: Any,
    groups: IntArray | None,
) -> tuple[GradeDistribution, HeldOutSamples]:
    """Select how neighbours vote and the weights of the distribution, by samples held out of the fit of a metric."""
    defaults = metric._defaults if isinstance(metric, OrdinalMetric) else DEFAULTS
    neighbors = _held_out_neighbors(metric, embedding, X, labels, options, unlabeled, groups, defaults)
    k, weights = _select_votes(neighbors, labels, options, groups, defaults)
    n_order = metric.n_components_ if isinstance(metric, OrdinalMetric) and metric.locality_ > 0 else 0
    distribution = GradeDistribution.of_votes(labels.distinct, labels.index, k, weights, n_order)
    distribution = replace(distribution, class_prior=options.class_prior)
    if neighbors is None:
        return distribution, HeldOutSamples.none(len(embedding), len(labels.distinct))
    # Closed-form leave-one-out of the threshold model holds out samples, not groups.
    with_threshold = n_order > 0 and groups is None
    return fit_distribution(distribution, neighbors, labels.index, embedding, defaults, threshold=with_threshold)


def _held_out_neighbors(
    metric: Any,
    embedding: Array,
    X: Any,
    labels: OrdinalLabels,
    options: VoteOptions,
    unlabeled: Any,
    groups: IntArray | None,
    defaults: Defaults,
) -> HeldOutNeighbors | None:
    """Return the neighbours of samples held out of the fit; None if there are too few samples to hold out any."""
    n_samples, n_held_out = len(embedding), largest_group(groups)
    automatic = options.n_neighbors == "auto"
    k = candidate_k(n_samples, n_held_out, defaults)[-1] if automatic else options.n_neighbors
    warn_if_all_vote(k, n_samples)
    is_known = isinstance(metric, OrdinalMetric | str)  # without fitting it again
    if not is_known and not automatic and options.weights != "auto":
        return None
    k = min(k, n_samples - n_held_out)
    return held_out_neighbors(metric, embedding, X, labels, unlabeled, groups, k, defaults)


def _select_votes(
    neighbors: HeldOutNeighbors | None,
    labels: OrdinalLabels,
    options: VoteOptions,
    groups: IntArray | None,
    defaults: Defaults,
) -> tuple[int, str]:
    """Return the number of voting neighbours and their weights, selected by samples held out of the fit."""
    values, automatic = labels.values, options.n_neighbors == "auto"
    candidates = candidate_k(len(values), largest_group(groups), defaults) if automatic else [options.n_neighbors]
    weights = VOTE_WEIGHTS if options.weights == "auto" else [options.weights]
    if neighbors is None or len(candidates) * len(weights) == 1:
        return candidates[-1], weights[-1]
    k, weight = select_votes(neighbors, values, candidates, weights, defaults=defaults)
    if groups is None or not automatic:
        return k, weight
    errors = neighbors.errors(values, k, weights=weight)
    if beats_constant(errors, neighbors.rows, values, groups, defaults):
        return k, weight
    warn_caller(_NO_BETTER_THAN_CONSTANT, UserWarning)
    return len(values), weights[0]


def fit_distribution(
    votes_only: GradeDistribution,
    neighbors: HeldOutNeighbors,
    index: IntArray,
    embedding: Array,
    defaults: Defaults = DEFAULTS,
    *,
    threshold: bool,
) -> tuple[GradeDistribution, HeldOutSamples]:
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
    tuple of GradeDistribution and HeldOutSamples
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
    samples = HeldOutSamples(rows, neighbors.indices[:, : DEFAULTS.novelty_neighbors], proba, threshold_proba)
    return distribution.with_held_out(held_out, own, nearest), samples


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
