"""Sums over any number of samples, a block of rows at a time: all that scaling and ridge regression need of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ordrank._types import Array, FloatArray
from ordrank.backend import backend_of

# A block and what is derived from it should stay in the processor's cache.
BLOCK_ELEMENTS = 2**20
LEAST_ROWS = 500
# So many rows, evenly spread, show where the samples lie.
_REPRESENTATIVES = 1000


def row_blocks(n_rows: int, n_columns: int, at_once: int = 1) -> Iterator[slice]:
    """Rows of a matrix in blocks of about a million elements, or as many times more as shall be taken at once."""
    rows = max(LEAST_ROWS, at_once * BLOCK_ELEMENTS // max(1, n_columns))
    for start in range(0, n_rows, rows):
        yield slice(start, min(start + rows, n_rows))


def near_mean(X: Array) -> Array:
    """A point (d,) about which rows of X (n, d) lie: the mean of some of them, evenly spread, in double precision."""
    return backend_of(X).mean(X[:: len(X) // _REPRESENTATIVES or 1])


def mean_and_size(X: Array, weights: Array) -> tuple[FloatArray, float]:
    """Weighted mean (d,) and root mean square distance from it of the rows of X (n, d), on the host.

    What fits into one block is summed directly, in double precision. Of more, products are of the type of X, taken
    about a point near the mean so that they lose no digits, and sums over blocks are of double precision.
    """
    backend = backend_of(X)
    blocks = list(row_blocks(len(X), X.shape[1], backend.blocks_at_once(X)))
    if len(blocks) == 1:
        share = weights / weights.sum()
        mean = share @ backend.double(X)
        centred = backend.double(X - backend.asarray(mean, X))
        return backend.to_numpy(mean), float(share @ backend.squared_lengths(centred)) ** 0.5
    near = near_mean(X)
    total, first, second = float(weights.sum()), 0 * near, 0.0
    near = backend.asarray(near, X)
    room = backend.empty((blocks[0].stop, len(near)), X)
    for rows in blocks:
        away = backend.subtract(X[rows], near, room[: rows.stop - rows.start])
        first += backend.asarray(weights[rows], X) @ away
        second += float(weights[rows] @ backend.double(backend.squared_lengths(away)))
    point, offset = backend.to_numpy(near), backend.to_numpy(first) / total
    return point + offset, size_about(second / total - float(offset @ offset), point)


def size_about(variance: float, near: NDArray[np.floating]) -> float:
    """Root of a variance of samples about a point; 0 if it may be rounding."""
    rounding = 4 * float(np.finfo(near.dtype).eps) * float(np.abs(near).max())
    return float(np.sqrt(variance)) if variance > len(near) * rounding**2 else 0.0


@dataclass(frozen=True)
class Moments:
    r"""Sums over n samples with features φ (p,), targets y (s,) and weights ω; φ̄ is the weighted mean.

    Attributes
    ----------
    n_samples : int
    total : float
        Σω.
    mean : ndarray of shape (p,)
        φ̄.
    gram : ndarray of shape (p, p)
        Σ ω(φ - φ̄)(φ - φ̄)ᵀ.
    cross : ndarray of shape (p, s)
        Σ ω(φ - φ̄)yᵀ.
    target_square : float
        Σ ω‖y‖².
    """

    n_samples: int
    total: float
    mean: FloatArray
    gram: FloatArray
    cross: FloatArray
    target_square: float

    def __sizeof__(self) -> int:
        return self.mean.nbytes + self.gram.nbytes + self.cross.nbytes

    def size(self) -> float:
        """Root mean square distance of the features from their mean."""
        return size_about(float(self.gram.trace()) / self.total, self.mean)

    def changed(self, T: FloatArray) -> Moments:
        """The same of the features φT, for T (p, r)."""
        return Moments(
            self.n_samples, self.total, self.mean @ T, T.T @ self.gram @ T, T.T @ self.cross, self.target_square
        )

    def objective(self, B: FloatArray, ridge: float) -> tuple[float, FloatArray]:
        """Value and gradient at B (p, s) of ½Σω‖Bᵀ(φ - φ̄) - y‖² + ½ρ‖B‖², per unit of weight."""
        pull = self.gram @ B + ridge * B
        value = 0.5 * (self.target_square - 2 * np.sum(self.cross * B) + np.sum(pull * B))
        return float(value) / self.total, (pull - self.cross) / self.total


def moments_of(blocks: Iterable[tuple[Array, Array, Array]], near: Array) -> Moments:
    """Sums over blocks of features (b, p), targets (b, s) with weighted mean zero, and weights (b,); on the host.

    Parameters
    ----------
    blocks : iterable of (features, targets, weights)
        Products are of the type of the features, sums over blocks of double precision.
    near : array of shape (p,)
        A point near the mean of the features, where they are: products about it lose no digits. In double precision.
    """
    backend, room = backend_of(near), near[:0]
    n, total, target_square = 0, 0.0, 0.0
    first = 0 * near
    gram, cross = first[:, None] * first, first[:, None]
    for features, targets, weights in blocks:
        if len(room) < len(features):  # one room for all: fresh memory costs as much as the products
            room, near = backend.empty(features.shape, features), backend.asarray(near, features)
        away = backend.subtract(features, near, room[: len(features)])
        root = backend.asarray(weights**0.5, features)
        if (weights != 1).any():
            away *= root[:, None]
        n, total = n + len(weights), total + float(weights.sum())
        first = first + root @ away
        gram += away.T @ away
        cross = cross + away.T @ backend.asarray(root[:, None] * targets, features)
        target_square += float(weights @ backend.squared_lengths(targets))
    near, first, gram, cross = (backend.to_numpy(a) for a in (near, first, gram, cross))
    gram -= np.outer(first, first) / total
    return Moments(n, total, near + first / total, gram, cross, target_square)


def combined(*parts: Moments) -> Moments:
    r"""Sums over all samples from those of parts, with one point near the mean for all.

    Scatter about the joint mean is :math:`G_1 + G_2 + \frac{\Omega_1\Omega_2}{\Omega_1 + \Omega_2}\delta\delta^T`, δ
    between the means. Products with targets are about the common point, and simply add up: targets have mean zero,
    so that the sum does not depend on the point.
    """
    return reduce(_combined, parts)


def _combined(one: Moments, other: Moments) -> Moments:
    total, delta = one.total + other.total, other.mean - one.mean
    return Moments(
        one.n_samples + other.n_samples,
        total,
        one.mean + (other.total / total) * delta,
        one.gram + other.gram + (one.total * other.total / total) * np.outer(delta, delta),
        one.cross + other.cross,
        one.target_square + other.target_square,
    )
