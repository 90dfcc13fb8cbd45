"""What a shard tells about its samples, and how such parts become the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.distributed.shards import Block, Shard
from ordrank.distributed.sizes import Weighed
from ordrank.estimators.order_map import unit_size
from ordrank.smoothing import KernelMap, LinearMap, Moments, moments_of, near_mean, row_blocks, size_about


@dataclass(frozen=True)
class Survey:
    """A first look at a shard.

    Attributes
    ----------
    n_samples : int
    dtype : dtype
    low, high : float
        Smallest and largest element; not finite if any element is not.
    first : ndarray of shape (d,)
        First sample.
    constant : bool
        Whether all samples are the first.
    near : ndarray of shape (d,)
        A point about which the samples lie.
    labels : ndarray of shape (m,)
        Distinct labels, rising.
    counts, weights : ndarray of shape (m,)
        Samples, and the weight, of each.
    """

    n_samples: int
    dtype: np.dtype[np.floating]
    low: float
    high: float
    first: FloatArray
    constant: bool
    near: FloatArray
    labels: FloatArray
    counts: IntArray
    weights: FloatArray


def survey(shard: Shard) -> Survey | None:
    """Look at a shard for the first time; None if it has no samples that count."""
    parts = [_survey_block(*block) for block in shard.blocks()]
    return reduce(_joined, parts) if parts else None


def _survey_block(X: NDArray[np.floating], y: FloatArray, weights: FloatArray) -> Survey:
    labels, index = np.unique(y, return_inverse=True)
    same = not (X[0] != X).any()
    counts, summed = np.bincount(index), np.bincount(index, weights).astype(np.float64)
    near = near_mean(X)
    first = X[0].copy()  # a view would keep the block in memory
    return Survey(len(X), X.dtype, float(X.min()), float(X.max()), first, same, near, labels, counts, summed)


def _joined(one: Survey, other: Survey) -> Survey:
    labels, index = np.unique(np.concatenate([one.labels, other.labels]), return_inverse=True)
    n = one.n_samples + other.n_samples
    return Survey(
        n,
        np.result_type(one.dtype, other.dtype),
        float(np.minimum(one.low, other.low)),
        float(np.maximum(one.high, other.high)),
        one.first,
        one.constant and other.constant and np.array_equal(one.first, other.first),
        one.near + (other.n_samples / n) * (other.near - one.near),
        labels,
        np.bincount(index, np.concatenate([one.counts, other.counts])).astype(np.int64),
        np.bincount(index, np.concatenate([one.weights, other.weights])).astype(np.float64),
    )


def joined_surveys(parts: Sequence[Survey]) -> Survey:
    """The same look at all of them."""
    return reduce(_joined, parts)


@dataclass(frozen=True)
class Frame:
    """What all shards have in common.

    Attributes
    ----------
    dtype : dtype
        Of the samples.
    labels : ndarray of shape (m,)
        Distinct labels, rising.
    positions : ndarray of shape (m, s)
        Their ideal positions, of weighted mean zero.
    factors : ndarray of shape (m,)
        By which the weights of samples are multiplied: they have mean 1 then.
    mean, size : ndarray of shape (d,) and float
        With which samples are brought to unit mean square.
    """

    dtype: np.dtype[np.floating]
    labels: FloatArray
    positions: FloatArray
    factors: FloatArray
    mean: FloatArray
    size: float

    def read(self, shard: Shard) -> Iterator[tuple[NDArray[np.floating], FloatArray, FloatArray]]:
        """Samples as they are, ideal positions and weights of a shard, a block at a time."""
        for X, index, weights in map(self.placed, shard.blocks()):
            yield X, self.positions[index], weights

    def placed(self, block: Block) -> tuple[NDArray[np.floating], IntArray, FloatArray]:
        """Samples, which label they have, and their weights."""
        X, y, weights = block
        index = np.searchsorted(self.labels, y)
        return X.astype(self.dtype, copy=False), index, weights * self.factors[index]

    def unit(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Samples at unit size."""
        return unit_size(X, self.mean, self.size)


def moments_of_shard(shard: Shard, frame: Frame, near: FloatArray) -> Moments:
    """Sums over the samples as they are; all shards need the same point near the mean, see :func:`combined`."""
    return moments_of(frame.read(shard), near)


@dataclass(frozen=True)
class SentMap(Weighed):
    """A map to features that travels."""

    of: LinearMap | KernelMap


def moments_of_features(shard: Shard, frame: Frame, features: SentMap, near: FloatArray) -> Moments:
    """Sums over the features of the samples at unit size."""
    blocks = (
        (features.of.features(frame.unit(X[rows])), Y[rows], weights[rows])
        for X, Y, weights in frame.read(shard)
        for rows in row_blocks(len(X), len(near))
    )
    return moments_of(blocks, near)


@dataclass(frozen=True)
class Spread:
    """Mean of samples, and their scatter about it.

    Attributes
    ----------
    total : float
        Σω.
    mean : ndarray of shape (d,)
    scatter : float
        Σω‖x - mean‖².
    """

    total: float
    mean: FloatArray
    scatter: float

    def size(self) -> float:
        """Root mean square distance from the mean."""
        return size_about(self.scatter / self.total, self.mean)


def spread_of_shard(shard: Shard, frame: Frame, near: FloatArray) -> Spread:
    """Mean and scatter, for samples of which no other sums are needed."""
    point, parts = near.astype(frame.dtype), []
    for X, _, weights in frame.read(shard):
        away, total = X - point, float(weights.sum())
        first = weights @ away / total
        second = float(weights @ np.einsum("ij,ij->i", away, away, dtype=np.float64))
        parts.append(Spread(total, point + first, second - total * float(first @ first)))
    return combined_spread(*parts)


def combined_spread(*parts: Spread) -> Spread:
    """Mean and scatter of all samples from those of parts."""
    return reduce(_combined_spread, parts)


def _combined_spread(one: Spread, other: Spread) -> Spread:
    total, delta = one.total + other.total, other.mean - one.mean
    between = one.total * other.total / total * float(delta @ delta)
    return Spread(total, one.mean + (other.total / total) * delta, one.scatter + other.scatter + between)
