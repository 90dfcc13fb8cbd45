"""The array operations in which array libraries differ.

Objectives, solvers and the search for neighbours use operators, indexing, ``.T``, ``.reshape``, ``.sum`` and ``.max``,
which all libraries share, and come here for the rest. A library joins by providing one more :class:`Backend`.
Arrays stay where they are: what is computed from an array on a device is on that device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ordrank._types import Array, FloatArray
from ordrank.backend.numpy import NumpyBackend


class PairOperator(Protocol):
    """P pairs of samples; E is their P × n incidence matrix, row p is +1 at ``first[p]`` and -1 at ``second[p]``."""

    def dots(self, A: Array, B: Array) -> Array:
        """Row sums of (EA) ∘ (EB): the inner products (P,) of the pairs' differences in A and in B (n, s), double."""
        ...

    def laplacian_product(self, weights: Array, Z: Array) -> Array:
        """Eᵀ diag(weights) E Z, the weighted Laplacian of the graph of pairs applied to Z, of the type of Z."""
        ...


class Backend(Protocol):
    """What an array library must provide."""

    name: str

    def dot(self, a: Array, b: Array) -> Array:
        """Sum of the elementwise product, in double precision, as a scalar that stays where the arrays are."""
        ...

    def floats(self, scalars: Sequence[Any]) -> FloatArray:
        """Bring a few scalars to the host, all at once: a device is waited for only here."""
        ...

    def to_numpy(self, a: Array) -> Any:
        """Bring an array to the host."""
        ...

    def join(self, parts: Sequence[Array], axis: int = 0) -> Array:
        """One array from several, along an axis."""
        ...

    def asarray(self, values: Any, like: Array) -> Array:
        """An array of the type and on the device of ``like``, from an array of any library."""
        ...

    def indices(self, values: Any, like: Array) -> Array:
        """Integers to index ``like`` with."""
        ...

    def double(self, a: Array) -> Array:
        """The array in double precision."""
        ...

    def epsilon(self, a: Array) -> float:
        """Relative rounding of the array's type."""
        ...

    def largest(self, a: Array) -> float:
        """Largest number of the array's type."""
        ...

    def all_finite(self, a: Array) -> bool:
        """Whether no element is infinite or NaN."""
        ...

    def mean(self, a: Array) -> Array:
        """Mean of the rows (n, d), in double precision."""
        ...

    def unique(self, a: Array) -> tuple[FloatArray, Array]:
        """Distinct values on the host, rising, and the place of each element among them where the array is."""
        ...

    def eigh(self, a: Array) -> tuple[Array, Array]:
        """Ascending eigenvalues and orthonormal eigenvectors (columns) of a symmetric matrix."""
        ...

    def gram(self, a: Array) -> Array:
        """AᵀA in double precision: squaring halves the digits, and single precision has none to spare."""
        ...

    def map_rows(self, a: Array, b: Array) -> Array:
        """ABᵀ of a tall matrix (n, d) and a low one (s, d), in the precision of the tall one."""
        ...

    def transposed_product(self, a: Array, b: Array) -> Array:
        """AᵀB of two tall matrices (n, s) and (n, d), in their precision."""
        ...

    def product(self, a: Array, b: Array) -> Array:
        """AB in the higher of their precisions."""
        ...

    def subtract(self, a: Array, b: Array, out: Array) -> Array:
        """A - B, written to ``out``, which is returned."""
        ...

    def multiply(self, a: Array, factor: float, out: Array) -> Array:
        """A times a number, written to ``out``, which is returned."""
        ...

    def empty(self, shape: tuple[int, ...], like: Array) -> Array:
        """Room for an array of the type and on the device of ``like``."""
        ...

    def exp(self, a: Array) -> Array:
        """The exponential of every element, in place."""
        ...

    def group_sums(self, a: Array, group: Array, n_groups: int) -> Array:
        """Sums of the rows of each group: (n, d) -> (n_groups, d)."""
        ...

    def pairs(self, first: Array, second: Array, n_samples: int, like: Array) -> PairOperator:
        """Operator of the pairs, of the type and on the device of ``like``."""
        ...

    def block_elements(self, a: Array) -> int:
        """Elements of a temporary array that is large enough to be fast and small enough to fit where ``a`` is."""
        ...

    def blocks_at_once(self, a: Array) -> int:
        """How many blocks that fit a processor's cache are taken at once where ``a`` is."""
        ...

    def summable(self, a: Array) -> Array:
        """A block of rows in the precision in which products of it are to be summed."""
        ...

    def coarse(self, a: Array) -> Array:
        """The array in the precision in which products are fastest where it is."""
        ...

    def coarse_product(self, a: Array, b: Array) -> Array:
        """ABᵀ of matrices in that precision, or of doubles; summed in single precision at least."""
        ...

    def lengths(self, a: Array) -> Array:
        """Euclidean norms along the last axis."""
        ...

    def squared_lengths(self, a: Array) -> Array:
        """Their squares."""
        ...

    def distances(self, queries: Array, points: Array, candidates: Array) -> Array:
        """Distances (r, c) of queries (r, d) to the points that are their candidates (r, c), by double differences."""
        ...

    def minimum(self, a: Array, axis: int) -> Array:
        """Minima along an axis."""
        ...

    def smallest(self, values: Array, k: int) -> tuple[Array, Array]:
        """The k smallest elements of each row, rising, and their columns."""
        ...

    def rising(self, values: Array) -> tuple[Array, Array]:
        """Sorted rows, and where their elements came from; equal ones keep their order."""
        ...

    def fill(self, values: Array, columns: Array, value: float) -> Array:
        """Set ``values[i, columns[i, j]]`` to one value, in place."""
        ...

    def take(self, values: Array, columns: Array) -> Array:
        """``values[i, columns[i, j]]`` for every i and j."""
        ...


_NUMPY = NumpyBackend()


def is_tensor(array: Any) -> bool:
    """Whether this is a tensor of torch; asking does not import torch."""
    return any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in type(array).__mro__)


def backend_of(array: Array) -> Backend:
    """Return the backend that computes with arrays of this kind."""
    if isinstance(array, np.ndarray):
        return _NUMPY
    if is_tensor(array):
        found: Backend = _torch_backend()
        return found
    raise TypeError(f"no backend computes with {type(array).__module__}.{type(array).__name__}")


def move(array: Array, device: str | None) -> Array:
    """Return the array on a device: itself where it is there already, or where ``device`` is None.

    An ndarray becomes a tensor where the device is not the CPU.
    """
    if device is None or (device == "cpu" and isinstance(array, np.ndarray)):
        return array
    return _torch_backend().move(array, device)


def tensor_samples(tensor: Any, device: str | None) -> Array:
    """Return a user's tensor as samples of single or double precision, on a device if one is named."""
    return move(_torch_backend().as_samples(tensor), device)


def as_given(array: Array, given: Any) -> Array:
    """Return an array in the kind and on the device of what a user gave, in its own precision."""
    if not is_tensor(given):
        return backend_of(array).to_numpy(array)
    return _torch_backend().move(array, str(given.device))


def _torch_backend() -> Any:
    from ordrank.backend.torch import TorchBackend

    return TorchBackend()
