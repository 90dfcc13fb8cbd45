"""Target neighbours: the nearest samples of the same label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ordrank._protocols import Array, IntArray
from ordrank.backend import backend_of
from ordrank.errors import NeighborsCappedWarning, warn_caller
from ordrank.neighbors.approximate import approximate_k_nearest
from ordrank.neighbors.exact import k_nearest


@dataclass(frozen=True)
class TargetNeighbors:
    """Pairs (i, j): j is one of the nearest samples of i that share its label; grouped by i, nearest first."""

    first: Array  # (P,)
    second: Array  # (P,)
    squared_distances: Array  # (P,), ‖x_i - x_j‖² in the original space, float64
    recall: float = 1.0  # share of true neighbours: 1 if exact, else a lower bound with 95 % confidence

    def __len__(self) -> int:
        return len(self.first)


def target_neighbors(
    X: Array,
    label_index: Array,
    n_neighbors: int,
    *,
    recall: float = 1.0,
    random_state: int = 0,
    block_elements: int | None = None,
) -> TargetNeighbors:
    """Return the K nearest same-label samples of every sample, without an n × n matrix.

    Samples of a label with n_t <= K samples have n_t - 1 neighbours, with a :class:`NeighborsCappedWarning`. See
    K. Weinberger and L. Saul, "Distance metric learning for large margin nearest neighbor classification", JMLR, 2009.

    Parameters
    ----------
    X : array of shape (n, d)
    label_index : array of shape (n,)
        Label of each sample as an integer.
    n_neighbors : int
        K.
    recall : float, default=1.0
        Below 1 the search is approximate with at least this recall, which is faster for many clustered samples.
    random_state : int, default=0
        Seed of the approximate search.
    block_elements : int, optional
        Bound on the elements of any temporary array.
    """
    backend = backend_of(X)
    grouped, order = backend.sort(backend.indices(label_index, X)[None])
    grouped, order = backend.to_numpy(grouped[0]), order[0]
    starts = np.flatnonzero(np.diff(grouped, prepend=-1, append=-1))
    sizes = np.diff(starts)
    warn_small_labels(sizes, n_neighbors)
    parts, missed = [], 0.0
    rng = np.random.default_rng(random_state) if recall < 1 else None
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=False):
        k = min(n_neighbors, size - 1)
        if k:
            members = order[start : start + size]
            own, bound = X[members], 1.0
            if rng is not None:
                nearest, distances, bound = approximate_k_nearest(own, k, recall, rng, block_elements=block_elements)
            else:
                nearest, distances = k_nearest(own, own, k, exclude_self=True, block_elements=block_elements)
            missed += (1 - bound) * size * k
            first = (members[:, None] + 0 * nearest).reshape(-1)
            parts.append((first, members[nearest].reshape(-1), (distances**2).reshape(-1)))
    if not parts:
        none = backend.indices(np.empty(0), X)
        return TargetNeighbors(none, none, backend.double(backend.asarray(np.empty(0), X)))
    first, second, squared = (backend.concat(column) for column in zip(*parts, strict=True))
    by_sample = backend.sort(first[None])[1][0]
    return TargetNeighbors(first[by_sample], second[by_sample], squared[by_sample], 1 - missed / len(first))


def warn_small_labels(sizes: IntArray, n_neighbors: int) -> None:
    """Warn of labels with too few samples (m,) for so many target neighbours."""
    too_small = int((sizes <= n_neighbors).sum())
    if too_small:
        warn_caller(
            f"{too_small} of {len(sizes)} labels have at most n_neighbors={n_neighbors} samples (the smallest "
            f"has {sizes.min()}); their samples use every other sample of the label as target neighbours",
            NeighborsCappedWarning,
        )
