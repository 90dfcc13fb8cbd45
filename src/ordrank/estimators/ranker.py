"""Grading and ranking by nearest neighbours in a learned metric."""

from __future__ import annotations

import os
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ordrank._protocols import Array, FloatArray, IntArray, Ranking
from ordrank.backend import backend_of, convert_like, is_tensor
from ordrank.errors import InputError
from ordrank.estimators._held_out import VoteOptions, learn_distribution, nearest_in_appearance
from ordrank.estimators._labels import OrdinalLabels, encode_labels, ordinal_labels
from ordrank.estimators._out_of_fold import fit_metric, nearest_on_host
from ordrank.estimators._validation import (
    check_choice,
    check_finite_tensor,
    check_groups,
    check_integer,
    check_queries,
    check_tensor,
    check_tensor_labels,
)
from ordrank.estimators.ordinal_metric import OrdinalMetric
from ordrank.metrics import nearest_label
from ordrank.neighbors.index import ExactIndex

# Of fewer training samples all are compared with a batch of queries as fast as an index finds the nearest.
_INDEXED_SAMPLES = 50_000
_LENIENT: dict[str, Any] = {"dtype": None, "accept_sparse": True, "ensure_all_finite": False}


class OrdinalRanker(BaseEstimator):
    """Nearest neighbours in any metric: the grade of a query, how sure that is, and the most relevant samples in order.

    The grade has a distribution: the votes of the nearest training samples, the label frequencies and, with the default
    metric and at most 20 labels, an ordinal threshold model, mixed with weights from samples held out of the fit.

    Parameters
    ----------
    metric : estimator, optional
        A transformer to a space with the metric as Euclidean distance, for example ``CMDSMetric``, ``LDMLR``, a
        pipeline that ends in one, or ``"passthrough"`` for the distance of the features. It is cloned and fitted. By
        default :class:`OrdinalMetric`.
    n_neighbors : int or "auto", default="auto"
        Neighbours that vote on the grade: by default a third of the training samples, at most 101, unless fewer have
        a significantly lower MAE on samples held out of the fit. A metric other than the default is fitted five more
        times for that. If held-out groups are predicted no better than by one grade for all, all samples vote.
    weights : {"auto", "distance", "uniform"}, default="auto"
        Weight of a vote: one over the distance, or 1. ``"auto"`` is the distance, unless uniform votes have a
        significantly lower MAE.
    class_prior : array-like of shape (m,), optional
        Expected frequencies of the labels, ascending, among queries; by default those of the training set. A training
        set is often balanced where queries are not.

    Attributes
    ----------
    metric_ : estimator
        The fitted metric; the string ``"passthrough"`` if that was given.
    n_neighbors_, weights_ : int and str
        How neighbours vote.
    classes_ : ndarray of shape (m,)
        Distinct labels as given to ``fit``: numbers, or names in their order.
    loo_proba_ : ndarray of shape (n, m)
        Probabilities of the grades of the training samples, each from a fit without it, or without its group: unlike
        ``predict_proba``, independent of its own label. NaN for samples that were not drawn, where there are more than
        1500, or all if there are too few samples to hold out any.
    grade_distribution_ : GradeDistribution
        The weights of the distribution, its threshold model and the scores of held-out samples; frozen.
    embedding_ : ndarray of shape (n, s)
        Training samples in the space of the metric; a tensor on the device of X if X was one. Neighbours are searched
        on that device; an array with 50,000 rows or more is indexed once, so it must not change.
    n_features_in_ : int
        Number of features; ``feature_names_in_`` if X had names.

    Examples
    --------
    >>> import numpy as np
    >>> from ordrank import OrdinalRanker
    >>> rng = np.random.default_rng(0)
    >>> X, grade = rng.normal(size=(60, 8)), np.repeat([1, 2, 5], 20)
    >>> X[:, 0] += 3 * grade
    >>> ranker = OrdinalRanker().fit(X, grade)
    >>> ranker.predict(X[:1])
    array([1.])
    >>> ranker.predict_proba(X[:1]).shape, ranker.predict_interval(X[:1], coverage=0.9).shape
    ((1, 3), (1, 2))
    >>> ranker.rank(X[:1], k=3).indices.shape
    (1, 3)
    """

    def __init__(
        self,
        metric: Any = None,
        *,
        n_neighbors: int | Literal["auto"] = "auto",
        weights: Literal["auto", "distance", "uniform"] = "auto",
        class_prior: ArrayLike | None = None,
    ) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.class_prior = class_prior

    def fit(
        self,
        X: ArrayLike | Array,
        y: ArrayLike | Array,
        unlabeled: ArrayLike | Array | None = None,
        groups: ArrayLike | Array | None = None,
    ) -> Self:
        """Fit the metric and keep the training samples; if that fails, the estimator does not change.

        Parameters
        ----------
        X : array-like or tensor of shape (n, d)
        y : array-like or tensor of shape (n,)
            Ordered labels: numbers, whose gaps count, or an ordered pandas categorical.
        unlabeled : array-like or tensor of shape (n_unlabeled, d), optional
            Samples without labels, for a metric that learns from them. They are not ranked.
        groups : array-like or tensor of shape (n,), optional
            Group of each sample, if queries will be of other groups (patients, people): groups are then held out as
            a whole.

        Returns
        -------
        self
        """
        self._check_parameters()
        records = type(self)(**self.get_params(deep=False))  # records the features; self stays as it was
        values, names = encode_labels(y)
        # The metric gets X unchanged, perhaps a data frame or with missing values that its pipeline imputes: here
        # only labels, shape and names are checked.
        if is_tensor(X):
            checked = check_tensor(records, X, reset=True, ensure_min_samples=2, ensure_all_finite=False)
            values = check_tensor_labels(values, checked)
        else:
            checked, values = validate_data(records, X, values, y_numeric=True, ensure_min_samples=2, **_LENIENT)
        labels = ordinal_labels(values, names).on_host()
        if unlabeled is not None:
            records._check_shape(unlabeled, ensure_min_samples=0)
        numbers = None if groups is None else check_groups(groups, checked)
        prior = self._checked_prior(labels)
        metric = self._unfitted_metric()
        fit_metric(metric, X, labels.values, unlabeled, numbers)
        embedding, samples = _embedded(metric, X), X if hasattr(X, "iloc") else checked
        options = VoteOptions(self.n_neighbors, self.weights, prior)
        distribution, held_out = learn_distribution(
            metric, embedding, samples, labels, options, unlabeled=unlabeled, groups=numbers
        )
        is_indexed = len(embedding) >= _INDEXED_SAMPLES and not is_tensor(embedding)
        index = ExactIndex(embedding, distribution.n_order) if is_indexed else None
        validate_data(self, X, skip_check_array=True)  # sets n_features_in_ and feature_names_in_
        self.metric_, self.embedding_, self._index = metric, embedding, index
        self._labels, self.classes_ = labels, labels.decode(labels.distinct)
        self.n_neighbors_, self.weights_ = distribution.n_neighbors, distribution.weights
        self.grade_distribution_, self.loo_proba_ = distribution, held_out.proba
        self._held_out = held_out
        return self

    def predict(self, X: ArrayLike | Array) -> Array:
        """Return the estimated grade of each query: the median of its distribution, which minimises the absolute error.

        Parameters
        ----------
        X : array-like or tensor of shape (n_queries, d)

        Returns
        -------
        ndarray of shape (n_queries,)
            One of the labels, the lower of two medians: numbers, in a tensor on the same device if X is one, or the
            names of an ordered categorical.
        """
        return self._decoded(self._grade(self._queries(X)), X)

    def predict_proba(self, X: ArrayLike | Array) -> Array:
        """Return the probability of each grade.

        Parameters
        ----------
        X : array-like or tensor of shape (n_queries, d)

        Returns
        -------
        ndarray of shape (n_queries, m)
            In the order of ``classes_``; a tensor on the same device if X is one.
        """
        return convert_like(self._proba(self._queries(X)), X)

    def predict_interval(self, X: ArrayLike | Array, coverage: float = 0.9) -> Array:
        """Return prediction intervals: the lowest and the highest grade of a contiguous set.

        They are calibrated on samples held out of the fit, alone or with their group, grade by grade: whatever its
        grade, a new sample (of a new group) is in its interval with about this probability. Rare grades borrow from
        the others.

        Parameters
        ----------
        X : array-like or tensor of shape (n_queries, d)
        coverage : float, default=0.9
            Between 0 and 1.

        Returns
        -------
        ndarray of shape (n_queries, 2)
            Labels, as returned by ``predict``.
        """
        bounds = self.grade_distribution_.interval(self._proba(self._queries(X)), coverage)
        return self._decoded(bounds, X)

    def novelty(self, X: ArrayLike | Array) -> Array:
        """Return the p-value that each query is like the training samples; near 0, it is unlike any of them.

        The share of held-out training samples that are at least as far from the nearest of their neighbours: in
        appearance, for the default metric, whatever their grades. Uniform for queries that are like the training
        samples; an estimated grade is worth nothing where it is tiny.

        Parameters
        ----------
        X : array-like or tensor of shape (n_queries, d)

        Returns
        -------
        ndarray of shape (n_queries,)
            NaN if there are too few training samples to hold out any.
        """
        queries = self._queries(X)
        distribution = self.grade_distribution_
        indices, distances = self._nearest(queries, min(distribution.n_neighbors, len(self.embedding_)))
        nearest = nearest_in_appearance(self.embedding_, queries, indices, distances, distribution.n_order)
        return convert_like(distribution.novelty(nearest), X)

    def rank(self, X: ArrayLike | Array, k: int = 10, *, within_grade: bool = False) -> Ranking:
        """Return the most relevant training samples for each query, nearest first.

        Parameters
        ----------
        X : array-like or tensor of shape (n_queries, d)
        k : int, default=10
            At most the number of training samples.
        within_grade : bool, default=False
            Only samples of the query's estimated grade (the label nearest to the estimate). Rows of grades with fewer
            than k samples are padded with -1.

        Returns
        -------
        Ranking
            With tensors on the same device if X is one, except for names.
        """
        check_integer("k", k, minimum=1)
        queries = self._queries(X)
        k = min(k, len(self.embedding_))
        if within_grade:
            indices, distances = self._rank_within_grade(queries, k)
        else:
            indices, distances = self._nearest(queries, k)
        values = np.where(indices < 0, np.nan, self._labels.values[indices])
        return Ranking(convert_like(indices, X), convert_like(distances, X), self._decoded(values, X))

    def to_onnx(self, file: str | os.PathLike[str], *, coverage: float = 0.9) -> None:
        """Write the fitted ranker as a file in the ONNX format, which runs without this package.

        The input is ``features``, float32 (n, d), which are not checked: they must be finite. All outputs are float32:
        ``embedding``, ``probabilities``, ``grade`` and ``interval``, as ``metric_.transform``, ``predict_proba``,
        ``predict`` and ``predict_interval`` return them, except that a named label is its position in the order. The
        metadata ``ordrank.labels`` and ``ordrank.label_values`` are JSON lists of ``classes_`` and their numbers,
        ``ordrank.coverage`` is that of the intervals. A batch needs memory for the embeddings of all neighbours.

        The metric must be OrdinalMetric, CMDSMetric, LDMLR or ``"passthrough"``. Needs the package onnx.

        Parameters
        ----------
        file : path
            Written as a whole, or not at all; an existing file is replaced.
        coverage : float, default=0.9
            Of the intervals, between 0 and 1.
        """
        from ordrank.estimators._onnx_graph import write_ranker  # late: it imports the features

        check_is_fitted(self)
        write_ranker(self, file, coverage)

    def score(self, X: ArrayLike | Array, y: ArrayLike | Array, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination R² of the estimated grades."""
        from sklearn.metrics import r2_score  # late: slow to import

        queries = self._queries(X)
        values = self._labels.encode(y)
        return float(r2_score(values, self._grade(queries), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        # Neither a regressor, which has no probabilities, nor a classifier, whose classes have no order.
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _check_parameters(self) -> None:
        if self.n_neighbors != "auto":
            check_integer("n_neighbors", self.n_neighbors, minimum=1)
        check_choice("weights", self.weights, ("auto", "distance", "uniform"))

    def _unfitted_metric(self) -> Any:
        if isinstance(self.metric, str):
            if self.metric != "passthrough":
                raise InputError(f"metric must be an estimator or 'passthrough', got {self.metric!r}")
            return self.metric
        return OrdinalMetric() if self.metric is None else clone(self.metric)

    def _checked_prior(self, labels: OrdinalLabels) -> FloatArray | None:
        if self.class_prior is None:
            return None
        prior = np.asarray(self.class_prior, dtype=np.float64)
        m = len(labels.distinct)
        if prior.shape != (m,) or not (prior > 0).all() or not np.isclose(prior.sum(), 1):
            raise InputError(f"class_prior must be {m} positive numbers with the sum 1, one for each label")
        return prior

    def _queries(self, X: ArrayLike | Array) -> Array:
        """Return queries in the space of the metric, on the device of the training samples."""
        check_is_fitted(self)
        self._check_shape(X)
        embedded = _embedded(self.metric_, X)
        check_queries(embedded)
        return convert_like(embedded, self.embedding_)

    def _check_shape(self, X: ArrayLike | Array, *, ensure_min_samples: int = 1) -> None:
        """Raise ValueError if the features differ from the fit."""
        if is_tensor(X):
            check_tensor(self, X, reset=False, ensure_min_samples=ensure_min_samples, ensure_all_finite=False)
        else:
            validate_data(self, X, reset=False, ensure_min_samples=ensure_min_samples, **_LENIENT)

    def _decoded(self, values: FloatArray, X: ArrayLike | Array) -> Array:
        """Return names, or numbers as an array or tensor like X."""
        return convert_like(values, X) if self._labels.names is None else self._labels.decode(values)

    def _nearest(self, queries: Array, k: int, allowed: NDArray[np.bool_] | None = None) -> tuple[IntArray, FloatArray]:
        """Return the k nearest training samples of each query, or of those ``allowed`` (n,), and their distances."""
        if self._index is not None:
            return self._index.nearest(queries, k, allowed=allowed)
        points = self.embedding_
        if allowed is None:
            return nearest_on_host(points, queries, k)
        members = np.flatnonzero(allowed)
        indices, distances = nearest_on_host(points[backend_of(points).indices(members, points)], queries, k)
        return members[indices], distances

    def _proba(self, queries: Array) -> FloatArray:
        """Return the probabilities (q, m) of the grades."""
        distribution = self.grade_distribution_
        indices, distances = self._nearest(queries, min(distribution.n_neighbors, len(self.embedding_)))
        vectors = backend_of(queries).to_numpy(queries) if distribution.threshold_weight > 0 else None
        return distribution.proba(self._labels.index[indices], distances, vectors)

    def _grade(self, queries: Array) -> FloatArray:
        """Return the estimated grade, a number for each query."""
        return self.grade_distribution_.median(self._proba(queries))

    def _rank_within_grade(self, queries: Array, k: int) -> tuple[IntArray, FloatArray]:
        nearest = nearest_label(self._labels.distinct, self._grade(queries))
        indices = np.full((len(queries), k), -1, dtype=np.int64)
        distances = np.full((len(queries), k), np.inf)
        for label in np.unique(nearest):
            rows, members = np.flatnonzero(nearest == label), self._labels.index == label
            found, of_label = min(k, int(members.sum())), queries[backend_of(queries).indices(rows, queries)]
            indices[rows, :found], distances[rows, :found] = self._nearest(of_label, found, members)
        return indices, distances


def _embedded(metric: Any, X: ArrayLike | Array) -> Array:
    """Return checked samples in the space of the metric."""
    embedded = X if isinstance(metric, str) else metric.transform(X)
    if is_tensor(embedded):
        return check_finite_tensor(embedded)
    return check_array(embedded, dtype=[np.float64, np.float32])
