"""How an objective is minimised. A solver knows the contracts of :mod:`ordrank._types` and nothing else."""

from ordrank.solvers.armijo import steepest_descent
from ordrank.solvers.exact_step import minimize_on_ray
from ordrank.solvers.lbfgs import lbfgs
from ordrank.solvers.projected_gradient import projected_gradient
from ordrank.solvers.stopping import StopReason

__all__ = ["StopReason", "lbfgs", "minimize_on_ray", "projected_gradient", "steepest_descent"]
