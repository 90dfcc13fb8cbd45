"""The contract of every objective, on every backend."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordrank._protocols import LineObjective
from ordrank.solvers import minimize_on_ray
from tests.contracts.backends import every_backend, host
from tests.contracts.problems import OBJECTIVES, random_point

every_objective = pytest.mark.parametrize("name", OBJECTIVES)
preconditioned = pytest.mark.parametrize("name", [name for name in OBJECTIVES if "cmds" in name])
constrained = pytest.mark.parametrize("name", [name for name in OBJECTIVES if "ldmlr" in name])
seeds = st.integers(0, 2**31)


def draw(name, seed, backend, dtype=np.float64):
    objective = OBJECTIVES[name](seed % 5, backend=backend, dtype=dtype)
    shape = {"d": 20} if "fewer samples" in name else {}
    x, direction = random_point(objective, np.random.default_rng(seed), backend=backend, dtype=dtype, **shape)
    return objective, x, direction


def value_at(objective, x):
    return objective.value(x, objective.image(x))


def inner(a, b):
    return np.vdot(host(a), host(b))


@every_backend
@every_objective
def test_follows_the_protocol(name, backend):
    assert isinstance(OBJECTIVES[name](0, backend=backend), LineObjective)


@every_backend
@every_objective
@settings(max_examples=20)
@given(seed=seeds)
def test_image_is_linear(name, backend, seed):
    objective, x, direction = draw(name, seed, backend)
    expected = 2 * objective.image(x) - 3 * objective.image(direction)
    np.testing.assert_allclose(host(objective.image(2 * x - 3 * direction)), host(expected), rtol=1e-9, atol=1e-9)


@every_backend
@every_objective
@settings(max_examples=20)
@given(seed=seeds)
def test_gradient_equals_finite_differences(name, backend, seed):
    objective, x, direction = draw(name, seed, backend)
    _, gradient = objective.value_and_gradient(x, objective.image(x))
    step = 1e-4
    # Fourth-order central difference: exact for a quartic up to rounding.
    f = [value_at(objective, x + t * step * direction) for t in (-2, -1, 1, 2)]
    numerical = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step)
    scale = max(abs(numerical), np.linalg.norm(host(gradient)) * np.linalg.norm(host(direction)))
    assert abs(inner(gradient, direction) - numerical) <= 1e-6 * scale


@every_backend
@every_objective
@settings(max_examples=20)
@given(seed=seeds)
def test_value_and_value_and_gradient_agree(name, backend, seed):
    objective, x, _ = draw(name, seed, backend)
    value, _ = objective.value_and_gradient(x, objective.image(x))
    assert isinstance(value, float)
    assert value == pytest.approx(value_at(objective, x), rel=1e-13)


@every_backend
@every_objective
@settings(max_examples=20)
@given(seed=seeds, t=st.floats(-3, 3))
def test_line_polynomial_is_the_objective_along_the_line(name, backend, seed, t):
    objective, x, direction = draw(name, seed, backend)
    p = objective.line_polynomial(x, objective.image(x), direction, objective.image(direction))
    assert isinstance(p, np.ndarray)
    assert p.shape == (5,)
    along = np.polynomial.polynomial.polyval(t, p)
    scale = np.abs(p * np.abs(t) ** np.arange(5)).sum()
    assert along == pytest.approx(value_at(objective, x + t * direction), abs=1e-10 * scale)


@every_backend
@every_objective
@settings(max_examples=20)
@given(seed=seeds)
def test_the_exact_step_is_the_minimum_along_the_line(name, backend, seed):
    objective, x, _ = draw(name, seed, backend)
    z = objective.image(x)
    direction = -objective.value_and_gradient(x, z)[1]
    dz = objective.image(direction)
    step = minimize_on_ray(objective.line_polynomial(x, z, direction, dz))
    assert 0 < step < np.inf
    lowest = min(objective.value(x + t * step * direction, z + t * step * dz) for t in np.linspace(0, 3, 61))
    reached = objective.value(x + step * direction, z + step * dz)
    assert reached <= lowest + 1e-12 * abs(value_at(objective, x))


@every_backend
@every_objective
@pytest.mark.parametrize("seed", range(3))
def test_float32_approximates_float64(name, backend, seed):
    objective, x, direction = draw(name, seed, backend)
    single, x_single, direction_single = draw(name, seed, backend, np.float32)
    assert x_single.dtype != x.dtype
    value, gradient = objective.value_and_gradient(x, objective.image(x))
    value_single, gradient_single = single.value_and_gradient(x_single, single.image(x_single))
    assert gradient_single.dtype == x_single.dtype
    assert value_single == pytest.approx(value, rel=2e-5)
    scale = np.abs(host(gradient)).max()
    np.testing.assert_allclose(host(gradient_single), host(gradient), atol=2e-5 * scale)
    line, line_single = (
        f.line_polynomial(a, f.image(a), b, f.image(b))
        for f, a, b in ((objective, x, direction), (single, x_single, direction_single))
    )
    np.testing.assert_allclose(line_single, line, atol=2e-5 * np.abs(line).max())


@every_backend
@preconditioned
@settings(max_examples=20)
@given(seed=seeds)
def test_preconditioner_is_symmetric_and_positive(name, backend, seed):
    objective, x, direction = draw(name, seed, backend)
    # Gradients lie in the span of the samples, where the preconditioner must be definite.
    _, g = objective.value_and_gradient(x, objective.image(x))
    _, h = objective.value_and_gradient(direction, objective.image(direction))
    assert inner(g, objective.precondition(g)) > 0
    one, other = inner(h, objective.precondition(g)), inner(g, objective.precondition(h))
    assert one == pytest.approx(other, rel=1e-8)


@every_backend
@constrained
@settings(max_examples=10)
@given(seed=seeds)
def test_projection_is_the_nearest_feasible_point(name, backend, seed):
    objective, x, direction = draw(name, seed, backend)
    projected = objective.project(direction)
    np.testing.assert_allclose(host(objective.project(projected)), host(projected), atol=1e-9)
    # Variational inequality: no feasible point lies on the outer side.
    assert inner(direction - projected, x - projected) <= 1e-9 * np.linalg.norm(host(x))


@every_backend
@every_objective
def test_inputs_are_not_modified(name, backend):
    objective, x, direction = draw(name, 3, backend)
    before = host(x).copy(), host(direction).copy()
    z, dz = objective.image(x), objective.image(direction)
    objective.value_and_gradient(x, z)
    objective.line_polynomial(x, z, direction, dz)
    np.testing.assert_array_equal(host(x), before[0])
    np.testing.assert_array_equal(host(direction), before[1])
