import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ordrank_experiments.reference_formulas import ReferenceObjective

from ordrank.solvers import StopReason, lbfgs, steepest_descent
from tests.contracts.problems import cmds, cmds_parts

ARMIJO = {"rho": 0.5, "sigma": 0.05, "max_line_search": 20}


def run(objective, start, gamma=0.1, max_iter=200, tol=1e-6, **changes):
    return steepest_descent(objective, start, gamma=gamma, max_iter=max_iter, tol=tol, **(ARMIJO | changes))


def start_of(objective):
    return objective.pack(np.eye(2, 5), 1.0)


@settings(max_examples=30)
@given(st.integers(0, 1000), st.floats(1e-6, 10), st.floats(0.1, 0.9), st.floats(0.01, 0.4), st.booleans())
def test_every_step_satisfies_the_papers_inequality_with_a_positive_power(seed, gamma, rho, sigma, free):
    objective = cmds(seed, free_scale=free)
    result = run(objective, start_of(objective), gamma, 30, rho=rho, sigma=sigma)
    steps = [iterate.step for iterate in result.history[:-1]]
    for here, there in zip(result.history, result.history[1:], strict=False):
        slack = 1e-12 * here.value
        assert there.value - here.value <= -sigma * here.step * here.gradient_norm**2 + slack
    for step in steps:
        power = np.log(step / gamma) / np.log(rho)
        assert power == pytest.approx(round(power), abs=1e-6)
        assert round(power) >= 1  # the smallest *positive* integer


def test_a_rejected_longer_step_breaks_the_inequality():
    objective = cmds(0)
    x = start_of(objective)
    result = run(objective, x, gamma=10.0, max_iter=1)
    step = result.history[0].step
    value, gradient = objective.value_and_gradient(x, objective.image(x))
    longer = x - step / 0.5 * gradient
    assert objective.value(longer, objective.image(longer)) - value > -0.05 * step / 0.5 * gradient @ gradient


@settings(max_examples=20)
@given(st.integers(0, 1000), st.booleans())
def test_path_equals_that_of_the_literal_formulas(seed, free):
    X, Y, neighbors = cmds_parts(seed)
    ours, literal = cmds(seed, free_scale=free), ReferenceObjective(X, Y, neighbors, mu=0.01, free_scale=free)
    start = start_of(ours)
    # Few, short steps: near the solution rounding decides whether a trial is accepted.
    by_ours, by_literal = (run(f, start, gamma=0.01, max_iter=20) for f in (ours, literal))
    np.testing.assert_allclose(by_ours.x, by_literal.x, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose([i.value for i in by_ours.history], [i.value for i in by_literal.history], rtol=1e-10)


@settings(max_examples=30)
@given(st.integers(0, 1000), st.sampled_from([1e-6, 1e-3, 1e-2]), st.booleans())
def test_lbfgs_does_not_end_above_steepest_descent(seed, mu, free):
    objective = cmds(seed, mu=mu, free_scale=free)
    start = start_of(objective)
    by_paper = run(objective, start, max_iter=500)
    by_fast = lbfgs(objective, start, max_iter=500, tol=1e-14)
    assert by_fast.value <= by_paper.value * (1 + 1e-9)
    assert lbfgs(objective, start, max_iter=500, tol=1e-6).value <= by_paper.value * (1 + 1e-5) + 1e-12


def test_no_acceptable_step_stops_without_moving():
    objective = cmds(0)
    result = run(objective, start_of(objective), gamma=1e6, max_line_search=3)
    assert (result.n_iter, result.stop_reason, result.converged) == (0, StopReason.LINE_SEARCH, False)
    np.testing.assert_array_equal(result.x, start_of(objective))


def test_small_gradient_on_the_last_allowed_step_counts_as_converged():
    objective = cmds(0, free_scale=False, mu=0.0)
    far = run(objective, start_of(objective), max_iter=5000, tol=1e-5)
    assert far.stop_reason == StopReason.GRADIENT
    result = run(objective, start_of(objective), max_iter=far.n_iter, tol=1e-5)
    assert result.converged
