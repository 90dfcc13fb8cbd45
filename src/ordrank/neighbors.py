"""Exact nearest neighbours in blocks, and the target neighbours of labelled samples.

Distances come from one matrix product per block, which is fast but loses digits when points lie far from
the origin or close together. So the product only proposes candidates, with a margin for its rounding error,
and direct differences in double precision decide. Equal distances are ordered by index.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.errors import NeighborsCappedWarning, warn_caller

# Elements of the largest temporary array: 32 MB of doubles.
_BLOCK_ELEMENTS = 4_000_000


@dataclass(frozen=True)
class TargetNeighbors:
    """Pairs (i, j): j is one of the nearest samples of i that share its label.

    Attributes
    ----------
    first, second : ndarray of shape (P,)
        Sample i and its target neighbour j, grouped by i, nearest first.
    squared_distances : ndarray of shape (P,)
        ‖x_i - x_j‖² in the original space.
    """

    first: IntArray
    second: IntArray
    squared_distances: FloatArray

    def __len__(self) -> int:
        return len(self.first)


def target_neighbors(
    X: NDArray[np.floating], label_index: IntArray, n_neighbors: int, *, block_elements: int = _BLOCK_ELEMENTS
) -> TargetNeighbors:
    """K nearest same-label samples of every sample, exact, never n × n in memory.

    A label with n_t <= K samples gives its samples n_t - 1 neighbours each, with a
    :class:`NeighborsCappedWarning`.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Samples.
    label_index : ndarray of shape (n,)
        Which label each sample has, as an integer.
    n_neighbors : int
        K.
    block_elements : int
        Bound on the elements of any temporary array.
    """
    parts: list[tuple[IntArray, IntArray, FloatArray]] = []
    too_small = 0
    labels, sizes = np.unique(label_index, return_counts=True)
    for label, size in zip(labels, sizes, strict=True):
        members = np.flatnonzero(label_index == label)
        k = min(n_neighbors, int(size) - 1)
        too_small += k < n_neighbors
        if k == 0:
            continue
        nearest, distances = k_nearest(X[members], X[members], k, exclude_self=True, block_elements=block_elements)
        parts.append((np.repeat(members, k), members[nearest].reshape(-1), (distances**2).reshape(-1)))
    if too_small:
        warn_caller(
            f"{too_small} of {len(labels)} labels have at most n_neighbors={n_neighbors} samples (the smallest "
            f"has {sizes.min()}); their samples use every other sample of the label as target neighbours",
            NeighborsCappedWarning,
        )
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return TargetNeighbors(none, none, np.empty(0))
    first, second, squared = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(first, kind="stable")
    return TargetNeighbors(first[order], second[order], squared[order])


def k_nearest(
    points: NDArray[np.floating],
    queries: NDArray[np.floating],
    k: int,
    *,
    exclude_self: bool = False,
    block_elements: int = _BLOCK_ELEMENTS,
) -> tuple[IntArray, FloatArray]:
    """Indices and distances of the k rows of ``points`` nearest to each row of ``queries``.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        What is searched.
    queries : ndarray of shape (q, d)
        What is asked.
    k : int
        At most n, or n - 1 with ``exclude_self``.
    exclude_self : bool
        Query i is point i and is not its own neighbour (its exact copies are).
    block_elements : int
        Bound on the elements of any temporary array.

    Returns
    -------
    indices : ndarray of shape (q, k)
        Nearest first; equal distances in the order of the indices.
    distances : ndarray of shape (q, k)
        Euclidean distances in double precision.
    """
    centre = points.mean(axis=0, dtype=np.float64).astype(points.dtype)
    centred = points - centre  # rounding of the product grows with the distance from the origin
    norms = np.einsum("ij,ij->i", centred, centred)
    indices = np.empty((len(queries), k), dtype=np.int64)
    distances = np.empty((len(queries), k))
    rows_per_block = max(1, block_elements // max(len(points), points.shape[1]))
    for start in range(0, len(queries), rows_per_block):
        rows = np.arange(start, min(start + rows_per_block, len(queries)))
        block = queries[rows] - centre
        block_norms = np.einsum("ij,ij->i", block, block)
        approximate = block_norms[:, None] + norms[None, :] - 2 * (block @ centred.T)
        if exclude_self:
            approximate[np.arange(len(rows)), rows] = np.inf
        query, candidate = _candidates(approximate, k, _rounding(block_norms, norms, points.shape[1]))
        exact = direct_squared_distances(queries[rows], points, query, candidate, block_elements)
        order = np.lexsort((candidate, exact, query))
        # Every query has at least k candidates; its first k in this order are its neighbours.
        starts = np.searchsorted(query[order], np.arange(len(rows)))
        chosen = order[starts[:, None] + np.arange(k)]
        indices[rows] = candidate[chosen]
        distances[rows] = np.sqrt(exact[chosen])
    return indices, distances


def _rounding(block_norms: NDArray[np.floating], norms: NDArray[np.floating], dim: int) -> NDArray[np.floating]:
    """Bound on the error of ‖a‖² + ‖b‖² - 2ab for each query, in the precision of the product."""
    relative = 2 * (dim + 4) * float(np.finfo(norms.dtype).eps)
    return np.asarray(relative * (block_norms + norms.max(initial=0.0)))


def _candidates(approximate: NDArray[np.floating], k: int, error: NDArray[np.floating]) -> tuple[IntArray, IntArray]:
    """(query, point) pairs that may be among the k nearest once the error is taken into account."""
    kth = np.partition(approximate, k - 1, axis=1)[:, k - 1]
    query, candidate = np.nonzero(approximate <= (kth + 2 * error)[:, None])
    return query, candidate


def direct_squared_distances(
    queries: NDArray[np.floating],
    points: NDArray[np.floating],
    query: IntArray,
    candidate: IntArray,
    block_elements: int,
) -> FloatArray:
    """‖q - p‖² of given pairs, in double precision and in blocks of pairs."""
    squared = np.empty(len(query))
    pairs_per_block = max(1, block_elements // points.shape[1])
    for start in range(0, len(query), pairs_per_block):
        part = slice(start, start + pairs_per_block)
        difference = np.subtract(queries[query[part]], points[candidate[part]], dtype=np.float64)
        squared[part] = np.einsum("ij,ij->i", difference, difference)
    return squared
