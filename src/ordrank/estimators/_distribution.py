"""The predictive distribution over the grades: neighbours' votes, label frequencies and a threshold model, pooled.

Independent of scikit-learn, like the embedding: the files and the page of a collection use it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.errors import InputError
from ordrank.estimators._defaults import DEFAULTS, Defaults
from ordrank.estimators._threshold import ThresholdModel, threshold_path
from ordrank.metrics import median_of_proba, ranked_probability_scores
from ordrank.neighbors.voting import vote_shares

# A cumulative probability of one half may be missed by rounding; equal scores likewise.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class GradeDistribution:
    r"""Probabilities of m grades for a query, from its embedding and its nearest graded samples.

    A linear opinion pool of three distributions,

    .. math:: p = (1 - w)\left((1 - s)\,p_\text{votes} + s\,p_\text{frequencies}\right) + w\,p_\text{threshold}.

    Both weights minimise the ranked probability score of held-out samples, s first, in closed form.

    Attributes
    ----------
    labels : ndarray of shape (m,)
        Ascending.
    frequencies : ndarray of shape (m,)
        Of the labels in the training set.
    n_neighbors, weights : int and {"distance", "uniform"}
        How neighbours vote.
    frequency_weight, threshold_weight : float
        s and w.
    threshold : ThresholdModel
        Of the appearance coordinates, those of an embedding after the first ``n_order``.
    n_order : int
    scores, score_index : ndarray of shape (q,)
        How extreme the label of each held-out sample is in its distribution, and its label number.
    nearest : ndarray of shape (r,)
        Ascending distances of held-out samples to the nearest of their voting neighbours: in appearance or, in a
        collection, in all features.
    class_prior : ndarray of shape (m,), or None
        Expected frequencies of the labels among queries, if they differ from those of the training set.
    """

    labels: FloatArray
    frequencies: FloatArray
    n_neighbors: int
    weights: str
    frequency_weight: float
    threshold_weight: float
    threshold: ThresholdModel
    n_order: int
    scores: FloatArray
    score_index: IntArray
    nearest: FloatArray
    class_prior: FloatArray | None = None

    @classmethod
    def of_votes(
        cls, labels: FloatArray, index: IntArray, n_neighbors: int, weights: str, n_order: int
    ) -> GradeDistribution:
        """Return the distribution of the votes alone, without anything learned from held-out samples."""
        frequencies = np.bincount(index, minlength=len(labels)) / len(index)
        none = ThresholdModel(np.empty(0), np.empty(0))
        no_scores: tuple[FloatArray, IntArray, FloatArray] = (np.empty(0), np.empty(0, dtype=np.int64), np.empty(0))
        return cls(labels, frequencies, n_neighbors, weights, 0.0, 0.0, none, n_order, *no_scores)

    def proba(
        self,
        votes: IntArray,
        distances: FloatArray,
        vectors: NDArray[np.floating] | None,
        by_threshold: FloatArray | None = None,
    ) -> FloatArray:
        """Return probabilities (q, m).

        Parameters
        ----------
        votes, distances : ndarray of shape (q, k)
            Label numbers of the nearest graded samples, and their distances.
        vectors : ndarray of shape (q, s + d)
            Embeddings of the queries.
        by_threshold : ndarray of shape (q, m), optional
            Probabilities of the threshold model if these are not those of the vectors: of held-out samples.
        """
        s, w = self.frequency_weight, self.threshold_weight
        pooled = (1 - s) * vote_shares(votes, distances, len(self.labels), self.weights) + s * self.frequencies
        if w > 0:
            if by_threshold is None:
                assert vectors is not None
                by_threshold = self.threshold.proba(np.asarray(vectors[:, self.n_order :], dtype=np.float64))
            pooled = (1 - w) * pooled + w * by_threshold
        if self.class_prior is None:
            return pooled
        shifted = pooled * (self.class_prior / self.frequencies)
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))

    def with_labels(self, labels: FloatArray) -> GradeDistribution:
        """Return the same distribution over more labels (M,), which include these; new ones get votes only."""
        columns = np.searchsorted(labels, self.labels)
        frequencies = np.zeros(len(labels))
        frequencies[columns] = self.frequencies
        # A new label has the threshold of the one below it, and so no probability.
        thresholds = np.concatenate([[-np.inf], self.threshold.thresholds, [np.inf]])
        below = np.searchsorted(self.labels, labels[:-1], side="right")
        threshold = self.threshold
        if self.threshold_weight > 0:
            threshold = replace(threshold, thresholds=thresholds[below])
        index = columns[self.score_index]
        return replace(self, labels=labels, frequencies=frequencies, threshold=threshold, score_index=index)

    def median(self, proba: FloatArray) -> FloatArray:
        """Return the lower median (q,) of probabilities (q, m)."""
        return self.labels[median_of_proba(proba)]

    def interval(self, proba: FloatArray, coverage: float) -> FloatArray:
        """Return the lowest and highest grade (q, 2) of prediction intervals.

        A grade is in the interval if it is not more extreme in its distribution than most held-out samples of that
        grade were in theirs; between two such grades all are. The median always is.

        References
        ----------
        R. Barber, E. Candès, A. Ramdas and R. Tibshirani, "Predictive inference with the jackknife+", Annals of
        Statistics 49(1), 2021. V. Vovk, A. Gammerman and G. Shafer, *Algorithmic Learning in a Random World*, 2005
        (label-conditional prediction sets).
        """
        if not 0 < coverage < 1:
            raise InputError(f"coverage must be a number above 0 and below 1, got {coverage!r}")
        inside = extremeness(proba) <= self._largest_scores(coverage) + _ROUNDING
        inside[np.arange(len(proba)), median_of_proba(proba)] = True
        last = len(self.labels) - 1 - inside[:, ::-1].argmax(axis=1)
        return np.stack([self.labels[inside.argmax(axis=1)], self.labels[last]], axis=1)

    def novelty(self, nearest: FloatArray) -> FloatArray:
        """Return p-values (q,) of distances to the nearest voting neighbour; NaN if there are no held-out samples."""
        if not len(self.nearest):
            return np.full(len(nearest), np.nan)
        at_least = len(self.nearest) - np.searchsorted(self.nearest, nearest * (1 - _ROUNDING))
        return np.asarray((at_least + 1) / (len(self.nearest) + 1))

    def _largest_scores(self, coverage: float) -> FloatArray:
        """Return the quantile (m,) of the scores for each label; infinite where there are too few."""
        m, n = len(self.labels), len(self.scores)
        order = np.argsort(self.scores)
        own = self.score_index[order] == np.arange(m)[:, None]
        mass = (own + DEFAULTS.pooled_scores / max(n, 1)).cumsum(axis=1)
        needed = coverage * (own.sum(axis=1) + DEFAULTS.pooled_scores + 1)
        reached = np.hstack([mass >= needed[:, None] - _ROUNDING, np.ones((m, 1), dtype=np.bool_)])
        return np.append(self.scores[order], np.inf)[reached.argmax(axis=1)]

    def with_held_out(self, proba: FloatArray, index: IntArray, nearest: FloatArray) -> GradeDistribution:
        """Return the same with the scores of held-out samples of label numbers (q,), and their nearest distances."""
        scores = extremeness(proba)[np.arange(len(proba)), index]
        return replace(self, scores=scores, score_index=index, nearest=np.sort(nearest))

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the state as arrays by name, and as values that JSON can hold."""
        arrays: dict[str, NDArray[Any]] = {name: np.ascontiguousarray(getattr(self, name)) for name in _ARRAYS}
        arrays |= {"coefficients": self.threshold.coefficients, "thresholds": self.threshold.thresholds}
        return arrays, {name: getattr(self, name) for name in _VALUES}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> GradeDistribution:
        """Return the distribution that ``to_arrays`` described; raise KeyError if a part is missing."""
        threshold = ThresholdModel(arrays["coefficients"], arrays["thresholds"])
        state = {name: arrays[name] for name in _ARRAYS} | {name: values[name] for name in _VALUES}
        return cls(threshold=threshold, **state)


_ARRAYS = ("labels", "frequencies", "scores", "score_index", "nearest")
_VALUES = ("n_neighbors", "weights", "frequency_weight", "threshold_weight", "n_order")


def extremeness(proba: FloatArray) -> FloatArray:
    """Return how far (q, m) each label lies in the tails: the larger of P(below it) and P(above it)."""
    cumulative = proba.cumsum(axis=1)
    return np.maximum(cumulative - proba, 1 - cumulative)


def pool(
    votes_only: GradeDistribution,
    votes: IntArray,
    distances: FloatArray,
    index: IntArray,
    appearance: FloatArray | None,
    defaults: Defaults = DEFAULTS,
) -> tuple[GradeDistribution, FloatArray | None]:
    """Choose the weights of the pool by held-out samples, and fit the threshold model to them.

    Parameters
    ----------
    votes_only : GradeDistribution
        Of the votes alone.
    votes, distances : ndarray of shape (q, k)
        Label numbers and distances of the neighbours of held-out samples.
    index : ndarray of shape (q,)
        Their own label numbers.
    appearance : ndarray of shape (q, d), or None
        Their appearance coordinates; without, there is no threshold model.

    Returns
    -------
    tuple of GradeDistribution and ndarray of shape (q, m), or None
        The pool, without scores of held-out samples, and the held-out probabilities of its threshold model.
    """
    labels = votes_only.labels
    by_votes = vote_shares(votes, distances, len(labels), votes_only.weights)
    s = _optimal_weight(by_votes, np.broadcast_to(votes_only.frequencies, by_votes.shape), labels, index)
    s = min(s, defaults.max_frequency_weight)
    pooled = replace(votes_only, frequency_weight=s)
    if appearance is None or len(labels) > defaults.max_threshold_labels or len(index) < defaults.min_validation:
        return pooled, None
    by_votes = (1 - s) * by_votes + s * votes_only.frequencies
    spread = float(np.sqrt(np.mean(np.sum(np.square(appearance), axis=1)))) or 1.0
    path = threshold_path(appearance / spread, index, len(labels), defaults.threshold_alphas)
    model, by_threshold = min(path, key=lambda fit: ranked_probability_scores(fit[1], labels, index).mean())
    w = _optimal_weight(by_votes, by_threshold, labels, index)
    if w < defaults.min_weight:
        return pooled, None
    model = ThresholdModel(model.coefficients / spread, model.thresholds)
    return replace(pooled, threshold=model, threshold_weight=w), by_threshold


def _optimal_weight(first: FloatArray, second: FloatArray, labels: FloatArray, index: IntArray) -> float:
    """Return the weight of the second distribution (q, m) with the lowest ranked probability score, a quadratic."""
    gaps = np.sqrt(np.diff(labels))
    step = np.arange(len(labels) - 1) >= index[:, None]
    error = (first.cumsum(axis=1)[:, :-1] - step) * gaps
    change = (second - first).cumsum(axis=1)[:, :-1] * gaps
    squared = float(np.sum(change**2))
    return float(np.clip(-np.sum(error * change) / squared, 0.0, 1.0)) if squared > 0 else 0.0
