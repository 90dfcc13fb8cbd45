"""Target neighbours: the nearest samples of the same label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ordrank._types import Array
from ordrank.backend import backend_of
from ordrank.errors import NeighborsCappedWarning, warn_caller
from ordrank.neighbors.cells import most_of_the_nearest
from ordrank.neighbors.exact import k_nearest


@dataclass(frozen=True)
class TargetNeighbors:
    """Pairs (i, j): j is one of the nearest samples of i that share its label.

    Attributes
    ----------
    first, second : array of shape (P,)
        Sample i and its target neighbour j, grouped by i, nearest first.
    squared_distances : array of shape (P,)
        ‖x_i - x_j‖² in the original space, in double precision.
    recall : float
        Share of the j that are true nearest neighbours: 1, or what a search for most of them reached with 95 %
        confidence.
    """

    first: Array
    second: Array
    squared_distances: Array
    recall: float = 1.0

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
    """K nearest same-label samples of every sample, never n × n in memory; exact unless told otherwise.

    A label with n_t <= K samples gives its samples n_t - 1 neighbours each, with a
    :class:`NeighborsCappedWarning`.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples; the pairs are found, and stay, where they are.
    label_index : array of shape (n,)
        Which label each sample has, as an integer.
    n_neighbors : int
        K.
    recall : float, default=1.0
        Below 1, this share of the neighbours is enough, which takes a part of the time where many samples lie in
        clusters. What was reached is checked on a random sample and kept in the result.
    random_state : int, default=0
        Draws that sample.
    block_elements : int, optional
        Bound on the elements of any temporary array.
    """
    backend = backend_of(X)
    # Samples of a label follow each other in this order, each label's in the order of X.
    grouped, order = backend.rising(backend.indices(label_index, X)[None])
    grouped, order = backend.to_numpy(grouped[0]), order[0]
    starts = np.flatnonzero(np.diff(grouped, prepend=-1, append=-1))
    sizes = np.diff(starts)
    _warn_of_small_labels(sizes, n_neighbors)
    parts, missed = [], 0.0
    rng = np.random.default_rng(random_state) if recall < 1 else None
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=False):
        k = min(n_neighbors, size - 1)
        if k:
            members = order[start : start + size]
            of_label = X[members]
            if rng is not None:
                nearest, distances, sure = most_of_the_nearest(of_label, k, recall, rng, block_elements=block_elements)
                missed += (1 - sure) * size * k
            else:
                nearest, distances = k_nearest(of_label, of_label, k, exclude_self=True, block_elements=block_elements)
            first = (members[:, None] + 0 * nearest).reshape(-1)
            parts.append((first, members[nearest].reshape(-1), (distances**2).reshape(-1)))
    if not parts:
        none = backend.indices(np.empty(0), X)
        return TargetNeighbors(none, none, backend.double(backend.asarray(np.empty(0), X)))
    first, second, squared = (backend.join(column) for column in zip(*parts, strict=True))
    by_sample = backend.rising(first[None])[1][0]
    return TargetNeighbors(first[by_sample], second[by_sample], squared[by_sample], 1 - missed / len(first))


def _warn_of_small_labels(sizes: np.ndarray, n_neighbors: int) -> None:
    too_small = int((sizes <= n_neighbors).sum())
    if too_small:
        warn_caller(
            f"{too_small} of {len(sizes)} labels have at most n_neighbors={n_neighbors} samples (the smallest "
            f"has {sizes.min()}); their samples use every other sample of the label as target neighbours",
            NeighborsCappedWarning,
        )
