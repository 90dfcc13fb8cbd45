"""Ridge regression, compared with fitting by other means."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from ordrank.smoothing import RidgePath, SummedRegression, moments_of


def problem(seed, n=12, p=5, weighted=True):
    rng = np.random.default_rng(seed)
    F, Y = rng.normal(size=(n, p)) + 3, rng.normal(size=(n, 2))
    weights = rng.uniform(0.2, 3, size=n) if weighted else np.ones(n)
    return F, Y - weights @ Y / weights.sum(), weights


def fitted_again(F, Y, weights, ridge, queries):
    """Ridge regression with an intercept, by scikit-learn."""
    return Ridge(alpha=ridge).fit(F, Y, sample_weight=weights).predict(queries)


@pytest.mark.parametrize("p", [3, 20], ids=["more samples", "more features"])
@given(seed=st.integers(0, 1000), alpha=st.floats(1e-4, 10))
def test_positions_are_those_of_ridge_regression(p, seed, alpha):
    F, Y, weights = problem(seed, p=p)
    path = RidgePath(F, Y, weights)
    fit = path.at(alpha)
    expected = fitted_again(F, Y, weights, alpha * path.scatter, F)
    np.testing.assert_allclose(fit.positions, expected, atol=1e-8)
    np.testing.assert_allclose((F - path.feature_mean) @ fit.coefficients(), expected, atol=1e-8)


def test_the_ridge_has_no_units():
    F, Y, weights = problem(0)
    one, other = RidgePath(F, Y, weights).at(0.1), RidgePath(1000 * F, Y, weights).at(0.1)
    np.testing.assert_allclose(one.positions, other.positions)
    assert one.displacement == pytest.approx(other.displacement)


def test_a_weight_is_a_number_of_copies():
    F, Y, _ = problem(1)
    counts = np.random.default_rng(1).integers(1, 4, size=len(F))
    Y = Y - counts @ Y / counts.sum()
    weighted = RidgePath(F, Y, counts.astype(float)).at(0.3)
    copied = RidgePath(np.repeat(F, counts, axis=0), np.repeat(Y, counts, axis=0), np.ones(counts.sum())).at(0.3)
    np.testing.assert_allclose(np.repeat(weighted.positions, counts, axis=0), copied.positions)


def test_evidence_is_the_likelihood_of_a_gaussian_process():
    rng = np.random.default_rng(3)
    F = rng.normal(size=(40, 40))
    y = (F[:, :3] @ [1.0, -1, 0.5] + 0.3 * rng.normal(size=40))[:, None]
    F, y = F - F.mean(axis=0), y - y.mean()
    path = RidgePath(F, y, np.ones(40))
    alphas = [1e-3, 1e-2, 1e-1]
    evidence = [path.at(alpha).log_evidence_size for alpha in alphas]
    likelihoods = []
    for alpha in alphas:
        # In coordinates orthogonal to the mean, with the variance at its best.
        basis = np.linalg.qr(np.column_stack([np.ones(40), np.eye(40)[:, :39]]))[0][:, 1:]
        C = basis.T @ (F @ F.T + alpha * path.scatter * np.eye(40)) @ basis
        z = basis.T @ y[:, 0]
        scale = z @ np.linalg.solve(C, z) / 39
        likelihoods.append(-0.5 * (39 * np.log(scale) + np.linalg.slogdet(C)[1]) / 39)
    np.testing.assert_allclose(np.diff(evidence), -np.diff(likelihoods), atol=1e-9)


def test_a_sample_that_fixes_its_own_position_stays_finite():
    F, Y, weights = np.array([[0.0], [1.0]]), np.array([[-1.0], [1.0]]), np.ones(2)
    fit = RidgePath(F, Y, weights).at(1e-9)
    assert np.isfinite(fit.errors).all()
    assert np.isfinite(fit.score)


def test_constant_features_predict_the_mean():
    fit = RidgePath(np.ones((4, 2)), np.array([[-1.0], [-1], [1], [1]]), np.ones(4)).at(0.1)
    np.testing.assert_allclose(fit.positions, 0)


@pytest.mark.parametrize("alpha", [1e-2, 1e-5, 1e-8])
@pytest.mark.parametrize("copied", [False, True])
def test_sums_give_what_all_samples_give(alpha, copied):
    rng = np.random.default_rng(5)
    F, weights = rng.normal(size=(60, 5)), rng.uniform(0.5, 2, size=60)
    if copied:
        F[:, 4] = F[:, 3]  # their scatter is singular
    Y = rng.normal(size=(60, 2))
    Y -= np.average(Y, axis=0, weights=weights)
    rows = np.arange(0, 60, 3)
    alone = RidgePath(F, Y, weights).at(alpha)
    summed = SummedRegression(F[rows], Y[rows], weights[rows], moments_of([(F, Y, weights)], np.zeros(5))).at(alpha)
    assert summed.ridge == pytest.approx(alone.ridge)
    np.testing.assert_allclose(summed.coefficients(), alone.coefficients(), rtol=1e-7)
    np.testing.assert_allclose(summed.positions, alone.positions[rows], atol=1e-9)
    np.testing.assert_allclose(summed.errors, alone.errors[rows], atol=1e-9)
    (A, B), (C, D) = alone.factors(np.float64), summed.factors(np.float64)
    np.testing.assert_allclose(D @ C.T, (B @ A.T)[np.ix_(rows, rows)], atol=1e-9)
