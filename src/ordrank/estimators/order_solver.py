"""The objective of the order map, in the features of a ridge fit: its closed form, and the solver with a local term."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ordrank._types import Array, FloatArray, Iterate, SolverResult
from ordrank.backend import backend_of
from ordrank.neighbors import TargetNeighbors
from ordrank.objectives import CMDSObjective
from ordrank.objectives.locality import LocalityTerm
from ordrank.smoothing import RidgeFit
from ordrank.solvers import lbfgs

CLOSED_FORM = "closed form"


def closed_form(fit: RidgeFit) -> SolverResult:
    """Record of the solution without a local term: one step from zero."""
    value_and_gradient, solution = _ridge_objective(fit), fit.coefficients()
    points = []
    for B, step in ((np.zeros_like(solution), 1.0), (solution, 0.0)):
        value, gradient = value_and_gradient(B)
        points.append(Iterate(value, float(np.linalg.norm(gradient)), step))
    return SolverResult(_flat(solution), points[-1].value, 1, 2, CLOSED_FORM, True, tuple(points))


def with_local_term(
    fit: RidgeFit,
    features: Array,
    Y: Array,
    weights: Array,
    neighbors: TargetNeighbors,
    *,
    mu: float,
    tau: float,
    max_iter: int,
    tol: float,
) -> SolverResult:
    """Minimise with the local term, from the solution without it.

    Parameters
    ----------
    fit : RidgeFit
        The solution without it.
    features, Y, weights : array of shape (n, p), (n, s) and (n,)
        Of all samples; their type is that of the products, which are computed where they are. Features have weighted
        mean zero.
    neighbors : TargetNeighbors
        In samples of unit size; without any there is no such term.
    mu, tau : float
        Weight of the term per pair, and the share of their squared distance that pairs should keep.
    max_iter, tol
        Of the solver.
    """
    if not len(neighbors):
        return closed_form(fit)
    pairs = backend_of(Y).pairs(neighbors.first, neighbors.second, len(Y), Y)
    local = LocalityTerm(pairs, tau * neighbors.squared_distances, mu / len(neighbors))
    objective = _objective(fit, features, Y, weights, local)
    start = backend_of(Y).asarray(_flat(fit.coefficients()), Y)
    return lbfgs(objective, start, max_iter=max_iter, tol=tol)


def _ridge_objective(fit: RidgeFit) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """Value and gradient per unit of weight, from the samples or from the sums over them."""
    path, moments = fit.path, fit.path.moments
    if moments is not None:
        return lambda B: moments.objective(B, fit.ridge)
    objective = _objective(fit, path.centred / path.root[:, None], path.Y, path.weights, None)

    def value_and_gradient(B: FloatArray) -> tuple[float, FloatArray]:
        x = _flat(B)
        return objective.value_and_gradient(x, objective.image(x))

    return value_and_gradient


def _objective(fit: RidgeFit, features: Array, Y: Array, weights: Array, local: LocalityTerm | None) -> CMDSObjective:
    """The objective per unit of weight."""
    total = fit.path.total
    return CMDSObjective(
        features,
        Y,
        local,
        alpha=fit.alpha * fit.path.scatter / total,
        free_scale=False,
        weights=backend_of(Y).asarray(weights / total, Y),
    )


def _flat(B: FloatArray) -> FloatArray:
    """Unknowns of the objective, from coefficients (p, s)."""
    return np.ascontiguousarray(B.T).reshape(-1)
