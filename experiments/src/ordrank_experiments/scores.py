"""Scores of one method on one split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ordrank import metrics
from ordrank._protocols import FloatArray, Ranking
from ordrank.errors import InputError
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
        **_grade_scores(result.grades, data),
        **_probability_scores(result, data),
        **_ranking_scores(result, data),
        search_seconds=result.search_seconds,
        fit_seconds=result.fit_seconds,
        predict_seconds=result.predict_seconds,
        chosen=result.chosen,
    )


def _grade_scores(grades: FloatArray, data: SplitData) -> dict[str, Any]:
    return {
        "mae": metrics.mean_absolute_error(data.y_test, grades),
        "accuracy": metrics.accuracy(data.y_test, grades, labels=data.y_train),
        "kappa": metrics.quadratic_weighted_kappa(data.y_test, grades, labels=data.y_train),
        "tau": metrics.kendall_tau(data.y_test, grades),
        "errors": tuple(np.abs(grades - data.y_test).tolist()),
    }


def ranked_probability_score(y: ArrayLike, proba: ArrayLike, labels: ArrayLike) -> float:
    r"""Return the mean ranked probability score, in units of the labels; the lower, the better.

    It is the continuous ranked probability score :math:`\int (F(t) - 1[y \le t])^2 dt` of the distribution function F
    on the labels: a sum over the gaps between labels, weighted by their widths. A certain prediction has its absolute
    error as the score.

    Parameters
    ----------
    y : array-like of shape (q,)
        Grades; need not be among the labels.
    proba : array-like of shape (q, m)
        Probabilities of the labels.
    labels : array-like of shape (m,)
        In ascending order.

    References
    ----------
    T. Gneiting and A. Raftery, Strictly proper scoring rules, prediction, and estimation, JASA 102, 2007.
    """
    grades, cumulative, values = _distributions(y, proba, labels)
    gaps = np.diff(values)
    below = np.clip(grades[:, None] - values[:-1], 0.0, gaps)  # part of each gap that is below the grade
    inside = (below * cumulative**2 + (gaps - below) * (1 - cumulative) ** 2).sum(axis=1)
    outside = np.abs(grades - np.clip(grades, values[0], values[-1]))
    return float((inside + outside).mean())


def calibration_error(y: ArrayLike, proba: ArrayLike, labels: ArrayLike, *, bins: int = 10) -> float:
    """Return the expected calibration error of the cumulative probabilities.

    Each sample and each label but the last give a predicted probability that the grade is at most the label, and
    whether it is. In bins of equal width the mean prediction is compared with the relative frequency; the result is the
    mean absolute difference, weighted by the number of predictions in a bin.

    Parameters
    ----------
    y : array-like of shape (q,)
    proba : array-like of shape (q, m)
        Probabilities of the labels, at least two.
    labels : array-like of shape (m,)
        In ascending order.
    bins : int
    """
    grades, cumulative, values = _distributions(y, proba, labels)
    predicted, happened = cumulative.ravel(), (grades[:, None] <= values[:-1]).ravel()
    bin_of = np.minimum((predicted * bins).astype(np.int64), bins - 1)
    excess = np.bincount(bin_of, predicted - happened, bins)  # sums of prediction minus outcome
    return float(np.abs(excess).sum() / len(predicted))


def _distributions(y: ArrayLike, proba: ArrayLike, labels: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return grades (q,), cumulative probabilities (q, m - 1) of all labels but the last, and labels (m,)."""
    grades, probabilities, values = (np.asarray(array, dtype=np.float64) for array in (y, proba, labels))
    if probabilities.shape != (len(grades), len(values)):
        expected = (len(grades), len(values))
        raise InputError(f"probabilities must have shape {expected}, samples by labels, got {probabilities.shape}")
    if not np.allclose(probabilities.sum(axis=1), 1, atol=1e-6) or (probabilities < -1e-9).any():
        raise InputError("probabilities of a sample must be at least 0 and have the sum 1")
    return grades, np.clip(probabilities.cumsum(axis=1)[:, :-1], 0.0, 1.0), values


def _probability_scores(result: MethodResult, data: SplitData) -> dict[str, Any]:
    if result.proba is None:
        return {}
    labels = np.unique(data.y_train)
    return {
        "rps": ranked_probability_score(data.y_test, result.proba, labels),
        "calibration": calibration_error(data.y_test, result.proba, labels),
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
