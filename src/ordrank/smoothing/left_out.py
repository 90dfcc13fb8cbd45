"""What a map, or a mean of maps, would be without some of its samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ordrank._types import IntArray
from ordrank.smoothing.ridge import RidgeFit, sums_of_groups

# Factors of the smoother of a map, its leave-out errors times its share in the mean.
_Part: TypeAlias = tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]
_Moves: TypeAlias = Callable[[IntArray], Iterator[NDArray[np.floating]]]


def left_out_distances(
    fits: Sequence[RidgeFit], shares: Sequence[float], dtype: DTypeLike = np.float64
) -> Callable[[IntArray], NDArray[np.floating]]:
    r"""Squared distances of given samples to all others in a mean of maps, each having been left out of the fit.

    Without a sample i, or a group g of samples, every position z_j moves by :math:`-S_{ji}e_i`, or by
    :math:`-\sum_{i\in g}S_{ji}e_i`, in each map.

    Parameters
    ----------
    fits : sequence of RidgeFit
        Of the same samples.
    shares : sequence of float
        The part of each in the mean.
    dtype : dtype
        In which distances are computed.

    Returns
    -------
    callable
        From q samples, each of which is left out, alone or with its group, to an ndarray of shape (q, n), infinite
        between samples that are left out together.
    """
    path, weighted = fits[0].path, list(zip(fits, shares, strict=True))
    parts = [(*fit.factors(dtype), (share * fit.errors).astype(dtype)) for fit, share in weighted]
    positions = np.sum([share * fit.positions for fit, share in weighted], axis=0).astype(dtype)
    own = path.Y.astype(dtype) - sum(errors for _, _, errors in parts)
    groups = np.arange(len(own)) if path.groups is None else path.groups
    moves = _moves_without_sample(parts) if path.groups is None else _moves_without_group(parts, path.groups)

    def squared_distances(rows: IntArray) -> NDArray[np.floating]:
        squared = np.zeros((len(rows), len(own)), dtype=dtype)
        for moved, place, position in zip(moves(rows), own[rows].T, positions.T, strict=True):
            moved += place[:, None]
            moved -= position
            squared += np.square(moved, out=moved)
        squared[groups[rows, None] == groups] = np.inf
        return squared

    return squared_distances


def _moves_without_sample(parts: Sequence[_Part]) -> _Moves:
    """From rows (q,) to how far all samples move along each axis, (q, n), when they are left out one at a time."""

    def moves(rows: IntArray) -> Iterator[NDArray[np.floating]]:
        influences = [(A[rows] @ B.T, errors[rows]) for A, B, errors in parts]
        for axis in range(parts[0][2].shape[1]):
            yield np.asarray(reduce(add, (influence * errors[:, axis, None] for influence, errors in influences)))

    return moves


def _moves_without_group(parts: Sequence[_Part], groups: IntArray) -> _Moves:
    """The same when a sample is left out with its group: the groups' own sums are made once."""
    responses = np.hstack([B for _, B, _ in parts])
    pulls = [
        sums_of_groups(np.hstack([A * errors[:, axis, None] for A, _, errors in parts]), groups)
        for axis in range(parts[0][2].shape[1])
    ]

    def moves(rows: IntArray) -> Iterator[NDArray[np.floating]]:
        for pull in pulls:
            yield pull[groups[rows]] @ responses.T

    return moves
