"""Grading and ranking with samples that stay on the workers of a Dask cluster."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ordrank._types import FloatArray, Ranking
from ordrank.collection.records import Places
from ordrank.collection.searching import Among, nearest_label
from ordrank.distributed.engine import Engine
from ordrank.distributed.reading import surveyed
from ordrank.distributed.searching import Part, ShardedPlaces, index_part
from ordrank.distributed.sharded_samples import itself
from ordrank.distributed.shards import Shard
from ordrank.errors import InputError
from ordrank.estimators.ballots import usual_votes
from ordrank.estimators.parameters import check_choice, check_integer
from ordrank.votes import count_votes


class DaskRanker(BaseEstimator):
    """The questions of :class:`~ordrank.OrdinalRanker`, to samples that no single machine holds.

    Every worker keeps its shards, mapped and indexed. A batch of queries is mapped once and goes to all of them, each
    shard answers with its k best, and the best of these are the answer: exactly that of one index of all samples,
    equal distances by row number. A worker that is lost costs the time to read and index its shards again.

    Parameters
    ----------
    metric : estimator
        Fitted; a :class:`~ordrank.distributed.DaskOrdinalMetric` or any other whose ``transform`` leads to a space
        with the wanted Euclidean distance.
    n_neighbors : int, optional
        Neighbours that vote on the grade; by default a third of the samples, at most 101.
    aggregate : {"median", "mean"}, default="median"
        How votes become a grade.
    weights : {"distance", "uniform"}, default="distance"
        Votes count one over their distance, or all the same.

    Attributes
    ----------
    n_samples_ : int
    n_neighbors_ : int
    labels_ : ndarray of shape (m,)
        Distinct labels, rising.
    """

    def __init__(
        self,
        metric: Any,
        *,
        n_neighbors: int | None = None,
        aggregate: Literal["median", "mean"] = "median",
        weights: Literal["distance", "uniform"] = "distance",
    ) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.aggregate = aggregate
        self.weights = weights

    def fit(self, X: Any, y: Any = None, *, client: Any = None) -> Self:
        """Index labelled samples where they are read.

        Parameters
        ----------
        X : dask array of shape (n, d), or Shards
            Rows are numbered through all shards; samples of weight 0 are left out, and not counted.
        y : dask array of shape (n,)
            Ordered labels as numbers; None with Shards, which have them.
        client : distributed.Client, optional
            By default the one that was connected last. It must stay connected for questions.
        """
        if self.n_neighbors is not None:
            check_integer("n_neighbors", self.n_neighbors, minimum=1)
        check_choice("aggregate", self.aggregate, ("median", "mean"))
        check_choice("weights", self.weights, ("distance", "uniform"))
        check_is_fitted(self.metric)
        engine = Engine(client)
        with engine.watched("search"):
            shards, surveys, total = surveyed(engine, X, y)
            if len(total.near) != self.metric.n_features_in_:
                raise InputError(
                    f"the samples have {len(total.near)} features, but the metric was fitted with "
                    f"{self.metric.n_features_in_}"
                )
            counts = np.array([look.n_samples for look in surveys])
            metric = engine.once(itself, self.metric)
            parts = engine.each(index_shard, shards, (np.cumsum(counts) - counts).tolist(), metric=metric)
            self._searched = ShardedPlaces(engine, parts)
        self._engine, self.n_samples_, self.labels_ = engine, total.n_samples, total.labels
        self.n_neighbors_ = usual_votes(total.n_samples) if self.n_neighbors is None else self.n_neighbors
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Estimated grade (q,) of each query (q, d)."""
        check_is_fitted(self)
        with self._engine.watched("search"):
            return self._grade(self._queries(X))

    def rank(
        self,
        X: ArrayLike,
        k: int = 10,
        *,
        within_grade: bool = False,
        lowest: float = -np.inf,
        highest: float = np.inf,
    ) -> Ranking:
        """Most relevant samples for each query, nearest first.

        Parameters
        ----------
        X : array-like of shape (q, d)
        k : int, default=10
            How many; no more than there are samples are returned.
        within_grade : bool, default=False
            Only samples of the query's estimated grade (the label nearest to the estimate).
        lowest, highest : float
            Only samples with labels in between, both included.

        Returns
        -------
        Ranking
            Rows with fewer than k samples are filled up with -1.
        """
        check_is_fitted(self)
        check_integer("k", k, minimum=1)
        queries, k = self._queries(X), min(k, self.n_samples_)
        indices = np.full((len(queries), k), -1, dtype=np.int64)
        distances, labels = np.full(indices.shape, np.inf), np.full(indices.shape, np.nan)
        with self._engine.watched("search"):
            for asking, near in self._by_grade(queries) if within_grade else [(np.arange(len(queries)), None)]:
                among = Among(lowest=lowest, highest=highest, nearest_to=near)
                found = self._searched.nearest(queries[asking], k, among)
                there = np.ix_(asking, np.arange(found.ids.shape[1]))
                indices[there], distances[there], labels[there] = found.ids, found.distances, found.grades
        return Ranking(indices, distances, labels)

    def _queries(self, X: ArrayLike) -> NDArray[np.floating]:
        return np.asarray(self.metric.transform(X))

    def _grade(self, queries: NDArray[np.floating]) -> FloatArray:
        found = self._searched.nearest(queries, self.n_neighbors_)
        return count_votes(found.grades, found.distances, aggregate=self.aggregate, weights=self.weights)

    def _by_grade(self, queries: NDArray[np.floating]) -> list[tuple[Any, tuple[FloatArray, int]]]:
        """Queries of each estimated grade, and all labels with the one that is nearest to it."""
        nearest = nearest_label(self.labels_, self._grade(queries))
        return [(np.flatnonzero(nearest == label), (self.labels_, int(label))) for label in np.unique(nearest)]


def index_shard(shard: Shard, start: int, metric: Any) -> Part:
    """Map and index the samples of a shard whose first one has a given row number."""
    X, y, _ = shard.whole()
    places = Places(np.arange(start, start + len(y)), y, np.full(len(y), np.nan), metric.transform(X))
    return index_part(places, getattr(metric, "n_components_", 0))
