"""Protocols between packages, array aliases, and results shared by several packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

# An array of any library that has a Backend.
Array: TypeAlias = Any
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
# Called with a stage of the work, the number of items done and their total; 0 of 0 when the stage begins.
Progress: TypeAlias = Callable[[str, int, int], object]


def no_progress(stage: str, done: int, total: int) -> None:
    """Report nothing."""


@runtime_checkable
class Objective(Protocol):
    """A smooth function of x that depends on the data only through the linear map ``z = image(x)``.

    The image is the costly part, a product with the data. A line search updates ``z + t * image(direction)`` and so
    pays for one product per direction, however many points of the line it evaluates.
    """

    def image(self, x: Array) -> Array:
        """Return the linear map of the unknowns through the data."""

    def value(self, x: Array, z: Array) -> float:
        """Return f(x), given ``z = image(x)``."""

    def value_and_gradient(self, x: Array, z: Array) -> tuple[float, Array]:
        """Return f(x) and its gradient, of the shape of x, given ``z = image(x)``."""


@runtime_checkable
class LineObjective(Objective, Protocol):
    """An objective that is a polynomial of degree at most four along every line."""

    def line_polynomial(self, x: Array, z: Array, dx: Array, dz: Array) -> FloatArray:
        """Return the coefficients p of ``f(x + t dx) = p[0] + p[1] t + ... + p[4] t**4``."""


@runtime_checkable
class PreconditionedObjective(LineObjective, Protocol):
    """A line objective with an approximate inverse Hessian."""

    def precondition(self, gradient: Array) -> Array:
        """Apply a symmetric positive (semi)definite approximation of the inverse Hessian."""


@runtime_checkable
class ConstrainedObjective(LineObjective, Protocol):
    """A line objective over a convex set with a projection."""

    def project(self, x: Array) -> Array:
        """Return the nearest feasible point."""


@dataclass(frozen=True)
class Ranking:
    """The nearest training samples of each query, nearest first; tensors for tensor queries.

    Attributes
    ----------
    indices : ndarray of shape (n_queries, k)
        Rows of the training set, padded with -1 where fewer than k samples qualify.
    distances : ndarray of shape (n_queries, k)
        Distances under the learned metric; infinite where the index is -1.
    labels : ndarray of shape (n_queries, k)
        Labels in the form passed to ``fit``; NaN (or None for named grades) where the index is -1.
    """

    indices: IntArray
    distances: FloatArray
    labels: NDArray[Any]

    def __len__(self) -> int:
        return len(self.indices)


@runtime_checkable
class Extractor(Protocol):
    """Maps pictures to feature vectors.

    Attributes
    ----------
    name : str
        Name with options, such as ``"pixels:24"``.
    dim : int
        Length of a vector.
    fingerprint : str
        Changes whenever the same picture would give another vector; vectors with different fingerprints are never
        compared.
    side : int
        Pictures may be downsampled as long as their shorter side keeps this many pixels.
    """

    @property
    def name(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def side(self) -> int: ...

    def extract(self, pictures: Sequence[Image]) -> NDArray[np.float32]:
        """Return vectors (n, dim) of upright 8-bit RGB pictures."""


@dataclass(frozen=True)
class TrainingFiles:
    """Picture files with their grades, and others without.

    Attributes
    ----------
    graded : tuple of n paths
    grades : ndarray of shape (n,)
    groups : ndarray of shape (n,), or None
        What each picture shows, such as the person.
    ungraded : tuple of paths
    """

    graded: tuple[Path, ...]
    grades: FloatArray
    groups: IntArray | None
    ungraded: tuple[Path, ...]


@runtime_checkable
class GradedPictures(Protocol):
    """Pictures on disk, some with grades: a collection."""

    def training_files(self) -> TrainingFiles:
        """Return the files of all pictures."""
