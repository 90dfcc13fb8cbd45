"""Votes on left-out samples: what is found fast is what sorting finds, and a race ends as a full count would."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from ordrank import OrdinalMetric
from ordrank.estimators import ballots
from ordrank.estimators.ballots import LOCALITIES, Ballots
from ordrank.votes import medians_of_first, vote_weights, weighted_median


@given(st.integers(1, 40), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_medians_of_the_first_votes_are_those_of_each_number(q, n_labels, seed):
    rng = np.random.default_rng(seed)
    numbers = [1, 3, 7, 15, 20]
    votes = rng.integers(n_labels, size=(q, numbers[-1]))
    distances = np.sort(rng.integers(0 if seed % 2 else 1, 9, votes.shape), axis=1).astype(np.float64)
    expected = [weighted_median(votes[:, :k], vote_weights(distances[:, :k])) for k in numbers]
    np.testing.assert_array_equal(medians_of_first(votes, vote_weights(distances), numbers, n_labels), expected)


@given(st.integers(1, 8), st.integers(2, 300), st.data())
def test_smallest_values_are_those_of_a_sort(q, n, data):
    k = data.draw(st.integers(1, n - 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    values = rng.integers(data.draw(st.sampled_from([2, 20, 10**6])), size=(q, n)).astype(np.float64)
    values[:, rng.integers(n)] = np.inf
    columns, smallest = ballots._k_smallest(values, k)
    np.testing.assert_array_equal(smallest, np.sort(values, axis=1)[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(values, columns, axis=1), smallest)
    assert all(len(set(row)) == k for row in columns)


@pytest.fixture
def order():
    """Samples whose first feature is their grade, but for noise, and distances in it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    labels = np.digitize(X[:, 0] + 0.3 * rng.normal(size=900), [-1.0, 0.0, 1.0]).astype(np.float64)

    def squared(rows):
        distances = (X[rows, None, 0] - X[None, :, 0]) ** 2
        distances[np.arange(len(rows)), rows] = np.inf
        return distances

    return X / np.sqrt(4), labels, lambda dtype: lambda rows: squared(rows).astype(dtype)


@pytest.fixture
def asked(monkeypatch):
    """How many samples were asked in how many ways, one entry for each count."""
    numbers = []
    count = Ballots._count_block

    def counted(self, rows, squared):
        numbers.append(squared.shape[:2])
        return count(self, rows, squared)

    monkeypatch.setattr(Ballots, "_count_block", counted)
    return numbers


@pytest.mark.parametrize("noise", [0, 5])  # with noise, what samples look like tells nothing
def test_a_race_ends_as_a_full_count(noise, order, asked, monkeypatch):
    X, labels, squared = order
    X = X + noise * np.random.default_rng(1).normal(size=X.shape)
    raced, near = Ballots(X, labels, 900, np.random.default_rng(0)).choose(squared, LOCALITIES)
    work = sum(ways * rows for ways, rows in asked)
    monkeypatch.setattr(ballots, "ROUNDS", ())
    full, everyone = Ballots(X, labels, 900, np.random.default_rng(0)).choose(squared, LOCALITIES)
    assert raced == full
    assert work < (0.6 if noise else 1.0) * 900 * len(LOCALITIES)
    rising = np.argsort(near.rows)
    np.testing.assert_array_equal(near.rows[rising], everyone.rows)
    np.testing.assert_array_equal(near.distances[rising], everyone.distances)


def test_few_samples_do_not_race(order, asked):
    X, labels, squared = order
    few = lambda dtype: lambda rows: squared(dtype)(rows)[:, :300]  # noqa: E731
    Ballots(X[:300], labels[:300], 900, np.random.default_rng(0)).choose(few, LOCALITIES)
    assert {ways for ways, _ in asked} == {len(LOCALITIES)}
    assert sum(rows for _, rows in asked) == 300


def test_several_maps_are_judged_as_each_of_them(order):
    X, labels, squared = order
    worse = lambda dtype: lambda rows: np.sqrt(squared(dtype)(rows)) + dtype(1)  # noqa: E731
    judge = Ballots(X, labels, 300, np.random.default_rng(0))
    together = judge.errors([squared, worse])
    for errors, order_map in zip(together, [squared, worse], strict=True):
        np.testing.assert_array_equal(errors, judge.errors([order_map])[0])
    assert together[0].shape == (300,)


def test_a_given_locality_is_kept(order):
    X, labels, squared = order
    chosen, near = Ballots(X, labels, 900, np.random.default_rng(0)).choose(squared, [0.37])
    assert chosen == 0.37
    np.testing.assert_array_equal(np.sort(near.rows), np.arange(900))


def test_more_locality_than_usual_where_looks_tell_more_than_the_order():
    """Digits are classes more than grades: the largest locality that is usually tried is not enough."""
    X, y = load_digits(return_X_y=True)
    assert OrdinalMetric(kernel="linear").fit(X[:900], y[:900]).locality_ > LOCALITIES[-1]
