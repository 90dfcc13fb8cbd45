"""Ridge regression, compared with scikit-learn and with direct formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from ordrank.kernel_ridge import GramRidge, RidgePath, moments_of


def problem(seed, n=12, p=5, weighted=True):
    rng = np.random.default_rng(seed)
    F, Y = rng.normal(size=(n, p)) + 3, rng.normal(size=(n, 2))
    weights = rng.uniform(0.2, 3, size=n) if weighted else np.ones(n)
    return F, Y - weights @ Y / weights.sum(), weights


def sklearn_ridge(F, Y, weights, ridge, queries):
    """Return predictions of scikit-learn's ridge regression with an intercept."""
    return Ridge(alpha=ridge).fit(F, Y, sample_weight=weights).predict(queries)


@pytest.mark.parametrize("p", [3, 20], ids=["more samples", "more features"])
@given(seed=st.integers(0, 1000), alpha=st.floats(1e-4, 10))
def test_fitted_values_equal_scikit_learns_ridge(p, seed, alpha):
    F, Y, weights = problem(seed, p=p)
    path = RidgePath(F, Y, weights)
    fit = path.at(alpha)
    expected = sklearn_ridge(F, Y, weights, alpha * path.scatter, F)
    np.testing.assert_allclose(fit.fitted_values, expected, atol=1e-8)
    np.testing.assert_allclose((F - path.feature_mean) @ fit.coefficients(), expected, atol=1e-8)


def test_alpha_is_dimensionless():
    F, Y, weights = problem(0)
    one, other = RidgePath(F, Y, weights).at(0.1), RidgePath(1000 * F, Y, weights).at(0.1)
    np.testing.assert_allclose(one.fitted_values, other.fitted_values)
    assert one.weighted_loo_distance == pytest.approx(other.weighted_loo_distance)


def test_an_integer_weight_equals_duplicates():
    F, Y, _ = problem(1)
    counts = np.random.default_rng(1).integers(1, 4, size=len(F))
    Y = Y - counts @ Y / counts.sum()
    weighted = RidgePath(F, Y, counts.astype(float)).at(0.3)
    copied = RidgePath(np.repeat(F, counts, axis=0), np.repeat(Y, counts, axis=0), np.ones(counts.sum())).at(0.3)
    np.testing.assert_allclose(np.repeat(weighted.fitted_values, counts, axis=0), copied.fitted_values)


def test_evidence_is_the_marginal_likelihood_of_a_gaussian_process():
    rng = np.random.default_rng(3)
    F = rng.normal(size=(40, 40))
    y = (F[:, :3] @ [1.0, -1, 0.5] + 0.3 * rng.normal(size=40))[:, None]
    F, y = F - F.mean(axis=0), y - y.mean()
    path = RidgePath(F, y, np.ones(40))
    alphas = [1e-3, 1e-2, 1e-1]
    evidence = [path.at(alpha).negative_log_evidence for alpha in alphas]
    likelihoods = []
    for alpha in alphas:
        # In coordinates orthogonal to the mean, with the best variance.
        basis = np.linalg.qr(np.column_stack([np.ones(40), np.eye(40)[:, :39]]))[0][:, 1:]
        C = basis.T @ (F @ F.T + alpha * path.scatter * np.eye(40)) @ basis
        z = basis.T @ y[:, 0]
        scale = z @ np.linalg.solve(C, z) / 39
        likelihoods.append(-0.5 * (39 * np.log(scale) + np.linalg.slogdet(C)[1]) / 39)
    np.testing.assert_allclose(np.diff(evidence), -np.diff(likelihoods), atol=1e-9)


def test_loo_errors_of_leverage_one_are_finite():
    F, Y, weights = np.array([[0.0], [1.0]]), np.array([[-1.0], [1.0]]), np.ones(2)
    fit = RidgePath(F, Y, weights).at(1e-9)
    assert np.isfinite(fit.loo_errors).all()
    assert np.isfinite(fit.score)


def test_constant_features_predict_the_mean():
    fit = RidgePath(np.ones((4, 2)), np.array([[-1.0], [-1], [1], [1]]), np.ones(4)).at(0.1)
    np.testing.assert_allclose(fit.fitted_values, 0)


@pytest.mark.parametrize("alpha", [1e-2, 1e-5, 1e-8])
@pytest.mark.parametrize("copied", [False, True])
def test_moments_give_the_solution_of_all_samples(alpha, copied):
    rng = np.random.default_rng(5)
    F, weights = rng.normal(size=(60, 5)), rng.uniform(0.5, 2, size=60)
    if copied:
        F[:, 4] = F[:, 3]  # a singular scatter matrix
    Y = rng.normal(size=(60, 2))
    Y -= np.average(Y, axis=0, weights=weights)
    rows = np.arange(0, 60, 3)
    alone = RidgePath(F, Y, weights).at(alpha)
    summed = GramRidge(F[rows], Y[rows], weights[rows], moments_of([(F, Y, weights)], np.zeros(5))).at(alpha)
    assert summed.ridge == pytest.approx(alone.ridge)
    np.testing.assert_allclose(summed.coefficients(), alone.coefficients(), rtol=1e-7)
    np.testing.assert_allclose(summed.fitted_values, alone.fitted_values[rows], atol=1e-9)
    np.testing.assert_allclose(summed.loo_errors, alone.loo_errors[rows], atol=1e-9)
    (A, B), (C, D) = alone.smoother_factors(np.float64), summed.smoother_factors(np.float64)
    np.testing.assert_allclose(D @ C.T, (B @ A.T)[np.ix_(rows, rows)], atol=1e-9)
