"""Model selection of the baselines: grid search by five-fold cross-validated MAE, ties to the first candidate.

Folds are of whole subjects if training and test subjects differ. A *predictor* estimates grades directly; a *metric*
learns a linear map in whose image k-NN votes, with the voting rule selected together with the map. Features are
centred and divided by one number first, so that a grid means the same for pixels and for landmarks.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from ordrank._protocols import FloatArray, IntArray
from ordrank.neighbors import k_nearest
from ordrank.neighbors.voting import vote_weights, weighted_median
from ordrank_experiments.method import BaselineFailedError, FitMethod, MethodResult, Params, Stopwatch

Folds: TypeAlias = Sequence[tuple[IntArray, IntArray]]
Predict: TypeAlias = Callable[[FloatArray], FloatArray]
# Called with the samples and grades of a training part, then with each candidate, so that candidates share work.
StartPredictor: TypeAlias = Callable[[FloatArray, FloatArray], Callable[[Params], Predict]]
# The same for the matrix of a map, shape (n_components, n_features).
StartMap: TypeAlias = Callable[[FloatArray, FloatArray], Callable[[Params], FloatArray]]

FEW_LABELS = 10  # up to here grades are classes; beyond, a continuous scale
FOLDS = 5
SEED = 0
SMALL = 200  # training samples up to which costly baselines search the whole grid in a few seconds
VOTING_RULES: tuple[Params, ...] = tuple(
    {"votes": k, "count": count}
    for k in (1, 3, 5, 7, 9, 15)
    for count in ("mean", "median")
    if k > 1 or count == "mean"
)


def grid(**values: Sequence[Any]) -> list[Params]:
    """Return all combinations; the last name varies fastest, so that consecutive candidates share the first."""
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]


def describe(points: Sequence[Params]) -> str:
    """Return the values of a grid as text."""
    values = {name: sorted({point[name] for point in points}) for name in points[0]}
    return "; ".join(f"{name} of {', '.join(f'{value:g}' for value in found)}" for name, found in values.items())


def search_predictor(
    start: StartPredictor, points: Sequence[Params], large: Sequence[Params] | None = None
) -> FitMethod:
    """Return a predictor that searches ``points``, or ``large`` with more than SMALL training samples."""
    return partial(_search, partial(_fit_predictor, start), points, large)


def search_metric(start: StartMap, points: Sequence[Params], large: Sequence[Params] | None = None) -> FitMethod:
    """Return a metric that searches in the same way, and predicts by k-NN."""
    return partial(_search, partial(_fit_metric, start), points, large)


def _search(
    fit: Callable[[Sequence[Params], Folds, FloatArray, FloatArray, FloatArray], MethodResult],
    points: Sequence[Params],
    large: Sequence[Params] | None,
    X_train: FloatArray,
    y_train: FloatArray,
    X_test: FloatArray,
    groups: NDArray[Any] | None = None,
) -> MethodResult:
    X_train, X_test = _scaled(X_train, X_test)
    candidates = large if large and len(X_train) > SMALL else points
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # iteration limits and classes of one sample are expected
        return fit(candidates, _folds(y_train, groups), X_train, y_train, X_test)


def _fit_predictor(
    start: StartPredictor,
    points: Sequence[Params],
    folds: Folds,
    X_train: FloatArray,
    y_train: FloatArray,
    X_test: FloatArray,
) -> MethodResult:
    """Select a candidate, refit on all training samples and predict."""
    watch = Stopwatch()
    errors = np.zeros(len(points))
    for rest, held in folds:
        fit = start(X_train[rest], y_train[rest])
        for i, params in enumerate(points):
            errors[i] += np.abs(fit(params)(X_train[held]) - y_train[held]).sum()
    chosen = points[int(errors.argmin())]
    search_seconds = watch.lap()
    predict = start(X_train, y_train)(chosen)
    fit_seconds = watch.lap()
    return MethodResult(predict(X_test), None, None, chosen, search_seconds, fit_seconds, watch.lap())


def _fit_metric(
    start: StartMap,
    points: Sequence[Params],
    folds: Folds,
    X_train: FloatArray,
    y_train: FloatArray,
    X_test: FloatArray,
) -> MethodResult:
    """Select map and voting rule jointly, refit on all training samples and predict by k-NN."""
    watch = Stopwatch()
    errors = np.zeros((len(points), len(VOTING_RULES)))
    for rest, held in folds:
        learn = start(X_train[rest], y_train[rest])
        for i, params in enumerate(points):
            L = learn(params)
            votes = _votes(X_train[rest] @ L.T, y_train[rest], X_train[held] @ L.T, VOTING_RULES)
            errors[i] += np.abs(votes - y_train[held]).sum(axis=1)
    point, rule = divmod(int(errors.argmin()), len(VOTING_RULES))
    search_seconds = watch.lap()
    L = start(X_train, y_train)(points[point])
    fit_seconds = watch.lap()
    Z_train, Z_test = X_train @ L.T, X_test @ L.T
    (grades,) = _votes(Z_train, y_train, Z_test, [VOTING_RULES[rule]])
    chosen = points[point] | VOTING_RULES[rule]
    return MethodResult(grades, Z_train, Z_test, chosen, search_seconds, fit_seconds, watch.lap())


def _folds(y: FloatArray, groups: NDArray[Any] | None) -> Folds:
    """Return five folds or fewer: of whole groups, else stratified if there are few labels."""
    if groups is not None:
        n_folds = min(FOLDS, len(np.unique(groups)))
        return list(GroupKFold(n_folds, shuffle=True, random_state=SEED).split(y, y, groups))
    _, counts = np.unique(y, return_counts=True)
    if len(counts) > FEW_LABELS:
        return list(KFold(min(FOLDS, len(y)), shuffle=True, random_state=SEED).split(y))
    shared = counts[counts > 1]  # labels of one sample do not limit the number of folds
    if not len(shared):
        raise BaselineFailedError("every label has a single sample: cross-validation is not possible")
    return list(StratifiedKFold(min(FOLDS, int(shared.min())), shuffle=True, random_state=SEED).split(y, y))


def _scaled(X_train: FloatArray, X_test: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Centre on the training mean and scale the training features to unit mean square."""
    mean = X_train.mean(axis=0)
    scale = float(np.sqrt(np.mean((X_train - mean) ** 2))) or 1.0
    return (X_train - mean) / scale, (X_test - mean) / scale


def _votes(Z_train: FloatArray, y_train: FloatArray, Z: FloatArray, rules: Sequence[Params]) -> FloatArray:
    """Return k-NN grades of the rows of Z, one row per rule: mean, or median weighted by 1 / distance."""
    most = min(len(Z_train), max(rule["votes"] for rule in rules))
    nearest, distances = k_nearest(Z_train, Z, most)
    labels = y_train[nearest]

    def count(votes: int, count: str) -> FloatArray:
        nearest = labels[:, :votes]
        return nearest.mean(axis=1) if count == "mean" else weighted_median(nearest, vote_weights(distances[:, :votes]))

    return np.array([count(**rule) for rule in rules])
