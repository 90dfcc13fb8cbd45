"""Samples for fits on a cluster, and how their results are compared."""

import numpy as np


def make_ordinal(n, d, dtype=np.float64, seed=0):
    """Return (n, d) samples, far from the origin, and five grades of some features; the first quarter is sorted."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / np.sqrt(1 + np.arange(d))
    latent = X[:, ::3].sum(axis=1) + 0.3 * rng.normal(size=n)
    y = np.digitize(latent, np.quantile(latent, [0.2, 0.4, 0.6, 0.8])).astype(float)
    first = np.argsort(y[: n // 4], kind="stable")
    X[: n // 4], y[: n // 4] = X[first], y[first]
    return (X + 20).astype(dtype), y


def assert_same_metric(one, other, X, tolerance=1e-6):
    """Assert that two fitted metrics have the same hyperparameters and embedding."""
    for name in ("kernel_", "sharpness_", "nu_", "locality_", "n_components_", "n_features_in_"):
        assert getattr(one, name) == getattr(other, name), name
    np.testing.assert_array_equal(one.labels_, other.labels_)
    for name in ("alpha_", "scale_", "mean_", "label_positions_", "objective_"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=tolerance, atol=1e-12, err_msg=name)
    if one.kernel_ == "linear":
        linear = one.ordinal_embedding_.linear
        assert np.linalg.norm(linear - other.ordinal_embedding_.linear) <= tolerance * np.linalg.norm(linear)
    Z, expected = other.transform(X), one.transform(X)
    assert np.linalg.norm(Z - expected) <= tolerance * np.linalg.norm(expected)
