import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from ordrank import OrdinalRanker, Ranking
from ordrank import metrics as m
from ordrank.errors import InputError


def test_errors_and_accuracy_by_hand():
    grades, estimates = [1, 1, 2, 5], [1, 2, 2.4, 3.2]
    assert m.mean_absolute_error(grades, estimates) == pytest.approx((0 + 1 + 0.4 + 1.8) / 4)
    assert m.mean_absolute_error_per_grade(grades, estimates) == pytest.approx({1.0: 0.5, 2.0: 0.4, 5.0: 1.8})
    assert m.accuracy(grades, estimates) == 0.25
    assert m.accuracy(grades, estimates, labels=[1, 2, 5]) == 0.5  # 3.2 is nearer to 2 than to 5
    assert m.accuracy([2, 4], [3, 3], labels=[2, 3, 4]) == 0


def test_kendall_tau():
    assert m.kendall_tau([1, 2, 3, 4], [10, 20, 30, 40]) == 1
    assert m.kendall_tau([1, 2, 3, 4], [4, 3, 2, 1]) == -1
    assert m.kendall_tau([1, 2, 3], [7, 7, 7]) == 0


@pytest.mark.parametrize("score", [m.mean_absolute_error, m.accuracy, m.kendall_tau])
def test_lists_of_different_or_no_length_are_refused(score):
    for grades, estimates in (([1, 2], [1]), ([], [])):
        with pytest.raises(InputError, match="same length"):
            score(grades, estimates)


def triplets_kept(points, labels, queries, query_labels):
    """Property (i) word for word."""
    kept = total = 0
    for z, r in zip(queries, query_labels, strict=True):
        for j in range(len(points)):
            for k in range(len(points)):
                rj, rk = labels[j], labels[k]
                if r != rj and r != rk and rj != rk and abs(r - rj) > abs(r - rk):
                    total += 1
                    kept += np.linalg.norm(z - points[j]) > np.linalg.norm(z - points[k])
    return kept / total if total else float("nan")


@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans(), st.booleans())
def test_order_preservation_counts_triplets(seed, n_labels, ties, own_queries):
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 3, size=(14, 1)).astype(float) if ties else rng.normal(size=(14, 2))
    labels = rng.integers(0, n_labels, size=14).astype(float)
    queries, query_labels = (points[:4] + 0.25, labels[:4]) if own_queries else (points, labels)
    given_queries = {"queries": queries, "query_labels": query_labels} if own_queries else {}
    expected = triplets_kept(points, labels, queries, query_labels)
    assert m.order_preservation(points, labels, **given_queries) == pytest.approx(expected, nan_ok=True)


def test_a_line_in_label_order_preserves_everything_and_a_point_nothing():
    labels = np.repeat([1.0, 2.0, 4.0, 9.0], 5)
    assert m.order_preservation(labels[:, None], labels) == 1
    assert m.order_preservation(np.zeros((20, 2)), labels) == 0
    assert np.isnan(m.order_preservation(np.zeros((4, 1)), [1, 1, 2, 2]))


def test_precisions_count_only_places_that_are_filled():
    ranking = Ranking(
        np.array([[0, 1, 2], [3, -1, -1]]), np.zeros((2, 3)), np.array([[1.0, 1.0, 2.0], [2.0, np.nan, np.nan]])
    )
    assert m.same_grade_precision(ranking, [1, 2]) == pytest.approx(3 / 4)
    assert m.same_subject_precision(ranking, ["a", "b", "a", "c"], ["a", "b"]) == pytest.approx(2 / 4)


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_ndcg_agrees_with_scikit_learn(seed, k):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(12, 2)), np.r_[0.0, 4.0, rng.integers(0, 5, size=10)]
    queries, grades = rng.normal(size=(6, 2)), rng.integers(0, 5, size=6)
    ranking = OrdinalRanker("passthrough").fit(X, y).rank(queries, k)
    distances = np.linalg.norm(queries[:, None] - X[None], axis=2)
    gains = 1 - np.abs(y[None] - grades[:, None]) / 4
    assert m.ndcg(ranking, grades, y) == pytest.approx(ndcg_score(gains, -distances, k=k))


def test_ndcg_where_nothing_is_of_use():
    ranking = Ranking(np.array([[1, 0]]), np.zeros((1, 2)), np.zeros((1, 2)))
    assert m.ndcg(ranking, [4], [0, 0]) == 1


def test_a_ranking_with_no_filled_place_has_no_precision():
    ranking = Ranking(np.array([[-1]]), np.full((1, 1), np.inf), np.full((1, 1), np.nan))
    assert np.isnan(m.same_grade_precision(ranking, [1]))
    with pytest.raises(InputError, match="answers 1 queries, but 2"):
        m.same_grade_precision(ranking, [1, 2])


def test_inside_grade_keeps_the_order_and_fills_up():
    labels = np.array([[1.0, 2.0, 1.0, 2.0]])
    ranking = Ranking(np.array([[3, 2, 1, 0]]), np.array([[1.0, 2.0, 3.0, 4.0]]), labels)
    inside = m.inside_grade(ranking, [2], 3)
    assert inside.indices.tolist() == [[2, 0, -1]]
    assert inside.distances.tolist() == [[2.0, 4.0, np.inf]]
    named = Ranking(ranking.indices, ranking.distances, np.array([["a", "b", "a", "b"]], dtype=object))
    assert m.inside_grade(named, ["b"], 3).labels.tolist() == [["b", "b", None]]


def test_ndcg_of_unfilled_places_and_of_one_label():
    ranking = Ranking(np.array([[0, -1]]), np.zeros((1, 2)), np.array([[1.0, np.nan]]))
    assert m.ndcg(ranking, [1], [1, 1]) == pytest.approx(1 / (1 + 1 / np.log2(3)))
