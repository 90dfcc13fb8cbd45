"""Sums over any number of samples, a block of rows at a time: all that scaling and ridge regression need of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray

# A block and what is derived from it should stay in the processor's cache.
BLOCK_ELEMENTS = 2**20
LEAST_ROWS = 500
# So many rows, evenly spread, show where the samples lie.
_REPRESENTATIVES = 1000


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Rows of a matrix in blocks of about a million elements."""
    rows = max(LEAST_ROWS, BLOCK_ELEMENTS // max(1, n_columns))
    for start in range(0, n_rows, rows):
        yield slice(start, min(start + rows, n_rows))


def near_mean(X: NDArray[np.floating]) -> FloatArray:
    """A point (d,) about which rows of X (n, d) lie: the mean of some of them, evenly spread."""
    return np.asarray(X[:: len(X) // _REPRESENTATIVES or 1].mean(axis=0, dtype=np.float64))


def mean_and_size(X: NDArray[np.floating], weights: FloatArray) -> tuple[FloatArray, float]:
    """Weighted mean (d,) and root mean square distance from it of the rows of X (n, d).

    What fits into one block is summed directly, in double precision. Of more, products are of the type of X, taken
    about a point near the mean so that they lose no digits, and sums over blocks are of double precision.
    """
    blocks = list(row_blocks(*X.shape))
    if len(blocks) == 1:
        share = weights / weights.sum()
        mean: FloatArray = share @ X.astype(np.float64, copy=False)
        centred = X - mean.astype(X.dtype)
        return mean, float(np.sqrt(share @ np.einsum("ij,ij->i", centred, centred, dtype=np.float64)))
    near = near_mean(X).astype(X.dtype)
    total, first, second = float(weights.sum()), np.zeros(len(near)), 0.0
    room = np.empty((blocks[0].stop, len(near)), dtype=X.dtype)
    for rows in blocks:
        away = np.subtract(X[rows], near, out=room[: rows.stop - rows.start])
        first += weights[rows].astype(X.dtype) @ away
        second += float(weights[rows] @ np.einsum("ij,ij->i", away, away))
    first /= total
    return near + first, size_about(second / total - float(first @ first), near)


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


def moments_of(blocks: Iterable[tuple[NDArray[np.floating], FloatArray, FloatArray]], near: FloatArray) -> Moments:
    """Sums over blocks of features (b, p), targets (b, s) with weighted mean zero, and weights (b,).

    Parameters
    ----------
    blocks : iterable of (features, targets, weights)
        Products are of the type of the features, sums over blocks of double precision.
    near : ndarray of shape (p,)
        A point near the mean of the features: products about it lose no digits.
    """
    n, total, target_square, room = 0, 0.0, 0.0, np.empty((0, 0))
    first, gram, cross = np.zeros(len(near)), np.zeros((len(near), len(near))), np.zeros((len(near), 1))
    for features, targets, weights in blocks:
        if len(room) < len(features):  # one room for all: fresh memory costs as much as the products
            room, near = np.empty_like(features), near.astype(features.dtype)
        away = np.subtract(features, near, out=room[: len(features)])
        root = np.sqrt(weights).astype(features.dtype)
        if (weights != 1).any():
            away *= root[:, None]
        n, total = n + len(weights), total + float(weights.sum())
        first = first + root @ away
        gram += away.T @ away
        cross = cross + away.T @ (root[:, None] * targets).astype(features.dtype)
        target_square += float(weights @ np.einsum("ij,ij->i", targets, targets))
    gram -= np.outer(first, first) / total
    return Moments(n, total, near + first / total, gram, cross, target_square)
