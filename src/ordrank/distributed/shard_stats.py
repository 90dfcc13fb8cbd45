"""Statistics of shards, and how they combine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.distributed._sizeof import Sized
from ordrank.distributed.shards import Block, Shard
from ordrank.estimators._ordinal.embedding import normalize
from ordrank.kernel_ridge import Moments, approximate_mean, moments_of, root_mean_square, row_blocks


@dataclass(frozen=True)
class Survey:
    """What validation needs to know of a shard, from a first pass.

    Attributes
    ----------
    low, high : ndarray of shape (d,)
        Range of each feature, in the type of the samples; not finite if any element is not.
    center : ndarray of shape (d,)
        A point near the mean.
    labels : ndarray of shape (m,)
        Distinct labels, ascending.
    counts, weights : ndarray of shape (m,)
        Number and total weight of the samples of each label.
    """

    low: NDArray[np.floating]
    high: NDArray[np.floating]
    center: FloatArray
    labels: FloatArray
    counts: IntArray
    weights: FloatArray

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.counts.sum())

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Type of the samples."""
        return self.low.dtype


def survey(shard: Shard) -> Survey | None:
    """Survey a shard; return None if it has no samples of positive weight."""
    blocks = [_survey_block(*block) for block in shard.blocks()]
    return reduce(combined_survey, blocks) if blocks else None


def _survey_block(X: NDArray[np.floating], y: FloatArray, weights: FloatArray) -> Survey:
    labels, index = np.unique(y, return_inverse=True)
    counts, totals = np.bincount(index), np.bincount(index, weights).astype(np.float64)
    return Survey(X.min(axis=0), X.max(axis=0), approximate_mean(X), labels, counts, totals)


def combined_survey(one: Survey, other: Survey) -> Survey:
    """Return the survey of the union of two sets of samples."""
    labels, index = np.unique(np.concatenate([one.labels, other.labels]), return_inverse=True)
    return Survey(
        np.minimum(one.low, other.low),
        np.maximum(one.high, other.high),
        one.center + (other.n_samples / (one.n_samples + other.n_samples)) * (other.center - one.center),
        labels,
        np.bincount(index, np.concatenate([one.counts, other.counts])).astype(np.int64),
        np.bincount(index, np.concatenate([one.weights, other.weights])).astype(np.float64),
    )


@dataclass(frozen=True)
class Encoding:
    """How samples, labels and weights of any shard become training data.

    Attributes
    ----------
    dtype : dtype
        Of the samples.
    labels : ndarray of shape (m,)
        Distinct labels, ascending.
    positions : ndarray of shape (m, s)
        Target positions of the labels, of weighted mean zero.
    weight_factors : ndarray of shape (m,)
        Factors that give the weights of all samples mean 1, by label.
    mean, scale : ndarray of shape (d,) and float
        Samples are normalised as (x - mean) / scale, to unit mean square norm.
    """

    dtype: np.dtype[np.floating]
    labels: FloatArray
    positions: FloatArray
    weight_factors: FloatArray
    mean: FloatArray
    scale: float

    def blocks(self, shard: Shard) -> Iterator[tuple[NDArray[np.floating], FloatArray, FloatArray]]:
        """Yield samples (b, d), not normalised, target positions (b, s) and weights (b,) of a shard."""
        for X, index, weights in map(self.encode, shard.blocks()):
            yield X, self.positions[index], weights

    def encode(self, block: Block) -> tuple[NDArray[np.floating], IntArray, FloatArray]:
        """Return samples, not normalised, label indices and weights."""
        X, y, weights = block
        index = np.searchsorted(self.labels, y)
        return X.astype(self.dtype, copy=False), index, weights * self.weight_factors[index]

    def normalize(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return (X - mean) / scale."""
        return normalize(X, self.mean, self.scale)


def moments_of_shard(shard: Shard, encoding: Encoding, center: FloatArray) -> Moments:
    """Return the moments of a shard's samples, not normalised.

    ``center`` must be the same for all shards, see :func:`~ordrank.kernel_ridge.combine_moments`.
    """
    return moments_of(encoding.blocks(shard), center)


def moments_of_features(shard: Shard, encoding: Encoding, feature_map: Sized, center: FloatArray) -> Moments:
    """Return the moments of the features of a shard's normalised samples, for a LinearMap or KernelMap."""
    blocks = (
        (feature_map.value.features(encoding.normalize(X[rows])), Y[rows], weights[rows])
        for X, Y, weights in encoding.blocks(shard)
        for rows in row_blocks(len(X), len(center))
    )
    return moments_of(blocks, center)


class Spread(NamedTuple):
    """Total weight Σω, weighted mean (d,) and scatter Σω‖x - mean‖² of samples."""

    total: float
    mean: FloatArray
    scatter: float

    def scale(self) -> float:
        """Return the root mean square distance from the mean."""
        return root_mean_square(self.scatter / self.total, self.mean)


def spread_of_shard(shard: Shard, encoding: Encoding, center: FloatArray) -> Spread:
    """Return mean and scatter of a shard's samples, where the moments (d, d) are not needed."""
    point, parts = center.astype(encoding.dtype), []
    for X, _, weights in encoding.blocks(shard):
        away, total = X - point, float(weights.sum())
        first = weights @ away / total
        second = float(weights @ np.einsum("ij,ij->i", away, away, dtype=np.float64))
        parts.append(Spread(total, point + first, second - total * float(first @ first)))
    return combined_spread(*parts)


def combined_spread(*parts: Spread) -> Spread:
    """Return mean and scatter of the union of several sets of samples."""
    total, mean, scatter = parts[0]
    for part in parts[1:]:
        both, delta = total + part.total, part.mean - mean
        scatter = scatter + part.scatter + total * part.total / both * float(delta @ delta)
        total, mean = both, mean + (part.total / both) * delta
    return Spread(total, mean, scatter)
