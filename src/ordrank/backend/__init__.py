"""Array operations that NumPy and PyTorch spell differently.

Objectives, solvers and neighbour searches use operators, indexing, ``.T``, ``.reshape``, ``.sum`` and ``.max``, which
both libraries share, and call a :class:`Backend` for the rest. Results stay on the device of their inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ordrank._protocols import Array, FloatArray
from ordrank.backend.numpy import NumpyBackend


class PairOperator(Protocol):
    """P pairs of samples; E is their P × n incidence matrix, +1 at ``first[p]`` and -1 at ``second[p]`` in row p."""

    def dots(self, A: Array, B: Array) -> Array:
        """Return the row sums (P,) of (EA) ∘ (EB) for A and B (n, s), in float64."""

    def laplacian_product(self, weights: Array, Z: Array) -> Array:
        """Return Eᵀ diag(weights) E Z, the weighted graph Laplacian applied to Z, in the dtype of Z."""


class Backend(Protocol):
    """What an array library must provide."""

    def dot(self, a: Array, b: Array) -> Array:
        """Return the sum of the elementwise product in float64, a scalar on the device."""

    def to_host_scalars(self, scalars: Sequence[Any]) -> FloatArray:
        """Copy several scalars to the host in one transfer, so that the device is synchronised once."""

    def to_numpy(self, a: Array) -> Any:
        """Return the array as an ndarray; only what NumPy cannot share, such as memory of a GPU, is copied."""

    def concat(self, parts: Sequence[Array], axis: int = 0) -> Array:
        """Concatenate arrays along an axis."""

    def asarray(self, values: Any, like: Array) -> Array:
        """Convert an array of any library to the dtype and device of ``like``."""

    def indices(self, values: Any, like: Array) -> Array:
        """Convert integers to an index array on the device of ``like``."""

    def double(self, a: Array) -> Array:
        """Convert to float64."""

    def finfo_eps(self, a: Array) -> float:
        """Return the machine epsilon of the dtype."""

    def finfo_max(self, a: Array) -> float:
        """Return the largest finite number of the dtype."""

    def all_finite(self, a: Array) -> bool:
        """Return whether no element is infinite or NaN."""

    def mean(self, a: Array) -> Array:
        """Return the mean over rows (n, d) in float64."""

    def unique(self, a: Array) -> tuple[FloatArray, Array]:
        """Return the sorted distinct values on the host and, on the device, the index of each element among them."""

    def eigh(self, a: Array) -> tuple[Array, Array]:
        """Return ascending eigenvalues and orthonormal eigenvectors (columns) of a symmetric matrix."""

    def gram(self, a: Array) -> Array:
        """Return AᵀA in float64: squaring halves the number of correct digits."""

    def inner(self, a: Array, b: Array) -> Array:
        """Return ABᵀ, as ``numpy.inner`` does, for A (n, d) and B (s, d) with few rows, in the dtype of A."""

    def transposed_product(self, a: Array, b: Array) -> Array:
        """Return AᵀB for tall matrices (n, s) and (n, d), in their dtype; long sums are accumulated in float64."""

    def product(self, a: Array, b: Array) -> Array:
        """Return AB in the higher of the two precisions."""

    def subtract(self, a: Array, b: Array, out: Array) -> Array:
        """Write A - B to ``out`` and return it."""

    def multiply(self, a: Array, factor: float, out: Array) -> Array:
        """Write A times a number to ``out`` and return it."""

    def empty(self, shape: tuple[int, ...], like: Array) -> Array:
        """Allocate an uninitialised array with the dtype and device of ``like``."""

    def exp(self, a: Array, out: Array) -> Array:
        """Write the exponential of each element of A to ``out``, which may be A, and return it."""

    def segment_sum(self, a: Array, segment: Array, n_segments: int) -> Array:
        """Sum the rows (n, d) of each segment: (n_segments, d)."""

    def pairs(self, first: Array, second: Array, n_samples: int, like: Array) -> PairOperator:
        """Build the operator of the pairs, with the dtype and device of ``like``."""

    def block_elements(self, a: Array) -> int:
        """Return how many elements a temporary array on the device of ``a`` should have at most."""

    def block_multiplier(self, a: Array) -> int:
        """Return how many cache-sized blocks of rows to process in one call on the device of ``a``."""

    def to_sum_precision(self, a: Array) -> Array:
        """Convert a block of rows to the precision in which its products are accumulated."""

    def to_low_precision(self, a: Array) -> Array:
        """Convert to the precision in which matrix products are fastest on the device."""

    def low_precision_product(self, a: Array, b: Array) -> Array:
        """Return ABᵀ of low-precision (or float64) matrices, accumulated in float32 at least."""

    def norm(self, a: Array) -> Array:
        """Return Euclidean norms along the last axis."""

    def squared_norm(self, a: Array) -> Array:
        """Return squared Euclidean norms along the last axis."""

    def distances(self, queries: Array, points: Array, candidates: Array) -> Array:
        """Return distances (r, c) of queries (r, d) to their candidate points (r, c), by float64 differences."""

    def amin(self, a: Array, axis: int) -> Array:
        """Return minima along an axis."""

    def nsmallest(self, values: Array, k: int) -> tuple[Array, Array]:
        """Return the k smallest elements of each row, ascending, and their columns."""

    def sort(self, values: Array) -> tuple[Array, Array]:
        """Return each row sorted and the stable argsort."""

    def put_along_axis(self, values: Array, columns: Array, value: float) -> Array:
        """Set ``values[i, columns[i, j]]`` to one value, in place."""

    def take_along_axis(self, values: Array, columns: Array) -> Array:
        """Return ``values[i, columns[i, j]]``."""


_NUMPY = NumpyBackend()


def is_tensor(array: Any) -> bool:
    """Return whether the array is a torch tensor, without importing torch."""
    return any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in type(array).__mro__)


def backend_of(array: Array) -> Backend:
    """Return the backend that computes with arrays of this type."""
    if isinstance(array, np.ndarray):
        return _NUMPY
    if is_tensor(array):
        found: Backend = _torch_backend()
        return found
    raise TypeError(f"no backend computes with {type(array).__module__}.{type(array).__name__}")


def to_device(array: Array, device: str | None) -> Array:
    """Return the array on a device, unchanged if it is already there or ``device`` is None.

    An ndarray becomes a tensor unless the device is the CPU.
    """
    if device is None or (device == "cpu" and isinstance(array, np.ndarray)):
        return array
    return _torch_backend().to_device(array, device)


def tensor_samples(tensor: Any, device: str | None) -> Array:
    """Return a user's tensor in float32 or float64, on ``device`` if one is named."""
    return to_device(_torch_backend().as_samples(tensor), device)


def convert_like(array: Array, like: Any) -> Array:
    """Convert an array to the library and device of ``like``, keeping its dtype."""
    if not is_tensor(like):
        return backend_of(array).to_numpy(array)
    return _torch_backend().to_device(array, str(like.device))


def _torch_backend() -> Any:
    from ordrank.backend.torch import TorchBackend

    return TorchBackend()
