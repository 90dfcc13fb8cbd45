"""Target neighbours across shards: exact, with two shards in the memory of a worker at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ordrank._types import FloatArray, IntArray
from ordrank.distributed.sharded_samples import ShardedSamples
from ordrank.distributed.shards import Shard
from ordrank.distributed.sizes import Weighed
from ordrank.distributed.sums import Frame
from ordrank.neighbors import k_nearest


@dataclass(frozen=True)
class Nearest(Weighed):
    """The nearest same-label samples found so far of each sample of a shard.

    Attributes
    ----------
    rows : ndarray of shape (n, K)
        Numbered through all shards, nearest first, equal distances in their order; -1 where there is none.
    distances : ndarray of shape (n, K)
        Infinite where there is none.
    """

    rows: IntArray
    distances: FloatArray

    def merged(self, rows: IntArray, distances: FloatArray) -> Nearest:
        """The K nearest of these and others."""
        k = self.rows.shape[1]
        every, far = np.hstack([self.rows, rows]), np.hstack([self.distances, distances])
        order = np.lexsort((every, far))[:, :k]
        return Nearest(np.take_along_axis(every, order, axis=1), np.take_along_axis(far, order, axis=1))


@dataclass(frozen=True)
class Pairs(Weighed):
    """Pairs (i, j): j is a target neighbour of i.

    Attributes
    ----------
    first, second : ndarray of shape (P,)
        Rows, numbered through all shards.
    squared_distances : ndarray of shape (P,)
        ‖x_i - x_j‖² at unit size.
    """

    first: IntArray
    second: IntArray
    squared_distances: FloatArray

    def where(self, chosen: Any) -> Pairs:
        """Some of them."""
        return Pairs(self.first[chosen], self.second[chosen], self.squared_distances[chosen])

    def __len__(self) -> int:
        return len(self.first)


def find_target_neighbors(samples: ShardedSamples, n_neighbors: int) -> list[Any]:
    """Futures of the target neighbours (:class:`Nearest`) of each shard's samples.

    Every shard meets the shards with which it has a label in common, one after the other, and keeps the best.
    """
    engine, shards, found = samples.engine, samples.shards, []
    has = samples.label_counts > 0
    together = has @ has.T
    for place, shard in enumerate(shards):
        best = engine.once(no_nearest, int(samples.counts[place]), n_neighbors)
        # Different shards begin at different ones: no file is read by all workers at once.
        others = np.roll(np.arange(len(shards)), -place)
        for other in others[together[place, others]]:
            start = int(samples.starts[other])
            best = engine.once(nearest_in, best, shard, shards[other], samples.frame, start, bool(other == place))
        found.append(best)
    return found


def no_nearest(n_samples: int, k: int) -> Nearest:
    """Nothing found yet."""
    return Nearest(np.full((n_samples, k), -1), np.full((n_samples, k), np.inf))


def nearest_in(best: Nearest, queries: Shard, points: Shard, frame: Frame, start: int, same: bool) -> Nearest:
    """Improve the neighbours of a shard's samples by those in another, whose rows are numbered from ``start``."""
    X, of_query, _ = frame.placed(queries.whole())
    Q = frame.unit(X)
    X, of_point, _ = (X, of_query, None) if same else frame.placed(points.whole())
    P = Q if same else frame.unit(X)
    k = best.rows.shape[1]
    rows, distances = np.full(best.rows.shape, -1), np.full(best.rows.shape, np.inf)
    for label in np.intersect1d(of_query, of_point):
        asked, members = np.flatnonzero(of_query == label), np.flatnonzero(of_point == label)
        here = min(k, len(members) - same)
        if here:
            nearest, far = k_nearest(P[members], Q[asked], here, exclude_self=same)
            rows[asked, :here], distances[asked, :here] = start + members[nearest], far
    return best.merged(rows, distances)


def pairs_of(nearest: Nearest, start: int) -> Pairs:
    """Pairs whose first sample is in a shard with rows numbered from ``start``."""
    found = nearest.rows >= 0
    first = start + np.nonzero(found)[0]
    return Pairs(first, nearest.rows[found], nearest.distances[found] ** 2)


def pairs_by_second(nearest: Nearest, start: int, starts: IntArray) -> list[Pairs]:
    """The same, grouped by the shard of the second sample."""
    pairs = pairs_of(nearest, start)
    shard = np.searchsorted(starts, pairs.second, side="right") - 1
    return [pairs.where(shard == place) for place in range(len(starts))]


def joined_pairs(*parts: Pairs) -> Pairs:
    """All of them."""
    first, second = (np.concatenate([getattr(part, name) for part in parts]) for name in ("first", "second"))
    return Pairs(first, second, np.concatenate([part.squared_distances for part in parts]))
