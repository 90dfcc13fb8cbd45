"""Cross-validation over the graded pictures of a collection."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from ordrank import metrics
from ordrank._protocols import FloatArray, IntArray
from ordrank.collection.reports import Evaluation, advice_for, is_poor, verdict
from ordrank.collection.search import Groups
from ordrank.collection.store import read_store
from ordrank.collection.train import fit_ranker, project
from ordrank.collection.types import COVERAGE, Progress
from ordrank.errors import InputError


def evaluate_collection(directory: Path, *, folds: int, balanced: bool | None, progress: Progress) -> Evaluation:
    """Fit without one fold of the graded pictures and grade that fold, for each fold.

    Pictures without a grade are part of every fit, as they are of the collection's. Principal components are those of
    the whole collection; they do not depend on grades.
    """
    with read_store(directory) as store:
        header, grades = store.header, store.grades()
        groups = Groups.from_names(np.arange(len(grades)), store.groups()).codes
        _check(grades, folds)
        _, X = project(store)
        balanced = store.is_balanced if balanced is None else balanced
    graded = np.flatnonzero(~np.isnan(grades))
    true, labels = grades[graded], np.unique(grades[graded])
    estimated, proba, errors, baseline = np.empty(len(graded)), np.zeros((len(graded), len(labels))), [], []
    covered = np.empty(len(graded), dtype=np.bool_)
    progress(f"evaluating {folds} folds", 0, 0)
    for fold, (train, held_out) in enumerate(_split(true, folds, None if groups is None else groups[graded])):
        progress("evaluating", fold, folds)
        # Held-out pictures are not used as unlabelled ones either.
        shown = np.setdiff1d(np.arange(len(X)), graded[held_out])
        together = None if groups is None else groups[shown]
        ranker = fit_ranker(X[shown], grades[shown], together, balanced=balanced)
        queries = X[graded[held_out]]
        estimated[held_out] = ranker.predict(queries)
        proba[np.ix_(held_out, np.searchsorted(labels, ranker.classes_))] = ranker.predict_proba(queries)
        lowest, highest = ranker.predict_interval(queries, COVERAGE).T
        covered[held_out] = (lowest <= true[held_out]) & (true[held_out] <= highest)
        errors.append(metrics.mean_absolute_error(true[held_out], estimated[held_out]))
        baseline.append(np.abs(np.median(true[train]) - true[held_out]).mean())
    progress("evaluating", folds, folds)
    mae, mae_median = metrics.mean_absolute_error(true, estimated), float(np.mean(baseline))
    counts = Counter(map(header.format_grade, true.tolist()))
    confusion = metrics.confusion_matrix(true, estimated, labels=labels)
    return Evaluation(
        pictures=len(true),
        folds=folds,
        mae=mae,
        mae_std=float(np.std(errors, ddof=1)),
        mae_median=mae_median,
        accuracy=metrics.accuracy(true, estimated, labels=labels),
        kappa=metrics.quadratic_weighted_kappa(true, estimated, labels=labels),
        tau=metrics.kendall_tau(true, estimated),
        coverage=float(covered.mean()),
        rps=metrics.ranked_probability_score(true, proba, labels),
        grades=tuple(header.format_grade(label) for label in labels),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        mae_by_grade=tuple(metrics.mean_absolute_error_per_grade(true, estimated).values()),
        verdict=verdict(mae, mae_median),
        advice=advice_for(dict(counts), header.extractor) if is_poor(mae, mae_median) else None,
    )


def _check(grades: FloatArray, folds: int) -> None:
    n_graded = int(np.count_nonzero(~np.isnan(grades)))
    if folds < 2:
        raise InputError(f"{folds} folds: at least 2 are needed, to hold out one and learn from the others")
    if n_graded < 2 * folds:
        raise InputError(f"{folds} folds need at least {2 * folds} graded pictures; there are {n_graded}")


def _split(grades: FloatArray, folds: int, groups: IntArray | None) -> list[tuple[IntArray, IntArray]]:
    """Return training and test indices: of whole groups, or stratified where every grade has enough pictures."""
    labels, index, counts = np.unique(grades, return_inverse=True, return_counts=True)
    splitter: Any = StratifiedKFold if counts.min() >= folds else KFold
    if groups is not None:
        splitter = GroupKFold
        if len(np.unique(groups)) < folds:
            raise InputError(f"{folds} folds need at least {folds} groups; there are {len(np.unique(groups))}")
    splits = list(splitter(folds, shuffle=True, random_state=0).split(index, index, groups))
    if any(len(np.unique(index[train])) < 2 for train, _ in splits):
        raise InputError(f"{len(labels)} grades are too few to hold out a fold: one fold holds all but one grade")
    return splits
