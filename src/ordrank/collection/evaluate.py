"""Scores of a collection: cross-validated over its graded pictures, or of its model on pictures from outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from ordrank import metrics
from ordrank._format import pluralize
from ordrank._protocols import FloatArray, IntArray, Progress, no_progress
from ordrank.collection.access import read_store
from ordrank.collection.ingest.folder_grades import read_folder_grades
from ordrank.collection.ingest.grades_csv import GradeTable
from ordrank.collection.ingest.image_folder import Listing, list_pictures
from ordrank.collection.ingest.importing import all_held_out, check_report, extractor_of
from ordrank.collection.ingest.labels import Labels, LabelsLike
from ordrank.collection.ingest.reading import ReadPicture, read_pictures
from ordrank.collection.reports import Evaluation, ImportReport, advice_for, is_poor, verdict
from ordrank.collection.search import NO_GIVEN, Estimates, Groups
from ordrank.collection.snapshot import Snapshot
from ordrank.collection.train import fit_ranker, project
from ordrank.collection.types import COVERAGE, BadPicture, Header
from ordrank.errors import CollectionError, InputError

_BLOCK = 1000  # pictures graded at a time
_MAY_FLATTER = (
    "; this flatters if pictures that were removed since the model was trained are among these: train it again first, "
    "with `ordrank fit --out {}`"
)


def evaluate_collection(directory: Path, *, folds: int, balanced: bool | None, progress: Progress) -> Evaluation:
    """Fit without one fold of the graded pictures and grade that fold, for each fold.

    Pictures without a grade are part of every fit, as they are of the collection's. Principal components are those of
    the whole collection; they do not depend on grades.
    """
    with read_store(directory) as store:
        header, grades, has_seen_groups = store.header, store.grades(), store.has_seen_groups()
        groups = Groups.from_names(np.arange(len(grades)), store.groups()).codes
        _check(grades, folds)
        _, X = project(store)
        balanced = store.is_balanced if balanced is None else balanced
    graded = np.flatnonzero(~np.isnan(grades))
    true, labels = grades[graded], np.unique(grades[graded])
    estimated, proba, errors, baseline = np.empty(len(graded)), np.zeros((len(graded), len(labels))), [], []
    intervals = np.empty((len(graded), 2))
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
        intervals[held_out] = ranker.predict_interval(queries, COVERAGE)
        errors.append(metrics.mean_absolute_error(true[held_out], estimated[held_out]))
        baseline.append(np.abs(np.median(true[train]) - true[held_out]).mean())
    progress("evaluating", folds, folds)
    predicted = _Predictions(true, estimated, proba, intervals, labels)
    spread, mae_median = float(np.std(errors, ddof=1)), float(np.mean(baseline))
    return _evaluation(
        header, predicted, true, mae_median, folds=folds, mae_std=spread, has_seen_groups=has_seen_groups
    )


def evaluate_pictures(
    directory: Path,
    snapshot: Snapshot,
    images: Path,
    labels: LabelsLike | None,
    *,
    file_column: str = "file",
    grade_column: str = "grade",
    strict: bool | None = None,
    n_jobs: int = -1,
    progress: Progress = no_progress,
) -> Evaluation:
    """Grade pictures from outside a collection with its model; see :meth:`Collection.evaluate_on`."""
    estimator, header, listing = snapshot.searcher.estimator, snapshot.header, list_pictures(images)
    given = snapshot.grades[~np.isnan(snapshot.grades)]
    if not len(given):  # implied ones vote
        raise CollectionError(NO_GIVEN)
    if labels is None:
        table = GradeTable(read_folder_grades(listing.names, header))
    else:
        source = Labels(labels, file_column, grade_column)
        table = source.read(listing.names, header, at_least_two=False, skip_missing=strict is False)
    pictures, bad = _read_graded(listing, table, directory, header, n_jobs, progress)
    report = ImportReport(len(pictures), bad=bad, ignored=listing.ignored, not_found=table.not_found)
    check_report(report, n_pictures=None, strict=strict)
    known = [picture.name for picture in pictures if picture.sha256 in snapshot.images.by_content]
    new = [picture for picture in pictures if picture.sha256 not in snapshot.images.by_content]
    if not new:
        raise InputError(_nothing_to_score(directory, images, len(known)))
    true = np.array([table.grades[picture.name] for picture in new])
    parts = [
        estimator.estimate(
            snapshot.trained_model.embed(np.stack([picture.features for picture in new[i : i + _BLOCK]]))
        )
        for i in range(0, len(new), _BLOCK)
    ]
    mae_median = float(np.abs(np.median(given) - true).mean())
    predicted = _with_labels_of(true, estimator.labels, parts)
    scores = _evaluation(header, predicted, given, mae_median, read=report, in_collection=tuple(known))
    with read_store(directory) as store:
        n_removed = store.count_removed()
    return replace(scores, verdict=scores.verdict + _MAY_FLATTER.format(directory)) if n_removed else scores


def _read_graded(
    listing: Listing, table: GradeTable, directory: Path, header: Header, n_jobs: int, progress: Progress
) -> tuple[list[ReadPicture], tuple[BadPicture, ...]]:
    """Return the graded pictures of a folder, and the files that cannot be used."""
    files = [(found.name, found.path.absolute()) for found in listing.files if found.name in table.grades]
    stage = f"reading {pluralize(len(files), 'picture')}"
    progress(stage, 0, 0)
    pictures, bad = [], list(listing.bad)
    found = read_pictures(files, extractor_of(directory, header), n_jobs=n_jobs)
    with read_store(directory) as store:
        for done, read in enumerate(all_held_out(store, found), start=1):
            if isinstance(read, BadPicture):
                bad.append(read)
            else:
                pictures.append(read)
            progress(stage, done, len(files))
    return pictures, tuple(bad)


def _nothing_to_score(directory: Path, images: Path, n_known: int) -> str:
    if n_known:
        return (
            f"all {n_known} graded pictures of {images} are in {directory}; give other ones, or leave --pictures out: "
            "`ordrank evaluate` holds out those of the collection"
        )
    return f"no picture of {images} has a grade; name a CSV file of grades with --labels"


@dataclass(frozen=True)
class _Predictions:
    """Given grades (n,) and what was estimated without them."""

    true: FloatArray
    estimated: FloatArray
    proba: FloatArray  # (n, m)
    intervals: FloatArray  # (n, 2)
    labels: FloatArray  # (m,)


def _with_labels_of(true: FloatArray, known: FloatArray, parts: Sequence[Estimates]) -> _Predictions:
    """Return estimates of grades of which some may be none that the collection knows; their probability is 0."""
    labels = np.union1d(known, true)
    values, intervals = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "intervals"))
    proba = np.zeros((len(true), len(labels)))
    proba[:, np.searchsorted(labels, known)] = np.concatenate([part.proba for part in parts])
    return _Predictions(true, values, proba, intervals, labels)


def _evaluation(
    header: Header,
    predicted: _Predictions,
    given: FloatArray,
    mae_median: float,
    *,
    folds: int = 0,
    mae_std: float | None = None,
    read: ImportReport | None = None,
    in_collection: tuple[str, ...] = (),
    has_seen_groups: bool = False,
) -> Evaluation:
    """Return all scores; ``given`` are the grades that the collection has."""
    true, estimated, labels = predicted.true, predicted.estimated, predicted.labels
    mae, by_grade = metrics.mean_absolute_error(true, estimated), metrics.mean_absolute_error_per_grade(true, estimated)
    lowest, highest = predicted.intervals.T
    counts = Counter(map(header.format_grade, given.tolist()))
    return Evaluation(
        pictures=len(true),
        folds=folds,
        mae=mae,
        mae_std=mae_std,
        mae_median=mae_median,
        accuracy=metrics.accuracy(true, estimated, labels=labels),
        kappa=metrics.quadratic_weighted_kappa(true, estimated, labels=labels),
        tau=metrics.kendall_tau(true, estimated),
        coverage=float(((lowest <= true) & (true <= highest)).mean()),
        rps=metrics.ranked_probability_score(true, predicted.proba, labels),
        grades=tuple(header.format_grade(label) for label in labels),
        confusion=tuple(map(tuple, metrics.confusion_matrix(true, estimated, labels=labels).tolist())),
        mae_by_grade=tuple(by_grade.get(label) for label in labels.tolist()),
        verdict=verdict(mae, mae_median, has_seen_groups=has_seen_groups),
        advice=advice_for(dict(counts), header.extractor) if is_poor(mae, mae_median) else None,
        read=read,
        in_collection=in_collection,
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
