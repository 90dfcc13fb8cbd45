import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from ordrank.errors import InputError
from ordrank.kernel_ridge import KernelMap, LinearMap, RidgePath
from ordrank.kernel_ridge.kernels import kernel

ETA = 0.25


@pytest.fixture
def samples():
    X = np.random.default_rng(0).normal(size=(60, 5))
    return (X - X.mean(axis=0)) / np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())


def test_the_kernel_is_a_gaussian_and_a_linear_part(samples):
    x, y = samples[:2]
    expected = np.exp(-0.5 * 0.7 * ((x - y) ** 2).sum()) + ETA * x @ y
    assert kernel(samples, samples, 0.7, ETA)[0, 1] == pytest.approx(expected)
    assert kernel(samples.astype(np.float32), samples, 0.7, ETA).dtype == np.float64


def test_inner_products_of_features_are_the_kernel(samples):
    features = KernelMap(samples, 1.3, ETA).features(samples)
    np.testing.assert_allclose(features @ features.T, kernel(samples, samples, 1.3, ETA), atol=1e-8)


def test_duplicate_landmarks_are_allowed(samples):
    twice = KernelMap(np.vstack([samples, samples]), 1.0, ETA).features(samples)
    np.testing.assert_allclose(twice @ twice.T, kernel(samples, samples, 1.0, ETA), atol=1e-5)


@pytest.mark.parametrize("distance", [1e3, 1e5, 1e8])
def test_landmarks_far_from_the_others_are_allowed(samples, distance):
    far = samples[:20] + distance * np.eye(5)[0]
    X = np.vstack([samples, far])
    features = KernelMap(X, 8.0, ETA).features(X)
    K = kernel(X, X, 8.0, ETA)
    np.testing.assert_allclose(features @ features.T, K, atol=1e-8 * K.max())


def test_landmarks_that_cannot_be_compared_are_reported(samples):
    samples[:20] *= 1e9
    with np.errstate(over="ignore"), pytest.raises(InputError, match="too far from the others for a kernel"):
        KernelMap(samples, 64.0, ETA)


def test_with_all_landmarks_ridge_is_kernel_ridge_regression(samples):
    targets = np.random.default_rng(1).normal(size=(60, 2))
    targets -= targets.mean(axis=0)
    feature_map = KernelMap(samples, 0.5, ETA)
    path = RidgePath(feature_map.features(samples), targets, np.ones(60))
    fit = path.at(0.01)
    K = kernel(samples, samples, 0.5, ETA)
    J = np.eye(60) - 1 / 60
    dual = KernelRidge(alpha=0.01 * path.scatter, kernel="precomputed").fit(J @ K @ J, targets).dual_coef_
    np.testing.assert_allclose(fit.fitted_values, J @ K @ J @ dual, atol=1e-6)
    queries = np.random.default_rng(2).normal(size=(7, 5))
    by_features = (feature_map.features(queries) - path.feature_mean) @ fit.coefficients()
    on_landmarks = kernel(queries, samples, 0.5, ETA) @ feature_map.landmark_coefficients(fit.coefficients())
    np.testing.assert_allclose(on_landmarks - path.feature_mean @ fit.coefficients(), by_features, atol=1e-8)


def test_nystroem_error_falls_with_more_landmarks(samples):
    K = kernel(samples, samples, 0.3, ETA)
    errors = []
    for m in (5, 15, 40):
        F = KernelMap(samples[:m], 0.3, ETA).features(samples)
        errors.append(np.linalg.norm(F @ F.T - K) / np.linalg.norm(K))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.01


def test_wide_features_are_reduced_to_the_span_of_the_samples():
    X = np.random.default_rng(0).normal(size=(12, 300))
    wide = LinearMap(X)
    F = wide.features(X)
    assert F.shape == (12, 12)
    np.testing.assert_allclose(F @ F.T, X @ X.T)
    B = np.random.default_rng(1).normal(size=(12, 2))
    np.testing.assert_allclose(X @ wide.input_coefficients(B), F @ B)


def test_linear_features_are_the_samples(samples):
    assert LinearMap(samples).features(samples.astype(np.float32)).dtype == np.float64
    np.testing.assert_array_equal(LinearMap(samples).features(samples), samples)
