"""The objective of the order map, in the features of a ridge fit: its closed form, and the solver with a local term."""

from __future__ import annotations

import numpy as np

from ordrank._types import FloatArray, Iterate, SolverResult
from ordrank.backend import backend_of
from ordrank.neighbors import TargetNeighbors
from ordrank.objectives import CMDSObjective
from ordrank.objectives.locality import LocalityTerm
from ordrank.smoothing import RidgeFit
from ordrank.solvers import lbfgs

CLOSED_FORM = "closed form"


def closed_form(fit: RidgeFit) -> SolverResult:
    """Record of the solution without a local term: one step from zero."""
    objective, solution = _objective(fit, None)
    points = []
    for x, step in ((np.zeros_like(solution), 1.0), (solution, 0.0)):
        value, gradient = objective.value_and_gradient(x, objective.image(x))
        points.append(Iterate(value, float(np.linalg.norm(gradient)), step))
    return SolverResult(solution, points[-1].value, 1, 2, CLOSED_FORM, True, tuple(points))


def with_local_term(
    fit: RidgeFit, neighbors: TargetNeighbors, *, mu: float, tau: float, max_iter: int, tol: float
) -> SolverResult:
    """Minimise with the local term, from the solution without it.

    Parameters
    ----------
    fit : RidgeFit
    neighbors : TargetNeighbors
        In samples of unit size; without any there is no such term.
    mu, tau : float
        Weight of the term per pair, and the share of their squared distance that pairs should keep.
    max_iter, tol
        Of the solver.
    """
    if not len(neighbors):
        return closed_form(fit)
    Y = fit.path.Y
    pairs = backend_of(Y).pairs(neighbors.first, neighbors.second, len(Y), Y)
    local = LocalityTerm(pairs, tau * neighbors.squared_distances, mu / len(neighbors))
    objective, start = _objective(fit, local)
    return lbfgs(objective, start, max_iter=max_iter, tol=tol)


def _objective(fit: RidgeFit, local: LocalityTerm | None) -> tuple[CMDSObjective, FloatArray]:
    """The objective per unit of weight, and the point of the ridge solution."""
    path, total = fit.path, fit.path.weights.sum()
    objective = CMDSObjective(
        path.centred / path.root[:, None],
        path.Y,
        local,
        alpha=fit.alpha * path.scatter / total,
        free_scale=False,
        weights=path.weights / total,
    )
    return objective, objective.pack(np.ascontiguousarray(fit.coefficients().T), 1.0)
