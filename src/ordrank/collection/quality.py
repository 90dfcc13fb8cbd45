"""How good the estimates of a collection are: errors, confusions, calibration, and how they developed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray, no_progress
from ordrank.collection.access import read_store
from ordrank.collection.doctor import estimate_held_out
from ordrank.collection.judgements import Grading
from ordrank.collection.reports import verdict
from ordrank.collection.snapshot import Snapshot
from ordrank.metrics import nearest_label

_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_MAX_CALIBRATION = 2000  # graded pictures whose distributions are computed again
_MAX_CONFUSED_GRADES = 30  # with more, as for ages, there is no table of confusions
_WINDOW = 25  # grades over which the running error is averaged
_MAX_RUNNING = 500  # points of the running error, evenly spaced


@dataclass(frozen=True)
class GradeQuality:
    """Graded pictures of one grade: mean absolute error and mean error of their estimates, share in the interval."""

    grade: str
    pictures: int
    error: float
    bias: float
    coverage: float


@dataclass(frozen=True)
class Confusion:
    """How many pictures of a given grade are estimated as another, or the same."""

    grade: str
    estimate: str
    pictures: int


@dataclass(frozen=True)
class CoverageLevel:
    """Share of the grades that lie in intervals meant for a share."""

    intended: float
    share: float


@dataclass(frozen=True)
class PastTraining:
    """When a collection was trained, with how many pictures and grades, and the leave-one-out error."""

    time: str
    pictures: int
    graded: int
    error: float | None
    features: str


@dataclass(frozen=True)
class RunningError:
    """Mean error of the estimates of pictures just before they were graded, up to the n-th grade."""

    grades: int
    error: float


@dataclass(frozen=True)
class QualityReport:
    """How good the estimates of a collection are, measured on its graded pictures without their own grades.

    Grades that comparisons imply derive from given ones: with them, all but ``trainings`` and ``running_errors``
    is optimistic.

    Attributes
    ----------
    pictures, graded : int
    features : str
    error, error_median : float or None
        Mean absolute error of the estimates, and that of always the median grade.
    verdict : str or None
        The error in words.
    coverage : float or None
        Share of the grades in their 90 % intervals.
    grades : tuple of GradeQuality
    confusions : tuple of Confusion, or None
        Pairs of grades that occur; None if there are too many grades for a table.
    calibration : tuple of CoverageLevel
    trainings : tuple of PastTraining
        Oldest first.
    running_errors : tuple of RunningError
        Along the grades that people gave, which the estimates could not know; at most 500, evenly spaced.
    """

    pictures: int
    graded: int
    features: str
    error: float | None
    error_median: float | None
    verdict: str | None
    coverage: float | None
    grades: tuple[GradeQuality, ...]
    confusions: tuple[Confusion, ...] | None
    calibration: tuple[CoverageLevel, ...]
    trainings: tuple[PastTraining, ...]
    running_errors: tuple[RunningError, ...]


def assess(directory: Path, snapshot: Snapshot) -> QualityReport:
    """Return the quality of the estimates of all graded pictures, which do not know their grades."""
    with read_store(directory) as store:
        trainings, gradings, has_seen_groups = store.trainings(), store.gradings(), store.has_seen_groups()
    known = np.flatnonzero(~np.isnan(snapshot.grades) & ~np.isnan(snapshot.estimates))
    grades, estimates = snapshot.grades[known], snapshot.estimates[known]
    given = snapshot.grades[~np.isnan(snapshot.grades)]
    error = float(np.abs(estimates - grades).mean()) if len(known) else None
    error_median = float(np.abs(np.median(given) - given).mean()) if len(given) else None
    words = (
        verdict(error, error_median, has_seen_groups=has_seen_groups) if error is not None and error_median else None
    )
    inside = _is_inside(grades, snapshot.intervals[known])
    return QualityReport(
        pictures=len(snapshot.images.ids),
        graded=len(given),
        features=snapshot.header.extractor,
        error=error,
        error_median=error_median,
        verdict=words,
        coverage=float(inside.mean()) if len(inside) else None,
        grades=_by_grade(snapshot, grades, estimates, inside),
        confusions=_confusions(snapshot, grades, estimates),
        calibration=_calibration(snapshot, known),
        trainings=tuple(PastTraining(*training[1:]) for training in trainings),
        running_errors=_running_errors(gradings),
    )


def _is_inside(grades: FloatArray, intervals: FloatArray) -> NDArray[np.bool_]:
    return np.asarray((intervals[:, 0] <= grades) & (grades <= intervals[:, 1]))


def _by_grade(
    snapshot: Snapshot, grades: FloatArray, estimates: FloatArray, inside: NDArray[np.bool_]
) -> tuple[GradeQuality, ...]:
    found = []
    for grade in np.unique(grades):
        rows = grades == grade
        differences = estimates[rows] - grade
        measured = (float(np.abs(differences).mean()), float(differences.mean()), float(inside[rows].mean()))
        found.append(GradeQuality(snapshot.header.format_grade(float(grade)), int(rows.sum()), *measured))
    return tuple(found)


def _confusions(snapshot: Snapshot, grades: FloatArray, estimates: FloatArray) -> tuple[Confusion, ...] | None:
    scale = snapshot.scale
    if not len(grades) or len(scale) > _MAX_CONFUSED_GRADES:
        return None
    pairs = np.column_stack([nearest_label(scale, grades), nearest_label(scale, estimates)])
    distinct, counts = np.unique(pairs, axis=0, return_counts=True)
    names = [snapshot.header.format_grade(float(value)) for value in scale]
    return tuple(
        Confusion(names[given], names[estimated], int(count))
        for (given, estimated), count in zip(distinct.tolist(), counts, strict=True)
    )


def _calibration(snapshot: Snapshot, known: IntArray) -> tuple[CoverageLevel, ...]:
    """Return how many grades lie in intervals of several levels, of a fixed random sample of graded pictures."""
    space = snapshot.space
    if space is None or len(known) < 2:
        return ()
    rows = np.flatnonzero(np.isin(space.rows, known))
    rows = np.sort(np.random.default_rng(0).permutation(rows)[:_MAX_CALIBRATION])
    proba = estimate_held_out(snapshot, space, rows, no_progress).proba
    grades, estimator = snapshot.grades[space.rows[rows]], snapshot.searcher.estimator
    shares = (_is_inside(grades, estimator.interval(proba, level)).mean() for level in _LEVELS)
    return tuple(CoverageLevel(level, float(share)) for level, share in zip(_LEVELS, shares, strict=True))


def _running_errors(gradings: list[Grading]) -> tuple[RunningError, ...]:
    """Return the mean error of the last estimates before their grades were given, along the grades of all people."""
    errors = np.array([abs(one.grade - one.estimate) for one in gradings if one.estimate is not None])
    if not len(errors):
        return ()
    ends = np.linspace(1, len(errors), min(len(errors), _MAX_RUNNING)).round().astype(np.int64)
    sums = np.concatenate([[0.0], np.cumsum(errors)])
    starts = np.maximum(0, ends - _WINDOW)
    means = (sums[ends] - sums[starts]) / (ends - starts)
    return tuple(RunningError(int(n), float(mean)) for n, mean in zip(ends, means, strict=True))
