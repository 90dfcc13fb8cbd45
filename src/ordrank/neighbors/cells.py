"""Most of the nearest neighbours for a part of the work, and proof of how many.

Points are divided into cells around some of them. A query is compared with the points of its own cell and of the
cells next to it, exactly. So a true neighbour is found if and only if its cell is among those, and a random sample of
queries with their true neighbours tells how many cells are needed, before anything else is searched.
"""

from __future__ import annotations

import numpy as np

from ordrank._types import Array, FloatArray, IntArray
from ordrank.backend import backend_of
from ordrank.neighbors.exact import k_nearest

CELL_SIZE = 2000
SAMPLE = 2000
# Chance that fewer neighbours are found than is said.
DOUBT = 0.05


def most_of_the_nearest(
    points: Array, k: int, recall: float, rng: np.random.Generator, *, block_elements: int | None = None
) -> tuple[Array, Array, float]:
    """Neighbours of every point among the others, of which at least a share ``recall`` are the nearest.

    Parameters
    ----------
    points : array of shape (n, d)
    k : int
        Less than n.
    recall : float
        Wanted share of the true neighbours, found on average.
    rng : Generator
        Draws the centres of the cells and the queries of the sample.
    block_elements : int, optional
        Bound on the elements of any temporary array.

    Returns
    -------
    indices, distances : array of shape (n, k)
        As from :func:`k_nearest`.
    recall : float
        A share that is reached with 95 % confidence: no less than asked for, and 1 where the search was exact.
    """
    n_cells = len(points) // CELL_SIZE
    if n_cells > 2:
        backend = backend_of(points)
        centres = points[backend.indices(rng.choice(len(points), n_cells, replace=False), points)]
        cell = backend.to_numpy(k_nearest(centres, points, 1, block_elements=block_elements)[0])[:, 0]
        order = backend.to_numpy(k_nearest(centres, centres, n_cells, block_elements=block_elements)[0])
        n_visited, reached = _cells_needed(points, cell, order, k, recall, rng, block_elements)
        if n_visited < n_cells // 2:
            return *_search_cells(points, cell, order[:, :n_visited], k, block_elements), reached
    return *k_nearest(points, points, k, exclude_self=True, block_elements=block_elements), 1.0


def _cells_needed(
    points: Array,
    cell: IntArray,
    order: IntArray,
    k: int,
    recall: float,
    rng: np.random.Generator,
    block_elements: int | None,
) -> tuple[int, float]:
    """How many cells to visit for the wanted recall, and the recall that is sure then."""
    rows = rng.choice(len(points), min(SAMPLE, len(points)), replace=False)
    asked = points[backend_of(points).indices(rows, points)]
    nearest = backend_of(points).to_numpy(k_nearest(points, asked, k + 1, block_elements=block_elements)[0])
    own = nearest == rows[:, None]
    own[:, -1] |= ~own.any(axis=1)  # among more than k copies of itself, a point may not be the nearest
    others = nearest[~own].reshape(len(rows), k)
    place = np.argsort(order, axis=1)  # of every cell in the order of another
    visited_at = place[cell[rows, None], cell[others]]
    choices = [2**power for power in range(int(np.log2(len(order))) + 1)]
    for n_visited in choices:
        # A point must also find as many others as it wants, whatever their distance.
        found = (visited_at < n_visited).mean(axis=1)
        sure = sure_mean(found, DOUBT / len(choices))
        if sure >= recall and _smallest_visit(cell, order[:, :n_visited]) > k:
            return n_visited, sure
    return len(order), 1.0


def sure_mean(values: FloatArray, doubt: float) -> float:
    r"""Bound from below on the mean of numbers in [0, 1], from a sample (m,), wrong with the chance δ.

    Maurer and Pontil's :math:`\bar x - \sqrt{2V\ln(2/\delta)/m} - 7\ln(2/\delta)/(3(m - 1))`, V the variance.
    """
    m, log = len(values), np.log(2 / doubt)
    return float(values.mean() - np.sqrt(2 * values.var(ddof=1) * log / m) - 7 * log / (3 * (m - 1)))


def _smallest_visit(cell: IntArray, visited: IntArray) -> int:
    """Points that the least of all visits meets."""
    sizes = np.bincount(cell, minlength=len(visited))
    return int(sizes[visited].sum(axis=1)[sizes > 0].min())


def _search_cells(
    points: Array, cell: IntArray, visited: IntArray, k: int, block_elements: int | None
) -> tuple[Array, Array]:
    """Exact neighbours of every point among the points of the cells that its own cell visits."""
    backend = backend_of(points)
    by_cell = np.argsort(cell, kind="stable")
    members = np.split(by_cell, np.cumsum(np.bincount(cell, minlength=len(visited)))[:-1])
    found_indices, found_distances = [], []
    for own, neighbours in zip(members, visited, strict=True):
        if not len(own):
            continue
        met = np.sort(np.concatenate([members[c] for c in neighbours]))
        there = backend.indices(met, points)
        here = backend.indices(own, points)
        indices, distances = k_nearest(points[there], points[here], k + 1, block_elements=block_elements)
        indices = there[indices]
        # The point itself goes to the end; among its own copies it may not be there at all.
        distances[indices == here[:, None]] = np.inf
        distances, order = backend.rising(distances)
        found_indices.append(backend.take(indices, order)[:, :k])
        found_distances.append(distances[:, :k])
    back = backend.indices(np.argsort(by_cell), points)
    return backend.join(found_indices)[back], backend.join(found_distances)[back]
