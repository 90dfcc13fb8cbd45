"""Leave-one-out k-NN: fast selection equals sorting, and successive elimination selects what full evaluation does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from ordrank import OrdinalMetric
from ordrank.estimators._defaults import DEFAULTS, Defaults
from ordrank.estimators._ordinal.cross_validation import LeaveOneOutKNN, _k_smallest
from ordrank.neighbors.voting import medians_of_first, vote_weights, weighted_median

LOCALITIES = DEFAULTS.localities


@given(st.integers(1, 40), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_medians_of_the_first_k_votes_equal_weighted_medians(q, n_labels, seed):
    rng = np.random.default_rng(seed)
    numbers = [1, 3, 7, 15, 20]
    votes = rng.integers(n_labels, size=(q, numbers[-1]))
    distances = np.sort(rng.integers(0 if seed % 2 else 1, 9, votes.shape), axis=1).astype(np.float64)
    expected = [weighted_median(votes[:, :k], vote_weights(distances[:, :k])) for k in numbers]
    np.testing.assert_array_equal(medians_of_first(votes, vote_weights(distances), numbers, n_labels), expected)


@given(st.integers(1, 8), st.integers(2, 300), st.data())
def test_k_smallest_equals_sorting(q, n, data):
    k = data.draw(st.integers(1, n - 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    values = rng.integers(data.draw(st.sampled_from([2, 20, 10**6])), size=(q, n)).astype(np.float64)
    values[:, rng.integers(n)] = np.inf
    columns, smallest = _k_smallest(values, k)
    np.testing.assert_array_equal(smallest, np.sort(values, axis=1)[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(values, columns, axis=1), smallest)
    assert all(len(set(row)) == k for row in columns)


@pytest.fixture
def order():
    """Samples whose label is their first feature plus noise, and leave-one-out distances in it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    labels = np.digitize(X[:, 0] + 0.3 * rng.normal(size=900), [-1.0, 0.0, 1.0]).astype(np.float64)

    def squared(rows):
        distances = (X[rows, None, 0] - X[None, :, 0]) ** 2
        distances[np.arange(len(rows)), rows] = np.inf
        return distances

    return X / np.sqrt(4), labels, lambda dtype: lambda rows: squared(rows).astype(dtype)


@pytest.mark.parametrize("noise", [0, 5])  # with noise the features are uninformative
def test_successive_elimination_selects_what_full_evaluation_does(noise, order):
    X, labels, squared = order
    X = X + noise * np.random.default_rng(1).normal(size=X.shape)
    found, near = LeaveOneOutKNN(X, labels, 900, np.random.default_rng(0)).select_locality(squared, LOCALITIES)
    knn = LeaveOneOutKNN(X, labels, 900, np.random.default_rng(0), defaults=Defaults(elimination_rounds=()))
    expected, everyone = knn.select_locality(squared, LOCALITIES)
    assert found == expected
    order = np.argsort(near.rows)
    np.testing.assert_array_equal(near.rows[order], everyone.rows)
    np.testing.assert_array_equal(near.distances[order], everyone.distances)


def test_errors_of_several_maps_equal_those_of_each(order):
    X, labels, squared = order
    worse = lambda dtype: lambda rows: np.sqrt(squared(dtype)(rows)) + dtype(1)  # noqa: E731
    knn = LeaveOneOutKNN(X, labels, 300, np.random.default_rng(0))
    together = knn.errors([squared, worse])
    for errors, one_map in zip(together, [squared, worse], strict=True):
        np.testing.assert_array_equal(errors, knn.errors([one_map])[0])
    assert together[0].shape == (300,)


def test_the_search_ends_where_any_weight_of_the_features_is_worse(order):
    _, labels, squared = order
    X = np.random.default_rng(1).normal(size=(900, 4)) / np.sqrt(4)  # uninformative
    calls = []

    def counted(dtype):
        of_rows = squared(dtype)

        def counting(rows):
            calls.append(len(rows))
            assert len(calls) < 1000, "λ = 0 is doubled forever"
            return of_rows(rows)

        return counting

    knn = LeaveOneOutKNN(X, labels, 900, np.random.default_rng(0))
    assert knn.select_locality(counted, [0.0, 4.0, 8.0])[0] == 0.0


def test_a_given_locality_is_kept(order):
    X, labels, squared = order
    chosen, near = LeaveOneOutKNN(X, labels, 900, np.random.default_rng(0)).select_locality(squared, [0.37])
    assert chosen == 0.37
    np.testing.assert_array_equal(np.sort(near.rows), np.arange(900))


def test_locality_grows_beyond_the_grid_if_the_features_predict_better_than_the_order():
    """Digits are classes rather than grades."""
    X, y = load_digits(return_X_y=True)
    assert OrdinalMetric(kernel="linear").fit(X[:900], y[:900]).locality_ > LOCALITIES[-1]
