"""Scores of the two aims: a query at its grade, and the most similar samples first."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike, NDArray

from ordrank._types import FloatArray, Ranking
from ordrank.errors import InputError


def mean_absolute_error(grades: ArrayLike, estimates: ArrayLike) -> float:
    """Mean of |grade - estimate|."""
    true, estimated = _same_length(grades, estimates)
    return float(np.abs(true - estimated).mean())


def mean_absolute_error_per_grade(grades: ArrayLike, estimates: ArrayLike) -> dict[float, float]:
    """Mean absolute error among the samples of each grade, by grade."""
    true, estimated = _same_length(grades, estimates)
    errors = np.abs(true - estimated)
    return {float(grade): float(errors[true == grade].mean()) for grade in np.unique(true)}


def accuracy(grades: ArrayLike, estimates: ArrayLike, *, labels: ArrayLike | None = None) -> float:
    """Share of estimates that are the true grade.

    Parameters
    ----------
    grades, estimates : array-like of shape (q,)
    labels : array-like of shape (m,), optional
        The grades there are: each estimate is first moved to the nearest of them, the lower of two.
    """
    true, estimated = _same_length(grades, estimates)
    if labels is not None:
        known = np.unique(np.asarray(labels, dtype=np.float64))
        estimated = known[np.abs(estimated[:, None] - known[None, :]).argmin(axis=1)]
    return float((estimated == true).mean())


def kendall_tau(grades: ArrayLike, estimates: ArrayLike) -> float:
    """Kendall's τ-b between grades and estimates; 0 where either is constant."""
    true, estimated = _same_length(grades, estimates)
    tau = scipy.stats.kendalltau(true, estimated).statistic
    return 0.0 if np.isnan(tau) else float(tau)


def order_preservation(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    queries: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
) -> float:
    r"""Share of the triplets for which the distance follows the labels, property (i) of the paper.

    Over all (i, j, k) with three different labels and \|r_i - r_j\| > \|r_i - r_k\|: is
    ‖z_i - z_j‖ > ‖z_i - z_k‖? A tie counts as no. O(n log n) per anchor i.

    Parameters
    ----------
    points : array-like of shape (n, s)
        Samples j and k in the space of the metric.
    labels : array-like of shape (n,)
    queries, query_labels : array-like of shape (q, s) and (q,), optional
        Samples i; the points themselves by default.

    Returns
    -------
    float
        NaN if there is no such triplet.
    """
    z, r = np.asarray(points, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    anchors = z if queries is None else np.asarray(queries, dtype=np.float64)
    anchor_labels = r if query_labels is None else np.asarray(query_labels, dtype=np.float64)
    kept = total = 0
    for anchor, label in zip(anchors, anchor_labels, strict=True):
        other = r != label
        distances = np.linalg.norm(z[other] - anchor, axis=1)
        concordant, comparable = _concordant_pairs(np.abs(r[other] - label), distances)
        kept, total = kept + concordant, total + comparable
    return kept / total if total else float("nan")


def same_grade_precision(ranking: Ranking, query_grades: ArrayLike) -> float:
    """Share of the ranked samples that have the query's grade."""
    return _share_equal(ranking, ranking.labels, query_grades)


def same_subject_precision(ranking: Ranking, subjects: ArrayLike, query_subjects: ArrayLike) -> float:
    """Share of the ranked samples that show the query's subject.

    Parameters
    ----------
    ranking : Ranking
        Answers for q queries; with ``within_grade=True`` this is the second aim alone.
    subjects : array-like of shape (n,)
        Subject of each training sample.
    query_subjects : array-like of shape (q,)
    """
    return _share_equal(ranking, np.asarray(subjects)[ranking.indices], query_subjects)


def inside_grade(ranking: Ranking, query_grades: ArrayLike, k: int) -> Ranking:
    """Keep of each row the first k samples of the query's *true* grade, to score the second aim by itself.

    Parameters
    ----------
    ranking : Ranking
        Complete: every training sample in every row.
    query_grades : array-like of shape (q,)
    k : int
        Rows with fewer such samples are filled up with -1.
    """
    other = ranking.labels != np.asarray(query_grades)[:, None]
    first = np.argsort(other, axis=1, kind="stable")[:, :k]
    missing = np.take_along_axis(other, first, axis=1)
    found = np.take_along_axis(ranking.labels, first, axis=1)
    return Ranking(
        np.where(missing, -1, np.take_along_axis(ranking.indices, first, axis=1)),
        np.where(missing, np.inf, np.take_along_axis(ranking.distances, first, axis=1)),
        np.where(missing, np.array(np.nan if found.dtype.kind == "f" else None, dtype=found.dtype), found),
    )


def ndcg(ranking: Ranking, query_grades: ArrayLike, labels: ArrayLike) -> float:
    r"""Normalised discounted cumulative gain of the ranked samples, averaged over the queries.

    A sample of label r has gain :math:`1 - |r - r_q| / (r_{max} - r_{min})` for a query of grade
    :math:`r_q`, discounted by :math:`\log_2(\text{position} + 1)` and compared with the best k of all
    ``labels``.

    Parameters
    ----------
    ranking : Ranking
        Answers for q queries, among n training samples with numeric labels.
    query_grades : array-like of shape (q,)
    labels : array-like of shape (n,)
        Labels of all training samples.
    """
    all_labels, grades = np.asarray(labels, dtype=np.float64), np.asarray(query_grades, dtype=np.float64)
    span = np.ptp(np.concatenate([all_labels, grades]))
    discount = 1 / np.log2(np.arange(2, ranking.indices.shape[1] + 2))

    def gain(found: FloatArray, grade: FloatArray) -> FloatArray:
        return 1 - np.abs(found - grade) / span if span > 0 else np.ones_like(found)

    found = gain(all_labels[ranking.indices], grades[:, None])
    reached = np.where(ranking.indices < 0, 0.0, found) @ discount
    distinct, which = np.unique(grades, return_inverse=True)
    best = np.array([np.sort(gain(all_labels, grade))[::-1][: len(discount)] @ discount for grade in distinct])
    # Where no sample is of any use every order is as good as another.
    return float(np.divide(reached, best[which], out=np.ones_like(reached), where=best[which] > 0).mean())


def _concordant_pairs(levels: FloatArray, distances: FloatArray) -> tuple[int, int]:
    """Pairs with different levels whose distances have the same order, and all pairs with different levels.

    From Kendall's τ-b, whose compiled O(n log n) count of discordant pairs is not public: with n₀ pairs, n₁
    tied in level, n₂ in distance and n₃ in both, C - D = τ √((n₀-n₁)(n₀-n₂)) and C + D = n₀ - n₁ - n₂ + n₃.
    """
    n0 = len(levels) * (len(levels) - 1) // 2
    n1, n2 = _tied_pairs(levels), _tied_pairs(distances)
    comparable = n0 - n1
    if comparable == 0 or n2 == n0:
        return 0, comparable
    difference = scipy.stats.kendalltau(levels, distances).statistic * np.sqrt(float(comparable) * (n0 - n2))
    n3 = _tied_pairs(np.column_stack([levels, distances])) if n2 else 0
    untied = comparable - n2 + n3
    return (round(difference) + untied) // 2, comparable


def _tied_pairs(values: NDArray[Any]) -> int:
    counts = np.unique(values, axis=0, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def _share_equal(ranking: Ranking, found: NDArray[Any], own: ArrayLike) -> float:
    wanted = np.asarray(own)
    if len(wanted) != len(ranking):
        raise InputError(f"the ranking answers {len(ranking)} queries, but {len(wanted)} were described")
    filled = ranking.indices >= 0
    return float((found == wanted[:, None])[filled].mean()) if filled.any() else float("nan")


def _same_length(grades: ArrayLike, estimates: ArrayLike) -> tuple[FloatArray, FloatArray]:
    true, estimated = np.asarray(grades, dtype=np.float64), np.asarray(estimates, dtype=np.float64)
    if true.shape != estimated.shape or true.ndim != 1 or len(true) == 0:
        raise InputError(
            f"grades and estimates must be two lists of the same length, got {true.shape} and {estimated.shape}"
        )
    return true, estimated
