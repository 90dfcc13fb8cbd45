"""Scores of one method on one split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ordrank import metrics
from ordrank._protocols import FloatArray, Ranking
from ordrank.neighbors import k_nearest
from ordrank_experiments.conditions import Benchmark, Split, SplitData, split_data
from ordrank_experiments.method import BaselineFailedError, Method, MethodResult


@dataclass(frozen=True)
class Score:
    """Scores of one method on one split; None where not applicable.

    Attributes
    ----------
    split : Split
    method : str
    n_train, n_test : int
    failure : str or None
        Why there are no scores.
    mae : float or None
        Mean absolute error on the label scale.
    accuracy, kappa : float or None
        Accuracy and quadratically weighted κ of the estimates, rounded to the nearest label.
    tau : float or None
        Kendall's τ-b of estimates and grades.
    order_preservation, ndcg : float or None
        Of the learned distance, NDCG at 10; None for a predictor.
    rps, calibration : float or None
        Ranked probability score, and calibration error of the cumulative probabilities; None without probabilities.
    same_subject_in_grade, same_subject : float or None
        Share of the three nearest samples, of the query's grade or of all, that show the query's subject.
    search_seconds, fit_seconds, predict_seconds : float or None
    chosen : dict
    errors : tuple of float, or None
        Absolute error of each test sample, if the condition has a single split.
    """

    split: Split
    method: str
    n_train: int
    n_test: int
    failure: str | None = None
    mae: float | None = None
    accuracy: float | None = None
    kappa: float | None = None
    tau: float | None = None
    rps: float | None = None
    calibration: float | None = None
    order_preservation: float | None = None
    ndcg: float | None = None
    same_subject_in_grade: float | None = None
    same_subject: float | None = None
    search_seconds: float | None = None
    fit_seconds: float | None = None
    predict_seconds: float | None = None
    chosen: dict[str, Any] = field(default_factory=dict)
    errors: tuple[float, ...] | None = None


def read_scores(record: Mapping[str, Any]) -> tuple[Split, list[Score]]:
    """Convert a record of the checkpoint file to a split and its scores."""
    split = Split(**record["unit"])
    return split, [_read_score(split, fields) for fields in record["outcomes"]]


def _read_score(split: Split, fields: Mapping[str, Any]) -> Score:
    errors = fields["errors"]
    return Score(**{**fields, "split": split, "errors": None if errors is None else tuple(errors)})


def run_split(split: Split, benchmark: Benchmark, methods: Sequence[Method]) -> list[Score]:
    """Run all methods on one split."""
    data = split_data(benchmark, split)
    scores = [score(split, method, data) for method in methods]
    single = benchmark.rule(split.rule).max_repeats == 1
    return scores if single else [replace(one, errors=None) for one in scores]


def score(split: Split, method: Method, data: SplitData) -> Score:
    """Run one method; any exception it raises becomes the ``failure`` of its score."""
    empty = Score(split, method.name, len(data.y_train), len(data.y_test), method.reason_not_run(data.y_train))
    if empty.failure:
        return empty
    try:
        result = method.fit(data.X_train, data.y_train, data.X_test, data.groups)
    except BaselineFailedError as error:
        return replace(empty, failure=f"failed: {error}")
    except Exception as error:  # noqa: BLE001 - other packages raise any exception
        return replace(empty, failure=f"failed with {type(error).__name__}: {error}")
    if not np.isfinite(result.grades).all():
        return replace(empty, failure="failed: some of its estimates are not finite")
    return replace(
        empty,
        **grade_scores(result.grades, data.y_train, data.y_test),
        **_probability_scores(result, data),
        **_ranking_scores(result, data),
        search_seconds=result.search_seconds,
        fit_seconds=result.fit_seconds,
        predict_seconds=result.predict_seconds,
        chosen=result.chosen,
    )


def grade_scores(grades: FloatArray, y_train: FloatArray, y_test: FloatArray) -> dict[str, Any]:
    """Return MAE, accuracy, κ, τ and the absolute error of each test sample; training labels are those to round to."""
    return {
        "mae": metrics.mean_absolute_error(y_test, grades),
        "accuracy": metrics.accuracy(y_test, grades, labels=y_train),
        "kappa": metrics.quadratic_weighted_kappa(y_test, grades, labels=y_train),
        "tau": metrics.kendall_tau(y_test, grades),
        "errors": tuple(np.abs(grades - y_test).tolist()),
    }


def _probability_scores(result: MethodResult, data: SplitData) -> dict[str, Any]:
    if result.proba is None:
        return {}
    labels = np.unique(data.y_train)
    return {
        "rps": metrics.ranked_probability_score(data.y_test, result.proba, labels),
        "calibration": metrics.calibration_error(data.y_test, result.proba, labels),
    }


def _ranking_scores(result: MethodResult, data: SplitData) -> dict[str, Any]:
    Z_train, Z_test = result.embedded_train, result.embedded_test
    if Z_train is None or Z_test is None:
        return {}
    order = metrics.order_preservation(Z_train, data.y_train, queries=Z_test, query_labels=data.y_test)
    shared_subjects = data.subject_train is not None
    nearest, distances = k_nearest(Z_train, Z_test, len(Z_train) if shared_subjects else min(10, len(Z_train)))
    ranking = Ranking(nearest, distances, data.y_train[nearest])
    return (_subject_scores(ranking, data) if shared_subjects else {}) | {
        "order_preservation": None if np.isnan(order) else order,
        "ndcg": metrics.ndcg(_first(ranking, 10), data.y_test, data.y_train),
    }


def _subject_scores(ranking: Ranking, data: SplitData) -> dict[str, Any]:
    train, test = np.asarray(data.subject_train), np.asarray(data.subject_test)
    inside = metrics.inside_grade(ranking, data.y_test, 3)
    return {
        "same_subject_in_grade": metrics.same_subject_precision(inside, train, test),
        "same_subject": metrics.same_subject_precision(_first(ranking, 3), train, test),
    }


def _first(ranking: Ranking, k: int) -> Ranking:
    return Ranking(ranking.indices[:, :k], ranking.distances[:, :k], ranking.labels[:, :k])
