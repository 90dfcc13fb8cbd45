"""Grading and ranking by samples that stay on the workers of a Dask cluster."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ordrank._protocols import FloatArray, Ranking
from ordrank.distributed.engine import Engine
from ordrank.distributed.index import ShardedIndex, ShardIndex, index_shard_embeddings
from ordrank.distributed.inputs import survey_shards
from ordrank.distributed.shards import Shard
from ordrank.errors import InputError
from ordrank.estimators._defaults import DEFAULTS
from ordrank.estimators._knn_selection import default_k
from ordrank.estimators._ordinal.embedding import OrdinalEmbedding
from ordrank.estimators._validation import check_choice, check_integer, warn_if_all_vote
from ordrank.estimators.ordinal_metric import OrdinalMetric
from ordrank.metrics import nearest_label
from ordrank.neighbors.search import Embeddings, Filter
from ordrank.neighbors.voting import median_vote


class DaskRanker(BaseEstimator):
    """Nearest neighbours among samples in shards, with a fitted metric.

    Grades are estimated by votes alone; :class:`~ordrank.OrdinalRanker` also learns a distribution.

    Workers embed and index their shards once. Each batch of queries is embedded on the client and sent to all shards,
    whose k nearest samples are merged. Results equal those of one index of all samples, equal distances by row number.
    After the loss of a worker its shards are read and indexed again.

    Parameters
    ----------
    metric : estimator
        Fitted; a :class:`~ordrank.distributed.DaskOrdinalMetric`, or any whose ``transform`` is an embedding with the
        learned distance as Euclidean distance. It is used, not cloned; wrap it in ``sklearn.frozen.FrozenEstimator`` if
        the ranker is cloned, as by cross-validation, so that clones keep what it learned.
    n_neighbors : int, optional
        Neighbours that vote on the grade; by default a third of the samples, at most 101.
    weights : {"distance", "uniform"}, default="distance"
        Weight of a neighbour: one over its distance, or 1.

    Attributes
    ----------
    n_samples_ : int
    n_neighbors_ : int
    labels_ : ndarray of shape (m,)
        Distinct labels, ascending.
    n_features_in_ : int
        Number of features.
    """

    def __init__(
        self,
        metric: Any,
        *,
        n_neighbors: int | None = None,
        weights: Literal["distance", "uniform"] = "distance",
    ) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.weights = weights

    def fit(self, X: Any, y: Any = None, *, client: Any = None) -> Self:
        """Embed and index labelled samples on the workers.

        Parameters
        ----------
        X : dask array of shape (n, d), or Shards
            Rows are numbered across shards, without samples of weight 0.
        y : dask array of shape (n,)
            Ordered labels as numbers; None with Shards.
        client : distributed.Client, optional
            By default the one that was connected last. It must stay connected for predictions.
        """
        if self.n_neighbors is not None:
            check_integer("n_neighbors", self.n_neighbors, minimum=1)
        check_choice("weights", self.weights, ("distance", "uniform"))
        self._check_metric()
        engine = Engine(client)
        with engine.translate_errors("search"):
            shards, surveys, total = survey_shards(engine, X, y)
            if len(total.center) != self.metric.n_features_in_:
                raise InputError(
                    f"the samples have {len(total.center)} features, but the metric was fitted with "
                    f"{self.metric.n_features_in_}"
                )
            counts = np.array([survey.n_samples for survey in surveys])
            starts, metric = (np.cumsum(counts) - counts).tolist(), engine.broadcast(self.metric)
            index = ShardedIndex(engine, engine.map(index_shard, shards, starts, metric=metric))
        self._engine, self._index, self.n_features_in_ = engine, index, len(total.center)
        self.n_samples_, self.labels_ = total.n_samples, total.labels
        defaults = self.metric._defaults if isinstance(self.metric, OrdinalMetric) else DEFAULTS
        self.n_neighbors_ = self.n_neighbors or default_k(total.n_samples, defaults=defaults)
        warn_if_all_vote(self.n_neighbors_, total.n_samples)
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return the estimated grade (q,) of each query (q, d): the weighted median of the votes."""
        check_is_fitted(self)
        with self._engine.translate_errors("search"):
            return self._vote(np.asarray(self.metric.transform(X)))

    def rank(
        self, X: ArrayLike, k: int = 10, *, within_grade: bool = False, lowest: float = -np.inf, highest: float = np.inf
    ) -> Ranking:
        """Return the most relevant samples for each query, nearest first.

        Parameters
        ----------
        X : array-like of shape (q, d)
        k : int, default=10
            Samples per query, at most all.
        within_grade : bool, default=False
            Only samples of the query's estimated grade (the label nearest to the estimate).
        lowest, highest : float
            Only samples with labels between these, inclusive.

        Returns
        -------
        Ranking
            Rows with fewer than k samples are filled with -1.
        """
        check_is_fitted(self)
        check_integer("k", k, minimum=1)
        queries, k = np.asarray(self.metric.transform(X)), min(k, self.n_samples_)
        indices = np.full((len(queries), k), -1, dtype=np.int64)
        distances, labels = np.full(indices.shape, np.inf), np.full(indices.shape, np.nan)
        with self._engine.translate_errors("search"):
            for rows, nearest_to in self._by_grade(queries) if within_grade else [(np.arange(len(queries)), None)]:
                where = Filter(lowest=lowest, highest=highest, nearest_to=nearest_to)
                hits = self._index.nearest(queries[rows], k, where)
                cells = np.ix_(rows, np.arange(hits.ids.shape[1]))
                indices[cells], distances[cells], labels[cells] = hits.ids, hits.distances, hits.grades
        return Ranking(indices, distances, labels)

    def _check_metric(self) -> None:
        try:
            check_is_fitted(self.metric)
        except NotFittedError as error:
            raise InputError(
                "the metric is not fitted; fit it before the ranker, and if clones of the ranker should keep the fit, "
                "wrap it in sklearn.frozen.FrozenEstimator"
            ) from error

    def _vote(self, queries: NDArray[np.floating]) -> FloatArray:
        hits = self._index.nearest(queries, self.n_neighbors_)
        return median_vote(hits.grades, hits.distances, self.weights)

    def _by_grade(self, queries: NDArray[np.floating]) -> list[tuple[Any, tuple[FloatArray, int]]]:
        """Group queries by estimated grade; return rows and ``Filter.nearest_to`` of each group."""
        nearest = nearest_label(self.labels_, self._vote(queries))
        return [(np.flatnonzero(nearest == label), (self.labels_, int(label))) for label in np.unique(nearest)]


def index_shard(shard: Shard, start: int, metric: Any) -> ShardIndex:
    """Embed and index the samples of a shard, with ids from ``start``."""
    X, y, _ = shard.load()
    embeddings = Embeddings(np.arange(start, start + len(y)), y, np.full(len(y), np.nan), metric.transform(X))
    return index_shard_embeddings(embeddings, _n_ordinal_coordinates(metric))


def _n_ordinal_coordinates(metric: Any) -> int:
    """Return how many leading coordinates of an embedding encode the order: 0 unless an ordinal metric made it.

    Not ``n_components_``, which other transformers have with another meaning.
    """
    embedding = getattr(metric, "ordinal_embedding_", None)  # of a frozen metric too
    return embedding.n_components if isinstance(embedding, OrdinalEmbedding) else 0
