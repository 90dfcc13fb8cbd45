"""What a collection is made of, in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray


@dataclass(frozen=True)
class Header:
    """What holds for all rows.

    Attributes
    ----------
    extractor, fingerprint : str
        What the features were made with.
    dim : int
        Length of a feature vector.
    order : tuple of str, or None
        Names of the grades, lowest first; a grade is then a position in it.
    model : str or None
        Name of the model that the embeddings belong to; None before the first fit.
    """

    extractor: str
    fingerprint: str
    dim: int
    order: tuple[str, ...] | None = None
    model: str | None = None

    def show(self, grade: float) -> str:
        """Return a grade as the user writes it: a number, or the nearest name, the lower one half-way."""
        if self.order is None:
            return f"{grade:.12g}"  # enough for dates and the like to stay apart, too few for rounding to show
        return self.order[min(max(int(np.ceil(grade - 0.5)), 0), len(self.order) - 1)]


@dataclass(frozen=True)
class Placed:
    """Where pictures are in the learned space: vectors (n, s + d), and the grades estimated there (n,)."""

    vectors: NDArray[np.float32]
    estimates: FloatArray


@dataclass(frozen=True)
class Places:
    """All pictures in the learned space.

    Attributes
    ----------
    ids : ndarray of shape (n,)
        Their numbers, rising.
    grades, estimates : ndarray of shape (n,)
        Given and estimated grades; NaN where none was given.
    vectors : ndarray of shape (n, s + d)
    """

    ids: IntArray
    grades: FloatArray
    estimates: FloatArray
    vectors: NDArray[np.float32]

    def row_of(self, number: int) -> int | None:
        """Row of the picture of that number; None if it has no place."""
        row = int(np.searchsorted(self.ids, number))
        return row if row < len(self.ids) and self.ids[row] == number else None


class Stamp(NamedTuple):
    """What tells whether a file has changed since it was read."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Row:
    """A picture of the collection without its vectors."""

    id: int
    name: str
    path: str
    sha256: str
    size: int
    mtime_ns: int
    width: int
    height: int
    grade: float | None
    estimate: float | None
