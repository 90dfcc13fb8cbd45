import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import polynomial as P

from ordrank.solvers import lbfgs, minimize_on_ray
from tests.contracts.problems import cmds

numbers = st.floats(-10, 10).map(lambda v: 0.0 if abs(v) < 1e-3 else v)


@given(numbers, numbers, numbers, st.floats(1e-3, 10), st.sampled_from([np.inf, 0.3, 1.0]))
def test_no_point_of_the_ray_is_lower(c1, c2, c3, c4, upper):
    p = np.array([1.0, c1, c2, c3, c4])
    t = minimize_on_ray(p, upper)
    assert 0 <= t <= upper
    # Beyond this bound of Cauchy a quartic only rises.
    end = min(upper, 1 + np.abs(p[1:4]).max() * 4 / c4)
    lowest = P.polyval(np.linspace(0, end, 20001), p).min()
    assert P.polyval(t, p) <= lowest + 1e-9 * (1 + abs(lowest))


@given(st.floats(-10, -1e-3), st.floats(1e-3, 10), st.floats(1e-30, 1e-12))
def test_a_vanishing_quartic_term_is_harmless(slope, curvature, tiny):
    t = minimize_on_ray(np.array([0.0, slope, curvature, 0.0, tiny]))
    assert abs(slope + 2 * curvature * t + 4 * tiny * t**3) <= 1e-9 * abs(slope)


def test_a_parabola():
    assert minimize_on_ray(np.array([5.0, -2.0, 1.0, 0.0, 0.0])) == pytest.approx(1.0)
    assert minimize_on_ray(np.array([5.0, -2.0, 1.0, 0.0, 0.0]), upper=0.25) == 0.25


def test_lower_of_two_local_minima():
    p = P.polyfromroots([1, 1, 3, 3]) + np.array([0, 0.1, 0, 0, 0])
    shifted = P.polyfromroots([1, 1, 3, 3]) - np.array([0, 0.1, 0, 0, 0])
    assert minimize_on_ray(p) == pytest.approx(1, abs=0.1)
    assert minimize_on_ray(shifted) == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize("p", [[1, 0, 0, 0, 0], [1, 2, 0, 0, 0], [1, 0, 3, 0, 0], [1, 1, 1, 1, 1]])
def test_step_is_zero_without_descent(p):
    assert minimize_on_ray(np.array(p, dtype=float)) == 0.0


@pytest.mark.parametrize("p", [[1, -1, 0, 0, 0], [1, 0, -2, 0, 0], [0, 1, 1, -1, 0]])
def test_unbounded_descent_goes_to_the_end(p):
    assert minimize_on_ray(np.array(p, dtype=float)) == np.inf
    assert minimize_on_ray(np.array(p, dtype=float), upper=100.0) == 100.0


@given(st.integers(0, 500), st.booleans())
def test_each_lbfgs_step_is_the_minimiser_along_its_line(seed, free):
    objective = cmds(seed, mu=0.05, free_scale=free)
    start = objective.pack(np.eye(2, 5), 1.0)
    after = lbfgs(objective, start, max_iter=1, tol=0.0)
    direction = (after.x - start) / after.history[0].step
    z, dz = objective.image(start), objective.image(direction)

    def along(t):
        return objective.value(start + t * direction, z + t * dz)

    chosen = along(after.history[0].step)
    others = [along(t) for t in np.linspace(0, 4 * after.history[0].step, 401)]
    assert chosen <= min(others) + 1e-12 * abs(chosen)
