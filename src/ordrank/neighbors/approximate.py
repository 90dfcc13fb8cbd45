"""Approximate nearest neighbours by an inverted file (IVF) with a guaranteed recall.

Points are assigned to cells around randomly chosen centres. A query is compared exactly with the points of the cells
nearest to its own, so a true neighbour is found if and only if its cell is visited. A random sample of queries with
their true neighbours shows in advance how many cells the requested recall needs. Inverted files:
H. Jégou, M. Douze and C. Schmid, "Product quantization for nearest neighbor search", IEEE TPAMI 33(1), 2011.
"""

from __future__ import annotations

import numpy as np

from ordrank._protocols import Array, FloatArray, IntArray
from ordrank.backend import backend_of
from ordrank.neighbors.exact import k_nearest

CELL_SIZE = 2000
SAMPLE_SIZE = 2000
# Probability that the recall is below the reported bound.
DELTA = 0.05


def approximate_k_nearest(
    points: Array, k: int, recall: float, rng: np.random.Generator, *, block_elements: int | None = None
) -> tuple[Array, Array, float]:
    """Return k neighbours of every point among the others, with an average recall of at least ``recall``.

    Parameters
    ----------
    points : array of shape (n, d)
    k : int
        Less than n.
    recall : float
    rng : Generator
        Draws the centres of the cells and the sample of queries.
    block_elements : int, optional
        Bound on the elements of any temporary array.

    Returns
    -------
    indices, distances : array of shape (n, k)
    recall : float
        Lower bound of the recall with 95 % confidence; 1 if the search was exact.
    """
    n_cells = len(points) // CELL_SIZE
    if n_cells > 2:
        backend = backend_of(points)
        centres = points[backend.indices(rng.choice(len(points), n_cells, replace=False), points)]
        cell = backend.to_numpy(k_nearest(centres, points, 1, block_elements=block_elements)[0])[:, 0]
        order = backend.to_numpy(k_nearest(centres, centres, n_cells, block_elements=block_elements)[0])
        n_visited, bound = _cells_needed(points, cell, order, k, recall, rng, block_elements)
        if n_visited < n_cells // 2:
            return *_search_cells(points, cell, order[:, :n_visited], k, block_elements), bound
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
    """Return the number of cells to visit for the recall, and the lower bound of the recall reached."""
    rows = rng.choice(len(points), min(SAMPLE_SIZE, len(points)), replace=False)
    queries = points[backend_of(points).indices(rows, points)]
    nearest = backend_of(points).to_numpy(k_nearest(points, queries, k + 1, block_elements=block_elements)[0])
    own = nearest == rows[:, None]
    own[:, -1] |= ~own.any(axis=1)  # with more than k duplicates a point may not be among its nearest
    others = nearest[~own].reshape(len(rows), k)
    rank = np.argsort(order, axis=1)  # of every cell in the order of another
    visited_at = rank[cell[rows, None], cell[others]]
    choices = [2**power for power in range(int(np.log2(len(order))) + 1)]
    for n_visited in choices:
        # Every point must also meet more than k others, whatever their distance.
        found = (visited_at < n_visited).mean(axis=1)
        bound = mean_lower_bound(found, DELTA / len(choices))
        if bound >= recall and _smallest_visit(cell, order[:, :n_visited]) > k:
            return n_visited, bound
    return len(order), 1.0


def mean_lower_bound(values: FloatArray, delta: float) -> float:
    r"""Return a lower bound of the mean of a variable in [0, 1] from a sample (m,), with confidence 1 - δ.

    The empirical Bernstein bound :math:`\bar x - \sqrt{2V\ln(2/\delta)/m} - 7\ln(2/\delta)/(3(m - 1))`, V the
    sample variance (Maurer & Pontil 2009).
    """
    m, log = len(values), np.log(2 / delta)
    return float(values.mean() - np.sqrt(2 * values.var(ddof=1) * log / m) - 7 * log / (3 * (m - 1)))


def _smallest_visit(cell: IntArray, visited: IntArray) -> int:
    """Return the smallest number of points that any point is compared with."""
    sizes = np.bincount(cell, minlength=len(visited))
    return int(sizes[visited].sum(axis=1)[sizes > 0].min())


def _search_cells(
    points: Array, cell: IntArray, visited: IntArray, k: int, block_elements: int | None
) -> tuple[Array, Array]:
    """Return the exact neighbours of every point among the cells that its own cell visits."""
    backend = backend_of(points)
    by_cell = np.argsort(cell, kind="stable")
    members = np.split(by_cell, np.cumsum(np.bincount(cell, minlength=len(visited)))[:-1])
    all_indices, all_distances = [], []
    for own, neighbours in zip(members, visited, strict=True):
        if not len(own):
            continue
        candidates = backend.indices(np.sort(np.concatenate([members[c] for c in neighbours])), points)
        queries = backend.indices(own, points)
        indices, distances = k_nearest(points[candidates], points[queries], k + 1, block_elements=block_elements)
        indices = candidates[indices]
        # The point itself goes to the end; with many duplicates it may be missing.
        distances[indices == queries[:, None]] = np.inf
        distances, order = backend.sort(distances)
        all_indices.append(backend.take_along_axis(indices, order)[:, :k])
        all_distances.append(distances[:, :k])
    inverse = backend.indices(np.argsort(by_cell), points)
    return backend.concat(all_indices)[inverse], backend.concat(all_distances)[inverse]
