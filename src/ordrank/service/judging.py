"""How well a collection grades: cross-validation over its graded pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import cohen_kappa_score
from sklearn.model_selection import KFold, StratifiedKFold

from ordrank import metrics
from ordrank._types import FloatArray, IntArray
from ordrank.collection.searching import nearest_label
from ordrank.collection.store import read_store
from ordrank.collection.training import fit_ranker, is_balanced, project
from ordrank.errors import InputError
from ordrank.service.learning import Watch


@dataclass(frozen=True)
class Evaluation:
    """Scores of graded pictures, each of which was held out of one fit.

    Attributes
    ----------
    pictures, folds : int
    mae, mae_std : float
        Mean absolute error of the grades; its standard deviation over the folds.
    mae_middle : float
        That of always answering with the middle grade.
    accuracy, kappa, tau : float
        Share of right grades, quadratic-weighted kappa and Kendall's τ; estimates count as the nearest grade in the
        first two.
    grades : tuple of str
    confusion : tuple of tuples of int
        Pictures by their grade (row) and the estimated one (column).
    mae_by_grade : tuple of float
    """

    pictures: int
    folds: int
    mae: float
    mae_std: float
    mae_middle: float
    accuracy: float
    kappa: float
    tau: float
    grades: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    mae_by_grade: tuple[float, ...]


def evaluate(
    collection: Path, *, folds: int = 5, balanced: bool | None = None, watch: Watch | None = None
) -> Evaluation:
    """Fit without a part of the graded pictures and grade that part, once for each part.

    Pictures without a grade join every fit as they join that of the collection; principal components are those of
    the whole collection, of whose grades they know nothing.

    Parameters
    ----------
    collection : Path
    folds : int
        Number of parts.
    balanced : bool, optional
        As for :func:`ordrank.service.fit`.
    watch : Watch, optional
    """
    watch = watch or Watch()
    with read_store(collection) as store:
        header, grades = store.header, store.grades()
        _check(grades, folds)
        _, X = project(store)
        balanced = is_balanced(store) if balanced is None else balanced
    graded = np.flatnonzero(~np.isnan(grades))
    true, estimated, errors, middle = grades[graded], np.empty(len(graded)), [], []
    for number, (rest, held) in enumerate(_parts(true, folds)):
        watch.tick(number, folds)
        taught = grades.copy()
        taught[graded[held]] = np.nan
        # Held-out pictures are not shown to the fit, not even without their grades.
        shown = np.setdiff1d(np.arange(len(X)), graded[held])
        estimated[held] = fit_ranker(X[shown], taught[shown], balanced=balanced).predict(X[graded[held]])
        errors.append(np.abs(estimated[held] - true[held]).mean())
        middle.append(np.abs(np.median(true[rest]) - true[held]).mean())
    watch.tick(folds, folds)
    labels = np.unique(true)
    return Evaluation(
        pictures=len(true),
        folds=folds,
        mae=metrics.mean_absolute_error(true, estimated),
        mae_std=float(np.std(errors, ddof=1)),
        mae_middle=float(np.mean(middle)),
        accuracy=metrics.accuracy(true, estimated, labels=labels),
        tau=metrics.kendall_tau(true, estimated),
        grades=tuple(header.show(label) for label in labels),
        **_by_grade(labels, true, estimated),
    )


def _check(grades: FloatArray, folds: int) -> None:
    graded = grades[~np.isnan(grades)]
    if folds < 2:
        raise InputError(f"{folds} folds: at least 2 are needed, to hold out one and learn from the others")
    if len(graded) < 2 * folds:
        raise InputError(f"{folds} folds need at least {2 * folds} graded pictures; there are {len(graded)}")


def _parts(grades: FloatArray, folds: int) -> list[tuple[IntArray, IntArray]]:
    """Folds with all grades in each where there are enough pictures of each."""
    labels, index, counts = np.unique(grades, return_inverse=True, return_counts=True)
    splitter: Any = StratifiedKFold if counts.min() >= folds else KFold
    parts = list(splitter(folds, shuffle=True, random_state=0).split(index, index))
    if any(len(np.unique(index[rest])) < 2 for rest, _ in parts):
        raise InputError(
            f"{len(labels)} grades are too few to hold out a part: one of the parts holds all but one grade"
        )
    return parts


def _by_grade(labels: FloatArray, true: FloatArray, estimated: FloatArray) -> dict[str, Any]:
    row, column = np.searchsorted(labels, true), nearest_label(labels, estimated)
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(confusion, (row, column), 1)
    errors = np.abs(estimated - true)
    return {
        "kappa": float(cohen_kappa_score(row, column, labels=np.arange(len(labels)), weights="quadratic")),
        "confusion": tuple(tuple(int(count) for count in line) for line in confusion),
        "mae_by_grade": tuple(float(errors[row == position].mean()) for position in range(len(labels))),
    }
