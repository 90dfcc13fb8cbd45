from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, ndcg_score
from sklearn.metrics import confusion_matrix as sklearn_confusion_matrix

from ordrank import OrdinalRanker, Ranking
from ordrank import metrics as m
from ordrank.errors import InputError


def test_errors_and_accuracy_of_a_small_example():
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


def test_nearest_label_is_the_lower_one_on_ties():
    labels = np.array([0.0, 1.0, 5.0])
    assert m.nearest_label(labels, np.array([-9, 0.5, 0.6, 3, 3.1, 99])).tolist() == [0, 0, 1, 1, 2, 2]


ratings = st.integers(0, 10**6).map(lambda seed: np.random.default_rng(seed).integers(0, 4, size=(2, 30)))


class TestQuadraticWeightedKappa:
    @given(ratings)
    def test_equals_scikit_learn_for_equally_spaced_labels(self, pair):
        expected = cohen_kappa_score(*pair, labels=range(4), weights="quadratic")
        assert m.quadratic_weighted_kappa(*pair) == pytest.approx(expected, abs=1e-12)
        assert (m.confusion_matrix(*pair, labels=range(4)) == sklearn_confusion_matrix(*pair, labels=range(4))).all()

    @given(ratings, st.lists(st.floats(-50, 50), min_size=4, max_size=4, unique=True))
    def test_is_the_definition_with_squared_differences_of_values_as_weights(self, pair, values):
        labels = np.sort(values)
        weights = (labels[:, None] - labels) ** 2
        observed = m.confusion_matrix(*pair, labels=range(4)) / 30
        expected = np.outer(observed.sum(axis=1), observed.sum(axis=0))
        kappa = m.quadratic_weighted_kappa(labels[pair[0]], labels[pair[1]])
        assert kappa * (weights * expected).sum() == pytest.approx((weights * (expected - observed)).sum(), abs=1e-8)

    @given(ratings, st.floats(0.1, 10), st.floats(-10, 10))
    def test_is_invariant_to_shift_and_scale_of_the_labels(self, pair, scale, shift):
        moved = m.quadratic_weighted_kappa(scale * pair[0] + shift, scale * pair[1] + shift)
        assert moved == pytest.approx(m.quadratic_weighted_kappa(*pair), abs=1e-9)

    def test_is_one_for_perfect_agreement_and_zero_on_average_for_independent_ratings(self):
        rng = np.random.default_rng(0)
        grades = rng.choice([0, 1, 5], size=200)
        assert m.quadratic_weighted_kappa(grades, grades) == 1
        chance = [m.quadratic_weighted_kappa(grades, rng.permutation(grades)) for _ in range(500)]
        assert abs(np.mean(chance)) < 0.01
        assert m.quadratic_weighted_kappa([0.1] * 3, [0.1] * 3) == 1
        assert m.quadratic_weighted_kappa([0.1] * 3, [0.2] * 3) == pytest.approx(0)

    def test_gapped_labels_weigh_values_not_positions(self):
        grades, near, far = [0, 0, 1, 1, 5, 5], [0, 1, 1, 1, 5, 5], [0, 0, 1, 5, 5, 5]
        by_position = [cohen_kappa_score(grades, estimates, weights="quadratic") for estimates in (near, far)]
        assert by_position[0] < by_position[1]  # by position a miss of 4 even scores better than a miss of 1
        assert m.quadratic_weighted_kappa(grades, near) > m.quadratic_weighted_kappa(grades, far) + 0.2

    def test_estimates_are_rounded_to_the_nearest_label(self):
        assert m.quadratic_weighted_kappa([0, 1, 5], [0.4, 2.9, 3.1], labels=[0, 1, 5]) == 1


def test_confusion_matrix_counts_grades_by_nearest_label():
    matrix = m.confusion_matrix([0, 1, 1, 5], [0.4, 0.5, 3, 9])
    assert matrix.tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    with pytest.raises(InputError, match="grade 5 is not among the labels"):
        m.confusion_matrix([1, 5], [1, 1], labels=[1, 2])


@pytest.mark.parametrize(
    "score", [m.mean_absolute_error, m.accuracy, m.kendall_tau, m.quadratic_weighted_kappa, m.confusion_matrix]
)
def test_vectors_of_different_or_zero_length_are_rejected(score):
    for grades, estimates in (([1, 2], [1]), ([], [])):
        with pytest.raises(InputError, match="same length"):
            score(grades, estimates)


@pytest.mark.parametrize("value", [np.nan, np.inf, "good", None])
@pytest.mark.parametrize(
    "score",
    [
        m.mean_absolute_error,
        m.mean_absolute_error_per_grade,
        m.accuracy,
        partial(m.accuracy, labels=[1, 2]),
        m.confusion_matrix,
        m.quadratic_weighted_kappa,
        m.kendall_tau,
        lambda grades, estimates: m.order_preservation(np.zeros((3, 1)), grades, query_labels=estimates),
        lambda grades, estimates: m.ndcg(Ranking(*np.zeros((3, 3, 1), dtype=int)), grades, estimates),
    ],
)
def test_what_is_not_a_finite_number_has_no_score(score, value):
    bad = [1, value, 2]
    for arguments in ((bad, [1, 2, 2]), ([1, 2, 2], bad)):
        with pytest.raises(InputError, match="must be finite numbers"):
            score(*arguments)
    with pytest.raises(InputError, match="labels must be finite numbers"):
        m.accuracy([1, 2], [1, 2], labels=bad)


def test_scores_of_tensors_equal_those_of_arrays():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 4
    ranker = OrdinalRanker("passthrough", n_neighbors=3).fit(X, y)
    queries, grades = rng.normal(size=(9, 3)), np.arange(9) % 4
    arrays, tensors = ranker.rank(queries, 40), ranker.rank(torch.as_tensor(queries), 40)
    assert isinstance(tensors.labels, torch.Tensor)
    there = torch.as_tensor(grades)
    for one, other in ((m.inside_grade(arrays, grades, 3), m.inside_grade(tensors, there, 3)), (arrays, tensors)):
        assert m.same_grade_precision(other, there) == m.same_grade_precision(one, grades)
        assert m.same_subject_precision(other, torch.as_tensor(y), there) == m.same_subject_precision(one, y, grades)
        assert m.ndcg(other, there, torch.as_tensor(y)) == m.ndcg(one, grades, y)
    estimates = torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16, requires_grad=True)
    assert m.mean_absolute_error(torch.as_tensor([1, 2, 4]), estimates) == pytest.approx(1 / 3)


def share_of_ordered_triplets(points, labels, queries, query_labels):
    """Property (i) by its definition."""
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
    expected = share_of_ordered_triplets(points, labels, queries, query_labels)
    assert m.order_preservation(points, labels, **given_queries) == pytest.approx(expected, nan_ok=True)


def test_order_preservation_is_one_on_a_line_and_zero_at_a_point():
    labels = np.repeat([1.0, 2.0, 4.0, 9.0], 5)
    assert m.order_preservation(labels[:, None], labels) == 1
    assert m.order_preservation(np.zeros((20, 2)), labels) == 0
    assert np.isnan(m.order_preservation(np.zeros((4, 1)), [1, 1, 2, 2]))


def test_precision_ignores_padding():
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


def test_ndcg_is_one_if_no_sample_has_gain():
    ranking = Ranking(np.array([[1, 0]]), np.zeros((1, 2)), np.zeros((1, 2)))
    assert m.ndcg(ranking, [4], [0, 0]) == 1


def test_precision_of_an_empty_ranking_is_nan():
    ranking = Ranking(np.array([[-1]]), np.full((1, 1), np.inf), np.full((1, 1), np.nan))
    assert np.isnan(m.same_grade_precision(ranking, [1]))
    with pytest.raises(InputError, match="has 1 queries, but 2 values"):
        m.same_grade_precision(ranking, [1, 2])


def test_inside_grade_keeps_the_order_and_pads():
    labels = np.array([[1.0, 2.0, 1.0, 2.0]])
    ranking = Ranking(np.array([[3, 2, 1, 0]]), np.array([[1.0, 2.0, 3.0, 4.0]]), labels)
    inside = m.inside_grade(ranking, [2], 3)
    assert inside.indices.tolist() == [[2, 0, -1]]
    assert inside.distances.tolist() == [[2.0, 4.0, np.inf]]
    named = Ranking(ranking.indices, ranking.distances, np.array([["a", "b", "a", "b"]], dtype=object))
    assert m.inside_grade(named, ["b"], 3).labels.tolist() == [["b", "b", None]]


def test_ndcg_with_padding_and_a_single_label():
    ranking = Ranking(np.array([[0, -1]]), np.zeros((1, 2)), np.array([[1.0, np.nan]]))
    assert m.ndcg(ranking, [1], [1, 1]) == pytest.approx(1 / (1 + 1 / np.log2(3)))
