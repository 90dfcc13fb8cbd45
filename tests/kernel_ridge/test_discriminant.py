import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordrank.kernel_ridge import DiscriminantRescaling, local_discriminant_metric, pairwise_squared_distances

SEEDS = st.integers(0, 2**31)


def unit(X, weights=None):
    X = X - np.average(X, axis=0, weights=weights)
    return X / np.sqrt(np.average((X**2).sum(axis=1), weights=weights))


def drawn(seed, n=40, d=5, n_labels=3):
    """Labels that depend on the first feature only; the others have decreasing variance."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % n_labels
    X = rng.normal(size=(n, d)) / np.arange(1, d + 1)
    X[:, 0] = 0.5 * labels + 0.1 * rng.normal(size=n)
    return unit(X), labels


def rescaling_of(X, labels, weights, power=6):
    return local_discriminant_metric(X, labels, weights, within=10.0, between=30.0, power=power)


def matrix(rescaling, d):
    return rescaling(np.eye(d))


def scatter_by_hand(X, labels, weights, *, same, power):
    """Return the scatter by explicit loops."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for i in range(len(X)):
        distances = np.linalg.norm(X - X[i], axis=1)
        if np.sum(labels == labels[i]) == 1:
            continue
        others = np.flatnonzero(((labels == labels[i]) == same) & (distances > 1e-4))
        scatter = sum(weights[j] * distances[j] ** (-2 * power) * np.outer(X[i] - X[j], X[i] - X[j]) for j in others)
        total += weights[i] * scatter / np.trace(scatter)
    return total / weights.sum()


def matrix_power(A, exponent):
    values, vectors = np.linalg.eigh(A)
    return vectors * values**exponent @ vectors.T


@pytest.mark.parametrize("power", [1, 2, 6])
def test_equals_the_stated_formula(power):
    X, labels = drawn(0)
    weights = np.random.default_rng(1).uniform(0.5, 2, size=len(X))
    X = unit(X, weights)
    labels[0] = 7  # the only sample of its label
    W, B = (scatter_by_hand(X, labels, weights, same=same, power=power) for same in (True, False))
    shrink = matrix_power(np.eye(5) + 10 * W, -0.5)
    expected = matrix_power(shrink @ (np.eye(5) + 30 * B) @ shrink, 0.5)
    rescaling = rescaling_of(X, labels, weights, power)
    np.testing.assert_allclose(matrix(rescaling, 5) * rescaling.scale, expected, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([(40, 5), (12, 30)]))
def test_directions_are_orthonormal_and_mean_square_is_one(seed, shape):
    n, d = shape
    X, labels = drawn(seed, n, d)
    weights = np.random.default_rng(seed).uniform(0.2, 3, size=n)
    X = unit(X, weights)
    rescaling = rescaling_of(X, labels, weights)
    np.testing.assert_allclose(rescaling.directions @ rescaling.directions.T, np.eye(len(rescaling.factors)), atol=1e-9)
    assert (rescaling.factors > 0).all()
    assert np.average((rescaling(X) ** 2).sum(axis=1), weights=weights) == pytest.approx(1)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_is_equivariant_to_rotation(seed):
    X, labels = drawn(seed)
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(5, 5)))[0]
    ones = np.ones(len(X))
    turned = rescaling_of(X @ rotation, labels, ones)
    np.testing.assert_allclose(turned(X @ rotation), rescaling_of(X, labels, ones)(X) @ rotation, atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_is_invariant_to_sample_order_and_label_names(seed):
    X, labels = drawn(seed)
    order, ones = np.random.default_rng(seed).permutation(len(X)), np.ones(len(X))
    expected = matrix(rescaling_of(X, labels, ones), 5)
    np.testing.assert_allclose(matrix(rescaling_of(X[order], labels[order], ones), 5), expected, atol=1e-9)
    np.testing.assert_allclose(matrix(rescaling_of(X, 9 - 3 * labels, ones), 5), expected, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_an_integer_weight_equals_duplicates(seed):
    X, labels = drawn(seed)
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 4, size=len(X))
    X = unit(X, weights)
    copied = rescaling_of(np.repeat(X, weights, axis=0), np.repeat(labels, weights), np.ones(weights.sum()))
    np.testing.assert_allclose(matrix(copied, 5), matrix(rescaling_of(X, labels, weights.astype(float)), 5), atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_increases_the_distance_between_labels(seed):
    X, labels = drawn(seed)
    same = labels[:, None] == labels

    def contrast(Z):
        squared = pairwise_squared_distances(Z, Z) + np.where(np.eye(len(Z)), np.inf, 0)
        nearest = [np.where(pairs, squared, np.inf).min(axis=1).mean() for pairs in (same, ~same)]
        return nearest[1] / nearest[0]

    assert contrast(rescaling_of(X, labels, np.ones(len(X)))(X)) > 1.2 * contrast(X)


def test_is_the_identity_if_all_labels_differ():
    X, _ = drawn(0)
    assert rescaling_of(X, np.arange(len(X)), np.ones(len(X))).is_identity


def test_only_scales_the_complement_of_the_span():
    X, labels = drawn(0, 12, 30)
    rescaling = rescaling_of(X, labels, np.ones(12))
    assert rescaling.directions.shape == (11, 30)  # their mean is zero
    across = np.linalg.svd(X)[2][-1]
    np.testing.assert_allclose(rescaling(across[None])[0] * rescaling.scale, across, atol=1e-9)


def test_is_robust_to_an_outlier():
    X, labels = drawn(0, 100)
    ones, far = np.ones(100), X.copy()
    far[0, 4] = 300.0
    expected, found = matrix(rescaling_of(X, labels, ones), 5), matrix(rescaling_of(unit(far), labels, ones), 5)
    np.testing.assert_allclose(found / found[0, 0], expected / expected[0, 0], atol=0.1)


def test_is_continuous_in_small_weights():
    X, labels = drawn(0)
    weights = np.where(np.arange(len(X)) < 10, 1e-12, 1.0)
    counted = rescaling_of(unit(X, weights)[10:], labels[10:], weights[10:])
    np.testing.assert_allclose(
        matrix(rescaling_of(unit(X, weights), labels, weights), 5), matrix(counted, 5), atol=1e-8
    )


def test_labels_with_only_duplicates_are_allowed():
    X = unit(np.repeat(np.random.default_rng(0).normal(size=(3, 4)), 5, axis=0))
    rescaling = rescaling_of(X, np.repeat([0, 1, 2], 5), np.ones(15))
    assert np.isfinite(rescaling(X)).all()


def test_the_identity_returns_its_input():
    X, _ = drawn(0)
    assert DiscriminantRescaling.identity(5)(X) is X
