"""Limited-memory BFGS with a preconditioner and the exact step along each direction."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from ordrank._types import Array, PreconditionedObjective, SolverResult
from ordrank.backend import backend_of
from ordrank.solvers.exact_step import minimize_on_ray
from ordrank.solvers.stopping import Path, StopReason, require

# A step, the change of the gradient along it, and one over their product.
_Step: TypeAlias = tuple[Array, Array, float]


def lbfgs(
    objective: PreconditionedObjective, x0: Array, *, max_iter: int, tol: float, memory: int = 10
) -> SolverResult:
    r"""Minimise a function that is a quartic along every line.

    Directions come from the two-loop recursion started at the objective's preconditioner, steps are exact.
    Each step costs one image and one gradient.

    Parameters
    ----------
    objective : PreconditionedObjective
    x0 : array
        Start; not modified.
    max_iter : int
        Steps.
    tol : float
        Stop when the decrease that the quadratic model predicts, :math:`\tfrac12 g^THg`, is below ``tol``
        times the objective and ``tol`` times the largest decrease predicted so far. Neither has units; the
        second does not mistake a small share of a large constant for convergence.
    memory : int
        Past steps that shape the direction.
    """
    require(objective, PreconditionedObjective, "L-BFGS with the exact step")
    backend, path = backend_of(x0), Path()
    past: deque[_Step] = deque(maxlen=memory)
    x, z = x0, objective.image(x0)
    value, gradient = objective.value_and_gradient(x, z)
    path.n_evals += 1
    largest_predicted = 0.0
    for _ in range(max_iter):
        direction = -_inverse_hessian_product(objective, gradient, past)
        squared_norm, slope = backend.floats([backend.dot(gradient, gradient), backend.dot(gradient, direction)])
        norm = float(squared_norm) ** 0.5
        if slope >= 0 and past:  # rounding spoilt the memory: forget it
            past.clear()
            direction = -objective.precondition(gradient)
            slope = float(backend.dot(gradient, direction))
        predicted = -0.5 * slope
        largest_predicted = max(predicted, largest_predicted)
        if predicted <= tol * min(abs(value), largest_predicted):
            return path.end(x, value, norm, StopReason.DECREASE)
        dz = objective.image(direction)
        step = minimize_on_ray(objective.line_polynomial(x, z, direction, dz))
        next_x, next_z = x + step * direction, z + step * dz
        next_value, next_gradient = objective.value_and_gradient(next_x, next_z)
        path.n_evals += 1
        if not next_value < value:
            return path.end(x, value, norm, StopReason.DECREASE)
        path.step_from(value, norm, step)
        change = next_gradient - gradient
        curvature = step * float(backend.dot(direction, change))
        if curvature > 0:
            past.append((step * direction, change, 1 / curvature))
        x, z, value, gradient = next_x, next_z, next_value, next_gradient
    norm = float(backend.dot(gradient, gradient)) ** 0.5
    return path.end(x, value, norm, StopReason.MAX_ITER)


def _inverse_hessian_product(objective: PreconditionedObjective, gradient: Array, past: deque[_Step]) -> Array:
    """Two-loop recursion of L-BFGS, its middle being the preconditioner; its scalars never leave the device."""
    dot = backend_of(gradient).dot
    product, weights = gradient, []
    for moved, change, inverse_curvature in reversed(past):
        weights.append(inverse_curvature * dot(moved, product))
        product = product - weights[-1] * change
    product = objective.precondition(product)
    for moved, change, inverse_curvature in past:
        correction = weights.pop() - inverse_curvature * dot(change, product)
        product = product + correction * moved
    return product
