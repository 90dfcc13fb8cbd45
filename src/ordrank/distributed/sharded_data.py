"""Training data in the shards of a Dask cluster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.distributed._sizeof import Sized
from ordrank.distributed.engine import Engine
from ordrank.distributed.local_term import CentredFeatures, ShardedObjective, build_terms
from ordrank.distributed.shard_stats import (
    Encoding,
    combined_spread,
    moments_of_features,
    moments_of_shard,
    spread_of_shard,
)
from ordrank.distributed.shards import Shard
from ordrank.distributed.target_neighbors import find_target_neighbors
from ordrank.estimators._ordinal.design import DesignMatrix
from ordrank.estimators._ordinal.solve import LocalTermOptions, closed_form, flatten
from ordrank.estimators._ordinal.training_data import SelectionSubset, normalized_moments
from ordrank.kernel_ridge import KernelMap, LinearMap, Moments, RidgeFit, combine_moments
from ordrank.neighbors.targets import warn_small_labels
from ordrank.solvers import SolverResult, lbfgs


@dataclass
class ShardedData:
    """:class:`~ordrank.estimators._ordinal.training_data.TrainingData` in shards, with rows numbered through all."""

    engine: Engine
    shards: list[Any]  # Shards, or futures of them
    label_counts: IntArray  # (S, m), samples of each label in each shard
    encoding: Encoding
    center: FloatArray  # (d,), near the mean of the samples
    raw_moments: Moments | None = None  # before normalisation, if known
    _taken: tuple[IntArray, tuple[NDArray[np.floating], IntArray, FloatArray]] | None = field(default=None, repr=False)

    def measured(self, *, moments: bool) -> ShardedData:
        """Return the same with mean and scale, and with all moments on request."""
        with self.engine.phase("statistics"):
            if not moments:
                parts = self.engine.map(spread_of_shard, self.shards, encoding=self.encoding, center=self.center)
                spread = self.engine.tree_reduce(combined_spread, parts)
                return replace(self, encoding=replace(self.encoding, mean=spread.mean, scale=spread.scale()))
            found = self._raw_moments()
            return replace(
                self, raw_moments=found, encoding=replace(self.encoding, mean=found.mean, scale=found.scale())
            )

    @property
    def mean(self) -> FloatArray:
        """Mean of all samples."""
        return self.encoding.mean

    @property
    def scale(self) -> float:
        """Root mean square distance from the mean."""
        return self.encoding.scale

    def __len__(self) -> int:
        return int(self.label_counts.sum())

    @property
    def counts(self) -> IntArray:
        """Number of samples of each shard, (S,)."""
        return np.asarray(self.label_counts.sum(axis=1))

    @property
    def starts(self) -> IntArray:
        """Row of the first sample of each shard."""
        return np.cumsum(self.counts) - self.counts

    def labels(self, rows: IntArray) -> IntArray:
        """Return the label numbers (r,) of some samples."""
        return self._take(rows)[1]

    def targets(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return ideal positions (r, s) and weights (r,) of some samples."""
        _, index, weights = self._take(rows)
        return self.encoding.positions[index], weights

    def subset(self, rows: IntArray) -> SelectionSubset:
        """Return some samples, normalised, with targets of weighted mean zero."""
        Y, weights = self.targets(rows)
        centred = Y - np.average(Y, axis=0, weights=weights)
        return SelectionSubset(self.encoding.normalize(self._take(rows)[0]), centred, weights)

    def gather(self) -> tuple[NDArray[np.floating], IntArray, FloatArray]:
        """Return all samples, label numbers and weights in the memory of the client."""
        return self._take(np.arange(len(self)))

    def moments(self) -> Moments:
        """Return the moments of the normalised samples."""
        with self.engine.phase("statistics"):
            moments = self.raw_moments or self._raw_moments()
        return normalized_moments(moments, self.mean, self.scale)

    def feature_moments(self, feature_map: LinearMap | KernelMap, center: FloatArray) -> Moments:
        """Return the moments of the features of the normalised samples; the map is sent to the workers."""
        with self.engine.phase("features"):
            sent = self.engine.broadcast(Sized(feature_map))
            parts = self.engine.map(
                moments_of_features, self.shards, encoding=self.encoding, feature_map=sent, center=center
            )
            moments: Moments = self.engine.tree_reduce(combine_moments, parts)
            return moments

    def solve_with_local_term(
        self, fit: RidgeFit, design: DesignMatrix, nu: float, term: LocalTermOptions
    ) -> SolverResult:
        """Minimise the objective with the local term; every evaluation is a sum over the shards."""
        counts = self.label_counts.sum(axis=0)
        warn_small_labels(counts, term.n_neighbors)
        n_pairs = int(np.sum(counts * np.minimum(term.n_neighbors, counts - 1)))
        if not n_pairs:
            return closed_form(fit)
        with self.engine.phase("neighbours"):
            nearest = find_target_neighbors(self, term.n_neighbors)
            self.engine.wait(nearest)
        features = CentredFeatures(design, nu, fit.problem.feature_mean, fit.problem.total)
        with self.engine.phase("local terms"):
            parts = build_terms(self, nearest, features, term.tau)
            self.engine.wait(parts)
        objective = ShardedObjective(self, parts, fit, term.mu / n_pairs)
        return lbfgs(objective, flatten(fit.coefficients()), max_iter=term.max_iter, tol=term.tol)

    def _raw_moments(self) -> Moments:
        parts = self.engine.map(moments_of_shard, self.shards, encoding=self.encoding, center=self.center)
        moments: Moments = self.engine.tree_reduce(combine_moments, parts)
        return moments

    def _take(self, rows: IntArray) -> tuple[NDArray[np.floating], IntArray, FloatArray]:
        """Return samples, label numbers and weights of ascending rows; the last result is cached."""
        if self._taken is None or not np.array_equal(self._taken[0], rows):
            with self.engine.phase("sample"):
                bounds = np.searchsorted(rows, [*self.starts, len(self)])
                rows_by_shard = [rows[low:high] for low, high in pairwise(bounds)]
                holders = [shard for shard, part in enumerate(rows_by_shard) if len(part)]
                parts = self.engine.map(
                    take_rows,
                    [self.shards[shard] for shard in holders],
                    [rows_by_shard[shard] - self.starts[shard] for shard in holders],
                    encoding=self.encoding,
                )
                X, index, weights = (np.concatenate(column) for column in zip(*self.engine.gather(parts), strict=True))
                self._taken = rows, (X, index, weights)
        return self._taken[1]


def take_rows(shard: Shard, rows: IntArray, encoding: Encoding) -> tuple[NDArray[np.floating], IntArray, FloatArray]:
    """Return samples of a shard, their label numbers and weights."""
    return encoding.encode(shard.take(rows))
