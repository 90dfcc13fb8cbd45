"""Contracts between the parts, and the frozen results they hand to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

# What an objective computes with: a NumPy array today, any array a Backend knows tomorrow.
Array: TypeAlias = Any
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]


@runtime_checkable
class Objective(Protocol):
    """A smooth function of x that depends on the data only through ``z = image(x)``.

    ``image`` is linear and is the costly part (a product with the data). A solver that moves along a line
    carries z with it, ``z + t * image(direction)``, and so pays for one product per direction however many
    points of the line it looks at.
    """

    def image(self, x: Array) -> Array:
        """Linear map of the unknowns through the data."""
        ...

    def value(self, x: Array, z: Array) -> float:
        """f(x), given ``z = image(x)``."""
        ...

    def value_and_gradient(self, x: Array, z: Array) -> tuple[float, Array]:
        """f(x) and its gradient, of the shape of x, given ``z = image(x)``."""
        ...


@runtime_checkable
class LineObjective(Objective, Protocol):
    """An objective that is a polynomial of degree at most four along every line."""

    def line_polynomial(self, x: Array, z: Array, dx: Array, dz: Array) -> FloatArray:
        """Coefficients p of ``f(x + t dx) = p[0] + p[1] t + ... + p[4] t**4``."""
        ...


@runtime_checkable
class PreconditionedObjective(LineObjective, Protocol):
    """A line objective that also knows an approximate inverse of its Hessian."""

    def precondition(self, gradient: Array) -> Array:
        """Apply a symmetric positive (semi)definite approximation of the inverse Hessian."""
        ...


@runtime_checkable
class ConstrainedObjective(LineObjective, Protocol):
    """A line objective over a convex set that can be projected on."""

    def project(self, x: Array) -> Array:
        """Nearest feasible point."""
        ...


class Iterate(NamedTuple):
    """One point of a solver's path."""

    value: float
    gradient_norm: float
    step: float  # length factor of the step taken from here; 0 at the last point


@dataclass(frozen=True)
class SolverResult:
    """Where a solver ended and why.

    Attributes
    ----------
    x : array
        The last point.
    value : float
        Objective there.
    n_iter, n_evals : int
        Steps taken; evaluations of the objective (values and gradients count one each).
    stop_reason : str
        One of the sentences of :class:`ordrank.solvers.stopping.StopReason`.
    converged : bool
        Whether that reason means that a solution was reached.
    history : tuple of Iterate
        Every point of the path, the start and the end included.
    """

    x: Array
    value: float
    n_iter: int
    n_evals: int
    stop_reason: str
    converged: bool
    history: tuple[Iterate, ...]


@dataclass(frozen=True)
class Ranking:
    """The most relevant training samples for each query, nearest first; tensors where the queries were one.

    Attributes
    ----------
    indices : ndarray of shape (n_queries, k)
        Rows of the training set. Where fewer than k samples qualify the row is filled up with -1.
    distances : ndarray of shape (n_queries, k)
        Distance to the query under the learned metric; infinite where the index is -1.
    labels : ndarray of shape (n_queries, k)
        Labels of the samples, as they were given to ``fit``; NaN (or None, for named grades) where the
        index is -1.
    """

    indices: IntArray
    distances: FloatArray
    labels: NDArray[Any]

    def __len__(self) -> int:
        return len(self.indices)


@runtime_checkable
class Extractor(Protocol):
    """Turns pictures into vectors.

    Attributes
    ----------
    name : str
        What a user asks for, with its options: ``"pixels:24"``.
    dim : int
        Length of a vector.
    fingerprint : str
        Changes whenever the same picture would give another vector: vectors of different fingerprints are never
        compared.
    side : int
        Pictures may be handed over shrunk, as long as their shorter side keeps so many pixels.
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
        """Vectors (n, dim) of upright RGB pictures of 8 bits."""
        ...


@dataclass(frozen=True)
class BadPicture:
    """A file that could not be used, and why; the reason reads on after its name."""

    name: str
    reason: str


@dataclass(frozen=True)
class Vote:
    """The part of all votes that a grade received."""

    grade: str
    share: float


@dataclass(frozen=True)
class RankedPicture:
    """A picture of a collection as an answer to a query.

    Attributes
    ----------
    name : str
    grade : str
        As the user writes it.
    estimated : bool
        Whether nobody gave that grade but the model.
    distance, order_distance, appearance_distance : float
        Distance to the query, d² = order² + appearance².
    thumbnail : bytes
        JPEG.
    """

    name: str
    grade: str
    estimated: bool
    distance: float
    order_distance: float
    appearance_distance: float
    thumbnail: bytes


@dataclass(frozen=True)
class Answer:
    """What a collection says about one query.

    Attributes
    ----------
    query : str
        File or name that was asked.
    thumbnail : bytes
        JPEG.
    grade, value : str and float
        Estimated grade as the user writes it, and as a number.
    known_grade : str or None
        The grade that the query has in the collection.
    votes : tuple of Vote
        Every grade of the collection in its order.
    results : tuple of RankedPicture
        Nearest first.
    """

    query: str
    thumbnail: bytes
    grade: str
    value: float
    known_grade: str | None
    votes: tuple[Vote, ...]
    results: tuple[RankedPicture, ...]
