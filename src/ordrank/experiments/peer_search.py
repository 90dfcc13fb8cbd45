"""How peers choose: five folds of the training samples, mean absolute error on the label scale, ties to the first.

Where the people of the test part are others than those of the training part, folds are of whole people.

There are two kinds of peers:

* a *predictor* estimates grades directly;
* a *metric* learns a linear map, and the neighbours in its image vote. The number of votes and how they are
  counted are chosen together with the parameters of the map.

Features are centred and divided by one number before anything else, so that grids mean the same on pixels and on
landmarks; columns keep their proportions.
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

from ordrank._types import FloatArray, IntArray
from ordrank.errors import PeerFailedError
from ordrank.experiments.contender import Clock, Fit, Fitted, Params
from ordrank.neighbors import k_nearest
from ordrank.votes import vote_weights, weighted_median

Folds: TypeAlias = Sequence[tuple[IntArray, IntArray]]
Predict: TypeAlias = Callable[[FloatArray], FloatArray]
# Samples and grades of a training part, then one point of the grid. What is shared by the points is done once.
StartPredictor: TypeAlias = Callable[[FloatArray, FloatArray], Callable[[Params], Predict]]
# The same for the matrix of a map, shape (dimensions, features).
StartMap: TypeAlias = Callable[[FloatArray, FloatArray], Callable[[Params], FloatArray]]

FEW_LABELS = 10  # up to here grades are classes; beyond, a scale
FOLDS = 5
SEED = 0
SMALL = 200  # up to so many training samples costly peers search their whole grid in a few seconds
VOTERS = (1, 3, 5, 7, 9, 15)
BALLOTS: tuple[Params, ...] = tuple(
    {"votes": k, "count": count} for k in VOTERS for count in ("mean", "median") if k > 1 or count == "mean"
)


def grid(**values: Sequence[Any]) -> list[Params]:
    """All combinations; the last name changes fastest, so what the first names fix can be shared."""
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]


def describe(points: Sequence[Params]) -> str:
    """The values of a grid in words."""
    return "; ".join(f"{name} of {', '.join(f'{v:g}' for v in _values(points, name))}" for name in points[0])


def _values(points: Sequence[Params], name: str) -> list[Any]:
    return sorted({point[name] for point in points})


def search_predictor(start: StartPredictor, points: Sequence[Params], large: Sequence[Params] | None = None) -> Fit:
    """A fit that searches ``points``, or ``large`` with more than SMALL training samples, and estimates grades."""
    return partial(_search, partial(_fit_predictor, start), points, large)


def search_metric(start: StartMap, points: Sequence[Params], large: Sequence[Params] | None = None) -> Fit:
    """The same for a map, in whose image neighbours vote."""
    return partial(_search, partial(_fit_metric, start), points, large)


def _search(
    fit: Callable[[Sequence[Params], Folds, FloatArray, FloatArray, FloatArray], Fitted],
    points: Sequence[Params],
    large: Sequence[Params] | None,
    X_train: FloatArray,
    y_train: FloatArray,
    X_test: FloatArray,
    groups: NDArray[Any] | None = None,
) -> Fitted:
    X_train, X_test = _scaled(X_train, X_test)
    mine = large if large and len(X_train) > SMALL else points
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bounded iterations and single-member classes are part of a search
        return fit(mine, _folds(y_train, groups), X_train, y_train, X_test)


def _fit_predictor(
    start: StartPredictor,
    points: Sequence[Params],
    folds: Folds,
    X_train: FloatArray,
    y_train: FloatArray,
    X_test: FloatArray,
) -> Fitted:
    """Search the grid, fit the best point on all training samples and grade the test samples."""
    clock = Clock()
    errors = np.zeros(len(points))
    for rest, held in folds:
        fit = start(X_train[rest], y_train[rest])
        for i, params in enumerate(points):
            errors[i] += np.abs(fit(params)(X_train[held]) - y_train[held]).sum()
    chosen = points[int(errors.argmin())]
    search_seconds = clock.lap()
    predict = start(X_train, y_train)(chosen)
    fit_seconds = clock.lap()
    return Fitted(predict(X_test), None, None, chosen, search_seconds, fit_seconds, clock.lap())


def _fit_metric(
    start: StartMap,
    points: Sequence[Params],
    folds: Folds,
    X_train: FloatArray,
    y_train: FloatArray,
    X_test: FloatArray,
) -> Fitted:
    """Search maps and votes jointly, learn the best map from all training samples and let neighbours vote."""
    clock = Clock()
    errors = np.zeros((len(points), len(BALLOTS)))
    for rest, held in folds:
        learn = start(X_train[rest], y_train[rest])
        for i, params in enumerate(points):
            L = learn(params)
            votes = _votes(X_train[rest] @ L.T, y_train[rest], X_train[held] @ L.T, BALLOTS)
            errors[i] += np.abs(votes - y_train[held]).sum(axis=1)
    point, ballot = divmod(int(errors.argmin()), len(BALLOTS))
    search_seconds = clock.lap()
    L = start(X_train, y_train)(points[point])
    fit_seconds = clock.lap()
    Z_train, Z_test = X_train @ L.T, X_test @ L.T
    (grades,) = _votes(Z_train, y_train, Z_test, [BALLOTS[ballot]])
    chosen = points[point] | BALLOTS[ballot]
    return Fitted(grades, Z_train, Z_test, chosen, search_seconds, fit_seconds, clock.lap())


def _folds(y: FloatArray, groups: NDArray[Any] | None) -> Folds:
    """Five folds, of whole groups, or with all labels in equal parts where labels are few; fewer of few samples."""
    if groups is not None:
        n_folds = min(FOLDS, len(np.unique(groups)))
        return list(GroupKFold(n_folds, shuffle=True, random_state=SEED).split(y, y, groups))
    _, counts = np.unique(y, return_counts=True)
    if len(counts) > FEW_LABELS:
        return list(KFold(min(FOLDS, len(y)), shuffle=True, random_state=SEED).split(y))
    shared = counts[counts > 1]  # a single sample cannot be in training and held-out parts, whatever the folds
    if not len(shared):
        raise PeerFailedError("every label has a single sample: there is nothing to choose parameters with")
    return list(StratifiedKFold(min(FOLDS, int(shared.min())), shuffle=True, random_state=SEED).split(y, y))


def _scaled(X_train: FloatArray, X_test: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Centre on the training mean and divide by one number: mean square of the training features becomes 1."""
    mean = X_train.mean(axis=0)
    scale = float(np.sqrt(np.mean((X_train - mean) ** 2))) or 1.0
    return (X_train - mean) / scale, (X_test - mean) / scale


def _votes(Z_train: FloatArray, y_train: FloatArray, Z: FloatArray, ballots: Sequence[Params]) -> FloatArray:
    """Grades of the rows of Z, one row per ballot: neighbours' mean, or their median weighted by 1 / distance."""
    most = min(len(Z_train), max(ballot["votes"] for ballot in ballots))
    nearest, distances = k_nearest(Z_train, Z, most)
    labels = y_train[nearest]

    def count(votes: int, count: str) -> FloatArray:
        mine = labels[:, :votes]
        return mine.mean(axis=1) if count == "mean" else weighted_median(mine, vote_weights(distances[:, :votes]))

    return np.array([count(**ballot) for ballot in ballots])
