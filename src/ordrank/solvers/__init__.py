"""Solvers: they use an objective only through the protocols of :mod:`ordrank._protocols`."""

from ordrank.solvers.armijo import steepest_descent
from ordrank.solvers.exact_step import minimize_on_ray
from ordrank.solvers.lbfgs import lbfgs
from ordrank.solvers.projected_gradient import projected_gradient
from ordrank.solvers.stopping import Iterate, SolverResult, StopReason

__all__ = [
    "Iterate",
    "SolverResult",
    "StopReason",
    "lbfgs",
    "minimize_on_ray",
    "projected_gradient",
    "steepest_descent",
]
