"""Labelled samples of a fit: the protocol, and its implementation for arrays and tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray

from ordrank._protocols import Array, FloatArray, IntArray
from ordrank.backend import backend_of, convert_like, is_tensor
from ordrank.estimators._ordinal.embedding import normalize
from ordrank.estimators._ordinal.solve import LocalTermOptions, minimize_with_local_term
from ordrank.estimators._threads import blas_threads
from ordrank.kernel_ridge import (
    KernelMap,
    LinearMap,
    Moments,
    RidgeFit,
    approximate_mean,
    combine_moments,
    graph_laplacian,
    mean_and_scale,
    moments_of,
    row_blocks,
)
from ordrank.neighbors import target_neighbors
from ordrank.solvers import SolverResult

if TYPE_CHECKING:
    from ordrank.estimators._ordinal.design import DesignMatrix

# Each thread holds a few blocks.
MAX_THREADS = 8


@dataclass(frozen=True)
class SelectionSubset:
    """Normalised samples in memory, for model selection."""

    X: NDArray[np.floating]  # (N, d), the n labelled ones first
    Y: FloatArray  # (n, s), ideal positions
    weights: FloatArray  # (n,)
    laplacian: Any = None  # (N, N), of the neighbour graph; None without unlabelled samples
    groups: IntArray | None = None  # (n,), from 0; members of a group are held out together

    @property
    def labelled(self) -> NDArray[np.floating]:
        return self.X[: len(self.Y)]

    @property
    def unlabeled(self) -> NDArray[np.floating]:
        return self.X[len(self.Y) :]

    def with_unlabeled(self, unlabeled: NDArray[np.floating], graph_neighbors: int) -> SelectionSubset:
        """Return the labelled samples with these normalised unlabelled ones, and the graph of all."""
        X = np.vstack([self.labelled, unlabeled])
        return replace(self, X=X, laplacian=graph_laplacian(X, graph_neighbors) if len(unlabeled) else None)


class TrainingData(Protocol):
    """All labelled samples of a fit, in memory, on a device or in shards.

    ``mean`` (d,) and ``scale`` normalise samples to unit mean square. What is returned is on the host.
    """

    @property
    def mean(self) -> FloatArray: ...
    @property
    def scale(self) -> float: ...
    def __len__(self) -> int: ...

    def labels(self, rows: IntArray) -> IntArray:
        """Return the label numbers (r,) of some samples."""
        ...

    def targets(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return ideal positions (r, s) and weights (r,) of some samples."""
        ...

    def subset(self, rows: IntArray) -> SelectionSubset:
        """Return some samples, normalised, with targets of weighted mean zero."""
        ...

    def moments(self) -> Moments:
        """Return the moments of the normalised samples."""
        ...

    def feature_moments(self, feature_map: LinearMap | KernelMap, center: FloatArray) -> Moments:
        """Return the moments of the features (n, p) of the normalised samples, about a point near their mean (p,)."""
        ...

    def solve_with_local_term(
        self, fit: RidgeFit, design: DesignMatrix, nu: float, term: LocalTermOptions
    ) -> SolverResult:
        """Minimise the objective with the local term over all samples, starting from the ridge solution."""
        ...


@dataclass(frozen=True)
class InMemoryData:
    """Samples in an array or tensor, normalised one block at a time; passes over all of them run on their device."""

    X: Array  # (n, d), may be a numpy.memmap larger than memory
    mean: FloatArray  # (d,)
    scale: float
    index: Array  # (n,), label numbers, on the device of X
    positions: FloatArray  # (m, s), ideal positions of the labels, of weighted mean zero
    weights: Array  # (n,), on the device of X
    raw_moments: Moments | None = None  # before normalisation, if known

    @classmethod
    def measure(
        cls, X: Array, index: IntArray, positions: FloatArray, weights: FloatArray, *, linear: bool, few: int
    ) -> InMemoryData:
        """Compute mean and scale; if a ``linear`` map of more than ``few`` samples may follow, all moments in one pass.

        Up to ``few`` samples, as many as model selection uses, are moved to the host, where it runs. With more than
        ``few`` features moments are left out: their matrix (d, d) would exceed every matrix of the model selection.
        """
        if len(X) <= few:
            X = backend_of(X).to_numpy(X)
        index, weights = convert_like(index, X), convert_like(weights, X)
        data = cls(X, np.zeros(X.shape[1]), 1.0, index, positions, weights)
        if len(X) <= few or X.shape[1] > few or not linear:
            mean, scale = mean_and_scale(X, weights)
            return replace(data, mean=mean, scale=scale)
        moments = data._raw_moments(approximate_mean(X))
        return replace(data, mean=moments.mean, scale=moments.scale(), raw_moments=moments)

    def __len__(self) -> int:
        return len(self.X)

    def normalized(self, rows: slice) -> Array:
        return normalize(self.X[rows], self.mean, self.scale)

    def labels(self, rows: IntArray) -> IntArray:
        return self._take(self.index, rows)

    def targets(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        return self.positions[self.labels(rows)], self._take(self.weights, rows)

    def subset(self, rows: IntArray) -> SelectionSubset:
        Y, weights = self.targets(rows)
        if len(rows) < len(self):
            Y = Y - np.average(Y, axis=0, weights=weights)
        return SelectionSubset(normalize(self._take(self.X, rows), self.mean, self.scale), Y, weights)

    def moments(self) -> Moments:
        return normalized_moments(self.raw_moments or self._raw_moments(self.mean), self.mean, self.scale)

    def feature_moments(self, feature_map: LinearMap | KernelMap, center: FloatArray) -> Moments:
        moved = feature_map.to_device_of(self.X)
        return self._moments_of(lambda rows: moved.features(self.normalized(rows)), center)

    def solve_with_local_term(
        self, fit: RidgeFit, design: DesignMatrix, nu: float, term: LocalTermOptions
    ) -> SolverResult:
        problem, unit = fit.problem, self.normalized(slice(None))
        if len(problem.Y) == len(self):
            neighbors = target_neighbors(unit.astype(np.float64), self.index, term.n_neighbors)
            features: Array = problem.centred / problem.root[:, None]
            return minimize_with_local_term(fit, features, problem.Y, self.weights, neighbors, term)
        # Many samples in single precision are not copied to double.
        backend = backend_of(unit)
        neighbors = target_neighbors(unit, self.index, term.n_neighbors)
        features = design.features_of(unit, nu)
        features -= backend.asarray(problem.feature_mean, features)
        Y = backend.asarray(self.positions, features)[self.index]
        return minimize_with_local_term(fit, features, Y, self.weights, neighbors, term)

    def _raw_moments(self, center: Array) -> Moments:
        to_sum_precision = backend_of(self.X).to_sum_precision
        return self._moments_of(lambda rows: to_sum_precision(self.X[rows]), center)

    def _moments_of(self, features: Callable[[slice], Array], center: Array) -> Moments:
        """Return the moments of the features (b, p) of slices of rows, about a point near their mean (p,)."""
        point, positions = convert_like(center, self.X), convert_like(self.positions, self.X)
        blocks = list(self._blocks(len(center)))

        def moments_of_blocks(part: Sequence[slice]) -> Moments:
            triples = ((features(rows), positions[self.index[rows]], self.weights[rows]) for rows in part)
            return moments_of(triples, point)

        if is_tensor(self.X):
            return moments_of_blocks(blocks)
        # Half of the work is elementwise and runs in one thread: so one BLAS thread for each of ours.
        n_threads = min(cpu_count(), MAX_THREADS, len(blocks))
        with blas_threads(1), ThreadPoolExecutor(n_threads) as pool:
            parts = pool.map(moments_of_blocks, [blocks[start::n_threads] for start in range(n_threads)])
            return combine_moments(*parts)

    def _blocks(self, width: int) -> Iterator[slice]:
        return row_blocks(len(self), width, backend_of(self.X).block_multiplier(self.X))

    def _take(self, array: Array, rows: IntArray) -> Any:
        backend = backend_of(array)
        return backend.to_numpy(array[backend.indices(rows, array)])


def normalized_moments(moments: Moments, mean: FloatArray, scale: float) -> Moments:
    """Return the moments of ``(X - mean) / scale`` from the moments of X."""
    gram, cross = moments.gram / scale**2, moments.cross / scale
    return replace(moments, mean=(moments.mean - mean) / scale, gram=gram, cross=cross)


def draw_rows(n_rows: int, at_most: int, rng: np.random.Generator) -> IntArray:
    """Draw row numbers below ``n_rows`` without replacement, ascending, without listing all of them."""
    return np.sort(rng.choice(n_rows, min(at_most, n_rows), replace=False, shuffle=False))
