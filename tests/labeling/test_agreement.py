"""Several graders: laws of their agreement and of the consensus."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import cohen_kappa_score

from ordrank.errors import InputError
from ordrank.labeling.agreement import (
    Ratings,
    consensus,
    disagreements,
    grader_scores,
    pairwise_agreement,
    weighted_median,
)

GRADES = arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 5)),
    elements=st.sampled_from([0.0, 1.0, 2.0, 3.0, np.nan]),
)


def ratings_of(grades):
    grades = np.asarray(grades, dtype=float)
    samples, graders = (tuple(range(size)) for size in grades.shape)
    return Ratings(samples, graders, grades)


def simulate(errors, n=300, seed=0):
    """Grades of n samples by graders who miss the true grade by one with the given probabilities."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 6, n)
    shift = rng.choice([-1, 1], (n, len(errors))) * (rng.random((n, len(errors))) < errors)
    return truth, ratings_of(truth[:, None] + shift)


class TestRatings:
    def test_the_last_grade_of_a_grader_counts(self):
        found = Ratings.from_rows([("a", "Ann", 1), ("b", "Ben", 2), ("a", "Ann", 3)])
        assert (found.samples, found.graders) == (("a", "b"), ("Ann", "Ben"))
        np.testing.assert_array_equal(found.grades, [[3, np.nan], [np.nan, 2]])

    @pytest.mark.parametrize("grade", [np.nan, np.inf, -np.inf])
    def test_grades_must_be_numbers(self, grade):
        with pytest.raises(InputError, match="Ann"):
            Ratings.from_rows([("a", "Ann", grade)])

    def test_no_ratings(self):
        empty = Ratings.from_rows([])
        assert consensus(empty).grades.shape == (0,)
        assert (pairwise_agreement(empty), disagreements(empty, consensus(empty))) == ((), ())


class TestWeightedMedian:
    @given(grades=GRADES)
    def test_with_equal_weights_it_is_the_median(self, grades):
        known = ~np.isnan(grades).all(axis=1)
        found = weighted_median(grades, np.ones(grades.shape[1]))
        np.testing.assert_allclose(found[known], np.nanmedian(grades[known], axis=1))
        assert np.isnan(found[~known]).all()

    @given(grades=GRADES, seed=st.integers(0, 100))
    def test_it_minimises_weighted_absolute_differences_but_for_near_ties(self, grades, seed):
        weights = np.random.default_rng(seed).uniform(0.2, 3, grades.shape[1])
        found = weighted_median(grades, weights)
        for row, median in zip(grades, found, strict=True):
            known = ~np.isnan(row)
            if not known.any():
                continue
            cost = [(weights[known] * np.abs(row[known] - value)).sum() for value in (*row[known], median)]
            slack = 0.4 * weights[known].mean() * np.ptp(row[known])
            assert cost[-1] <= min(cost) + slack

    @given(grades=GRADES, seed=st.integers(0, 100))
    def test_the_order_of_the_graders_does_not_matter(self, grades, seed):
        rng = np.random.default_rng(seed)
        weights, order = rng.uniform(0.2, 3, grades.shape[1]), rng.permutation(grades.shape[1])
        np.testing.assert_array_equal(
            weighted_median(grades, weights), weighted_median(grades[:, order], weights[order])
        )


class TestConsensus:
    @given(grades=GRADES)
    def test_it_lies_between_the_grades_of_each_sample(self, grades):
        found = consensus(ratings_of(grades))
        known = ~np.isnan(grades).all(axis=1)
        assert (found.grades[known] >= np.nanmin(grades[known], axis=1)).all()
        assert (found.grades[known] <= np.nanmax(grades[known], axis=1)).all()
        assert found.weights.mean() == pytest.approx(1)

    @given(grades=GRADES, shift=st.sampled_from([-5.0, 3.0]))
    def test_shifted_grades_have_a_shifted_consensus(self, grades, shift):
        found, moved = consensus(ratings_of(grades)), consensus(ratings_of(grades + shift))
        np.testing.assert_allclose(moved.grades, found.grades + shift)
        np.testing.assert_allclose(moved.weights, found.weights)

    def test_one_grader_has_the_last_word(self):
        np.testing.assert_array_equal(consensus(ratings_of([[2], [0]])).grades, [2, 0])

    def test_unreliable_graders_have_little_weight(self):
        truth, ratings = simulate([0.05, 0.1, 0.6, 0.6])
        found = consensus(ratings)
        assert found.converged
        assert found.weights[0] > 2 * found.weights[2]
        plain = np.nanmedian(ratings.grades, axis=1)
        assert np.abs(found.grades - truth).mean() < 0.5 * np.abs(plain - truth).mean()

    def test_it_is_rounded_to_known_labels_the_lower_on_ties(self):
        found = consensus(ratings_of([[1, 2], [0, 2]]), labels=[0, 1, 2])
        np.testing.assert_array_equal(found.grades, [1, 1])


class TestScores:
    def test_bias_and_error_are_those_against_the_others(self):
        grades = np.array([[1, 1, 2], [2, 2, 3], [0, 0, 1.0]])
        scores = grader_scores(ratings_of(grades), consensus(ratings_of(grades)))
        assert (scores[2].bias, scores[2].error) == (1, 1)
        assert (scores[0].n_graded, scores[0].n_compared) == (3, 3)

    def test_a_grader_without_common_samples_has_none(self):
        ratings = ratings_of([[1, np.nan], [np.nan, 2]])
        scores = grader_scores(ratings, consensus(ratings))
        assert all(np.isnan(score.error) and score.n_compared == 0 for score in scores)

    def test_kappa_is_that_of_scikit_learn(self):
        _, ratings = simulate([0.2, 0.5], n=50)
        (pair,) = pairwise_agreement(ratings)
        first, second = ratings.grades.T.astype(int)
        assert pair.kappa == pytest.approx(cohen_kappa_score(first, second, weights="quadratic"))
        assert pair.n_common == 50

    def test_largest_disagreements_come_first(self):
        ratings = ratings_of([[1, 1], [0, 3], [1, 2], [np.nan, 2]])
        found = disagreements(ratings, consensus(ratings))
        assert [(one.sample, one.spread) for one in found] == [(1, 3), (2, 1)]
        assert found[0].grades == ((0, 0.0), (1, 3.0))
