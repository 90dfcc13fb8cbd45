import numpy as np
import pytest

from ordrank.geometry import project_psd
from ordrank.solvers import StopReason, projected_gradient
from tests.contracts.problems import ldmlr


def test_unit_step_is_the_literal_update():
    objective = ldmlr(0, mu=1e-4)
    A = np.eye(4)
    for _ in range(3):
        A = project_psd(A - objective.value_and_gradient(A, objective.image(A))[1])
    result = projected_gradient(objective, np.eye(4), step="unit", max_iter=3, tol=0.0)
    np.testing.assert_allclose(result.x, A, rtol=1e-9)


def test_diverging_unit_step_stops_at_the_last_finite_point():
    objective = ldmlr(0, mu=1e300)
    with np.errstate(over="ignore", invalid="ignore"):
        result = projected_gradient(objective, np.eye(4), step="unit", max_iter=1000, tol=0.0)
    assert result.stop_reason == StopReason.DIVERGED
    assert not result.converged
    assert np.isfinite(result.x).all()


@pytest.mark.parametrize("seed", range(5))
def test_converged_point_satisfies_the_optimality_conditions(seed):
    """A ⪰ 0, ∇h(A) ⪰ 0 and <A, ∇h(A)> = 0."""
    objective = ldmlr(seed)
    A = projected_gradient(objective, np.eye(4), step="exact", max_iter=5000, tol=1e-12).x
    gradient = objective.value_and_gradient(A, objective.image(A))[1]
    size = np.linalg.norm(objective.value_and_gradient(0 * A, objective.image(0 * A))[1])
    assert np.linalg.eigvalsh(A).min() >= -1e-9 * np.linalg.norm(A)
    assert np.linalg.eigvalsh(gradient).min() >= -1e-6 * size
    assert abs(np.vdot(A, gradient)) <= 1e-6 * size * np.linalg.norm(A)


def test_every_point_of_the_exact_path_is_feasible():
    for max_iter in range(1, 6):
        A = projected_gradient(ldmlr(1), np.eye(4), step="exact", max_iter=max_iter, tol=0.0).x
        assert np.linalg.eigvalsh(A).min() >= -1e-10 * np.linalg.norm(A)
