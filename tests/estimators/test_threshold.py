import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from ordrank.estimators._threshold import threshold_path

ALPHAS = (1.0, 0.1, 0.01)


def problem(seed=0, n=60, d=5, m=4, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    latent = X @ rng.normal(size=d) * 2 + noise * rng.logistic(size=n)
    index = np.searchsorted(np.quantile(latent, np.linspace(0, 1, m + 1)[1:-1]), latent)
    return X, index


def loss(parameters, X, index, m, penalty):
    w, theta = parameters[: X.shape[1]], parameters[X.shape[1] :]
    signs = np.where(np.arange(m - 1) >= index[:, None], 1.0, -1.0)
    return np.logaddexp(0, -signs * (theta - (X @ w)[:, None])).sum() + 0.5 * penalty * w @ w


@given(st.integers(0, 1000), st.integers(2, 5))
@settings(max_examples=10, deadline=None)
def test_solution_is_the_minimum(seed, m):
    X, index = problem(seed, m=m)
    for alpha, (model, _) in zip(ALPHAS, threshold_path(X, index, m, ALPHAS), strict=True):
        found = loss(np.concatenate([model.coefficients, model.thresholds]), X, index, m, len(X) * alpha)
        best = minimize(loss, np.zeros(5 + m - 1), (X, index, m, len(X) * alpha), method="BFGS")
        assert found <= best.fun * (1 + 1e-5)


def test_leave_one_out_is_close_to_fits_without_each_sample():
    X, index = problem(n=60)
    for alpha, (_, loo) in zip(ALPHAS, threshold_path(X, index, 4, ALPHAS), strict=True):
        refitted = []
        for i in range(len(X)):
            kept = np.arange(len(X)) != i
            # The penalty is that of all samples.
            ((model, _),) = threshold_path(X[kept], index[kept], 4, [alpha * len(X) / (len(X) - 1)])
            refitted.append(model.proba(X[i : i + 1])[0])
        assert np.abs(loo - np.array(refitted)).max() < 0.02


def test_probabilities_sum_to_one_and_ignore_rotations():
    X, index = problem(d=6, n=50)
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    for one, other in zip(
        threshold_path(X, index, 4, ALPHAS), threshold_path(X @ rotation, index, 4, ALPHAS), strict=True
    ):
        np.testing.assert_allclose(one[1].sum(axis=1), 1)
        assert (one[1] >= 0).all()
        np.testing.assert_allclose(one[0].proba(X), other[0].proba(X @ rotation), atol=1e-4)


def test_more_features_than_samples():
    X, index = problem(n=20, d=300)
    for model, loo in threshold_path(X, index, 4, ALPHAS):
        assert model.coefficients.shape == (300,)
        assert np.isfinite(loo).all()


def test_separable_labels_have_finite_parameters():
    X, index = np.linspace(-1, 1, 30)[:, None], np.repeat([0, 1, 2], 10)
    *_, (model, loo) = threshold_path(X, index, 3, (1.0, 1e-2, 1e-4))
    assert np.isfinite(model.thresholds).all()
    assert (loo.argmax(axis=1) == index).mean() > 0.85


@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_features_that_do_not_vary_give_the_frequencies(constant):
    index = np.repeat([0, 1, 2], [10, 20, 30])
    for model, _ in threshold_path(np.full((60, 2), constant), index, 3, (1.0,)):
        np.testing.assert_allclose(model.proba(np.full((1, 2), constant))[0], [1 / 6, 2 / 6, 3 / 6], atol=1e-3)
