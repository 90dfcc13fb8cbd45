"""Target neighbours across shards: exact, with at most two shards in the memory of a worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ordrank._protocols import FloatArray, IntArray
from ordrank.distributed._sizeof import ArraySizeof
from ordrank.distributed.shard_stats import Encoding
from ordrank.distributed.shards import Shard
from ordrank.neighbors import TargetNeighbors, k_nearest

if TYPE_CHECKING:
    from ordrank.distributed.sharded_data import ShardedData


@dataclass(frozen=True)
class NearestSameLabel(ArraySizeof):
    """The K nearest same-label samples found so far of each sample of a shard.

    Attributes
    ----------
    rows : ndarray of shape (n, K)
        Row numbers among all shards, nearest first, equal distances by row; -1 if fewer than K were found.
    distances : ndarray of shape (n, K)
        Infinite if fewer than K were found.
    """

    rows: IntArray
    distances: FloatArray

    def merged(self, other: NearestSameLabel) -> NearestSameLabel:
        """Return the K nearest of both."""
        rows, distances = np.hstack([self.rows, other.rows]), np.hstack([self.distances, other.distances])
        order = np.lexsort((rows, distances))[:, : self.rows.shape[1]]
        return NearestSameLabel(np.take_along_axis(rows, order, axis=1), np.take_along_axis(distances, order, axis=1))


class Pairs(ArraySizeof, TargetNeighbors):
    """Target-neighbour pairs (i, j), by row numbers among all shards; squared distances are of normalised samples."""

    def select(self, chosen: Any) -> Pairs:
        """Return the pairs with some indices, or a mask."""
        return Pairs(self.first[chosen], self.second[chosen], self.squared_distances[chosen])


def find_target_neighbors(samples: ShardedData, n_neighbors: int) -> list[Any]:
    """Return futures of the :class:`NearestSameLabel` of each shard's samples.

    Every shard is compared with the shards that have a label in common with it, one after the other.
    """
    engine, shards, futures = samples.engine, samples.shards, []
    has_label = samples.label_counts > 0
    share_label = has_label @ has_label.T
    for number, shard in enumerate(shards):
        best = None
        # Start with different shards, so that not all workers read one file at once.
        others = np.roll(np.arange(len(shards)), -number)
        for other in others[share_label[number, others]]:
            same, start = bool(other == number), int(samples.starts[other])
            best = engine.submit(update_nearest, best, shard, shards[other], samples.encoding, start, n_neighbors, same)
        futures.append(best)
    return futures


def update_nearest(
    best: NearestSameLabel | None, queries: Shard, points: Shard, encoding: Encoding, start: int, k: int, same: bool
) -> NearestSameLabel:
    """Merge the nearest samples so far with those in the shard ``points``, whose first row number is ``start``."""
    X, query_labels, _ = encoding.encode(queries.load())
    Q = P = encoding.normalize(X)
    point_labels = query_labels
    if not same:
        X, point_labels, _ = encoding.encode(points.load())
        P = encoding.normalize(X)
    rows, distances = np.full((len(Q), k), -1), np.full((len(Q), k), np.inf)
    for label in np.intersect1d(query_labels, point_labels):
        members, candidates = np.flatnonzero(query_labels == label), np.flatnonzero(point_labels == label)
        found = min(k, len(candidates) - same)
        if found:
            nearest, distance = k_nearest(P[candidates], Q[members], found, exclude_self=same)
            rows[members, :found], distances[members, :found] = start + candidates[nearest], distance
    result = NearestSameLabel(rows, distances)
    return result if best is None else best.merged(result)


def pairs_of(nearest: NearestSameLabel, start: int) -> Pairs:
    """Return the pairs whose first sample is in the shard with row numbers from ``start``."""
    found = nearest.rows >= 0
    return Pairs(start + np.nonzero(found)[0], nearest.rows[found], nearest.distances[found] ** 2)


def pairs_by_second(nearest: NearestSameLabel, start: int, starts: IntArray) -> list[Pairs]:
    """Return the same pairs grouped by the shard of the second sample."""
    pairs = pairs_of(nearest, start)
    shard = np.searchsorted(starts, pairs.second, side="right") - 1
    return [pairs.select(shard == number) for number in range(len(starts))]


def concatenate_pairs(*parts: Pairs) -> Pairs:
    """Return all pairs."""
    first, second, squared = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("first", "second", "squared_distances")
    )
    return Pairs(first, second, squared)
