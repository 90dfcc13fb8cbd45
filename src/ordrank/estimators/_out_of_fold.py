"""Neighbours of held-out samples for any metric, by closed form, directly or by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ordrank._protocols import Array, FloatArray, IntArray
from ordrank.backend import backend_of, is_tensor
from ordrank.errors import InputError, warn_caller
from ordrank.estimators._base import BaseMetric
from ordrank.estimators._defaults import DEFAULTS, Defaults
from ordrank.estimators._knn_selection import HeldOutNeighbors
from ordrank.estimators._labels import OrdinalLabels
from ordrank.estimators._ordinal.training_data import draw_rows
from ordrank.estimators._validation import largest_group
from ordrank.neighbors import k_nearest


@runtime_checkable
class LeaveOneOutMetric(Protocol):
    """A metric that knows the neighbours of held-out samples from its own fit, as OrdinalMetric does."""

    loo_neighbors_: HeldOutNeighbors | None


def fit_metric(metric: Any, X: Any, labels: FloatArray, unlabeled: Any = None, groups: IntArray | None = None) -> None:
    """Fit a metric, a pipeline or ``"passthrough"``, passing on what the last estimator, of any depth, accepts.

    Raise InputError if there are unlabelled samples and it does not accept them, or if there are groups (n,) and
    another of our metrics would need them. Unlabelled samples go through the steps before it.
    """
    if isinstance(metric, str):
        return
    last = _last_step(metric)
    extra: dict[str, Any] = {}
    if groups is not None:
        _check_groups_reach_metrics(metric, last)
        if _accepts(last, "groups"):
            extra["groups"] = groups
    if unlabeled is not None:
        if not _accepts(last, "unlabeled"):
            raise InputError(f"{type(last).__name__} does not learn from unlabelled samples; use OrdinalMetric")
        extra["unlabeled"] = unlabeled
    if not extra:
        metric.fit(X, labels)
        return
    while _is_pipeline(metric):
        if len(metric) > 1:
            steps = metric[:-1]
            X = steps.fit_transform(X, labels)
            metric.steps = [*steps.steps, metric.steps[-1]]  # with a cache, the fitted ones are clones
            if unlabeled is not None:
                extra["unlabeled"] = steps.transform(extra["unlabeled"])
        metric = metric[-1]
    metric.fit(X, labels, **extra)


def _is_pipeline(metric: Any) -> bool:
    from sklearn.pipeline import Pipeline  # late: fitting a metric alone does not need it

    return isinstance(metric, Pipeline)


def _last_step(metric: Any) -> Any:
    """Return the last estimator of nested pipelines."""
    while _is_pipeline(metric):
        metric = metric[-1]
    return metric


def _check_groups_reach_metrics(metric: Any, last: Any) -> None:
    """Raise InputError if a metric other than the last step selects by groups, which it would not get."""
    for part in metric.get_params(deep=True).values():
        if isinstance(part, BaseMetric) and part is not last and _accepts(part, "groups"):
            raise InputError(
                f"groups do not reach {type(part).__name__} inside {type(metric).__name__}; make it the last step of a "
                "pipeline, or fit without groups"
            )


def _accepts(estimator: Any, parameter: str) -> bool:
    is_step = estimator is not None and not isinstance(estimator, str)  # None and "passthrough" are the identity
    return is_step and has_fit_parameter(estimator, parameter)


def nearest_on_host(points: Array, queries: Array, k: int) -> tuple[IntArray, FloatArray]:
    """Return the k nearest points of each query and their distances, searched on their device, as arrays."""
    indices, distances = k_nearest(points, queries, k)
    to_numpy = backend_of(points).to_numpy
    return to_numpy(indices), to_numpy(distances)


def held_out_neighbors(
    metric: Any,
    embedding: Array,
    X: Any,
    labels: OrdinalLabels,
    unlabeled: Any,
    groups: IntArray | None,
    k: int,
    defaults: Defaults = DEFAULTS,
) -> HeldOutNeighbors | None:
    """Return the nearest neighbours of samples held out of the fit, alone or with their group or fold.

    OrdinalMetric has leave-one-out neighbours, a third of the samples and at most 101. For more, or with another
    metric, it is fitted again on five folds, which have no more neighbours than training samples; return None if there
    are too few samples for folds, or the metric cannot be fitted on them.
    ``embedding`` (n, s) are all samples in the space of the fitted metric, and k is at most n minus the largest group.
    """
    drawn = draw_rows(len(embedding), defaults.selection_samples, np.random.default_rng(0))
    if isinstance(metric, str):
        return _other_neighbors(embedding, drawn, groups, k)
    known = metric.loo_neighbors_ if isinstance(metric, LeaveOneOutMetric) else None
    if known is not None and known.indices.shape[1] >= k:
        return known
    folds = [(train, np.intersect1d(test, drawn)) for train, test in _folds(labels, groups, defaults.n_folds)]
    folds = [(train, held_out) for train, held_out in folds if len(held_out)]
    if any(len(np.unique(labels.index[train])) < 2 for train, _ in folds):
        return None
    try:
        return _cross_validated(metric, X, labels, unlabeled, groups, folds, k)
    except ValueError as error:
        warn_caller(
            f"votes were not selected, because {type(metric).__name__} cannot be fitted without a fifth of the samples "
            f"({error}); the default number votes. Set n_neighbors and weights to choose them yourself",
            UserWarning,
        )
        return None


def _other_neighbors(points: Array, rows: IntArray, groups: IntArray | None, k: int) -> HeldOutNeighbors:
    """Return the nearest points of other groups."""
    n_searched = min(k + largest_group(groups), len(points))
    indices, distances = nearest_on_host(points, points[backend_of(points).indices(rows, points)], n_searched)
    groups = np.arange(len(points)) if groups is None else groups
    others_first = np.argsort(groups[indices] == groups[rows, None], axis=1, kind="stable")[:, :k]
    nearest = np.take_along_axis(indices, others_first, axis=1)
    return HeldOutNeighbors(rows, nearest, np.take_along_axis(distances, others_first, axis=1))


def _cross_validated(
    metric: Any,
    X: Any,
    labels: OrdinalLabels,
    unlabeled: Any,
    groups: IntArray | None,
    folds: Sequence[tuple[IntArray, IntArray]],
    k: int,
) -> HeldOutNeighbors:
    """Return the neighbours of held-out rows among training rows, for each fold of (training, held-out) rows."""
    samples = X.tocsr() if hasattr(X, "tocsr") else X  # not every sparse matrix has rows

    def take(rows: IntArray) -> Any:
        if is_tensor(samples):
            return samples[backend_of(samples).indices(rows, samples)]
        return samples.iloc[rows] if hasattr(samples, "iloc") else samples[rows]

    k = min(k, *(len(train) for train, _ in folds))
    parts: list[HeldOutNeighbors] = []
    for train, held_out in folds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit with all samples has warned already
            fold = clone(metric)
            fit_metric(fold, take(train), labels.values[train], unlabeled, None if groups is None else groups[train])
        points, queries = (fold.transform(take(rows)) for rows in (train, held_out))
        if not is_tensor(points):
            points, queries = np.asarray(points), np.asarray(queries)
        nearest, distances = nearest_on_host(points, queries, k)
        parts.append(HeldOutNeighbors(held_out, train[nearest], distances))
    found = HeldOutNeighbors.concatenate(parts)
    order = np.argsort(found.rows)
    return HeldOutNeighbors(found.rows[order], found.indices[order], found.distances[order])


def _folds(labels: OrdinalLabels, groups: IntArray | None, n_folds: int) -> list[tuple[IntArray, IntArray]]:
    """Return the folds: of whole groups, or stratified if every label has enough samples."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    index = labels.index
    if groups is not None:
        splitter = GroupKFold(min(n_folds, len(np.unique(groups))), shuffle=True, random_state=0)
        return list(splitter.split(index, index, groups))
    if np.bincount(index).min() >= n_folds:
        return list(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(index, index))
    return list(KFold(min(n_folds, len(index)), shuffle=True, random_state=0).split(index))
