"""Projected gradient descent: the unit step of LDMLR, and a spectral step that converges."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from ordrank._protocols import Array, ConstrainedObjective
from ordrank.backend import backend_of
from ordrank.solvers.exact_step import minimize_on_ray
from ordrank.solvers.stopping import History, SolverResult, StopReason, require


def projected_gradient(
    objective: ConstrainedObjective, x0: Array, *, step: Literal["unit", "exact"], max_iter: int, tol: float
) -> SolverResult:
    r"""Minimise over a convex set.

    ``step="unit"`` is the update of Li et al. (2015), :math:`x \leftarrow \Pi(x - \nabla f(x))`; it converges
    only where the gradient's Lipschitz constant is below 2, and stops at the last finite point otherwise.
    ``step="exact"`` is the spectral projected gradient method (Birgin, Martínez & Raydan 2000): the direction
    :math:`\Pi(x - s\nabla f(x)) - x` with the Barzilai-Borwein length s, and the exact minimiser of f along
    it within the set. It decreases f at every step and converges for convex f.

    Parameters
    ----------
    x0 : array
        Feasible start; not modified.
    step : {"unit", "exact"}
    max_iter : int
    tol : float
        Stop when ‖Π(x - s∇f) - x‖ <= tol ‖x‖, s the length of the step in use.
    """
    require(objective, ConstrainedObjective, "projected gradient")
    backend, history = backend_of(x0), History()

    def norm_of(a: Array) -> float:
        return math.sqrt(backend.dot(a, a))

    x, z = x0, objective.image(x0)
    value, gradient = objective.value_and_gradient(x, z)
    history.n_evals += 1
    length = 1.0 if step == "unit" else _cauchy_length(objective, x, z, gradient)
    for _ in range(max_iter):
        direction = objective.project(x - length * gradient) - x
        if norm_of(direction) <= tol * norm_of(x):
            return history.end(x, value, norm_of(gradient), StopReason.CHANGE)
        dz = objective.image(direction)
        fraction = 1.0
        if step == "exact":
            fraction = minimize_on_ray(objective.line_polynomial(x, z, direction, dz), upper=1.0)
        next_x, next_z = x + fraction * direction, z + fraction * dz
        next_value, next_gradient = objective.value_and_gradient(next_x, next_z)
        history.n_evals += 1
        if not (np.isfinite(next_value) and backend.all_finite(next_gradient)):
            return history.end(x, value, norm_of(gradient), StopReason.DIVERGED)
        if step == "exact" and not next_value < value:
            return history.end(x, value, norm_of(gradient), StopReason.DECREASE)
        history.add(value, norm_of(gradient), fraction * length)
        if step == "exact":
            length = _spectral_length(next_x - x, next_gradient - gradient, length)
        x, z, value, gradient = next_x, next_z, next_value, next_gradient
    return history.end(x, value, norm_of(gradient), StopReason.MAX_ITER)


def _cauchy_length(objective: ConstrainedObjective, x: Array, z: Array, gradient: Array) -> float:
    """Return the length of the first step: the exact minimiser along -∇f without the constraint."""
    dz = objective.image(-gradient)
    length = minimize_on_ray(objective.line_polynomial(x, z, -gradient, dz))
    return length if 0 < length < np.inf else 1.0


def _spectral_length(dx: Array, change: Array, previous: float) -> float:
    """Return the Barzilai-Borwein length ⟨Δx, Δx⟩/⟨Δx, Δ∇f⟩; twice the previous one where f was linear."""
    dot = backend_of(dx).dot
    curvature = float(dot(dx, change))
    return float(dot(dx, dx)) / curvature if curvature > 0 else 2 * previous
