"""Leave-one-out and leave-one-group-out distances in a ridge fit, or in a weighted mean of ridge fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ordrank._protocols import IntArray
from ordrank.kernel_ridge.ridge import RidgeFit

# Factors A and B of the smoother S = BAᵀ of one fit, and its leave-one-out errors times its weight.
_Part: TypeAlias = tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]
_Shifts: TypeAlias = Callable[[IntArray], Iterator[NDArray[np.floating]]]


def loo_squared_distances(
    fits: Sequence[RidgeFit], weights: Sequence[float], dtype: DTypeLike = np.float64
) -> Callable[[IntArray], NDArray[np.floating]]:
    r"""Return a function from samples to their squared distances to all others, each sample held out of the fit.

    Without sample i every fitted value z_j shifts by :math:`-S_{ji}e_i`, with e_i the leave-one-out error; without
    a group g by :math:`-\sum_{i\in g}S_{ji}e_i`. The space is the weighted mean of the fits, which are of the same
    samples. Row numbers (q,) give distances (q, n), infinite between samples that are held out together.
    See R. Cook and S. Weisberg, *Residuals and Influence in Regression*, 1982, and B. Efron, *The Jackknife, the
    Bootstrap and Other Resampling Plans*, 1982.
    """
    problem, weighted = fits[0].problem, list(zip(fits, weights, strict=True))
    parts = [(*fit.smoother_factors(dtype), (weight * fit.loo_errors).astype(dtype)) for fit, weight in weighted]
    fitted = np.sum([weight * fit.fitted_values for fit, weight in weighted], axis=0).astype(dtype)
    held_out = problem.Y.astype(dtype) - sum(errors for _, _, errors in parts)
    groups = np.arange(len(held_out)) if problem.groups is None else problem.groups
    shifts = _shifts_without_sample(parts) if problem.groups is None else _shifts_without_group(parts, problem.groups)

    def squared_distances(rows: IntArray) -> NDArray[np.floating]:
        squared = np.zeros((len(rows), len(held_out)), dtype=dtype)
        for difference, own, others in zip(shifts(rows), held_out[rows].T, fitted.T, strict=True):
            difference += own[:, None]
            difference -= others
            squared += np.square(difference, out=difference)
        squared[groups[rows, None] == groups] = np.inf
        return squared

    return squared_distances


def _shifts_without_sample(parts: Sequence[_Part]) -> _Shifts:
    """Return a function from rows (q,) to the shift (q, n) of all samples along each axis, without that row."""

    def shifts(rows: IntArray) -> Iterator[NDArray[np.floating]]:
        influences = [(A[rows] @ B.T, errors[rows]) for A, B, errors in parts]
        for axis in range(parts[0][2].shape[1]):
            yield np.asarray(reduce(add, (influence * errors[:, axis, None] for influence, errors in influences)))

    return shifts


def _shifts_without_group(parts: Sequence[_Part], groups: IntArray) -> _Shifts:
    """Return the same for a row held out with its group; sums over the groups are computed once."""
    responses = np.hstack([B for _, B, _ in parts])
    group_sums = []
    for axis in range(parts[0][2].shape[1]):
        values = np.hstack([A * errors[:, axis, None] for A, _, errors in parts])
        sums = np.zeros((int(groups.max()) + 1, values.shape[1]), dtype=values.dtype)
        np.add.at(sums, groups, values)
        group_sums.append(sums)

    def shifts(rows: IntArray) -> Iterator[NDArray[np.floating]]:
        for sums in group_sums:
            yield sums[groups[rows]] @ responses.T

    return shifts
