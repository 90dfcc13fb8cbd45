"""Grading and ranking with a learned distance."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ordrank._types import Array, FloatArray, IntArray, Ranking
from ordrank.backend import as_given, backend_of, is_tensor
from ordrank.errors import InputError, NeighborsCappedWarning, warn_caller
from ordrank.estimators.ballots import VOTE_WEIGHTS, better_than_one_grade, choose_votes, numbers_of_votes
from ordrank.estimators.groups import largest_group, number_groups
from ordrank.estimators.labels import OrdinalLabels, encode_labels, ordinal_labels
from ordrank.estimators.left_out import fit_metric, left_out_neighborhoods, nearest_on_host
from ordrank.estimators.ordinal_metric import OrdinalMetric
from ordrank.estimators.parameters import check_choice, check_integer
from ordrank.estimators.tensors import checked_labels, checked_tensor, finite_tensor
from ordrank.votes import count_votes

_NO_BETTER = (
    "samples of a group that was left out are not graded better than by one grade for all: nothing that was learned "
    "holds for other groups, so all samples vote. Learn from more groups, or give n_neighbors"
)
_LENIENT: dict[str, Any] = {"dtype": None, "accept_sparse": True, "ensure_all_finite": False}


class OrdinalRanker(RegressorMixin, BaseEstimator):
    """Any metric with nearest neighbours: the grade of a query, and the most relevant samples in order.

    Parameters
    ----------
    metric : estimator, optional
        A transformer whose output space has the wanted Euclidean distance, for example ``CMDSMetric``,
        ``LDMLR``, a pipeline that ends in one, or ``"passthrough"`` for the distance of the features
        themselves. It is cloned and fitted. By default :class:`OrdinalMetric`.
    n_neighbors : int or "auto", default="auto"
        Neighbours that vote on the grade: by default a third of the training samples, at most 101, unless
        fewer clearly mistake fewer grades of samples that were left out of the fit. A metric other than the
        default is fitted five times more for that. With groups that are graded no better than by one grade for all,
        all samples vote.
    aggregate : {"median", "mean"}, default="median"
        How votes become a grade. The median minimises the absolute error and is always one of the grades;
        between two equal halves the lower grade is taken.
    weights : {"auto", "distance", "uniform"}, default="auto"
        Votes count one over their distance, or all the same. ``"auto"`` is the distance, unless uniform votes
        clearly mistake fewer grades.

    Attributes
    ----------
    metric_ : estimator
        The fitted metric; the string ``"passthrough"`` if that was given.
    n_neighbors_, weights_ : int and str
        How neighbours vote.
    labels_ : ndarray of shape (m,)
        Distinct labels as given to ``fit``: numbers, or names in their order.
    embedding_ : ndarray of shape (n, s)
        Training samples in the space of the metric; a tensor on the device of X if X was one. Neighbours are looked
        for where it is.
    n_features_in_ : int
        Number of features; ``feature_names_in_`` where X had names.

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
    >>> ranker.rank(X[:1], k=3).indices.shape
    (1, 3)
    """

    def __init__(
        self,
        metric: Any = None,
        *,
        n_neighbors: int | Literal["auto"] = "auto",
        aggregate: Literal["median", "mean"] = "median",
        weights: Literal["auto", "distance", "uniform"] = "auto",
    ) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.aggregate = aggregate
        self.weights = weights

    def fit(
        self,
        X: ArrayLike | Array,
        y: ArrayLike | Array,
        unlabeled: ArrayLike | Array | None = None,
        groups: ArrayLike | Array | None = None,
    ) -> Self:
        """Fit the metric and keep the training samples.

        Parameters
        ----------
        X : array-like or tensor of shape (n, d)
        y : array-like or tensor of shape (n,)
            Ordered labels: numbers, whose gaps count, or an ordered pandas categorical.
        unlabeled : array-like or tensor of shape (n_unlabeled, d), optional
            More samples, without labels, for a metric that learns from them. They are not ranked.
        groups : array-like or tensor of shape (n,), optional
            To whom each sample belongs, if queries will be of others: pictures of patients, where those of new
            patients are to be graded. Choices are then made as if all samples of a group were left out together.

        Returns
        -------
        OrdinalRanker
            Itself.
        """
        self._check_parameters()
        values, names = encode_labels(y)
        # The metric sees X as it came, be it a data frame or with gaps that its pipeline fills: here only the
        # labels, the shape and the names are checked.
        if is_tensor(X):
            checked = checked_tensor(self, X, reset=True, ensure_min_samples=2, ensure_all_finite=False)
            values = checked_labels(values, checked)
        else:
            checked, values = validate_data(self, X, values, y_numeric=True, ensure_min_samples=2, **_LENIENT)
        self._labels: OrdinalLabels = ordinal_labels(values, names).on_host()
        self.labels_ = self._labels.decode(self._labels.distinct)
        if unlabeled is not None:
            self._check_shape(unlabeled, ensure_min_samples=0)
        numbers = None if groups is None else number_groups(groups, checked)
        self.metric_ = self._unfitted_metric()
        fit_metric(self.metric_, X, self._labels.values, unlabeled, numbers)
        self.embedding_ = self._embed(X)
        self._choose_votes(X if hasattr(X, "iloc") else checked, unlabeled, numbers)
        return self

    def predict(self, X: ArrayLike | Array) -> Array:
        """Estimated grade of each query.

        Parameters
        ----------
        X : array-like or tensor of shape (n_queries, d)

        Returns
        -------
        ndarray of shape (n_queries,)
            Numbers, in a tensor on the same device if X is one; for an ordered categorical the names of the (nearest)
            grades.
        """
        return self._decoded(self._grade(self._queries(X)), X)

    def rank(self, X: ArrayLike | Array, k: int = 10, *, within_grade: bool = False) -> Ranking:
        """Most relevant training samples for each query, nearest first.

        Parameters
        ----------
        X : array-like or tensor of shape (n_queries, d)
        k : int, default=10
            How many; no more than there are training samples are returned.
        within_grade : bool, default=False
            Only samples of the query's estimated grade (the label nearest to the estimate). Rows of grades
            with fewer than k samples are filled up with -1.

        Returns
        -------
        Ranking
            Of tensors on the same device if X is one, but for names.
        """
        check_integer("k", k, minimum=1)
        queries = self._queries(X)
        k = min(k, len(self.embedding_))
        if within_grade:
            indices, distances = self._rank_within_grade(queries, k)
        else:
            indices, distances = self._nearest(queries, k)
        values = np.where(indices < 0, np.nan, self._labels.values[indices])
        return Ranking(as_given(indices, X), as_given(distances, X), self._decoded(values, X))

    def score(self, X: ArrayLike | Array, y: ArrayLike | Array, sample_weight: ArrayLike | None = None) -> float:
        """Coefficient of determination R² of the estimated grades, as for every scikit-learn regressor."""
        from sklearn.metrics import r2_score  # late: it loads much that nobody else needs

        queries = self._queries(X)
        values = self._labels.encode(y)
        return float(r2_score(values, self._grade(queries), sample_weight=sample_weight))

    def _check_parameters(self) -> None:
        if self.n_neighbors != "auto":
            check_integer("n_neighbors", self.n_neighbors, minimum=1)
        check_choice("aggregate", self.aggregate, ("median", "mean"))
        check_choice("weights", self.weights, ("auto", "distance", "uniform"))

    def _unfitted_metric(self) -> Any:
        if isinstance(self.metric, str):
            if self.metric != "passthrough":
                raise InputError(f"metric must be an estimator or 'passthrough', got {self.metric!r}")
            return self.metric
        return OrdinalMetric() if self.metric is None else clone(self.metric)

    def _choose_votes(self, X: Any, unlabeled: Any, groups: IntArray | None) -> None:
        """Set how many neighbours vote, and with which weights, from samples left out of the fit."""
        n_samples, together = len(self.embedding_), largest_group(groups)
        numbers = numbers_of_votes(n_samples, together) if self.n_neighbors == "auto" else [self.n_neighbors]
        kinds = VOTE_WEIGHTS if self.weights == "auto" else [self.weights]
        self.n_neighbors_, self.weights_ = numbers[-1], kinds[-1]
        if numbers[-1] > n_samples:
            warn_caller(
                f"n_neighbors={numbers[-1]} is more than the {n_samples} samples; all of them vote",
                NeighborsCappedWarning,
            )
        if len(numbers) * len(kinds) == 1:
            return
        most, labels = min(numbers[-1], n_samples - together), self._labels.values
        near = left_out_neighborhoods(self.metric_, self.embedding_, X, self._labels, unlabeled, groups, most)
        if near is None:
            return
        way = choose_votes(near, labels, numbers, kinds, aggregate=self.aggregate)
        self.n_neighbors_, self.weights_ = way
        if groups is None or self.n_neighbors != "auto":
            return
        if not better_than_one_grade(near, labels, groups, way, aggregate=self.aggregate):
            self.n_neighbors_, self.weights_ = n_samples, kinds[0]
            warn_caller(_NO_BETTER, UserWarning)

    def _embed(self, X: ArrayLike | Array) -> Array:
        """Samples in the space of the metric, checked."""
        embedded = X if isinstance(self.metric_, str) else self.metric_.transform(X)
        return finite_tensor(embedded) if is_tensor(embedded) else check_array(embedded, dtype=[np.float64, np.float32])

    def _queries(self, X: ArrayLike | Array) -> Array:
        """Queries in the space of the metric, where the training samples are."""
        check_is_fitted(self)
        self._check_shape(X)
        return as_given(self._embed(X), self.embedding_)

    def _check_shape(self, X: ArrayLike | Array, *, ensure_min_samples: int = 1) -> None:
        """Refuse samples with other features than those of the fit."""
        if is_tensor(X):
            checked_tensor(self, X, reset=False, ensure_min_samples=ensure_min_samples, ensure_all_finite=False)
        else:
            validate_data(self, X, reset=False, ensure_min_samples=ensure_min_samples, **_LENIENT)

    def _decoded(self, values: FloatArray, X: ArrayLike | Array) -> Array:
        """Values as the user knows them, in the kind of X where they are numbers."""
        return as_given(values, X) if self._labels.names is None else self._labels.decode(values)

    def _nearest(self, queries: Array, k: int, members: IntArray | None = None) -> tuple[IntArray, FloatArray]:
        """Nearest training samples of each query, or those among some ``members``, and their distances."""
        points = self.embedding_
        if members is None:
            return nearest_on_host(points, queries, k)
        indices, distances = nearest_on_host(points[backend_of(points).indices(members, points)], queries, k)
        return members[indices], distances

    def _grade(self, queries: Array) -> FloatArray:
        """Votes of the nearest neighbours, as a number for each query."""
        indices, distances = self._nearest(queries, min(self.n_neighbors_, len(self.embedding_)))
        return count_votes(self._labels.values[indices], distances, aggregate=self.aggregate, weights=self.weights_)

    def _rank_within_grade(self, queries: Array, k: int) -> tuple[IntArray, FloatArray]:
        grades = self._grade(queries)
        nearest_label = np.abs(grades[:, None] - self._labels.distinct[None, :]).argmin(axis=1)
        indices = np.full((len(queries), k), -1, dtype=np.int64)
        distances = np.full((len(queries), k), np.inf)
        for label in np.unique(nearest_label):
            asking = np.flatnonzero(nearest_label == label)
            members = np.flatnonzero(self._labels.index == label)
            found, asked = min(k, len(members)), queries[backend_of(queries).indices(asking, queries)]
            indices[asking, :found], distances[asking, :found] = self._nearest(asked, found, members)
        return indices, distances
