import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordrank.smoothing import Lens, lens_of, squared_distances

SEEDS = st.integers(0, 2**31)


def unit(X, weights=None):
    X = X - np.average(X, axis=0, weights=weights)
    return X / np.sqrt(np.average((X**2).sum(axis=1), weights=weights))


def drawn(seed, n=40, d=5, n_labels=3):
    """Grades that show in the first feature, while the others, of falling size, say nothing."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % n_labels
    X = rng.normal(size=(n, d)) / np.arange(1, d + 1)
    X[:, 0] = 0.5 * labels + 0.1 * rng.normal(size=n)
    return unit(X), labels


def matrix(lens, d):
    return lens(np.eye(d))


def scatter_by_hand(X, labels, weights, *, same):
    """Sum over all pairs of a sample and a neighbour, one after the other."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for i in range(len(X)):
        distances = np.linalg.norm(X - X[i], axis=1)
        if np.sum(labels == labels[i]) == 1:
            continue
        others = np.flatnonzero(((labels == labels[i]) == same) & (distances > 1e-4))
        scatter = sum(weights[j] * distances[j] ** -12 * np.outer(X[i] - X[j], X[i] - X[j]) for j in others)
        total += weights[i] * scatter / np.trace(scatter)
    return total / weights.sum()


def power(A, exponent):
    values, vectors = np.linalg.eigh(A)
    return vectors * values**exponent @ vectors.T


def test_is_the_stated_formula():
    X, labels = drawn(0)
    weights = np.random.default_rng(1).uniform(0.5, 2, size=len(X))
    X = unit(X, weights)
    labels[0] = 7  # alone in its grade
    W, B = (scatter_by_hand(X, labels, weights, same=same) for same in (True, False))
    shrink = power(np.eye(5) + 10 * W, -0.5)
    expected = power(shrink @ (np.eye(5) + 30 * B) @ shrink, 0.5)
    lens = lens_of(X, labels, weights)
    np.testing.assert_allclose(matrix(lens, 5) * lens.size, expected, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([(40, 5), (12, 30)]))
def test_directions_are_orthonormal_and_samples_keep_unit_size(seed, shape):
    n, d = shape
    X, labels = drawn(seed, n, d)
    weights = np.random.default_rng(seed).uniform(0.2, 3, size=n)
    X = unit(X, weights)
    lens = lens_of(X, labels, weights)
    np.testing.assert_allclose(lens.directions @ lens.directions.T, np.eye(len(lens.stretches)), atol=1e-9)
    assert (lens.stretches > 0).all()
    assert np.average((lens(X) ** 2).sum(axis=1), weights=weights) == pytest.approx(1)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_turning_the_samples_turns_the_lens(seed):
    X, labels = drawn(seed)
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(5, 5)))[0]
    ones = np.ones(len(X))
    turned = lens_of(X @ rotation, labels, ones)
    np.testing.assert_allclose(turned(X @ rotation), lens_of(X, labels, ones)(X) @ rotation, atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_neither_order_nor_names_of_the_grades_matter(seed):
    X, labels = drawn(seed)
    order, ones = np.random.default_rng(seed).permutation(len(X)), np.ones(len(X))
    expected = matrix(lens_of(X, labels, ones), 5)
    np.testing.assert_allclose(matrix(lens_of(X[order], labels[order], ones), 5), expected, atol=1e-9)
    np.testing.assert_allclose(matrix(lens_of(X, 9 - 3 * labels, ones), 5), expected, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_a_weight_of_two_is_a_copy(seed):
    X, labels = drawn(seed)
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 4, size=len(X))
    X = unit(X, weights)
    copied = lens_of(np.repeat(X, weights, axis=0), np.repeat(labels, weights), np.ones(weights.sum()))
    np.testing.assert_allclose(matrix(copied, 5), matrix(lens_of(X, labels, weights.astype(float)), 5), atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_brings_grades_apart(seed):
    X, labels = drawn(seed)
    same = labels[:, None] == labels

    def contrast(Z):
        squared = squared_distances(Z, Z) + np.where(np.eye(len(Z)), np.inf, 0)
        nearest = [np.where(pairs, squared, np.inf).min(axis=1).mean() for pairs in (same, ~same)]
        return nearest[1] / nearest[0]

    assert contrast(lens_of(X, labels, np.ones(len(X)))(X)) > 1.2 * contrast(X)


def test_changes_nothing_where_no_two_samples_have_one_grade():
    X, _ = drawn(0)
    assert lens_of(X, np.arange(len(X)), np.ones(len(X))).is_plain


def test_changes_only_the_size_across_the_span_of_the_samples():
    X, labels = drawn(0, 12, 30)
    lens = lens_of(X, labels, np.ones(12))
    assert lens.directions.shape == (11, 30)  # their mean is zero
    across = np.linalg.svd(X)[2][-1]
    np.testing.assert_allclose(lens(across[None])[0] * lens.size, across, atol=1e-9)


def test_one_sample_far_away_hides_nothing():
    X, labels = drawn(0, 100)
    ones, far = np.ones(100), X.copy()
    far[0, 4] = 300.0
    expected, found = matrix(lens_of(X, labels, ones), 5), matrix(lens_of(unit(far), labels, ones), 5)
    np.testing.assert_allclose(found / found[0, 0], expected / expected[0, 0], atol=0.1)


def test_samples_that_hardly_count_hardly_matter():
    X, labels = drawn(0)
    weights = np.where(np.arange(len(X)) < 10, 1e-12, 1.0)
    counted = lens_of(unit(X, weights)[10:], labels[10:], weights[10:])
    np.testing.assert_allclose(matrix(lens_of(unit(X, weights), labels, weights), 5), matrix(counted, 5), atol=1e-8)


def test_grades_of_which_all_samples_are_copies_are_no_obstacle():
    X = unit(np.repeat(np.random.default_rng(0).normal(size=(3, 4)), 5, axis=0))
    lens = lens_of(X, np.repeat([0, 1, 2], 5), np.ones(15))
    assert np.isfinite(lens(X)).all()


def test_plain_glass_shows_samples_as_they_are():
    X, _ = drawn(0)
    assert Lens.plain(5)(X) is X
