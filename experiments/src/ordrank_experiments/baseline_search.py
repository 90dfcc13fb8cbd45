"""Model selection of the baselines: grid search by five-fold cross-validated MAE, ties to the first candidate.

Folds are of whole subjects if training and test subjects differ. A *predictor* estimates grades directly; a *metric*
learns a linear map in whose image k-NN votes, with the voting rule selected together with the map from as many
neighbours as ``OrdinalRanker`` may use. Features are centred and divided by one number first, so that a grid means the
same for pixels and for landmarks.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from ordrank._protocols import FloatArray, IntArray
from ordrank.estimators._knn_selection import VOTE_WEIGHTS, candidate_k
from ordrank.neighbors import k_nearest
from ordrank.neighbors.voting import median_vote, vote_weights
from ordrank_experiments.method import BaselineFailedError, FitMethod, MethodResult, Params, Stopwatch

Folds: TypeAlias = Sequence[tuple[IntArray, IntArray]]
Predict: TypeAlias = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Predictor:
    """A fitted predictor.

    Attributes
    ----------
    predict : callable
        Maps samples (q, d) to grades (q,).
    predict_proba : callable or None
        Maps samples (q, d) to probabilities (q, m) of the labels of the training set, in ascending order.
    """

    predict: Predict
    predict_proba: Predict | None = None


# Called with the samples and grades of a training part, then with each candidate, so that candidates share work.
StartPredictor: TypeAlias = Callable[[FloatArray, FloatArray], Callable[[Params], Predictor]]
# The same for the matrix of a map, shape (n_components, n_features).
StartMap: TypeAlias = Callable[[FloatArray, FloatArray], Callable[[Params], FloatArray]]

FEW_LABELS = 10  # up to here grades are classes; beyond, a continuous scale
FOLDS = 5
SEED = 0
SMALL = 200  # training samples up to which costly baselines search the whole grid in a few seconds
AGGREGATES = ("mean", "median")


def grid(**values: Sequence[Any]) -> list[Params]:
    """Return all combinations; the last name varies fastest, so that consecutive candidates share the first."""
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]


def describe(points: Sequence[Params]) -> str:
    """Return the values of a grid as text."""
    values = {name: sorted({point[name] for point in points}) for name in points[0]}
    return "; ".join(f"{name} of {', '.join(f'{value:g}' for value in found)}" for name, found in values.items())


def voting_rules(n_samples: int, n_held_out: int) -> list[Params]:
    """Return the voting rules to select from, with the numbers of neighbours of ``OrdinalRanker``.

    Parameters
    ----------
    n_samples : int
        Training samples.
    n_held_out : int
        Samples of the largest fold.
    """
    ks = candidate_k(n_samples, n_held_out)
    rules = grid(votes=ks, aggregate=AGGREGATES, weights=VOTE_WEIGHTS)
    return rules[:1] + [rule for rule in rules[1:] if rule["votes"] > 1]  # one vote is the same by every rule


def median_predictor(labels: FloatArray, predict_proba: Predict) -> Predictor:
    """Return a predictor of the median, which minimises the expected absolute error, of the probabilities (q, m)."""

    def predict(Q: FloatArray) -> FloatArray:
        cumulative = predict_proba(Q).cumsum(axis=1)
        return np.asarray(labels[(cumulative >= 0.5 * (1 - 1e-12) * cumulative[:, -1:]).argmax(axis=1)])

    return Predictor(predict, predict_proba)


def search_predictor(
    start: StartPredictor,
    points: Sequence[Params],
    large: Sequence[Params] | None = None,
    final: StartPredictor | None = None,
) -> FitMethod:
    """Return a predictor that searches ``points``, or ``large`` with more than SMALL training samples.

    ``final`` fits the selected candidate, the same as in the search by default.
    """
    return partial(_search, partial(_fit_predictor, start, final or start), points, large)


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
    final: StartPredictor,
    points: Sequence[Params],
    folds: Folds,
    X_train: FloatArray,
    y_train: FloatArray,
    X_test: FloatArray,
) -> MethodResult:
    """Select a candidate, unless there is only one, refit on all training samples and predict."""
    watch = Stopwatch()
    errors = np.zeros(len(points))
    for rest, held in folds if len(points) > 1 else ():
        fit = start(X_train[rest], y_train[rest])
        for i, params in enumerate(points):
            errors[i] += np.abs(fit(params).predict(X_train[held]) - y_train[held]).sum()
    chosen = points[int(errors.argmin())]
    search_seconds = watch.lap()
    predictor = final(X_train, y_train)(chosen)
    fit_seconds = watch.lap()
    grades = predictor.predict(X_test)
    predict_seconds = watch.lap()
    proba = predictor.predict_proba(X_test) if predictor.predict_proba else None
    return MethodResult(grades, None, None, chosen, search_seconds, fit_seconds, predict_seconds, proba)


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
    rules = voting_rules(len(y_train), max(len(held) for _, held in folds))
    errors = np.zeros((len(points), len(rules)))
    for rest, held in folds:
        learn = start(X_train[rest], y_train[rest])
        for i, params in enumerate(points):
            L = learn(params)
            votes = _votes(X_train[rest] @ L.T, y_train[rest], X_train[held] @ L.T, rules)
            errors[i] += np.abs(votes - y_train[held]).sum(axis=1)
    point, rule = divmod(int(errors.argmin()), len(rules))
    search_seconds = watch.lap()
    L = start(X_train, y_train)(points[point])
    fit_seconds = watch.lap()
    Z_train, Z_test = X_train @ L.T, X_test @ L.T
    (grades,) = _votes(Z_train, y_train, Z_test, [rules[rule]])
    chosen = points[point] | rules[rule]
    return MethodResult(grades, Z_train, Z_test, chosen, search_seconds, fit_seconds, watch.lap())


def _folds(y: FloatArray, groups: NDArray[Any] | None) -> Folds:
    """Return five folds or fewer: of whole groups, else stratified if there are few labels."""
    if groups is not None:
        n_folds = min(FOLDS, len(np.unique(groups)))
        return list(GroupKFold(n_folds, shuffle=True, random_state=SEED).split(y, y, groups))
    _, counts = np.unique(y, return_counts=True)
    if len(counts) > FEW_LABELS:
        return list(KFold(min(FOLDS, len(y)), shuffle=True, random_state=SEED).split(y))
    if counts.max() == 1:
        raise BaselineFailedError("every label has a single sample: cross-validation is not possible")
    # A label of fewer samples than folds is in some folds only: a rare label does not limit the search.
    return list(StratifiedKFold(min(FOLDS, int(counts.max())), shuffle=True, random_state=SEED).split(y, y))


def _scaled(X_train: FloatArray, X_test: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Centre on the training mean and scale the training features to unit mean square."""
    mean = X_train.mean(axis=0)
    scale = float(np.sqrt(np.mean((X_train - mean) ** 2))) or 1.0
    return (X_train - mean) / scale, (X_test - mean) / scale


def _votes(Z_train: FloatArray, y_train: FloatArray, Z: FloatArray, rules: Sequence[Params]) -> FloatArray:
    """Return k-NN grades of the rows of Z, one row per rule."""
    nearest, distances = k_nearest(Z_train, Z, max(rule["votes"] for rule in rules))
    labels = y_train[nearest]

    def grades(votes: int, aggregate: str, weights: str) -> FloatArray:
        nearest, near = labels[:, :votes], distances[:, :votes]
        if aggregate == "median":
            return median_vote(nearest, near, weights)
        return np.asarray(np.average(nearest, axis=1, weights=vote_weights(near, weights)))

    return np.array([grades(**rule) for rule in rules])
