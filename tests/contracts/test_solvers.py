"""The contract of every solver, on every objective it can take."""

from functools import partial

import numpy as np
import pytest

from ordrank.errors import MissingCapabilityError
from ordrank.solvers import SolverResult, StopReason, lbfgs, projected_gradient, steepest_descent
from tests.contracts.backends import every_backend, host, put
from tests.contracts.problems import cmds, ldmlr

ARMIJO = {"gamma": 0.1, "rho": 0.5, "sigma": 0.05, "max_line_search": 30}
DESCENT = {
    "paper": partial(steepest_descent, **ARMIJO),
    "fast": lbfgs,
    "projected, exact": partial(projected_gradient, step="exact"),
}


def problem_for(solver, seed, backend="numpy"):
    if "projected" in solver:
        return ldmlr(seed, backend=backend), put(np.eye(4), backend)
    objective = cmds(seed, alpha=0.1 * (seed % 2), free_scale=bool(seed % 3), backend=backend)
    return objective, objective.pack(np.eye(2, 5), 1.0)


@every_backend
@pytest.mark.parametrize("solver", DESCENT)
@pytest.mark.parametrize("seed", range(5))
class TestDescent:
    def test_objective_decreases_and_history_is_correct(self, solver, seed, backend):
        objective, start = problem_for(solver, seed, backend)
        result = DESCENT[solver](objective, start, max_iter=60, tol=1e-9)
        assert isinstance(result, SolverResult)
        values = [iterate.value for iterate in result.history]
        assert (np.diff(values) < 0).all()
        assert len(values) == result.n_iter + 1
        assert result.value == pytest.approx(objective.value(result.x, objective.image(result.x)), rel=1e-9)
        assert values[0] == pytest.approx(objective.value(start, objective.image(start)))
        assert result.n_evals > result.n_iter

    def test_start_is_not_modified(self, solver, seed, backend):
        objective, start = problem_for(solver, seed, backend)
        before = host(start).copy()
        DESCENT[solver](objective, start, max_iter=5, tol=0.0)
        np.testing.assert_array_equal(host(start), before)

    def test_stops_after_max_iter(self, solver, seed, backend):
        objective, start = problem_for(solver, seed, backend)
        result = DESCENT[solver](objective, start, max_iter=2, tol=0.0)
        assert (result.n_iter, result.stop_reason, result.converged) == (2, StopReason.MAX_ITER, False)

    def test_restart_at_a_solution_converges(self, solver, seed, backend):
        objective, start = problem_for(solver, seed, backend)
        tolerance = 1e-3 if solver == "paper" else 1e-10
        solution = DESCENT[solver](objective, start, max_iter=20000, tol=tolerance)
        assert solution.converged
        again = DESCENT[solver](objective, solution.x, max_iter=100, tol=tolerance * 10)
        assert again.converged
        assert again.value >= solution.value - 1e-7 * abs(solution.value)


@pytest.mark.parametrize(
    ("solve", "needs"),
    [
        (DESCENT["paper"], "image, value, value_and_gradient"),
        (lbfgs, "image, line_polynomial, precondition, value, value_and_gradient"),
        (DESCENT["projected, exact"], "image, line_polynomial, project, value, value_and_gradient"),
    ],
)
def test_missing_capabilities_are_named(solve, needs):
    with pytest.raises(MissingCapabilityError, match=f"needs an objective with {needs}; object has none"):
        solve(object(), np.zeros(2), max_iter=1, tol=0.0)


@pytest.mark.parametrize("solver", ["fast", "projected, exact"])
@pytest.mark.parametrize("seed", range(3))
def test_zero_tolerance_stops_at_rounding(solver, seed):
    objective, start = problem_for(solver, seed)
    result = DESCENT[solver](objective, start, max_iter=100_000, tol=0.0)
    assert result.converged
    assert result.n_iter < 100_000
