import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ordrank.errors import InputError
from ordrank.geometry import (
    beta_bound,
    check_distance_matrix,
    double_center,
    is_edm,
    label_distances,
    smallest_eigenvalue,
    squared_distances,
)

label_sets = st.lists(st.integers(-50, 50), min_size=2, max_size=12, unique=True).map(lambda a: np.array(sorted(a)) / 4)
points = st.tuples(st.integers(1, 10), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-100, 100, width=32))
)


def test_label_distances_are_gaps_plus_beta():
    expected = np.array([[0, 5, 19], [5, 0, 15], [19, 15, 0]])
    np.testing.assert_array_equal(label_distances([1, 5, 19], beta=1) * (1 - np.eye(3)), expected)


@given(label_sets, st.floats(0, 20))
def test_every_beta_from_zero_upwards_gives_an_edm(labels, beta):
    assert is_edm(label_distances(labels, beta) ** 2)


@given(label_sets)
def test_theorem_1_bound_is_zero_for_every_label_set(labels):
    assert abs(beta_bound(labels)) <= 1e-10 * np.ptp(labels) * len(labels)


@given(label_sets, st.floats(0.01, 0.9))
def test_negative_beta_gives_no_edm_for_three_or_more_labels(labels, share):
    assume(len(labels) >= 3)
    beta = -share * np.diff(labels).min()
    assert not is_edm(label_distances(labels, beta) ** 2)


def test_counterexample_with_negative_beta():
    assert smallest_eigenvalue(label_distances([1, 2, 3, 4, 5], beta=-0.5) ** 2) == pytest.approx(-0.5986, abs=1e-4)


def test_beta_below_the_smallest_gap_is_rejected():
    with pytest.raises(InputError, match=r"beta=-1\.5 makes some label distances negative"):
        label_distances([1, 2, 3], beta=-1.5)


@given(points)
def test_distances_of_points_are_an_edm(Z):
    assert is_edm(squared_distances(Z))


@given(points, st.randoms(use_true_random=False))
def test_double_centring_recovers_the_gram_matrix_of_weighted_centred_points(Z, random):
    weights = np.array([random.uniform(0.1, 3) for _ in Z])
    centred = Z - weights @ Z / weights.sum()
    scale = 1 + np.abs(centred).max() ** 2
    np.testing.assert_allclose(double_center(squared_distances(Z), weights), centred @ centred.T, atol=1e-10 * scale)


def test_violated_triangle_inequality_is_no_edm():
    assert not is_edm(np.array([[0, 1, 9], [1, 0, 1], [9, 1, 0]]))


@pytest.mark.parametrize(
    ("matrix", "complaint"),
    [
        (np.zeros((2, 3)), "square"),
        ([[0, np.nan], [np.nan, 0]], "NaN or infinity"),
        ([[0, -1], [-1, 0]], "negative"),
        ([[0, 1], [2, 0]], "symmetric"),
        ([[1, 1], [1, 1]], "zero diagonal"),
    ],
)
def test_invalid_distance_matrices_are_rejected(matrix, complaint):
    with pytest.raises(InputError, match=f"mine .*{complaint}"):
        check_distance_matrix(matrix, "mine")


def test_input_matrix_is_not_modified():
    given_matrix = np.array([[0.0, 1.0], [1.0 + 1e-12, 1e-14]])
    before = given_matrix.copy()
    check_distance_matrix(given_matrix)
    np.testing.assert_array_equal(given_matrix, before)
