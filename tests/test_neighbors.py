import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordrank.errors import NeighborsCappedWarning
from ordrank.neighbors import k_nearest, target_neighbors


def brute_force(points, queries, k, exclude_self=False):
    squared = ((queries[:, None].astype(float) - points[None].astype(float)) ** 2).sum(-1)
    if exclude_self:
        np.fill_diagonal(squared, np.inf)
    order = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return order, np.sqrt(np.take_along_axis(squared, order, axis=1))


@given(st.integers(0, 10**6), st.integers(2, 30), st.integers(1, 6), st.sampled_from([1, 7, 50, 10**6]), st.booleans())
def test_equals_brute_force_with_ties_by_index(seed, n, d, block, integer):
    rng = np.random.default_rng(seed)
    # Small integers make many exact ties.
    points = rng.integers(0, 3, size=(n, d)).astype(float) if integer else rng.normal(size=(n, d))
    k = int(rng.integers(1, n))
    for queries, exclude in ((points, True), (points[: n // 2 + 1] + 0.5 * integer, False)):
        indices, distances = k_nearest(points, queries, k, exclude_self=exclude, block_elements=block)
        expected, expected_distances = brute_force(points, queries, k, exclude)
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_allclose(distances, expected_distances)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_on_data_with_a_large_common_offset(dtype):
    rng = np.random.default_rng(0)
    points = (rng.normal(size=(300, 8)) + 1000).astype(dtype)
    indices, _ = k_nearest(points, points, 5, exclude_self=True)
    np.testing.assert_array_equal(indices, brute_force(points, points, 5, True)[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_on_two_distant_tight_clusters(dtype):
    rng = np.random.default_rng(0)
    points = np.vstack([rng.normal(size=(50, 4)), rng.normal(size=(50, 4)) + 1e4]).astype(dtype)
    indices, _ = k_nearest(points, points, 3, exclude_self=True)
    np.testing.assert_array_equal(indices, brute_force(points, points, 3, True)[0])


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_target_neighbours_are_the_nearest_of_the_label(seed, k):
    rng = np.random.default_rng(seed)
    X, label = rng.normal(size=(40, 3)), rng.integers(0, 3, size=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NeighborsCappedWarning)
        pairs = target_neighbors(X, label, k)
    assert (np.diff(pairs.first) >= 0).all()
    for i in range(40):
        members = np.flatnonzero((label == label[i]) & (np.arange(40) != i))
        distance = np.linalg.norm(X[members] - X[i], axis=1)
        expected = members[np.argsort(distance, kind="stable")][:k]
        np.testing.assert_array_equal(pairs.second[pairs.first == i], expected)
    np.testing.assert_allclose(pairs.squared_distances, ((X[pairs.first] - X[pairs.second]) ** 2).sum(1))


def test_duplicates_are_neighbours_of_each_other_but_nobody_of_himself():
    pairs = target_neighbors(np.zeros((4, 2)), np.zeros(4, dtype=int), 2)
    np.testing.assert_array_equal(pairs.second.reshape(4, 2), [[1, 2], [0, 2], [0, 1], [0, 1]])
    assert not pairs.squared_distances.any()


def test_small_labels_cap_the_number_with_a_warning_that_says_so():
    X, label = np.arange(8.0)[:, None], np.array([0, 0, 0, 0, 0, 1, 1, 2])
    with pytest.warns(NeighborsCappedWarning, match=r"2 of 3 labels have at most n_neighbors=3 .* smallest has 1"):
        pairs = target_neighbors(X, label, 3)
    np.testing.assert_array_equal(np.bincount(pairs.first, minlength=8), [3, 3, 3, 3, 3, 1, 1, 0])


def test_no_pairs_at_all():
    with pytest.warns(NeighborsCappedWarning):
        pairs = target_neighbors(np.arange(3.0)[:, None], np.arange(3), 2)
    assert len(pairs) == 0


def test_memory_stays_far_below_a_square_matrix():
    rng = np.random.default_rng(0)
    X, label = rng.normal(size=(6000, 4)), np.zeros(6000, dtype=int)
    tracemalloc.start()
    target_neighbors(X, label, 3, block_elements=200_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * 6000**2 * 8
