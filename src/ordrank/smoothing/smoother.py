"""Linear smoothers, and what happens when a sample is left out of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ordrank._types import FloatArray, IntArray

# A sample that determines its own position (leverage 1) has no leave-one-out error; this keeps it finite.
_LEAST_FREEDOM = 1e-9
# So many rows of a product of all samples stay in the processor's cache.
_ROWS_AT_ONCE = 100


@dataclass(frozen=True)
class Smoother:
    """Fitted targets that are linear in the given ones, ``Z = S Y``.

    What happens when a sample is left out is then known without fitting again: its own error is
    (y_i - z_i) / (1 - S_ii), and every other z_j moves by -S_ji times that.

    Attributes
    ----------
    Y, positions : ndarray of shape (n, s)
        Targets and fitted targets Z.
    weights, leverage : ndarray of shape (n,)
        How much each sample counts, and the diagonal of S.
    influence : callable
        Samples (q,) to what the target of each does to all positions, the transposed columns of S, (q, n).
    """

    Y: FloatArray
    positions: FloatArray
    weights: FloatArray
    leverage: FloatArray
    influence: Callable[[IntArray], FloatArray]

    @cached_property
    def errors(self) -> FloatArray:
        """Leave-one-out errors, (n, s)."""
        return np.asarray((self.Y - self.positions) / np.maximum(1 - self.leverage, _LEAST_FREEDOM)[:, None])

    @cached_property
    def displacements(self) -> FloatArray:
        """Length of the leave-one-out errors, (n,)."""
        return np.asarray(np.linalg.norm(self.errors, axis=1))

    @cached_property
    def displacement(self) -> float:
        """Their weighted mean."""
        return float(self.displacements @ self.weights / self.weights.sum())

    def squared_distances_left_out(self, rows: IntArray) -> FloatArray:
        """Squared distances of given samples to all others, each sample having been left out of the fit.

        Parameters
        ----------
        rows : ndarray of shape (q,)
            The samples that are left out, one at a time.

        Returns
        -------
        ndarray of shape (q, n)
            Infinite between a sample and itself.
        """
        influence = self.influence(rows)
        own = self.Y[rows] - self.errors[rows]
        squared = np.zeros_like(influence)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            for column in range(self.Y.shape[1]):
                moved = influence[part] * self.errors[rows[part], column, None]
                moved += own[part, column, None] - self.positions[None, :, column]
                squared[part] += moved**2
        squared[np.arange(len(rows)), rows] = np.inf
        return squared


def mean_smoother(smoothers: Sequence[Smoother], shares: Sequence[float]) -> Smoother:
    """Return the mean of smoothers of the same targets, with weights (shares) of sum 1."""

    def mean(values: Sequence[FloatArray]) -> FloatArray:
        return np.asarray(sum(share * value for share, value in zip(shares, values, strict=True)))

    return Smoother(
        smoothers[0].Y,
        mean([smoother.positions for smoother in smoothers]),
        smoothers[0].weights,
        mean([smoother.leverage for smoother in smoothers]),
        lambda rows: mean([smoother.influence(rows) for smoother in smoothers]),
    )
