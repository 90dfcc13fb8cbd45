"""Solution of the ordinal map: the closed form, and L-BFGS with the local term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ordrank._protocols import Array, FloatArray
from ordrank.backend import backend_of
from ordrank.kernel_ridge import RidgeFit
from ordrank.neighbors import TargetNeighbors
from ordrank.objectives import CMDSObjective
from ordrank.objectives.local import LocalDistanceTerm
from ordrank.solvers import Iterate, SolverResult, StopReason, lbfgs


@dataclass(frozen=True)
class LocalTermOptions:
    """Parameters of the local term and of its solver."""

    mu: float  # weight of the mean over all pairs of target neighbours; 0 leaves the closed form
    tau: float  # fraction of its squared distance that a pair should keep
    n_neighbors: int  # target neighbours of each sample
    max_iter: int
    tol: float


def closed_form(fit: RidgeFit) -> SolverResult:
    """Return the record of the ridge solution: one step from zero."""
    value_and_gradient, solution = _ridge_objective(fit), fit.coefficients()
    points = []
    for B, step in ((np.zeros_like(solution), 1.0), (solution, 0.0)):
        value, gradient = value_and_gradient(B)
        points.append(Iterate(value, float(np.linalg.norm(gradient)), step))
    reason = StopReason.CLOSED_FORM
    return SolverResult(flatten(solution), points[-1].value, 1, 2, str(reason), reason.converged, tuple(points))


def minimize_with_local_term(
    fit: RidgeFit, features: Array, Y: Array, weights: Array, neighbors: TargetNeighbors, term: LocalTermOptions
) -> SolverResult:
    """Minimise with the local term, starting from the ridge solution, which is returned if there are no neighbours.

    Features (n, p), of weighted mean zero, targets Y (n, s) and weights (n,) cover all samples; products have their
    type and device. Target neighbours are between normalised samples.
    """
    if not len(neighbors):
        return closed_form(fit)
    pairs = backend_of(Y).pairs(neighbors.first, neighbors.second, len(Y), Y)
    local = LocalDistanceTerm(pairs, term.tau * neighbors.squared_distances, term.mu / len(neighbors))
    objective = _objective(fit, features, Y, weights, local)
    start = backend_of(Y).asarray(flatten(fit.coefficients()), Y)
    return lbfgs(objective, start, max_iter=term.max_iter, tol=term.tol)


def flatten(B: FloatArray) -> FloatArray:
    """Return the unknowns of the objective from coefficients (p, s)."""
    return np.ascontiguousarray(B.T).reshape(-1)


def unflatten(x: Array, n_components: int) -> FloatArray:
    """Return coefficients (p, s), on the host, from the unknowns of the objective."""
    return np.asarray(backend_of(x).to_numpy(x), dtype=np.float64).reshape(n_components, -1).T


def _ridge_objective(fit: RidgeFit) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """Return value and gradient per unit of weight, from the moments or from the samples."""
    problem, moments = fit.problem, fit.problem.moments
    if moments is not None:
        return lambda B: moments.objective(B, fit.ridge)
    objective = _objective(fit, problem.centred / problem.root[:, None], problem.Y, problem.weights, None)

    def value_and_gradient(B: FloatArray) -> tuple[float, FloatArray]:
        x = flatten(B)
        return objective.value_and_gradient(x, objective.image(x))

    return value_and_gradient


def _objective(
    fit: RidgeFit, features: Array, Y: Array, weights: Array, local: LocalDistanceTerm | None
) -> CMDSObjective:
    """Return the objective per unit of weight."""
    total = fit.problem.total
    return CMDSObjective(
        features,
        Y,
        local,
        alpha=fit.alpha * fit.problem.scatter / total,
        free_scale=False,
        weights=backend_of(Y).asarray(weights / total, Y),
    )
