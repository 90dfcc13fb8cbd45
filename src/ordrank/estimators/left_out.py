"""Any metric, fitted without some samples: what neighbours they would have had."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone

from ordrank._types import Array, FloatArray, IntArray
from ordrank.backend import backend_of, is_tensor
from ordrank.errors import InputError, warn_caller
from ordrank.estimators.ballots import Neighborhoods
from ordrank.estimators.groups import largest_group
from ordrank.estimators.labels import OrdinalLabels
from ordrank.estimators.order_map import draw_rows
from ordrank.neighbors import k_nearest

FOLDS = 5
# Most samples whose neighbours are looked for.
ASKED = 1500


def fit_metric(metric: Any, X: Any, labels: FloatArray, unlabeled: Any = None, groups: IntArray | None = None) -> None:
    """Fit a metric, which may be a pipeline or ``"passthrough"``, with unlabelled samples if there are any.

    Groups (n,) are told to those that choose by leaving samples out.
    """
    from sklearn.pipeline import Pipeline  # late, as below: who fits a metric alone needs none of it

    if isinstance(metric, str):
        return
    last = metric[-1] if isinstance(metric, Pipeline) else metric
    known = {} if isinstance(last, str) else signature(last.fit).parameters
    more: dict[str, Any] = {}
    if groups is not None and "groups" in known:
        more["groups"] = groups
    if unlabeled is not None:
        if "unlabeled" not in known:
            raise InputError(f"{type(last).__name__} does not learn from unlabelled samples; use OrdinalMetric")
        more["unlabeled"] = unlabeled
    if more and isinstance(metric, Pipeline) and len(metric) > 1:
        before = metric[:-1]
        X = before.fit_transform(X, labels)
        last.fit(X, labels, **more | ({} if unlabeled is None else {"unlabeled": before.transform(unlabeled)}))
    else:
        (last if more else metric).fit(X, labels, **more)


def nearest_on_host(points: Array, queries: Array, k: int) -> tuple[IntArray, FloatArray]:
    """The k nearest points of each query and their distances, looked for where the points are, told on the host."""
    indices, distances = k_nearest(points, queries, k)
    to_numpy = backend_of(points).to_numpy
    return to_numpy(indices), to_numpy(distances)


def left_out_neighborhoods(
    metric: Any,
    embedding: Array,
    X: Any,
    labels: OrdinalLabels,
    unlabeled: Any,
    groups: IntArray | None,
    k: int,
) -> Neighborhoods | None:
    """Nearest neighbours of samples of which the metric has not seen the labels.

    A metric that knows them in closed form is asked, the plain distance needs no fit, and any other metric is
    fitted again on five folds. Of many samples 1500 are drawn for which neighbours are looked for, among all; of
    groups, among the samples of others.

    Parameters
    ----------
    metric : estimator or "passthrough"
        Fitted with all samples.
    embedding : array of shape (n, s)
        All samples in its space.
    X : array, tensor or data frame of shape (n, d)
    labels : OrdinalLabels
        On the host.
    unlabeled : array-like or tensor of shape (n_unlabeled, d), optional
    groups : ndarray of shape (n,), optional
        Numbers of groups from 0 on, whose samples are left out together.
    k : int
        Neighbours wanted, no more than there are without the largest group.

    Returns
    -------
    Neighborhoods or None
        On the host; None where the samples are too few to leave some out, or the metric cannot be fitted without them.
    """
    drawn = draw_rows(len(embedding), ASKED, np.random.default_rng(0))
    if isinstance(metric, str):
        return _plain(embedding, drawn, groups, k)
    known = getattr(metric, "neighborhoods_", None)
    if known is not None:
        return known
    folds = _folds(labels, groups)
    if any(len(np.unique(labels.index[rest])) < 2 for rest, _ in folds):
        return None
    try:
        return _by_folds(metric, X, labels, unlabeled, groups, folds, drawn, k)
    except ValueError as error:
        warn_caller(
            f"votes were not chosen, because {type(metric).__name__} cannot be fitted without a fifth of the samples "
            f"({error}); the usual number votes. Give n_neighbors and weights to have others",
            UserWarning,
        )
        return None


def _plain(points: Array, rows: IntArray, groups: IntArray | None, k: int) -> Neighborhoods:
    """Nearest neighbours of some points among the others."""
    most = min(k + largest_group(groups), len(points))
    indices, distances = nearest_on_host(points, points[backend_of(points).indices(rows, points)], most)
    groups = np.arange(len(points)) if groups is None else groups
    others_first = np.argsort(groups[indices] == groups[rows, None], axis=1, kind="stable")[:, :k]
    near = np.take_along_axis(indices, others_first, axis=1)
    return Neighborhoods(rows, near, np.take_along_axis(distances, others_first, axis=1))


def _by_folds(
    metric: Any,
    X: Any,
    labels: OrdinalLabels,
    unlabeled: Any,
    groups: IntArray | None,
    folds: Sequence[tuple[IntArray, IntArray]],
    drawn: IntArray,
    k: int,
) -> Neighborhoods:
    samples = X.tocsr() if hasattr(X, "tocsr") else X  # not every sparse matrix has rows

    def rows(part: IntArray) -> Any:
        if is_tensor(samples):
            return samples[backend_of(samples).indices(part, samples)]
        return samples.iloc[part] if hasattr(samples, "iloc") else samples[part]

    k = min(k, *(len(rest) for rest, _ in folds))
    parts: list[Neighborhoods] = []
    for rest, others in folds:
        held = np.intersect1d(others, drawn)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is wrong was said when the metric was fitted with all samples
            fold = clone(metric)
            fit_metric(fold, rows(rest), labels.values[rest], unlabeled, None if groups is None else groups[rest])
        points, queries = (fold.transform(rows(part)) for part in (rest, held))
        if not is_tensor(points):
            points, queries = np.asarray(points), np.asarray(queries)
        nearest, distances = nearest_on_host(points, queries, k)
        parts.append(Neighborhoods(held, rest[nearest], distances))
    found = Neighborhoods.joined(parts)
    rising = np.argsort(found.rows)
    return Neighborhoods(found.rows[rising], found.indices[rising], found.distances[rising])


def _folds(labels: OrdinalLabels, groups: IntArray | None) -> list[tuple[IntArray, IntArray]]:
    """Five folds, of whole groups, or with every label in each where there are enough samples."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    if groups is not None:
        folds = GroupKFold(min(FOLDS, len(np.unique(groups))), shuffle=True, random_state=0)
        return list(folds.split(labels.index, labels.index, groups))
    n, fewest = len(labels.values), int(np.bincount(labels.index).min())
    if fewest >= FOLDS:
        return list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(labels.index, labels.index))
    return list(KFold(min(FOLDS, n), shuffle=True, random_state=0).split(labels.index))
