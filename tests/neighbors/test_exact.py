import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordrank.errors import NeighborsCappedWarning
from ordrank.neighbors import k_nearest, target_neighbors
from tests.contracts.backends import every_backend, host, put


def brute_force(points, queries, k, exclude_self=False):
    squared = ((queries[:, None].astype(float) - points[None].astype(float)) ** 2).sum(-1)
    if exclude_self:
        np.fill_diagonal(squared, np.inf)
    order = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return order, np.sqrt(np.take_along_axis(squared, order, axis=1))


@every_backend
@given(
    st.integers(0, 10**6),
    st.integers(2, 30),
    st.integers(1, 6),
    st.sampled_from([None, 1, 7, 50, 10**6]),  # None: few samples are compared directly
    st.booleans(),
)
def test_equals_brute_force_with_ties_by_index(backend, seed, n, d, block, integer):
    rng = np.random.default_rng(seed)
    # Small integers make many exact ties.
    points = rng.integers(0, 3, size=(n, d)).astype(float) if integer else rng.normal(size=(n, d))
    k = int(rng.integers(1, n))
    for queries, exclude in ((points, True), (points[: n // 2 + 1] + 0.5 * integer, False)):
        searched = put(points, backend)
        asked = searched if exclude else put(queries, backend)
        indices, distances = k_nearest(searched, asked, k, exclude_self=exclude, block_elements=block)
        expected, expected_distances = brute_force(points, queries, k, exclude)
        np.testing.assert_array_equal(host(indices), expected)
        np.testing.assert_allclose(host(distances), expected_distances)


def adversarial(kind, n, rng):
    """Samples whose distances lose all digits in a low-precision product."""
    points = rng.normal(size=(n, 4))
    if kind == "large offset":
        return points + 1000
    if kind == "two distant tight clusters":
        return points + 1e4 * (np.arange(n) % 2)[:, None]
    if kind == "very distant tight clusters":
        return points + 1e6 * (np.arange(n) % 3)[:, None]
    if kind == "duplicates":
        return points[rng.integers(0, n // 20, n)]
    if kind == "constant":
        return np.ones((n, 4))
    if kind == "outlier":
        points[n // 2] = 1e7
        return points
    if kind == "small and large":
        return points * np.exp(rng.uniform(-15, 15, size=(n, 1)))
    return np.round(2 * points)  # many equal distances


KINDS = [
    "large offset",
    "two distant tight clusters",
    "very distant tight clusters",
    "duplicates",
    "constant",
    "outlier",
    "small and large",
    "integers",
]


@every_backend
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [100, 1300])  # the latter are searched by groups
@pytest.mark.parametrize("kind", KINDS)
def test_exact_on_adversarial_data(backend, dtype, n, kind):
    points = adversarial(kind, n, np.random.default_rng(0)).astype(dtype)
    there = put(points, backend)
    indices, distances = k_nearest(there, there, 2, exclude_self=True)
    expected, expected_distances = brute_force(points, points, 2, True)
    np.testing.assert_array_equal(host(indices), expected)
    np.testing.assert_allclose(host(distances), expected_distances)


@every_backend
def test_exact_for_queries_far_from_all_points(backend):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2600, 3))
    queries = rng.normal(size=(7, 3)) * np.logspace(0, 8, 7)[:, None]
    indices, _ = k_nearest(put(points, backend), put(queries, backend), 4)
    np.testing.assert_array_equal(host(indices), brute_force(points, queries, 4)[0])


@every_backend
def test_exact_for_consecutive_neighbours(backend):
    """Like frames of a video, whose neighbours would all fall into one group of consecutive samples."""
    points = np.cumsum(np.random.default_rng(0).normal(size=(1300, 5)), axis=0)
    there = put(points, backend)
    indices, _ = k_nearest(there, there, 2, exclude_self=True)
    np.testing.assert_array_equal(host(indices), brute_force(points, points, 2, True)[0])


def test_no_queries():
    indices, distances = k_nearest(np.eye(3), np.empty((0, 3)), 2)
    assert indices.shape == distances.shape == (0, 2)


@every_backend
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_target_neighbours_are_the_nearest_of_the_same_label(backend, seed, k):
    rng = np.random.default_rng(seed)
    X, label = rng.normal(size=(40, 3)), rng.integers(0, 3, size=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NeighborsCappedWarning)
        found = target_neighbors(put(X, backend), put(label, backend), k)
    first, second, squared = (host(part) for part in (found.first, found.second, found.squared_distances))
    assert (np.diff(first) >= 0).all()
    for i in range(40):
        members = np.flatnonzero((label == label[i]) & (np.arange(40) != i))
        distance = np.linalg.norm(X[members] - X[i], axis=1)
        expected = members[np.argsort(distance, kind="stable")][:k]
        np.testing.assert_array_equal(second[first == i], expected)
    np.testing.assert_allclose(squared, ((X[first] - X[second]) ** 2).sum(1))


def test_duplicates_are_neighbours_of_each_other_but_not_of_themselves():
    pairs = target_neighbors(np.zeros((4, 2)), np.zeros(4, dtype=int), 2)
    np.testing.assert_array_equal(pairs.second.reshape(4, 2), [[1, 2], [0, 2], [0, 1], [0, 1]])
    assert not pairs.squared_distances.any()


def test_small_labels_cap_the_number_of_neighbours_with_a_warning():
    X, label = np.arange(8.0)[:, None], np.array([0, 0, 0, 0, 0, 1, 1, 2])
    with pytest.warns(NeighborsCappedWarning, match=r"2 of 3 labels have at most n_neighbors=3 .* smallest has 1"):
        pairs = target_neighbors(X, label, 3)
    np.testing.assert_array_equal(np.bincount(pairs.first, minlength=8), [3, 3, 3, 3, 3, 1, 1, 0])


def test_labels_with_one_sample_give_no_pairs():
    with pytest.warns(NeighborsCappedWarning):
        pairs = target_neighbors(np.arange(3.0)[:, None], np.arange(3), 2)
    assert len(pairs) == 0


def test_memory_stays_far_below_n_squared():
    rng = np.random.default_rng(0)
    X, label = rng.normal(size=(6000, 4)), np.zeros(6000, dtype=int)
    tracemalloc.start()
    target_neighbors(X, label, 3, block_elements=200_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * 6000**2 * 8


@every_backend
@pytest.mark.parametrize("shape", [(40, 11), (30, 140)])  # the second needs several blocks
def test_direct_and_blocked_search_are_bit_equal(backend, shape):
    """Hits of shards of different sizes are merged, so ties must be exact."""
    there = put(np.random.default_rng(0).normal(size=shape), backend)
    few, many = (k_nearest(there, there, 9, exclude_self=True, block_elements=bound) for bound in (None, 10**6))
    for one, other in zip(few, many, strict=True):
        np.testing.assert_array_equal(host(one), host(other))
