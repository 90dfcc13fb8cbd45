"""All labelled samples of a cluster, as an estimator sees samples in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.distributed.engine import Engine
from ordrank.distributed.shards import Shard
from ordrank.distributed.sums import (
    Frame,
    SentMap,
    combined_spread,
    moments_of_features,
    moments_of_shard,
    spread_of_shard,
)
from ordrank.estimators.order_map import Pictures
from ordrank.smoothing import KernelMap, LinearMap, Moments, combined


@dataclass
class ShardedSamples:
    """The interface of :class:`~ordrank.estimators.order_map.Samples`; rows are numbered through all shards.

    Attributes
    ----------
    engine : Engine
    shards : list
        Shards, or futures of them.
    label_counts : ndarray of shape (S, m)
        Samples of each label in each.
    frame : Frame
    near : ndarray of shape (d,)
        A point near the mean of the samples.
    sums : Moments, optional
        Of the samples as they are, where they are known already.
    """

    engine: Engine
    shards: list[Any]
    label_counts: IntArray
    frame: Frame
    near: FloatArray
    sums: Moments | None = None
    _taken: tuple[IntArray, tuple[NDArray[np.floating], IntArray, FloatArray]] | None = field(default=None, repr=False)

    def measured(self, *, sums: bool) -> ShardedSamples:
        """The same with mean and size found, and with them all sums that a linear map needs."""
        with self.engine.phase("statistics"):
            if not sums:
                parts = self.engine.each(spread_of_shard, self.shards, frame=self.frame, near=self.near)
                spread = self.engine.total(combined_spread, parts)
                return replace(self, frame=replace(self.frame, mean=spread.mean, size=spread.size()))
            found = self._sums()
            return replace(self, sums=found, frame=replace(self.frame, mean=found.mean, size=found.size()))

    @property
    def mean(self) -> FloatArray:
        """Mean of all samples."""
        return self.frame.mean

    @property
    def size(self) -> float:
        """Root mean square distance from it."""
        return self.frame.size

    def __len__(self) -> int:
        return int(self.label_counts.sum())

    @property
    def counts(self) -> IntArray:
        """Samples of each shard, (S,)."""
        return np.asarray(self.label_counts.sum(axis=1))

    @property
    def starts(self) -> IntArray:
        """Row of the first sample of each shard."""
        return np.cumsum(self.counts) - self.counts

    def labels(self, rows: IntArray) -> IntArray:
        """Which label some samples have."""
        return self._take(rows)[1]

    def targets(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Positions (r, s) and weights (r,) of some samples."""
        _, index, weights = self._take(rows)
        return self.frame.positions[index], weights

    def draw(self, rows: IntArray, others: NDArray[np.floating]) -> Pictures:
        """Some of them, joined by a graph with unlabelled samples of unit size if there are any."""
        Y, weights = self.targets(rows)
        centred = Y - np.average(Y, axis=0, weights=weights)
        return Pictures(self.frame.unit(self._take(rows)[0]), centred, weights).joined(others)

    def whole(self) -> tuple[NDArray[np.floating], IntArray, FloatArray]:
        """All samples in the memory of the client, where they are few; labels and weights."""
        return self._take(np.arange(len(self)))

    def moments(self) -> Moments:
        """Sums over the samples at unit size."""
        with self.engine.phase("statistics"):
            sums, size = self.sums or self._sums(), self.size
        return replace(sums, mean=(sums.mean - self.mean) / size, gram=sums.gram / size**2, cross=sums.cross / size)

    def moments_of_features(self, feature_map: LinearMap | KernelMap, near: FloatArray) -> Moments:
        """Sums over the features of the samples at unit size; the map travels to the workers."""
        with self.engine.phase("features"):
            there = self.engine.once(itself, SentMap(feature_map))
            parts = self.engine.each(moments_of_features, self.shards, frame=self.frame, features=there, near=near)
            moments: Moments = self.engine.total(combined, parts)
            return moments

    def _sums(self) -> Moments:
        parts = self.engine.each(moments_of_shard, self.shards, frame=self.frame, near=self.near)
        sums: Moments = self.engine.total(combined, parts)
        return sums

    def _take(self, rows: IntArray) -> tuple[NDArray[np.floating], IntArray, FloatArray]:
        """Samples, label index and weights of rising rows; those that were asked for last are kept."""
        if self._taken is None or not np.array_equal(self._taken[0], rows):
            with self.engine.phase("sample"):
                bounds = np.searchsorted(rows, [*self.starts, len(self)])
                wanted = [rows[low:high] for low, high in pairwise(bounds)]
                there = [place for place, some in enumerate(wanted) if len(some)]
                parts = self.engine.each(
                    take_rows,
                    [self.shards[place] for place in there],
                    [wanted[place] - self.starts[place] for place in there],
                    frame=self.frame,
                )
                X, index, weights = (np.concatenate(column) for column in zip(*self.engine.gather(parts), strict=True))
                self._taken = rows, (X, index, weights)
        return self._taken[1]


def take_rows(shard: Shard, rows: IntArray, frame: Frame) -> tuple[NDArray[np.floating], IntArray, FloatArray]:
    """Samples of a shard, which label they have, and their weights."""
    return frame.placed(shard.take(rows))


def itself(value: Any) -> Any:
    """A value that travels through the scheduler once, and from worker to worker as often as needed."""
    return value
