"""One contender on one split: its estimates, its neighbours and its times as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.metrics import cohen_kappa_score

from ordrank import metrics
from ordrank._types import FloatArray, Ranking
from ordrank.errors import PeerFailedError
from ordrank.experiments.contender import Contender, Fitted
from ordrank.experiments.contests import Contest, Match, Split, split_of
from ordrank.neighbors import k_nearest


@dataclass(frozen=True)
class Score:
    """What one method reached on one split; what does not apply is None.

    Attributes
    ----------
    match : Match
    method : str
    n_train, n_test : int
    failure : str or None
        Why there are no numbers.
    mae : float or None
        Mean absolute error on the label scale.
    accuracy, kappa : float or None
        Share of right labels and quadratically weighted κ, with estimates moved to the nearest label.
    tau : float or None
        Kendall's τ-b of estimates and grades.
    order_kept, ndcg : float or None
        Triplets in order and NDCG@10 in the learned distance; None for a method without one.
    same_subject_in_grade, same_subject : float or None
        Share of the three nearest, of the query's true grade or of all, that show the same person.
    search_seconds, fit_seconds, predict_seconds : float or None
    chosen : dict
    errors : tuple of float, or None
        Absolute error of each test sample, where there is a single split to test by.
    """

    match: Match
    method: str
    n_train: int
    n_test: int
    failure: str | None = None
    mae: float | None = None
    accuracy: float | None = None
    kappa: float | None = None
    tau: float | None = None
    order_kept: float | None = None
    ndcg: float | None = None
    same_subject_in_grade: float | None = None
    same_subject: float | None = None
    search_seconds: float | None = None
    fit_seconds: float | None = None
    predict_seconds: float | None = None
    chosen: dict[str, Any] = field(default_factory=dict)
    errors: tuple[float, ...] | None = None


def read_scores(record: Mapping[str, Any]) -> tuple[Match, list[Score]]:
    """Make a finished match of its record in the journal."""
    match = Match(**record["unit"])
    return match, [_read_score(match, fields) for fields in record["outcomes"]]


def _read_score(match: Match, fields: Mapping[str, Any]) -> Score:
    errors = fields["errors"]
    return Score(**{**fields, "match": match, "errors": None if errors is None else tuple(errors)})


def play(match: Match, contest: Contest, contenders: Sequence[Contender]) -> list[Score]:
    """Run every contender on one split."""
    split = split_of(contest, match)
    (rule,) = (rule for rule in contest.rules if rule.name == match.rule)
    scores = [score(match, contender, split) for contender in contenders]
    return scores if rule.most == 1 else [replace(one, errors=None) for one in scores]


def score(match: Match, contender: Contender, split: Split) -> Score:
    """Run one contender; whatever goes wrong inside it is its result, and the others are not concerned."""
    empty = Score(match, contender.name, len(split.y_train), len(split.y_test), contender.obstacle(split.y_train))
    if empty.failure:
        return empty
    try:
        fitted = contender.fit(split.X_train, split.y_train, split.X_test, split.groups)
    except PeerFailedError as error:
        return replace(empty, failure=f"failed: {error}")
    except Exception as error:  # noqa: BLE001 - foreign packages raise what they like
        return replace(empty, failure=f"failed with {type(error).__name__}: {error}")
    if not np.isfinite(fitted.grades).all():
        return replace(empty, failure="failed: some of its estimates are not numbers")
    return replace(
        empty,
        **_graded(fitted.grades, split),
        **_ranked(fitted, split),
        search_seconds=fitted.search_seconds,
        fit_seconds=fitted.fit_seconds,
        predict_seconds=fitted.predict_seconds,
        chosen=fitted.chosen,
    )


def _graded(grades: FloatArray, split: Split) -> dict[str, Any]:
    """Scores of the first aim: queries at their grades."""
    errors = np.abs(grades - split.y_test)
    return {
        "mae": float(errors.mean()),
        "accuracy": metrics.accuracy(split.y_test, grades, labels=split.y_train),
        "kappa": quadratic_kappa(split.y_test, grades, split.y_train),
        "tau": metrics.kendall_tau(split.y_test, grades),
        "errors": tuple(errors.tolist()),
    }


def quadratic_kappa(y: FloatArray, grades: FloatArray, labels: FloatArray) -> float:
    """Cohen's κ with squared distances of labels as weights; estimates are moved to the nearest of ``labels``."""
    known = np.unique(labels)
    moved = known[np.abs(grades[:, None] - known).argmin(axis=1)]
    if np.ptp(np.concatenate([y, moved])) == 0:
        return 0.0  # one label alone leaves nothing to agree about
    # scikit-learn counts in places of the list of labels: with every whole number in it these are distances.
    every = np.arange(min(known[0], y.min()), max(known[-1], y.max()) + 1).astype(np.int64)
    return float(cohen_kappa_score(y.astype(np.int64), moved.astype(np.int64), labels=every, weights="quadratic"))


def _ranked(fitted: Fitted, split: Split) -> dict[str, Any]:
    """Scores of the learned distance: order, relevance, and the second aim where people are known."""
    Z_train, Z_test = fitted.embedded_train, fitted.embedded_test
    if Z_train is None or Z_test is None:
        return {}
    order = metrics.order_preservation(Z_train, split.y_train, queries=Z_test, query_labels=split.y_test)
    known = split.subject_train is not None
    nearest, distances = k_nearest(Z_train, Z_test, len(Z_train) if known else min(10, len(Z_train)))
    ranking = Ranking(nearest, distances, split.y_train[nearest])
    return (_same_people(ranking, split) if known else {}) | {
        "order_kept": None if np.isnan(order) else order,
        "ndcg": metrics.ndcg(_first(ranking, 10), split.y_test, split.y_train),
    }


def _same_people(everything: Ranking, split: Split) -> dict[str, Any]:
    train, test = np.asarray(split.subject_train), np.asarray(split.subject_test)
    inside = metrics.inside_grade(everything, split.y_test, 3)
    return {
        "same_subject_in_grade": metrics.same_subject_precision(inside, train, test),
        "same_subject": metrics.same_subject_precision(_first(everything, 3), train, test),
    }


def _first(ranking: Ranking, k: int) -> Ranking:
    return Ranking(ranking.indices[:, :k], ranking.distances[:, :k], ranking.labels[:, :k])
