"""L-BFGS with a preconditioner and exact line search."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from ordrank._protocols import Array, PreconditionedObjective
from ordrank.backend import backend_of
from ordrank.solvers.exact_step import minimize_on_ray
from ordrank.solvers.stopping import History, SolverResult, StopReason, require

# Number of stored steps.
_MEMORY = 10
# Step s, gradient change y, and 1 / sᵀy.
_Step: TypeAlias = tuple[Array, Array, float]


def lbfgs(objective: PreconditionedObjective, x0: Array, *, max_iter: int, tol: float) -> SolverResult:
    r"""Minimise a function that is a quartic along every line.

    Directions come from the two-loop recursion (Nocedal 1980) with the objective's preconditioner as initial inverse
    Hessian; steps are exact. Each step costs one image and one gradient.

    Parameters
    ----------
    x0 : array
        Start; not modified.
    max_iter : int
    tol : float
        Stop when the decrease predicted by the quadratic model, :math:`\tfrac12 g^THg`, is below ``tol`` times the
        objective and ``tol`` times the largest predicted decrease so far. Both are free of units; the second is
        robust to a large constant in the objective.
    """
    require(objective, PreconditionedObjective, "L-BFGS with the exact step")
    backend, history = backend_of(x0), History()
    past: deque[_Step] = deque(maxlen=_MEMORY)
    x, z = x0, objective.image(x0)
    value, gradient = objective.value_and_gradient(x, z)
    history.n_evals += 1
    largest_predicted = 0.0
    for _ in range(max_iter):
        direction = -_inverse_hessian_product(objective, gradient, past)
        squared_norm, slope = backend.to_host_scalars(
            [backend.dot(gradient, gradient), backend.dot(gradient, direction)]
        )
        norm = float(squared_norm) ** 0.5
        if slope >= 0 and past:  # rounding spoilt the memory
            past.clear()
            direction = -objective.precondition(gradient)
            slope = float(backend.dot(gradient, direction))
        predicted = -0.5 * slope
        largest_predicted = max(predicted, largest_predicted)
        if predicted <= tol * min(abs(value), largest_predicted):
            return history.end(x, value, norm, StopReason.DECREASE)
        dz = objective.image(direction)
        step = minimize_on_ray(objective.line_polynomial(x, z, direction, dz))
        next_x, next_z = x + step * direction, z + step * dz
        next_value, next_gradient = objective.value_and_gradient(next_x, next_z)
        history.n_evals += 1
        if not next_value < value:
            return history.end(x, value, norm, StopReason.DECREASE)
        history.add(value, norm, step)
        change = next_gradient - gradient
        curvature = step * float(backend.dot(direction, change))
        if curvature > 0:
            past.append((step * direction, change, 1 / curvature))
        x, z, value, gradient = next_x, next_z, next_value, next_gradient
    norm = float(backend.dot(gradient, gradient)) ** 0.5
    return history.end(x, value, norm, StopReason.MAX_ITER)


def _inverse_hessian_product(objective: PreconditionedObjective, gradient: Array, past: deque[_Step]) -> Array:
    """Return the L-BFGS direction by the two-loop recursion; scalars stay on the device."""
    dot = backend_of(gradient).dot
    product, weights = gradient, []
    for step, change, inverse_curvature in reversed(past):
        weights.append(inverse_curvature * dot(step, product))
        product = product - weights[-1] * change
    product = objective.precondition(product)
    for step, change, inverse_curvature in past:
        correction = weights.pop() - inverse_curvature * dot(change, product)
        product = product + correction * step
    return product
