"""Which pictures to grade next, and why in words; see :mod:`ordrank.labeling.active`."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ordrank._format import pluralize
from ordrank._protocols import FloatArray, IntArray
from ordrank.collection.access import read_store
from ordrank.collection.annotations import Reason, Suggestion
from ordrank.collection.judgements import UNNAMED
from ordrank.collection.live import LiveSnapshot
from ordrank.collection.snapshot import EmbeddingSpace, Snapshot
from ordrank.errors import InputError
from ordrank.labeling.active import MAX_CANDIDATES, Choice, choose_samples, expected_error, random_subset

_MAX_SUGGESTIONS = 1000
_BATCH = 20  # chosen at once: what a picture stands for depends on the others
_MAX_SHARES = 5  # of graders who work at the same time
# Values of features that are read before there are embeddings: of long features, fewer pictures are considered.
_MAX_VALUES, _MIN_CANDIDATES = 4_000_000, 200


class Suggester:
    """Suggests pictures to grade, chosen once after each change; safe to use from several threads.

    Parameters
    ----------
    directory : Path
    live : LiveSnapshot
    """

    def __init__(self, directory: Path, live: LiveSnapshot) -> None:
        self._directory, self._live, self._choosing = directory, live, Lock()
        # Of the last snapshot and the last training only: the keys are weak.
        self._chosen: WeakKeyDictionary[Snapshot, dict[int, list[Suggestion]]] = WeakKeyDictionary()
        self._errors: WeakKeyDictionary[EmbeddingSpace, FloatArray] = WeakKeyDictionary()

    def suggest(self, k: int, grader: str) -> list[Suggestion]:
        """Return at most k pictures without a grade, most useful first; see :meth:`Labeling.suggest`."""
        if not 0 <= k <= _MAX_SUGGESTIONS:
            raise InputError(f"{k} pictures cannot be suggested; ask for 0 to {_MAX_SUGGESTIONS}")
        number, count = self._share(grader)
        size = -(-k * count // _BATCH) * _BATCH
        with self._choosing:
            snapshot = self._live.current()
            chosen = self._chosen.setdefault(snapshot, {})
            if size not in chosen:
                chosen[size] = self._suggestions(snapshot, size)
            suggestions = chosen[size]
        own = suggestions[number::count]
        if len(own) < k:  # few are left
            own += [other for i, other in enumerate(suggestions) if i % count != number]
        return own[:k]

    def _share(self, grader: str) -> tuple[int, int]:
        """Return the share of a grader and the number of shares: graders at the same time get different pictures."""
        if grader == UNNAMED:
            return 0, 1
        with read_store(self._directory) as store:
            names = sorted({grader, *(grading.grader for grading in store.gradings())} - {UNNAMED})
        count = min(len(names), _MAX_SHARES)
        return names.index(grader) % count, count

    def _suggestions(self, snapshot: Snapshot, k: int) -> list[Suggestion]:
        """Choose by embeddings and expected errors, or by features if there is no model."""
        space = snapshot.space
        if space is None:
            rows, X, labeled, error = self._features(snapshot)
        else:
            is_graded = ~np.isnan(snapshot.grades[space.rows])
            is_known = is_graded | ~np.isnan(snapshot.implied[space.rows])
            candidates = random_subset(np.flatnonzero(~is_graded))
            rows, X, labeled = space.rows[candidates], space.vectors[candidates], space.vectors[is_known]
            error = self._expected_errors(snapshot, space, candidates) if is_graded.any() else None
        choices = choose_samples(X, k, labeled=labeled, error=error)
        scale = float(np.count_nonzero(np.isnan(snapshot.grades))) / max(1, len(rows))
        return [_suggestion(snapshot, int(rows[choice.index]), choice, scale) for choice in choices]

    def _features(self, snapshot: Snapshot) -> tuple[IntArray, NDArray[np.float32], NDArray[np.float32], None]:
        """Return the rows of candidates, their features, and those of graded pictures."""
        limit = int(np.clip(_MAX_VALUES // snapshot.header.dim, _MIN_CANDIDATES, MAX_CANDIDATES))
        rows = random_subset(np.flatnonzero(np.isnan(snapshot.grades)), limit)
        graded = random_subset(np.flatnonzero(~np.isnan(snapshot.grades)), limit)
        if not len(rows):
            return rows, np.empty((0, 0), dtype=np.float32), np.empty((0, 0), dtype=np.float32), None
        ids = snapshot.images.ids[np.concatenate([rows, graded])].tolist()
        with self._live.reading(*ids) as store:
            features = store.features_of(ids)
        return rows, features[: len(rows)], features[len(rows) :], None

    def _expected_errors(self, snapshot: Snapshot, space: EmbeddingSpace, rows: IntArray) -> FloatArray:
        """Return the expected errors of pictures, by rows of the space, as after the last training.

        What grades that were given since tell about their surroundings is left to :func:`choose_samples`.
        """
        if space not in self._errors:
            self._errors[space] = np.full(len(space.rows), np.nan)
        errors = self._errors[space]
        missing = rows[np.isnan(errors[rows])]
        if len(missing):
            estimator = snapshot.searcher.estimator
            found = estimator.estimate(space.vectors[missing], snapshot.images.ids[space.rows[missing]])
            errors[missing] = expected_error(found.proba, estimator.labels)
        return errors[rows]


def _suggestion(snapshot: Snapshot, row: int, choice: Choice, scale: float) -> Suggestion:
    """Return a choice with its reason in words; ``scale`` ungraded pictures stand behind each that was considered."""
    picture, reasons = snapshot.picture(row), []
    reason: Reason = choice.reason
    if reason == "uncertain" and picture.lowest == picture.highest:
        reason = "representative"  # less certain than most, but of one grade with the coverage that is shown
    if reason == "novel":
        reasons.append("unlike all graded pictures")
    elif reason == "uncertain":
        reasons.append(f"its grade may be {picture.lowest} to {picture.highest}")
    count, about = choice.represents, ""
    if scale > 1:  # counted among some
        count, about = int(float(f"{scale * count:.2g}")), "about "
    if count:
        reasons.append(f"stands for {about}{pluralize(count, 'similar picture')} without a grade")
    elif reason == "representative":
        reasons.append("adds variety to the graded pictures")
    return Suggestion(picture, reason, "; ".join(reasons))
