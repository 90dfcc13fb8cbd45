"""What every objective must satisfy, whatever it measures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordrank._types import LineObjective
from tests.contracts.problems import OBJECTIVES, random_point

every_objective = pytest.mark.parametrize("name", OBJECTIVES)
preconditioned = pytest.mark.parametrize("name", [name for name in OBJECTIVES if "cmds" in name])
constrained = pytest.mark.parametrize("name", [name for name in OBJECTIVES if "ldmlr" in name])
seeds = st.integers(0, 2**31)


def draw(name, seed):
    objective = OBJECTIVES[name](seed % 5)
    shape = {"d": 20} if "fewer samples" in name else {}
    x, direction = random_point(objective, np.random.default_rng(seed), **shape)
    return objective, x, direction


def value_at(objective, x):
    return objective.value(x, objective.image(x))


@every_objective
def test_follows_the_protocol(name):
    assert isinstance(OBJECTIVES[name](0), LineObjective)


@every_objective
@settings(max_examples=20)
@given(seed=seeds)
def test_image_is_linear(name, seed):
    objective, x, direction = draw(name, seed)
    expected = 2 * objective.image(x) - 3 * objective.image(direction)
    np.testing.assert_allclose(objective.image(2 * x - 3 * direction), expected, rtol=1e-9, atol=1e-9)


@every_objective
@settings(max_examples=20)
@given(seed=seeds)
def test_gradient_equals_finite_differences(name, seed):
    objective, x, direction = draw(name, seed)
    _, gradient = objective.value_and_gradient(x, objective.image(x))
    step = 1e-4
    # Fourth-order central difference: exact for a quartic up to rounding.
    f = [value_at(objective, x + t * step * direction) for t in (-2, -1, 1, 2)]
    numerical = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step)
    scale = max(abs(numerical), np.linalg.norm(gradient) * np.linalg.norm(direction))
    assert abs(np.vdot(gradient, direction) - numerical) <= 1e-6 * scale


@every_objective
@settings(max_examples=20)
@given(seed=seeds)
def test_value_is_the_same_by_both_ways(name, seed):
    objective, x, _ = draw(name, seed)
    value, _ = objective.value_and_gradient(x, objective.image(x))
    assert value == pytest.approx(value_at(objective, x), rel=1e-13)


@every_objective
@settings(max_examples=20)
@given(seed=seeds, t=st.floats(-3, 3))
def test_line_polynomial_is_the_objective_along_the_line(name, seed, t):
    objective, x, direction = draw(name, seed)
    p = objective.line_polynomial(x, objective.image(x), direction, objective.image(direction))
    assert p.shape == (5,)
    along = np.polynomial.polynomial.polyval(t, p)
    scale = np.abs(p * np.abs(t) ** np.arange(5)).sum()
    assert along == pytest.approx(value_at(objective, x + t * direction), abs=1e-10 * scale)


@preconditioned
@settings(max_examples=20)
@given(seed=seeds)
def test_preconditioner_is_symmetric_and_positive(name, seed):
    objective, x, direction = draw(name, seed)
    # Gradients lie in the span of the samples, where the preconditioner must be definite.
    _, g = objective.value_and_gradient(x, objective.image(x))
    _, h = objective.value_and_gradient(direction, objective.image(direction))
    assert np.vdot(g, objective.precondition(g)) > 0
    one, other = np.vdot(h, objective.precondition(g)), np.vdot(g, objective.precondition(h))
    assert one == pytest.approx(other, rel=1e-8)


@constrained
@settings(max_examples=10)
@given(seed=seeds)
def test_projection_is_the_nearest_feasible_point(name, seed):
    objective, x, direction = draw(name, seed)
    projected = objective.project(direction)
    np.testing.assert_allclose(objective.project(projected), projected, atol=1e-9)
    # Variational inequality: no feasible point lies on the outer side.
    assert np.vdot(direction - projected, x - projected) <= 1e-9 * np.linalg.norm(x)


@every_objective
def test_inputs_are_not_modified(name):
    objective, x, direction = draw(name, 3)
    before = x.copy(), direction.copy()
    z, dz = objective.image(x), objective.image(direction)
    objective.value_and_gradient(x, z)
    objective.line_polynomial(x, z, direction, dz)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(direction, before[1])
