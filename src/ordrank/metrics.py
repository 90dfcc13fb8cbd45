"""Scores of estimated grades and of rankings, which may be arrays or tensors on any device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ordrank._protocols import Array, FloatArray, IntArray, Ranking
from ordrank.backend import backend_of, is_tensor
from ordrank.errors import InputError


def nearest_label(labels: FloatArray, values: FloatArray) -> IntArray:
    """Return the index of the label nearest to each value, the lower one on ties; labels are ascending."""
    upper = np.minimum(np.searchsorted(labels, values), len(labels) - 1)
    lower = np.maximum(upper - 1, 0)
    return np.where(labels[upper] - values < values - labels[lower], upper, lower)


def median_of_proba(proba: FloatArray) -> IntArray:
    """Return the label number (q,) of the lower median of probabilities (q, m) of ascending labels."""
    cumulative = proba.cumsum(axis=1)
    # Sums of shares may miss one half by rounding.
    return np.asarray((cumulative >= (0.5 - 1e-9) * cumulative[:, -1:]).argmax(axis=1))


def mean_absolute_error(grades: ArrayLike, estimates: ArrayLike) -> float:
    """Return the mean of ``|grade - estimate|``."""
    true, estimated = _same_length(grades, estimates)
    return float(np.abs(true - estimated).mean())


def mean_absolute_error_per_grade(grades: ArrayLike, estimates: ArrayLike) -> dict[float, float]:
    """Return the mean absolute error of the samples of each grade, in ascending order of the grades."""
    true, estimated = _same_length(grades, estimates)
    errors = np.abs(true - estimated)
    return {float(grade): float(errors[true == grade].mean()) for grade in np.unique(true)}


def accuracy(grades: ArrayLike, estimates: ArrayLike, *, labels: ArrayLike | None = None) -> float:
    """Return the share of estimates that equal the grade, each rounded to the nearest of ``labels`` if given."""
    true, estimated = _rounded(grades, estimates, labels)
    return float((estimated == true).mean())


def confusion_matrix(grades: ArrayLike, estimates: ArrayLike, *, labels: ArrayLike | None = None) -> IntArray:
    """Return the counts (m, m) by grade (row) and nearest label of the estimate (column).

    Parameters
    ----------
    grades, estimates : array-like of shape (q,)
    labels : array-like of shape (m,), optional
        Must include every grade; the distinct grades by default.
    """
    true, estimated = _same_length(grades, estimates)
    known = np.unique(true if labels is None else _numbers("labels", labels))
    if not np.isin(true, known).all():
        raise InputError(f"grade {true[~np.isin(true, known)][0]:g} is not among the labels")
    cells = np.searchsorted(known, true) * len(known) + nearest_label(known, estimated)
    return np.bincount(cells, minlength=len(known) ** 2).reshape(len(known), len(known))


def quadratic_weighted_kappa(grades: ArrayLike, estimates: ArrayLike, *, labels: ArrayLike | None = None) -> float:
    r"""Return Cohen's κ with squared differences of the label values as weights.

    .. math:: \kappa = 1 - \frac{\sum_{ij} o_{ij}(a_i - a_j)^2}{\sum_{ij} e_{ij}(a_i - a_j)^2}

    with the observed joint frequencies o and those expected of independent raters, e, the outer product of the
    marginals. Cohen leaves the weights to the application, to express how serious a disagreement is: for grades 0, 1,
    5 the pair (1, 5) weighs sixteen times (0, 1). The weights are thus of the label *values*, not of their positions
    as in scikit-learn's ``cohen_kappa_score``; both agree if the labels are equally spaced and all of them occur. In
    values the sums are moments,

    .. math:: \kappa = 1 - \frac{\overline{(y - \hat y)^2}}
              {\operatorname{var} y + \operatorname{var}\hat y + (\bar y - \bar{\hat y})^2}

    which is Lin's concordance correlation coefficient.

    Parameters
    ----------
    grades, estimates : array-like of shape (q,)
    labels : array-like of shape (m,), optional
        Estimates are first rounded to the nearest of these; used unchanged by default.

    Returns
    -------
    float
        1 for perfect agreement, 0 expected of independent ratings. If both are constant and equal the quotient is 0/0,
        and the agreement perfect: 1, where scikit-learn returns NaN.

    References
    ----------
    J. Cohen (1968). Weighted kappa: nominal scale agreement with provision for scaled disagreement or partial credit.
    L. I-K. Lin (1989). A concordance correlation coefficient to evaluate reproducibility.
    """
    true, estimated = _rounded(grades, estimates, labels)
    if np.array_equal(true, estimated):
        return 1.0
    expected = true.var() + estimated.var() + (true.mean() - estimated.mean()) ** 2
    return float(1 - ((true - estimated) ** 2).mean() / expected)


def kendall_tau(grades: ArrayLike, estimates: ArrayLike) -> float:
    """Return Kendall's τ-b of grades and estimates; 0 if either is constant."""
    true, estimated = _same_length(grades, estimates)
    from scipy.stats import kendalltau  # slow to import

    tau = kendalltau(true, estimated).statistic
    return 0.0 if np.isnan(tau) else float(tau)


def ranked_probability_scores(proba: FloatArray, labels: FloatArray, index: IntArray) -> FloatArray:
    """Return the ranked probability score (q,) of each sample, given its label number (q,)."""
    step = np.arange(len(labels) - 1) >= index[:, None]
    return np.asarray(np.square(proba.cumsum(axis=1)[:, :-1] - step) @ np.diff(labels))


def ranked_probability_score(grades: ArrayLike, proba: ArrayLike, labels: ArrayLike) -> float:
    r"""Return the mean ranked probability score, in units of the labels; the lower, the better.

    It is the continuous ranked probability score :math:`\int (F(t) - 1[y \le t])^2 dt` of the distribution function F
    on the labels: a sum over the gaps between labels, weighted by their widths. A certain prediction has its absolute
    error as the score.

    Parameters
    ----------
    grades : array-like of shape (q,)
        Grades; need not be among the labels.
    proba : array-like of shape (q, m)
        Probabilities of the labels.
    labels : array-like of shape (m,)
        In ascending order.

    References
    ----------
    T. Gneiting and A. Raftery, Strictly proper scoring rules, prediction, and estimation, JASA 102, 2007.
    """
    true, cumulative, values = _distributions(grades, proba, labels)
    gaps = np.diff(values)
    below = np.clip(true[:, None] - values[:-1], 0.0, gaps)  # part of each gap that is below the grade
    inside = (below * cumulative**2 + (gaps - below) * (1 - cumulative) ** 2).sum(axis=1)
    outside = np.abs(true - np.clip(true, values[0], values[-1]))
    return float((inside + outside).mean())


def calibration_error(grades: ArrayLike, proba: ArrayLike, labels: ArrayLike, *, bins: int = 10) -> float:
    """Return the expected calibration error of the cumulative probabilities.

    Each sample and each label but the last give a predicted probability that the grade is at most the label, and
    whether it is. In bins of equal width the mean prediction is compared with the relative frequency; the result is the
    mean absolute difference, weighted by the number of predictions in a bin.

    Parameters
    ----------
    grades : array-like of shape (q,)
    proba : array-like of shape (q, m)
        Probabilities of the labels, at least two.
    labels : array-like of shape (m,)
        In ascending order.
    bins : int
    """
    true, cumulative, values = _distributions(grades, proba, labels)
    predicted, happened = cumulative.ravel(), (true[:, None] <= values[:-1]).ravel()
    bin_of = np.minimum((predicted * bins).astype(np.int64), bins - 1)
    excess = np.bincount(bin_of, predicted - happened, bins)  # sums of prediction minus outcome
    return float(np.abs(excess).sum() / len(predicted))


def order_preservation(
    points: ArrayLike, labels: ArrayLike, *, queries: ArrayLike | None = None, query_labels: ArrayLike | None = None
) -> float:
    r"""Return the share of triplets whose distances are ordered like their labels, property (i) of the paper.

    Over all (i, j, k) with three different labels and \|r_i - r_j\| > \|r_i - r_k\|: is
    ‖z_i - z_j‖ > ‖z_i - z_k‖? Ties count as no. NaN if there is no such triplet. O(n log n) per anchor i.

    Parameters
    ----------
    points, labels : array-like of shape (n, s) and (n,)
        Embeddings of the samples j and k, and their labels.
    queries, query_labels : array-like of shape (q, s) and (q,), optional
        Anchors i; the points themselves by default.
    """
    z, r = _numbers("points", points), _numbers("labels", labels)
    anchors = z if queries is None else _numbers("queries", queries)
    anchor_labels = r if query_labels is None else _numbers("query_labels", query_labels)
    kept = total = 0
    for anchor, label in zip(anchors, anchor_labels, strict=True):
        other = r != label
        distances = np.linalg.norm(z[other] - anchor, axis=1)
        concordant, comparable = _concordant_pairs(np.abs(r[other] - label), distances)
        kept, total = kept + concordant, total + comparable
    return kept / total if total else float("nan")


def same_grade_precision(ranking: Ranking, query_grades: ArrayLike) -> float:
    """Return the share of ranked samples with the grade of the query."""
    ranking = _on_host(ranking)
    return _share_equal(ranking, ranking.labels, query_grades)


def same_subject_precision(ranking: Ranking, subjects: ArrayLike, query_subjects: ArrayLike) -> float:
    """Return the share of ranked samples with the subject of the query, given ``subjects`` (n,) of the training set."""
    ranking = _on_host(ranking)
    return _share_equal(ranking, _array(subjects)[ranking.indices], query_subjects)


def inside_grade(ranking: Ranking, query_grades: ArrayLike, k: int) -> Ranking:
    """Return the first k samples of each row that have the query's true grade, padded with -1, as arrays.

    The ranking must be complete: every training sample in every row.
    """
    ranking = _on_host(ranking)
    other = ranking.labels != _array(query_grades)[:, None]
    first = np.argsort(other, axis=1, kind="stable")[:, :k]
    missing = np.take_along_axis(other, first, axis=1)
    labels = np.take_along_axis(ranking.labels, first, axis=1)
    return Ranking(
        np.where(missing, -1, np.take_along_axis(ranking.indices, first, axis=1)),
        np.where(missing, np.inf, np.take_along_axis(ranking.distances, first, axis=1)),
        np.where(missing, np.array(np.nan if labels.dtype.kind == "f" else None, dtype=labels.dtype), labels),
    )


def ndcg(ranking: Ranking, query_grades: ArrayLike, labels: ArrayLike) -> float:
    r"""Return the normalised discounted cumulative gain, averaged over the queries.

    A sample of label r has gain :math:`1 - |r - r_q| / (r_{max} - r_{min})` for a query of grade
    :math:`r_q`, discounted by :math:`\log_2(\text{rank} + 1)` and normalised by the best k of all ``labels``.

    ``labels`` (n,) are those of all training samples.
    """
    indices, all_labels, grades = _array(ranking.indices), _numbers("labels", labels), _numbers("grades", query_grades)
    span = np.ptp(np.concatenate([all_labels, grades]))
    discount = 1 / np.log2(np.arange(2, indices.shape[1] + 2))

    def gain(ranked: FloatArray, grade: FloatArray) -> FloatArray:
        return 1 - np.abs(ranked - grade) / span if span > 0 else np.ones_like(ranked)

    gains = gain(all_labels[indices], grades[:, None])
    reached = np.where(indices < 0, 0.0, gains) @ discount
    distinct, which = np.unique(grades, return_inverse=True)
    best = np.array([np.sort(gain(all_labels, grade))[::-1][: len(discount)] @ discount for grade in distinct])
    # If no sample has any gain, every order is optimal.
    return float(np.divide(reached, best[which], out=np.ones_like(reached), where=best[which] > 0).mean())


def _concordant_pairs(levels: FloatArray, distances: FloatArray) -> tuple[int, int]:
    """Count concordant pairs, and all pairs, with different levels.

    They follow from Kendall's τ-b, since SciPy's O(n log n) count is not public: with n₀ pairs, n₁ tied in level, n₂
    in distance and n₃ in both, C - D = τ √((n₀-n₁)(n₀-n₂)) and C + D = n₀ - n₁ - n₂ + n₃.
    """
    from scipy.stats import kendalltau

    n0 = len(levels) * (len(levels) - 1) // 2
    n1, n2 = _tied_pairs(levels), _tied_pairs(distances)
    comparable = n0 - n1
    if comparable == 0 or n2 == n0:
        return 0, comparable
    difference = kendalltau(levels, distances).statistic * np.sqrt(float(comparable) * (n0 - n2))
    n3 = _tied_pairs(np.column_stack([levels, distances])) if n2 else 0
    untied = comparable - n2 + n3
    return (round(difference) + untied) // 2, comparable


def _tied_pairs(values: NDArray[Any]) -> int:
    counts = np.unique(values, axis=0, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def _share_equal(ranking: Ranking, values: NDArray[Any], query_values: ArrayLike) -> float:
    expected = _array(query_values)
    if len(expected) != len(ranking):
        raise InputError(f"the ranking has {len(ranking)} queries, but {len(expected)} values were given")
    filled = ranking.indices >= 0
    return float((values == expected[:, None])[filled].mean()) if filled.any() else float("nan")


def _rounded(grades: ArrayLike, estimates: ArrayLike, labels: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    """Return grades and estimates, the latter rounded to the nearest label if labels are given."""
    true, estimated = _same_length(grades, estimates)
    if labels is None:
        return true, estimated
    known = np.unique(_numbers("labels", labels))
    return true, known[nearest_label(known, estimated)]


def _same_length(grades: ArrayLike, estimates: ArrayLike) -> tuple[FloatArray, FloatArray]:
    true, estimated = _numbers("grades", grades), _numbers("estimates", estimates)
    if true.shape != estimated.shape or true.ndim != 1 or len(true) == 0:
        raise InputError(
            f"grades and estimates must be vectors of the same length, got {true.shape} and {estimated.shape}"
        )
    return true, estimated


def _numbers(name: str, values: ArrayLike | Array) -> FloatArray:
    """Return finite numbers as an array; raise InputError if some are not."""
    try:
        numbers = np.asarray(_array(values), dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be finite numbers, but some are no numbers at all") from None
    if not np.isfinite(numbers).all():
        missing = numbers[~np.isfinite(numbers)]
        raise InputError(f"{name} must be finite numbers, but {len(missing)} are not, for example {missing[0]}")
    return numbers


def _array(values: ArrayLike | Array) -> NDArray[Any]:
    return np.asarray(backend_of(values).to_numpy(values) if is_tensor(values) else values)


def _on_host(ranking: Ranking) -> Ranking:
    return Ranking(_array(ranking.indices), _array(ranking.distances), _array(ranking.labels))


def _distributions(grades: ArrayLike, proba: ArrayLike, labels: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return grades (q,), cumulative probabilities (q, m - 1) of all labels but the last, and labels (m,)."""
    true, values = _numbers("grades", grades), _numbers("labels", labels)
    probabilities = np.asarray(proba, dtype=np.float64)
    if probabilities.shape != (len(true), len(values)):
        expected = (len(true), len(values))
        raise InputError(f"probabilities must have shape {expected}, samples by labels, got {probabilities.shape}")
    if not np.allclose(probabilities.sum(axis=1), 1, atol=1e-6) or (probabilities < -1e-9).any():
        raise InputError("probabilities of a sample must be at least 0 and have the sum 1")
    return true, np.clip(probabilities.cumsum(axis=1)[:, :-1], 0.0, 1.0), values
