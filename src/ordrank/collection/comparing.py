"""Comparisons of the pictures of a collection: the positions they imply, and the pair to compare next.

The positions of some pictures (the *pool*: the compared ones and a random sample of others) have a normal prior, see
:func:`graded_model`: they depend on the estimates of the model, once there is one, and pictures with similar features
have similar positions. Comparisons and given grades are the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import erf, sqrt
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np

from ordrank._format import format_percent
from ordrank._protocols import FloatArray, IntArray
from ordrank.collection.access import read_store
from ordrank.collection.annotations import ComparedPicture, SuggestedPair
from ordrank.collection.judgements import StoredComparison
from ordrank.collection.live import LiveSnapshot
from ordrank.collection.snapshot import Snapshot
from ordrank.collection.store import Store
from ordrank.labeling.comparisons import Comparisons, Grades, Positions
from ordrank.labeling.pair_choice import choose_pair
from ordrank.labeling.position_model import (
    Hyperparameters,
    PositionModel,
    given_grades,
    graded_model,
    implied_grades,
    unscaled_model,
)
from ordrank.metrics import nearest_label

# Time of a fit is cubic in the pool: new pictures are asked about when the others have five comparisons each.
_MIN_POOL, _MAX_POOL = 300, 2000
_COMPARISONS_PER_PICTURE = 5
# Until a fit with all comparisons each new answer is one Newton step, which takes milliseconds.
_REFIT_GROWTH, _SELECTION_GROWTH = 1.2, 1.5
_FIRST_ANSWERS = 10


class Answer(NamedTuple):
    """A comparison without its grader: ids of two pictures, and the outcome."""

    first: int
    second: int
    outcome: int


@dataclass(frozen=True, eq=False)
class FittedPositions:
    """Positions of the pictures with ``ids`` (n,), of which ``answers`` and ``grades`` (n,) are known."""

    ids: IntArray
    grades: FloatArray
    labels: FloatArray
    answers: tuple[Answer, ...]
    positions: Positions

    def rows(self, pictures: Sequence[int] | IntArray) -> IntArray:
        """Return the rows of pictures, which must be among them."""
        order = np.argsort(self.ids)
        return np.asarray(order[np.searchsorted(self.ids, pictures, sorter=order)])

    @cached_property
    def implied(self) -> FloatArray:
        """The grades (n,) that the positions of ungraded pictures imply; NaN for others."""
        if len(self.labels) < 2:
            return np.full(len(self.ids), np.nan)
        return implied_grades(self.positions, self.grades, self.labels)


@dataclass(frozen=True, eq=False)
class _Session:
    """Positions for the next answers, with what is needed to fit them again."""

    fitted: FittedPositions
    hyperparameters: Hyperparameters
    answers: tuple[Answer, ...]  # all of them, also about pictures that are not in the pool
    source: tuple[object, ...]  # of the prior, which changes with the model and the scale
    n_fitted: int  # comparisons at the last fit, and at the last selection of hyperparameters
    n_selected: int

    def with_answers(self, answers: tuple[Answer, ...]) -> _Session | None:
        """Return the session after more answers about the same pictures; None if it must be fitted again."""
        known, pool, ties = len(self.answers), set(self.fitted.ids.tolist()), self.hyperparameters.ties
        new = answers[known:]
        if answers[:known] != self.answers or len(answers) > _REFIT_GROWTH * (self.n_fitted + _FIRST_ANSWERS):
            return None
        if any({answer.first, answer.second} - pool or (answer.outcome == 0 and ties == 0) for answer in new):
            return None
        positions = self.fitted.positions
        for first, second, outcome in new:
            i, j = self.fitted.rows([first, second]).tolist()
            positions = positions.with_answer(i, j, outcome)
        fitted = replace(self.fitted, answers=(*self.fitted.answers, *new), positions=positions)
        return replace(self, fitted=fitted, answers=answers)


class Comparing:
    """Finds pairs to compare and the positions of compared pictures; thread-safe.

    Parameters
    ----------
    directory : Path
    live : LiveSnapshot
    """

    def __init__(self, directory: Path, live: LiveSnapshot) -> None:
        self._directory, self._live = directory, live
        self._session: _Session | None = None
        self._fitting = Lock()

    def next_pair(self, grader: str, skip: Sequence[tuple[int, int]]) -> SuggestedPair | None:
        """Return the most informative pair of those that a grader has neither answered nor skipped."""
        snapshot = self._live.current()
        if len(snapshot.images.ids) < 2:
            return None
        with read_store(self._directory) as store:
            comparisons = store.comparisons()
            fitted = self._fitted(snapshot, store, comparisons).fitted
        excluded = [*skip, *((one.first, one.second) for one in comparisons if one.grader == grader)]
        known = set(fitted.ids.tolist())
        pairs = [pair for pair in excluded if known.issuperset(pair)]
        rows = fitted.rows([picture for pair in pairs for picture in pair]).reshape(-1, 2)
        chosen = choose_pair(fitted.positions, [(i, j) for i, j in rows.tolist()], seed=len(comparisons))
        if chosen is None:
            return None
        first, second = (snapshot.picture(snapshot.row_of(int(fitted.ids[i]))) for i in chosen)
        return SuggestedPair(first, second, _explanation(snapshot, fitted, *chosen))

    def compared(self) -> tuple[ComparedPicture, ...]:
        """Return the compared pictures, lowest first."""
        snapshot = self._live.current()
        with read_store(self._directory) as store:
            comparisons = store.comparisons()
            if not comparisons:
                return ()
            fitted = self._fitted(snapshot, store, comparisons).fitted
        pictures, counts = np.unique([[one.first, one.second] for one in fitted.answers], return_counts=True)
        if not len(pictures):
            return ()
        rows = fitted.rows(pictures.astype(np.int64).tolist())
        values, covariance = fitted.positions.mean[rows], fitted.positions.covariance[np.ix_(rows, rows)]
        if len(fitted.labels) < 2:
            values, covariance = _standardised(values, covariance)
        deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        grades = [None if np.isnan(grade) else snapshot.header.format_grade(grade) for grade in fitted.implied[rows]]
        return tuple(
            ComparedPicture(
                snapshot.picture(snapshot.row_of(int(pictures[i]))),
                float(values[i]),
                float(deviations[i]),
                grades[i],
                int(counts[i]),
            )
            for i in np.argsort(values, kind="stable").tolist()
        )

    def _fitted(self, snapshot: Snapshot, store: Store, comparisons: Sequence[StoredComparison]) -> _Session:
        """Return the session with all comparisons of pictures that the snapshot has."""
        answers = tuple(
            Answer(one.first, one.second, one.outcome)
            for one in comparisons
            if snapshot.images.row(one.first) is not None and snapshot.images.row(one.second) is not None
        )
        scale = snapshot.scale if len(snapshot.labels) >= 2 else np.empty(0)
        source = (snapshot.header.model, snapshot.header.fingerprint, tuple(scale.tolist()))
        with self._fitting:
            session = self._session
            if session is not None and session.source == source and _has_grades(session.fitted, snapshot):
                self._session = session.with_answers(answers)
            else:
                self._session = None
            if self._session is None:
                self._session = _start(snapshot, store, scale, answers, source, session)
            return self._session


def implied_by_comparisons(store: Store, grades: FloatArray, labels: FloatArray, estimates: FloatArray) -> FloatArray:
    """Return the grades (n,) that comparisons imply for ungraded pictures; NaN for others.

    They take part in a training as if they were given, and are derived anew each time: from given grades, comparisons,
    and the estimates of a model that was trained with given grades only. What a training has concluded from
    comparisons is thus never counted as another observation by the next one.

    Parameters
    ----------
    store : Store
    grades, estimates : ndarray of shape (n,)
        Of all pictures by ascending id: the given ones, NaN for none, and those of a ranker, held out for graded ones.
    labels : ndarray of shape (m,)
        All grades, ascending.
    """
    ids, implied = np.array(store.ids(), dtype=np.int64), np.full(len(grades), np.nan)
    answers = [Answer(one.first, one.second, one.outcome) for one in store.comparisons()]
    pool = _most_recent(answers)
    if len(labels) < 2 or not len(pool):
        return implied
    rows = np.searchsorted(ids, pool)
    features = store.features_of(pool.tolist()).astype(np.float64)
    model = graded_model(labels, estimates[rows], features)
    fitted, _ = _fit(model, pool, grades[rows], labels, _among(pool, answers))
    implied[rows] = fitted.implied
    return implied


def _start(
    snapshot: Snapshot,
    store: Store,
    scale: FloatArray,
    answers: tuple[Answer, ...],
    source: tuple[object, ...],
    previous: _Session | None,
) -> _Session:
    """Return a new session, which begins with the positions and, while these hold, hyperparameters of the previous."""
    pool = _pool(np.intersect1d(snapshot.images.ids, store.ids()), answers)  # one of them may be newer than the other
    rows = np.searchsorted(snapshot.images.ids, pool)
    features, grades = store.features_of(pool.tolist()).astype(np.float64), snapshot.grades[rows]
    if len(scale) < 2:
        model = unscaled_model(len(pool), features)
    else:
        model = graded_model(scale, snapshot.estimates[rows], features)
    known, near, n_selected = None, None, len(answers)
    if previous is not None and previous.source == source:
        near = previous.fitted
        if len(answers) <= _SELECTION_GROWTH * previous.n_selected:
            known, n_selected = previous.hyperparameters, previous.n_selected
    start = None if previous is None else previous.hyperparameters
    fitted, hyperparameters = _fit(model, pool, grades, scale, _among(pool, answers), known, start, near)
    return _Session(fitted, hyperparameters, answers, source, len(answers), n_selected)


def _fit(
    model: PositionModel,
    pool: IntArray,
    grades: FloatArray,
    labels: FloatArray,
    answers: tuple[Answer, ...],
    known: Hyperparameters | None = None,
    start: Hyperparameters | None = None,
    near: FittedPositions | None = None,
) -> tuple[FittedPositions, Hyperparameters]:
    """Return the positions of a pool, and the hyperparameters: the known ones, or selected from a start.

    Newton's method begins at positions ``near`` the solution, as far as they are known.
    """
    numbers = {picture: i for i, picture in enumerate(pool.tolist())}
    comparisons = Comparisons.from_rows((numbers[a.first], numbers[a.second], a.outcome) for a in answers)
    observed = given_grades(grades, labels) if len(labels) >= 2 else Grades.none()
    if known is None or ((comparisons.outcome == 0).any() and not known.ties):
        known = model.select(comparisons, observed, known or start)
    begin = model.mean.copy()
    if near is not None:
        is_near = np.isin(pool, near.ids)
        begin[is_near] = near.positions.mean[near.rows(pool[is_near])]
    positions = model.fit(comparisons, known, observed, begin)
    return FittedPositions(pool, grades, labels, answers, positions), known


def _pool(ids: IntArray, answers: Sequence[Answer]) -> IntArray:
    """Return the compared pictures, and others of all ``ids`` in a fixed random order up to the size of the pool."""
    size = min(max(_MIN_POOL, int(_REFIT_GROWTH * len(answers)) // _COMPARISONS_PER_PICTURE), _MAX_POOL)
    compared = _most_recent(answers)
    others = np.random.default_rng(0).permutation(ids)[: size + len(compared)]
    others = others[~np.isin(others, compared)]
    return np.concatenate([compared, others[: max(size - len(compared), 0)]])


def _most_recent(answers: Sequence[Answer]) -> IntArray:
    """Return the compared pictures; if they are too many, those that were compared last."""
    pictures = [picture for answer in reversed(answers) for picture in (answer.first, answer.second)]
    return np.array(list(dict.fromkeys(pictures))[:_MAX_POOL], dtype=np.int64)


def _among(pool: IntArray, answers: Sequence[Answer]) -> tuple[Answer, ...]:
    known = set(pool.tolist())
    return tuple(answer for answer in answers if {answer.first, answer.second} <= known)


def _has_grades(fitted: FittedPositions, snapshot: Snapshot) -> bool:
    """Return whether the pictures still exist and have the same grades."""
    rows = np.minimum(np.searchsorted(snapshot.images.ids, fitted.ids), len(snapshot.images.ids) - 1)
    same = np.array_equal(snapshot.images.ids[rows], fitted.ids)
    return same and np.array_equal(snapshot.grades[rows], fitted.grades, equal_nan=True)


def _standardised(values: FloatArray, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return positions (k,) with mean 0 and variance 1, and the covariance of positions minus their mean."""
    centred = covariance - covariance.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    spread = float(values.std()) or 1.0
    return (values - values.mean()) / spread, centred / spread**2


def _explanation(snapshot: Snapshot, fitted: FittedPositions, i: int, j: int) -> str:
    """Return what is known about two pictures, in a sentence."""
    positions, covariance = fitted.positions.mean, fitted.positions.covariance
    variance = float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])
    higher = 0.5 + 0.5 * erf(float(positions[i] - positions[j]) / sqrt(2 * max(variance, np.finfo(float).tiny)))
    if len(fitted.labels) < 2:
        compared = {picture for answer in fitted.answers for picture in (answer.first, answer.second)}
        if not compared & {int(fitted.ids[i]), int(fitted.ids[j])}:
            return "neither has been compared yet"
        return _doubt(higher)
    grades = fitted.labels[nearest_label(fitted.labels, positions[[i, j]])]
    first, second = map(snapshot.header.format_grade, grades.tolist())
    if first == second:
        return f"both are estimated near {first}, and {_doubt(higher)}"
    return f"they are estimated near {first} and {second}, but {_doubt(higher)}"


def _doubt(higher: float) -> str:
    if 0.4 < higher < 0.6:
        return "nothing says which is higher"
    which, sure = ("first", higher) if higher > 0.5 else ("second", 1 - higher)
    return f"it is not certain that the {which} is higher: {format_percent(sure)}"
