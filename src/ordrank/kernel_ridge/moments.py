"""Weighted first and second moments of any number of samples, one block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import Array, FloatArray
from ordrank.backend import backend_of

# A block and its temporaries should stay in the processor's cache.
BLOCK_ELEMENTS = 2**20
MIN_ROWS = 500
# This many evenly spaced rows give an approximate mean.
_MEAN_SAMPLE = 1000


def row_blocks(n_rows: int, n_columns: int, at_once: int = 1) -> Iterator[slice]:
    """Yield slices of rows, each of about a million elements times ``at_once``."""
    rows = max(MIN_ROWS, at_once * BLOCK_ELEMENTS // max(1, n_columns))
    for start in range(0, n_rows, rows):
        yield slice(start, min(start + rows, n_rows))


def approximate_mean(X: Array) -> Array:
    """Return the mean (d,) of evenly spaced rows of X (n, d), in double precision, to centre sums at."""
    return backend_of(X).mean(X[:: len(X) // _MEAN_SAMPLE or 1])


def mean_and_scale(X: Array, weights: Array) -> tuple[FloatArray, float]:
    """Return the weighted mean (d,) and the root mean square distance from it of the rows of X (n, d), on the host.

    One block is summed directly, in double precision. Of more, products have the type of X, about an approximate
    mean so that they lose no digits, and sums over blocks are of double precision.
    """
    backend = backend_of(X)
    blocks = list(row_blocks(len(X), X.shape[1], backend.block_multiplier(X)))
    if len(blocks) == 1:
        relative = weights / weights.sum()
        mean = relative @ backend.double(X)
        centred = backend.double(X - backend.asarray(mean, X))
        return backend.to_numpy(mean), float(relative @ backend.squared_norm(centred)) ** 0.5
    center = approximate_mean(X)
    total, first, second = float(weights.sum()), 0 * center, 0.0
    center = backend.asarray(center, X)
    buffer = backend.empty((blocks[0].stop, len(center)), X)
    for rows in blocks:
        centred = backend.subtract(X[rows], center, buffer[: rows.stop - rows.start])
        first += backend.asarray(weights[rows], X) @ centred
        second += float(weights[rows] @ backend.double(backend.squared_norm(centred)))
    point, offset = backend.to_numpy(center), backend.to_numpy(first) / total
    return point + offset, root_mean_square(second / total - float(offset @ offset), point)


def root_mean_square(variance: float, center: NDArray[np.floating]) -> float:
    """Return the root of a total variance computed about a point (d,); 0 if it may be a rounding error."""
    rounding = 4 * float(np.finfo(center.dtype).eps) * float(np.abs(center).max())
    return float(np.sqrt(variance)) if variance > len(center) * rounding**2 else 0.0


@dataclass(frozen=True)
class Moments:
    r"""Moments of samples with features φ (p,), targets y (s,) and weights ω; φ̄ is the weighted mean."""

    n_samples: int
    total: float  # Σω
    mean: FloatArray  # φ̄, (p,)
    gram: FloatArray  # Σ ω(φ - φ̄)(φ - φ̄)ᵀ, (p, p)
    cross: FloatArray  # Σ ω(φ - φ̄)yᵀ, (p, s)
    target_square: float  # Σ ω‖y‖²

    def __sizeof__(self) -> int:
        return self.mean.nbytes + self.gram.nbytes + self.cross.nbytes

    def scale(self) -> float:
        """Return the root mean square distance of the features from their mean."""
        return root_mean_square(float(self.gram.trace()) / self.total, self.mean)

    def transformed(self, T: FloatArray) -> Moments:
        """Return the moments of the features φT, for T (p, r)."""
        return Moments(
            self.n_samples, self.total, self.mean @ T, T.T @ self.gram @ T, T.T @ self.cross, self.target_square
        )

    def objective(self, B: FloatArray, ridge: float) -> tuple[float, FloatArray]:
        """Return value and gradient at B (p, s) of ½Σω‖Bᵀ(φ - φ̄) - y‖² + ½ρ‖B‖², per unit of weight."""
        penalized = self.gram @ B + ridge * B
        value = 0.5 * (self.target_square - 2 * np.sum(self.cross * B) + np.sum(penalized * B))
        return float(value) / self.total, (penalized - self.cross) / self.total


def moments_of(blocks: Iterable[tuple[Array, Array, Array]], center: Array) -> Moments:
    """Return the moments, on the host, of blocks of features (b, p), targets (b, s) and weights (b,).

    Targets have weighted mean zero over all blocks. Products have the type of the features, sums are of double
    precision. ``center`` (p,), double and on the device of the features, is near their mean: products about it lose no
    digits.
    """
    backend, buffer = backend_of(center), center[:0]
    n, total, target_square = 0, 0.0, 0.0
    first = 0 * center
    gram, cross = first[:, None] * first, first[:, None]
    for features, targets, weights in blocks:
        if len(buffer) < len(features):  # reuse one buffer: allocation costs as much as the products
            buffer, center = backend.empty(features.shape, features), backend.asarray(center, features)
        centred = backend.subtract(features, center, buffer[: len(features)])
        root = backend.asarray(weights**0.5, features)
        if (weights != 1).any():
            centred *= root[:, None]
        n, total = n + len(weights), total + float(weights.sum())
        first = first + root @ centred
        gram += centred.T @ centred
        cross = cross + centred.T @ backend.asarray(root[:, None] * targets, features)
        target_square += float(weights @ backend.squared_norm(targets))
    center, first, gram, cross = (backend.to_numpy(a) for a in (center, first, gram, cross))
    gram -= np.outer(first, first) / total
    return Moments(n, total, center + first / total, gram, cross, target_square)


def combine_moments(*parts: Moments) -> Moments:
    r"""Return the moments of all samples from moments of disjoint parts about one common point.

    The scatter about the joint mean is :math:`G_1 + G_2 + \frac{\Omega_1\Omega_2}{\Omega_1 + \Omega_2}\delta\delta^T`,
    δ between the means. Products with targets add up, since targets have mean zero over all parts.
    """
    return reduce(_combine, parts)


def _combine(a: Moments, b: Moments) -> Moments:
    total, delta = a.total + b.total, b.mean - a.mean
    gram = a.gram + b.gram
    gram += np.outer((a.total * b.total / total) * delta, delta)
    return Moments(
        a.n_samples + b.n_samples,
        total,
        a.mean + (b.total / total) * delta,
        gram,
        a.cross + b.cross,
        a.target_square + b.target_square,
    )
