"""The order map: what it is learned from, and the features in which it is linear."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ordrank._types import Array, FloatArray, IntArray
from ordrank.backend import as_given, backend_of, is_tensor
from ordrank.smoothing import (
    KernelMap,
    Lens,
    LinearMap,
    Moments,
    RidgePath,
    SummedRegression,
    combined,
    graph_laplacian,
    mean_and_size,
    moments_of,
    near_mean,
    row_blocks,
)

# Of more samples so many are drawn, labelled and unlabelled, to choose by: time and memory stay bounded.
SEARCH_SAMPLES = 1500
# Each of them holds a few blocks.
MOST_THREADS = 8


@dataclass(frozen=True)
class Pictures:
    """What a map is learned from.

    Attributes
    ----------
    X : ndarray of shape (N, d)
        Samples of unit mean square, the n labelled ones first.
    Y : ndarray of shape (n, s)
        Ideal positions of the labelled ones.
    weights : ndarray of shape (n,)
    laplacian : sparse array of shape (N, N), optional
        Of the neighbour graph of all samples; None without unlabelled ones.
    groups : ndarray of shape (n,), optional
        Numbers of groups from 0 on, of which all members are left out together.
    """

    X: NDArray[np.floating]
    Y: FloatArray
    weights: FloatArray
    laplacian: Any = None
    groups: IntArray | None = None

    @property
    def labelled(self) -> NDArray[np.floating]:
        """The samples with a label, (n, d)."""
        return self.X[: len(self.Y)]

    @property
    def others(self) -> NDArray[np.floating]:
        """The samples without, (N - n, d)."""
        return self.X[len(self.Y) :]

    def joined(self, others: NDArray[np.floating]) -> Pictures:
        """The labelled samples, joined by a graph with these unlabelled ones if there are any."""
        X = np.vstack([self.labelled, others])
        return replace(self, X=X, laplacian=graph_laplacian(X) if len(others) else None)


def unit_size(X: Array, mean: Array, size: float) -> Array:
    """Samples (n, d) about their mean (d,), in units of their size, of the same type and where they are."""
    asarray = backend_of(X).asarray
    return (X - asarray(mean, X)) / asarray(size, X)


@dataclass(frozen=True)
class Samples:
    """All labelled samples, however many: as they were given, and brought to unit size only a block at a time.

    Samples may be on a device. What goes over all of them is computed there; what is drawn, and the sums, are the
    host's.

    Attributes
    ----------
    X : array of shape (n, d)
        May be larger than memory, for example a ``numpy.memmap``.
    mean, size : ndarray of shape (d,) and float
        With which they are brought to unit mean square.
    index : array of shape (n,)
        Which label each sample has; where X is.
    positions : ndarray of shape (m, s)
        Ideal positions of the labels, of weighted mean zero.
    weights : array of shape (n,)
        Where X is.
    sums : Moments, optional
        Of the samples as they are, where they are known already.
    """

    X: Array
    mean: FloatArray
    size: float
    index: Array
    positions: FloatArray
    weights: Array
    sums: Moments | None = None

    @classmethod
    def measured(
        cls, X: Array, index: IntArray, positions: FloatArray, weights: FloatArray, *, linear: bool
    ) -> Samples:
        """Find mean and size; of many samples of which a linear map may be learned, all sums in the same pass.

        So few that all are chosen by come to the host: choosing is its work.
        """
        if len(X) <= SEARCH_SAMPLES:
            X = backend_of(X).to_numpy(X)
        index, weights = as_given(index, X), as_given(weights, X)
        given = cls(X, np.zeros(X.shape[1]), 1.0, index, positions, weights)
        if len(X) <= SEARCH_SAMPLES or X.shape[1] > SEARCH_SAMPLES or not linear:
            mean, size = mean_and_size(X, weights)
            return replace(given, mean=mean, size=size)
        sums = given.sums_about(near_mean(X))
        return replace(given, mean=sums.mean, size=sums.size(), sums=sums)

    def __len__(self) -> int:
        return len(self.X)

    def unit(self, rows: slice) -> Array:
        """Some of them at unit size, where they are."""
        return unit_size(self.X[rows], self.mean, self.size)

    def labels(self, rows: IntArray) -> IntArray:
        """Which label some of them have."""
        return self._taken(self.index, rows)

    def targets(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Positions (r, s) and weights (r,) of some of them."""
        return self.positions[self.labels(rows)], self._taken(self.weights, rows)

    def draw(self, rows: IntArray, others: NDArray[np.floating]) -> Pictures:
        """Some of them, joined by a graph with unlabelled samples of unit size if there are any."""
        Y, weights = self.targets(rows)
        if len(rows) < len(self):
            Y = Y - np.average(Y, axis=0, weights=weights)
        return Pictures(unit_size(self._taken(self.X, rows), self.mean, self.size), Y, weights).joined(others)

    def moments(self) -> Moments:
        """Sums over the samples at unit size."""
        sums, size = self.sums or self.sums_about(self.mean), self.size
        return replace(sums, mean=(sums.mean - self.mean) / size, gram=sums.gram / size**2, cross=sums.cross / size)

    def moments_of_features(self, feature_map: LinearMap | KernelMap, near: FloatArray) -> Moments:
        """Sums over the features (n, p) of the samples at unit size, about a point near their mean: one pass."""
        there, positions = feature_map.beside(self.X), as_given(self.positions, self.X)
        point, blocks = as_given(near, self.X), list(self._blocks(len(near)))

        def sums_of(part: Sequence[slice]) -> Moments:
            features = ((there.features(self.unit(rows)), rows) for rows in part)
            return moments_of(((f, positions[self.index[rows]], self.weights[rows]) for f, rows in features), point)

        if is_tensor(self.X):
            return sums_of(blocks)
        # Half of the work is done element by element, on the core of its thread: so are the products then.
        n_threads = min(cpu_count(), MOST_THREADS, len(blocks))
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_threads) as pool:
            return combined(*pool.map(sums_of, [blocks[start::n_threads] for start in range(n_threads)]))

    def sums_about(self, near: Array) -> Moments:
        """Sums over the samples as they are, about a point near their mean: one pass."""
        summable, positions = backend_of(self.X).summable, as_given(self.positions, self.X)
        blocks = (
            (summable(self.X[rows]), positions[self.index[rows]], self.weights[rows])
            for rows in self._blocks(self.X.shape[1])
        )
        return moments_of(blocks, as_given(near, self.X))

    def _blocks(self, width: int) -> Iterator[slice]:
        """Rows in blocks, for as many columns of what is computed from them."""
        return row_blocks(len(self), width, backend_of(self.X).blocks_at_once(self.X))

    def _taken(self, array: Array, rows: IntArray) -> Any:
        """Some rows of an array that is where the samples are, on the host."""
        backend = backend_of(array)
        return backend.to_numpy(array[backend.indices(rows, array)])


@dataclass(frozen=True)
class OrderMap:
    r"""A map of samples of unit size to positions.

    .. math:: f(x) = W^Tx
              + \sum_\omega C_\omega^T\left[\exp\left(-\tfrac\omega2\|\ell(x - l_i)\|^2\right)\right]_i - o

    for a lens ℓ.

    Attributes
    ----------
    slope : ndarray of shape (d, s)
        W.
    offset : ndarray of shape (s,)
        o.
    coefficients : dict of float to ndarray of shape (m, s)
        C of the Gaussians at the m landmarks l, for each sharpness ω; none for a linear map.
    """

    slope: FloatArray
    offset: FloatArray
    coefficients: dict[float, FloatArray]

    @classmethod
    def mean(cls, maps: Sequence[OrderMap], shares: Sequence[float]) -> OrderMap:
        """Mean of maps with the same landmarks and different sharpnesses, with shares of sum 1."""
        weighted = list(zip(maps, shares, strict=True))
        return cls(
            np.sum([share * one.slope for one, share in weighted], axis=0),
            np.sum([share * one.offset for one, share in weighted], axis=0),
            {sharpness: share * C for one, share in weighted for sharpness, C in one.coefficients.items()},
        )


class Design:
    """Features of the labelled samples for one kernel, in the axes of the graph term.

    With G the Laplacian and Φ the features of all samples, the penalty ‖B‖² + ν tr(BᵀΦᵀGΦB) is ‖B‖² again for
    features φ(I + νΦᵀGΦ)^(-1/2): in the eigenvectors of ΦᵀGΦ every ν is a scaling of columns.
    """

    def __init__(self, pictures: Pictures, feature_map: LinearMap | KernelMap) -> None:
        self.feature_map, self._pictures = feature_map, pictures
        self._rotation: FloatArray | None = None
        self._roughness: FloatArray | None = None
        everything = pictures.labelled if pictures.laplacian is None else pictures.X
        features = feature_map.features(everything)
        if pictures.laplacian is not None:
            roughness, self._rotation = np.linalg.eigh(features.T @ (pictures.laplacian @ features))
            self._roughness = np.maximum(roughness, 0.0)
            features = features[: len(pictures.Y)] @ self._rotation
        self._features: FloatArray = features

    @property
    def dtype(self) -> Any:
        """Of the samples."""
        return self._pictures.X.dtype

    def path(self, nu: float) -> RidgePath:
        """Ridge regression of the positions for a weight of the graph."""
        pictures = self._pictures
        return RidgePath(self._features * self._scales(nu), pictures.Y, pictures.weights, groups=pictures.groups)

    def path_of_all(self, samples: Samples, rows: IntArray, nu: float) -> SummedRegression:
        """The same for all samples, of which the design has only ``rows``: one pass, no features are kept.

        Features that are the samples themselves are multiplied in their own precision, others in double.
        """
        if self._plain:
            moments = samples.moments()
        else:
            near = self._features.mean(axis=0)
            near = near if self._rotation is None else self._rotation @ near
            moments = samples.moments_of_features(self.feature_map, near)
        if self._rotation is not None:
            moments = moments.changed(self._rotation * self._scales(nu))
        Y, weights = samples.targets(rows)
        return SummedRegression(self._features * self._scales(nu), Y, weights, moments)

    def features_of(self, X: Array, nu: float) -> Array:
        """Features (n, p) of a path, where the samples of unit size (n, d) are; samples themselves keep their type."""
        if self._plain and self._rotation is None:
            return X
        backend, there = backend_of(X), self.feature_map.beside(X)
        change = None if self._rotation is None else as_given(self._rotation * self._scales(nu), X)
        width = self._features.shape[1]
        features = backend.empty((len(X), width), backend.double(X[:0]))
        # What leads to features is several times as large as they are.
        for rows in row_blocks(len(X), width, backend.blocks_at_once(X)):
            block = there.features(X[rows])
            features[rows] = block if change is None else block @ change
        return features

    def scatter(self, nu: float) -> float:
        """Total weighted scatter of the features of its samples."""
        weights, features = self._pictures.weights, self._features * self._scales(nu)
        mean = weights @ features / weights.sum()
        return float(weights @ np.einsum("ij,ij->i", features, features) - weights.sum() * (mean @ mean))

    def order_map(self, coefficients: FloatArray, feature_mean: FloatArray, nu: float) -> OrderMap:
        """The map with coefficients (p, s) of a path's features, whose mean (p,) it sends to zero."""
        scaled = self._scales(nu)[:, None] * coefficients
        B = scaled if self._rotation is None else self._rotation @ scaled
        features, offset = self.feature_map, feature_mean @ coefficients
        if isinstance(features, LinearMap):
            return OrderMap(features.on_samples(B), offset, {})
        C = features.on_landmarks(B)
        return OrderMap(features.slope(C), offset, {features.sharpness: C})

    @property
    def _plain(self) -> bool:
        """Whether the features of the map are the samples themselves."""
        return isinstance(self.feature_map, LinearMap) and self.feature_map.plain

    def _scales(self, nu: float) -> FloatArray:
        if self._roughness is None:
            return np.ones(self._features.shape[1])
        return np.asarray(1 / np.sqrt(1 + nu * self._roughness))


def feature_map(
    X: NDArray[np.floating], landmarks: NDArray[np.floating], sharpness: float | None, lens: Lens | None = None
) -> LinearMap | KernelMap:
    """Features of all samples X (N, d) themselves, or of a kernel with landmarks (m, d) if it has a sharpness."""
    return LinearMap(X) if sharpness is None else KernelMap(landmarks, sharpness, lens)


def draw_landmarks(X: NDArray[np.floating], n_landmarks: int, rng: np.random.Generator) -> NDArray[np.floating]:
    """Some of the rows of X, in their order, or all if there are no more."""
    return X if len(X) <= n_landmarks else X[np.sort(rng.permutation(len(X))[:n_landmarks])]


def draw_rows(n_rows: int, most: int, rng: np.random.Generator) -> IntArray:
    """At most so many of the row numbers below ``n_rows``, rising, without a list of all of them."""
    return np.sort(rng.choice(n_rows, min(most, n_rows), replace=False, shuffle=False))
