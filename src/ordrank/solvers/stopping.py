"""Why a solver stopped, and the record it keeps on the way."""

from __future__ import annotations

from enum import StrEnum
from functools import cache

from ordrank._types import Array, Iterate, SolverResult
from ordrank.errors import MissingCapabilityError


class StopReason(StrEnum):
    """The reasons, as sentences a user can read."""

    GRADIENT = "the gradient is small enough"
    DECREASE = "no step lowers the objective by more than its rounding or tolerance"
    CHANGE = "the solution no longer changes"
    MAX_ITER = "the maximum number of iterations was reached"
    LINE_SEARCH = "the line search found no acceptable step in its allowed number of trials"
    DIVERGED = "the iteration diverged; the last finite point is kept"

    @property
    def converged(self) -> bool:
        """Whether the reason means that a solution was reached."""
        return self in (StopReason.GRADIENT, StopReason.DECREASE, StopReason.CHANGE)


def require(objective: object, capability: type, solver: str) -> None:
    """Say in one sentence what the objective lacks, if anything."""
    missing = [name for name in _public_names(capability) if not hasattr(objective, name)]
    if missing:
        raise MissingCapabilityError(
            f"{solver} needs an objective with {', '.join(missing)}; {type(objective).__name__} has none"
        )


@cache
def _public_names(capability: type) -> list[str]:
    return [name for name in dir(capability) if not name.startswith("_")]


class Path:
    """The points a solver passed through and the evaluations they cost."""

    def __init__(self) -> None:
        self._iterates: list[Iterate] = []
        self.n_evals = 0

    def step_from(self, value: float, gradient_norm: float, step: float) -> None:
        """Record a point and the step taken from it."""
        self._iterates.append(Iterate(value, gradient_norm, step))

    def end(self, x: Array, value: float, gradient_norm: float, reason: StopReason) -> SolverResult:
        """Record the last point and close the path."""
        self._iterates.append(Iterate(value, gradient_norm, 0.0))
        return SolverResult(
            x=x,
            value=value,
            n_iter=len(self._iterates) - 1,
            n_evals=self.n_evals,
            stop_reason=str(reason),
            converged=reason.converged,
            history=tuple(self._iterates),
        )
