"""Closed-form leave-one-out and leave-one-group-out, compared with fitting again without the samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from ordrank.kernel_ridge import RidgePath, loo_squared_distances

N = 12
SOME_GROUPS = [None, np.repeat([1, 0, 2], [6, 2, 4]), np.arange(N) % 5, np.arange(N)]
IDS = ["samples", "sequences", "people", "groups of one"]


def problem(seed, p):
    rng = np.random.default_rng(seed)
    F, Y = rng.normal(size=(N, p)) + 3, rng.normal(size=(N, 2))
    weights = rng.uniform(0.2, 3, size=N)
    return F, Y - weights @ Y / weights.sum(), weights


@pytest.mark.parametrize("groups", SOME_GROUPS, ids=IDS)
@pytest.mark.parametrize("p", [3, 20], ids=["more samples", "more features"])
@settings(max_examples=25)
@given(seed=st.integers(0, 1000), alpha=st.floats(1e-4, 10), weight=st.floats(0, 1))
def test_closed_form_equals_refitting(p, groups, seed, alpha, weight):
    F, Y, weights = problem(seed, p)
    paths = [RidgePath(features, Y, weights, groups=groups) for features in (F, F**3)]
    fits, fit_weights = [path.at(alpha) for path in paths], [weight, 1 - weight]
    distances = loo_squared_distances(fits, fit_weights)(np.arange(N))
    groups = np.arange(N) if groups is None else groups
    for i in range(N):
        rest = groups != groups[i]

        def without(fit, features, rest=rest):
            model = Ridge(alpha=alpha * fit.problem.scatter).fit(features[rest], Y[rest], sample_weight=weights[rest])
            return model.predict(features)

        each = [without(fit, features) for fit, features in zip(fits, (F, F**3), strict=True)]
        for fit, positions in zip(fits, each, strict=True):
            np.testing.assert_allclose(Y[i] - fit.loo_errors[i], positions[i], atol=1e-6)
        mean = weight * each[0] + (1 - weight) * each[1]
        np.testing.assert_allclose(distances[i, rest], ((mean - mean[i]) ** 2).sum(axis=1)[rest], atol=1e-6)
        assert np.isinf(distances[i, ~rest]).all()


@pytest.mark.parametrize("groups", SOME_GROUPS, ids=IDS)
def test_single_precision_agrees_with_double(groups):
    F, Y, weights = problem(0, 5)
    fit = RidgePath(F, Y, weights, groups=groups).at(0.1)
    single, double = (loo_squared_distances([fit], [1.0], dtype)(np.arange(N)) for dtype in (np.float32, np.float64))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-5)


def test_errors_are_finite_if_only_one_group_has_a_feature():
    F, Y = np.array([[1.0], [2], [0], [0]]), np.array([[-1.0], [1], [1], [-1]])
    fit = RidgePath(F, Y, np.ones(4), groups=np.array([0, 0, 1, 1])).at(1e-12)
    assert np.isfinite(fit.loo_errors).all()
    assert np.isfinite(fit.score)
