"""Results of solvers: the stopping reason and the history."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from ordrank._protocols import Array
from ordrank.errors import MissingCapabilityError


class StopReason(StrEnum):
    """Stopping reasons, as text for users."""

    GRADIENT = "the gradient is small enough"
    DECREASE = "no step lowers the objective by more than its rounding or tolerance"
    CHANGE = "the solution no longer changes"
    CLOSED_FORM = "closed form"
    MAX_ITER = "the maximum number of iterations was reached"
    LINE_SEARCH = "the line search found no acceptable step in its allowed number of trials"
    DIVERGED = "the iteration diverged; the last finite point is kept"

    @property
    def converged(self) -> bool:
        """Whether the reason means that a solution was reached."""
        return self in (StopReason.GRADIENT, StopReason.DECREASE, StopReason.CHANGE, StopReason.CLOSED_FORM)


class Iterate(NamedTuple):
    """One point of a solver's path."""

    value: float
    gradient_norm: float
    step: float  # step size taken from here; 0 at the last point


@dataclass(frozen=True)
class SolverResult:
    """The last point of a solver and why it stopped.

    Attributes
    ----------
    x : array
        The last point.
    value : float
        Objective at x.
    n_iter, n_evals : int
        Steps; evaluations of the objective, with or without its gradient.
    stop_reason : str
        The text of a :class:`StopReason`.
    converged : bool
        Whether that reason means that a solution was reached.
    history : tuple of Iterate
        Every point of the path, including start and end.
    """

    x: Array
    value: float
    n_iter: int
    n_evals: int
    stop_reason: str
    converged: bool
    history: tuple[Iterate, ...]


def require(objective: object, capability: type, solver: str) -> None:
    """Raise MissingCapabilityError if the objective lacks a method of the protocol ``capability``."""
    missing = [name for name in _public_names(capability) if not hasattr(objective, name)]
    if missing:
        raise MissingCapabilityError(
            f"{solver} needs an objective with {', '.join(missing)}; {type(objective).__name__} has none"
        )


@cache
def _public_names(capability: type) -> list[str]:
    return [name for name in dir(capability) if not name.startswith("_")]


class History:
    """Record of the iterates and the number of evaluations."""

    def __init__(self) -> None:
        self._iterates: list[Iterate] = []
        self.n_evals = 0

    def add(self, value: float, gradient_norm: float, step: float) -> None:
        """Append a point and the step taken from it."""
        self._iterates.append(Iterate(value, gradient_norm, step))

    def end(self, x: Array, value: float, gradient_norm: float, reason: StopReason) -> SolverResult:
        """Append the last point and return the result."""
        self.add(value, gradient_norm, 0.0)
        return SolverResult(
            x=x,
            value=value,
            n_iter=len(self._iterates) - 1,
            n_evals=self.n_evals,
            stop_reason=str(reason),
            converged=reason.converged,
            history=tuple(self._iterates),
        )
