"""What may be wrong with a collection: improbable grades, near copies, pictures unlike the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ordrank._format import pluralize
from ordrank._protocols import FloatArray, IntArray, Progress
from ordrank.collection.access import read_store
from ordrank.collection.live import LiveSnapshot
from ordrank.collection.reports import (
    FEW_PICTURES,
    DoctorReport,
    NearCopy,
    NovelPicture,
    PictureGrade,
    SuspectGrade,
    advice_for,
    is_poor,
    verdict,
)
from ordrank.collection.search import NO_GIVEN, Estimates, split_held_out
from ordrank.collection.snapshot import EmbeddingSpace, Snapshot
from ordrank.errors import CollectionError
from ordrank.metrics import median_of_proba

_ROWS_PER_BLOCK = 1000
# A grade is suspect if another one is so many times as probable.
_SUSPECT_RATIO = 10.0
_MIN_PROBABILITY = 1e-3
_NEIGHBORS_SHOWN = 3
# Candidates for the nearest picture in appearance, taken by the learned distance.
_CANDIDATES = 10
# Distances to the nearest picture, in units of the median one, of near copies and of pictures unlike the others.
_COPY_DISTANCE, _NOVEL_DISTANCE = 0.2, 3.0
_MAX_LISTED = 100
_MAX_SUSPECTS = 1000  # of which those that were confirmed are left out


class Doctor:
    """Examines a collection, once after each change; safe to use from several threads.

    Parameters
    ----------
    directory : Path
    live : LiveSnapshot
    """

    def __init__(self, directory: Path, live: LiveSnapshot) -> None:
        self._directory, self._live, self._examining = directory, live, Lock()
        # Of the last snapshot only: the keys are weak.
        self._reports: WeakKeyDictionary[Snapshot, DoctorReport] = WeakKeyDictionary()
        # Of the last training: nearest pictures and their distances, which do not depend on grades.
        self._nearest: WeakKeyDictionary[EmbeddingSpace, tuple[IntArray, FloatArray]] = WeakKeyDictionary()

    def report(self, progress: Progress) -> DoctorReport:
        """Return the report on the current snapshot. A progress that raises an exception ends the examination."""
        with self._examining:
            snapshot = self._live.current()
            if snapshot not in self._reports:
                self._reports[snapshot] = self._report_on(snapshot, progress)
            report = self._reports[snapshot]
        with read_store(self._directory) as store:
            confirmed = store.confirmed_pictures()
        suspects = tuple(suspect for suspect in report.suspects if suspect.id not in confirmed)[:_MAX_LISTED]
        return replace(report, suspects=suspects, advice=_advice(snapshot, suspects, report))

    def _report_on(self, snapshot: Snapshot, progress: Progress) -> DoctorReport:
        space = snapshot.space
        if space is None:
            raise CollectionError(
                "the collection has no model yet; grade pictures, then train it with `ordrank fit --out COLLECTION`"
            )
        if space not in self._nearest:
            self._nearest[space] = _nearest_in_appearance(space, progress)
        return _examine(self._directory, snapshot, space, *self._nearest[space], progress)


def _examine(
    directory: Path,
    snapshot: Snapshot,
    space: EmbeddingSpace,
    nearest: IntArray,
    distances: FloatArray,
    progress: Progress,
) -> DoctorReport:
    """Examine all embedded pictures; the report lists confirmed grades too, and has no advice.

    ``nearest`` and ``distances`` (m,) are those of :func:`_nearest_in_appearance`.
    """
    with read_store(directory) as store:
        noted, has_seen_groups = store.error, store.has_seen_groups()
    grades = snapshot.grades[space.rows]
    graded = np.flatnonzero(~np.isnan(grades))
    if not len(graded):  # implied ones may vote
        raise CollectionError(NO_GIVEN)
    progress(f"examining {pluralize(len(space.rows), 'picture')}", 0, 0)
    estimates = estimate_held_out(snapshot, space, graded, progress)
    given = grades[graded]
    error_median = float(np.abs(np.median(given) - given).mean())
    error = float(np.abs(estimates.values - given).mean()) if noted is None else noted
    return DoctorReport(
        pictures=len(space.rows),
        graded=len(graded),
        suspects=_suspects(snapshot, space, graded, estimates),
        near_copies=_near_copies(snapshot, space, nearest, distances),
        novel=_novel(snapshot, space, distances),
        error=error,
        error_median=error_median,
        verdict=verdict(error, error_median, has_seen_groups=has_seen_groups),
        advice=(),
    )


def suspicion(proba: FloatArray, index: IntArray) -> FloatArray:
    """Return how suspect given labels (n,) are under held-out probabilities (n, m); 0 for the likeliest label.

    The log of the ratio of the largest probability to that of the given label, plus their difference: the one ranks
    what is nearly impossible, the other what another grade clearly wins.
    """
    own, largest = proba[np.arange(len(proba)), index], proba.max(axis=1)
    return np.asarray(np.log((largest + _MIN_PROBABILITY) / (own + _MIN_PROBABILITY)) + largest - own)


def estimate_held_out(snapshot: Snapshot, space: EmbeddingSpace, graded: IntArray, progress: Progress) -> Estimates:
    """Return the estimates of graded pictures, numbers of rows of the space, without their own grades."""
    model, estimator = snapshot.trained_model, snapshot.searcher.estimator
    width = space.held_out.shape[1] or model.n_order
    held_out = np.full((len(snapshot.images.ids), width), np.nan, dtype=np.float32)
    if len(space.held_out):
        held_out[space.held_out_rows] = space.held_out
    parts = []
    for start in range(0, len(graded), _ROWS_PER_BLOCK):
        progress("checking grades", start, len(graded))
        rows = graded[start : start + _ROWS_PER_BLOCK]
        vectors, by_threshold = split_held_out(space.vectors[rows], held_out[space.rows[rows]], model.n_order)
        parts.append(estimator.estimate(vectors, snapshot.images.ids[space.rows[rows]], by_threshold))
    progress("checking grades", len(graded), len(graded))
    columns = (np.concatenate([getattr(part, name) for part in parts]) for name in Estimates.__dataclass_fields__)
    return Estimates(*columns)


def _suspects(
    snapshot: Snapshot, space: EmbeddingSpace, graded: IntArray, estimates: Estimates
) -> tuple[SuspectGrade, ...]:
    labels, rows, shown = snapshot.searcher.estimator.labels, space.rows[graded], snapshot.header.format_grade
    index = np.searchsorted(labels, snapshot.grades[rows])
    own, largest = estimates.proba[np.arange(len(rows)), index], estimates.proba.max(axis=1)
    scores = suspicion(estimates.proba, index)
    is_suspect = (largest >= _SUSPECT_RATIO * own) & (median_of_proba(estimates.proba) != index)
    found = np.flatnonzero(is_suspect)
    found = found[np.argsort(-scores[found], kind="stable")][:_MAX_SUSPECTS]
    return tuple(
        SuspectGrade(
            id=int(snapshot.images.ids[rows[i]]),
            name=snapshot.images.names[rows[i]],
            grade=shown(float(snapshot.grades[rows[i]])),
            estimate=shown(float(estimates.values[i])),
            lowest=shown(float(estimates.intervals[i, 0])),
            highest=shown(float(estimates.intervals[i, 1])),
            probability=float(own[i]),
            score=float(scores[i]),
            neighbors=tuple(
                _picture_grade(snapshot, row)
                for row in map(snapshot.row_of, estimates.nearest[i, :_NEIGHBORS_SHOWN].tolist())
            ),
        )
        for i in found.tolist()
    )


def _nearest_in_appearance(space: EmbeddingSpace, progress: Progress) -> tuple[IntArray, FloatArray]:
    """Return the nearest other picture (m,) of each row in appearance, among the nearest in all, and its distance."""
    n, s = len(space.vectors), space.n_order if space.vectors.shape[1] > space.n_order else 0
    nearest, distances = np.zeros(n, dtype=np.int64), np.full(n, np.nan)
    k = min(_CANDIDATES + 1, n)
    for start in range(0, n if n > 1 else 0, _ROWS_PER_BLOCK):
        progress("comparing pictures", start, n)
        rows = np.arange(start, min(start + _ROWS_PER_BLOCK, n))
        found, _ = space.index.nearest(space.vectors[rows], k)
        apart = _norms(space.vectors[found][:, :, s:], space.vectors[rows, None, s:])
        apart[found == rows[:, None]] = np.inf
        best = apart.argmin(axis=1)
        nearest[rows], distances[rows] = found[np.arange(len(rows)), best], apart.min(axis=1)
    progress("comparing pictures", n, n)
    return nearest, distances


def _norms(a: NDArray[np.floating], b: NDArray[np.floating]) -> FloatArray:
    return np.asarray(np.linalg.norm(np.subtract(a, b, dtype=np.float64), axis=2))


def _near_copies(
    snapshot: Snapshot, space: EmbeddingSpace, nearest: IntArray, distances: FloatArray
) -> tuple[NearCopy, ...]:
    usual = float(np.nanmedian(distances)) if len(distances) > 1 else 0.0
    close = np.flatnonzero(distances <= _COPY_DISTANCE * usual)
    pairs = sorted({(float(distances[i]), *sorted((int(i), int(nearest[i])))) for i in close})

    def describe(distance: float, i: int, j: int) -> NearCopy:
        first, second = (_picture_grade(snapshot, int(space.rows[row])) for row in (i, j))
        relative = distance / usual if usual > 0 else 0.0
        one, other = snapshot.groups.of(np.array([first.id, second.id])).tolist()
        leaks = snapshot.groups.codes is not None and one != other
        return NearCopy(first, second, relative, leaks)

    found = [describe(distance, int(i), int(j)) for distance, i, j in pairs]
    return tuple(sorted(found, key=lambda copy: not copy.has_different_grades)[:_MAX_LISTED])


def _novel(snapshot: Snapshot, space: EmbeddingSpace, distances: FloatArray) -> tuple[NovelPicture, ...]:
    usual = float(np.nanmedian(distances)) if len(distances) > 1 else 0.0
    far = np.flatnonzero(distances > _NOVEL_DISTANCE * usual) if usual > 0 else np.empty(0, dtype=np.int64)
    far = far[np.argsort(-distances[far], kind="stable")][:_MAX_LISTED]
    pictures = ((snapshot.picture(int(space.rows[i])), float(distances[i]) / usual) for i in far)
    return tuple(NovelPicture(found.id, found.name, found.grade, relative) for found, relative in pictures)


def _picture_grade(snapshot: Snapshot, row: int) -> PictureGrade:
    found = snapshot.picture(row)
    return PictureGrade(found.id, found.name, found.grade)


def _advice(snapshot: Snapshot, suspects: tuple[SuspectGrade, ...], report: DoctorReport) -> tuple[str, ...]:
    """Return what would help, most important first."""
    given, copies = snapshot.grades[~np.isnan(snapshot.grades)], report.near_copies
    counts = Counter(map(snapshot.header.format_grade, np.sort(given).tolist()))
    found = []
    if is_poor(report.error, report.error_median):
        found.append(advice_for(dict(counts), snapshot.header.extractor))
    if suspects:
        found.append(f"look at {pluralize(len(suspects), 'grade')} that may be wrong, and correct them on the page")
    rare = [f"{grade} ({count})" for grade, count in counts.items() if count < FEW_PICTURES]
    if rare and len(rare) < len(counts):
        found.append(f"grade more pictures of the rare grades: {', '.join(rare[:5])}")
    leaks = sum(copy.leaks for copy in copies)
    if leaks:
        found.append(f"check the groups of {pluralize(leaks, 'pair')} of near copies that are in different groups")
    if len(copies) > 0.05 * len(given) and snapshot.groups.codes is None:
        found.append(
            f"{pluralize(len(copies), 'pair')} of near copies make held-out errors look smaller than those of new "
            "pictures: name what each picture shows in a column of the CSV file, and train with --groups"
        )
    if not np.isnan(snapshot.grades).any() or len(found):
        return tuple(found)
    uncertain = int(np.count_nonzero(np.isnan(snapshot.grades) & (np.diff(snapshot.intervals, axis=1)[:, 0] > 0)))
    if uncertain:
        found.append(f"grade some of the {pluralize(uncertain, 'picture')} whose estimates are uncertain")
    return tuple(found)
