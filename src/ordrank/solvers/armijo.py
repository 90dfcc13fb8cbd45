"""Steepest descent with Armijo's rule, steps S4 to S6 of the paper's Algorithm 2."""

from __future__ import annotations

import numpy as np

from ordrank._protocols import Array, Objective
from ordrank.backend import backend_of
from ordrank.solvers.stopping import History, SolverResult, StopReason, require


def steepest_descent(
    objective: Objective,
    x0: Array,
    *,
    gamma: float,
    rho: float,
    sigma: float,
    max_line_search: int,
    max_iter: int,
    tol: float,
) -> SolverResult:
    r"""Minimise by :math:`x \leftarrow x - \gamma\rho^m\nabla f(x)`, as the paper specifies.

    m is the smallest *positive* integer (so the first trial is γρ) such that

    .. math:: f(x + \gamma\rho^m d) - f(x) \le \sigma\gamma\rho^m\,\nabla f(x)^Td, \qquad d = -\nabla f(x).

    The paper does not define what follows if none of the first ``max_line_search`` trials qualifies; the solver
    then stops, so that the objective never increases.

    Parameters
    ----------
    x0 : array
        Start; not modified.
    gamma, rho, sigma : float
        Initial step, reduction factor, and required fraction of the predicted decrease.
    max_line_search : int
        Trials per step, r in the paper.
    max_iter : int
    tol : float
        Stop when ‖∇f‖ <= tol (absolute, as in the paper).
    """
    require(objective, Objective, "steepest descent")
    dot, history = backend_of(x0).dot, History()
    x, z = x0, objective.image(x0)
    for _ in range(max_iter):
        value, gradient = objective.value_and_gradient(x, z)
        history.n_evals += 1
        squared_norm = float(dot(gradient, gradient))
        norm = float(np.sqrt(squared_norm))
        if norm <= tol:
            return history.end(x, value, norm, StopReason.GRADIENT)
        direction = -gradient
        dz = objective.image(direction)
        for m in range(1, max_line_search + 1):
            step = gamma * rho**m
            trial_x, trial_z = x + step * direction, z + step * dz
            history.n_evals += 1
            if objective.value(trial_x, trial_z) - value <= -sigma * step * squared_norm:
                break
        else:
            return history.end(x, value, norm, StopReason.LINE_SEARCH)
        history.add(value, norm, step)
        x, z = trial_x, trial_z
    value, gradient = objective.value_and_gradient(x, z)
    history.n_evals += 1
    norm = float(dot(gradient, gradient)) ** 0.5
    return history.end(x, value, norm, StopReason.GRADIENT if norm <= tol else StopReason.MAX_ITER)
