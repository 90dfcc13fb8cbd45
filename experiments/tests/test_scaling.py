import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ordrank_experiments.scaling import UnitMeanSquare
from sklearn.utils.estimator_checks import parametrize_with_checks


@parametrize_with_checks([UnitMeanSquare()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@given(st.integers(0, 1000), st.floats(1e-6, 1e6))
def test_mean_square_norm_becomes_one_and_ratios_stay(seed, factor):
    X = factor * (np.random.default_rng(seed).normal(size=(12, 3)) + 5)
    scaled = UnitMeanSquare().fit_transform(X)
    assert (scaled**2).sum(axis=1).mean() == pytest.approx(1)
    before, after = np.linalg.norm(X[0] - X[1:], axis=1), np.linalg.norm(scaled[0] - scaled[1:], axis=1)
    np.testing.assert_allclose(after / after[0], before / before[0])
