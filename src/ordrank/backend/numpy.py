"""NumPy and SciPy. Methods of NumpyBackend are documented by :class:`ordrank.backend.Backend`."""

# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy  # loads its submodules on first use
from numpy.typing import DTypeLike, NDArray

from ordrank._protocols import Array, FloatArray, IntArray

# Elements of the largest temporary array: 32 MB of doubles.
_BLOCK_ELEMENTS = 4_000_000
_SUM_ROWS = 4096
# Elements of a temporary array that fits a core's own cache; samples whose rows fit the shared cache.
_CACHED_ELEMENTS = 100_000
_CACHED_SAMPLES = 150_000


class SparsePairs:
    """:class:`~ordrank.backend.PairOperator` by gathered rows and sparse products."""

    def __init__(self, first: IntArray, second: IntArray, n_samples: int) -> None:
        index = scipy.sparse.get_index_dtype(maxval=n_samples)  # other dtypes are copied by every sparse product
        self._first, self._second = first.astype(index, copy=False), second.astype(index, copy=False)
        # Built once, only the weights change: for few pairs SciPy's checks take longer than the product.
        coordinates, shape = (self._first, self._second), (n_samples, n_samples)
        self._adjacency = scipy.sparse.coo_array((np.zeros(len(first)), coordinates), shape=shape)
        self._transposed = self._adjacency.T
        self._buffers: list[Array] = []

    def dots(self, A: Array, B: Array) -> Array:
        products, ones = np.empty(len(self._first)), np.ones(A.shape[1])  # a product with ones sums short rows fastest
        block_rows = max(1, min(_CACHED_ELEMENTS // max(1, A.shape[1]), len(products)))
        of_a, of_b, other, product = self._reuse_buffers((block_rows, A.shape[1]), A.dtype)
        for start in range(0, len(products), block_rows):
            block = slice(start, start + block_rows)
            size = len(products[block])
            left = right = self._differences(A, block, of_a[:size], other[:size])
            if B is not A:
                right = self._differences(B, block, of_b[:size], other[:size])
            np.matmul(np.multiply(left, right, out=product[:size], dtype=np.float64), ones, out=products[block])
        return products

    def laplacian_product(self, weights: Array, Z: Array) -> Array:
        """Return (D - W) Z, W the weighted adjacency matrix and D its degrees."""
        self._adjacency.data = self._transposed.data = weights.astype(Z.dtype, copy=False)
        padded = np.column_stack([Z, np.ones(len(Z), dtype=Z.dtype)])  # its last column becomes the degrees
        product = self._adjacency @ padded
        product += self._transposed @ padded
        return product[:, -1:] * Z - product[:, :-1]

    def _reuse_buffers(self, shape: tuple[int, int], dtype: DTypeLike) -> list[Array]:
        """Return three buffers of that dtype and one of float64: allocation costs as much as the work."""
        if not self._buffers or (self._buffers[0].shape, self._buffers[0].dtype) != (shape, dtype):
            self._buffers = [np.empty(shape, dtype) for _ in range(3)] + [np.empty(shape)]
        return self._buffers

    def _differences(self, A: Array, block: slice, out: Array, buffer: Array) -> Array:
        # All indices are valid; mode="clip" spares NumPy a buffer of its own.
        A.take(self._first[block], axis=0, out=out, mode="clip")
        out -= A.take(self._second[block], axis=0, out=buffer, mode="clip")
        return out


class ReorderedPairs(SparsePairs):
    """:class:`SparsePairs` after a reverse Cuthill-McKee permutation, for samples that do not fit the cache.

    Rows are permuted once per product, one random pass over memory instead of one per pair.
    """

    def __init__(self, first: IntArray, second: IntArray, n_samples: int) -> None:
        links = np.ones(len(first), dtype=np.float32), (first, second)
        graph = scipy.sparse.csr_array(links, shape=(n_samples, n_samples))
        self._samples = scipy.sparse.csgraph.reverse_cuthill_mckee(graph)
        self._inverse = _inverse_permutation(self._samples)
        first, second = self._inverse[first], self._inverse[second]
        self._pairs = np.argsort(first, kind="stable")
        self._inverse_pairs = _inverse_permutation(self._pairs)
        super().__init__(first[self._pairs], second[self._pairs], n_samples)

    def dots(self, A: Array, B: Array) -> Array:
        of_a = A.take(self._samples, axis=0)
        of_b = of_a if B is A else B.take(self._samples, axis=0)
        return super().dots(of_a, of_b).take(self._inverse_pairs)

    def laplacian_product(self, weights: Array, Z: Array) -> Array:
        product = super().laplacian_product(weights.take(self._pairs), Z.take(self._samples, axis=0))
        return product.take(self._inverse, axis=0)


def _inverse_permutation(order: NDArray[np.signedinteger]) -> NDArray[np.signedinteger]:
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order), dtype=order.dtype)
    return inverse


class NumpyBackend:
    """NumPy and SciPy."""

    def dot(self, a: Array, b: Array) -> Array:
        if a.dtype == np.float64:
            return np.dot(a.reshape(-1), b.reshape(-1))
        return np.multiply(a, b, dtype=np.float64).sum()

    def to_host_scalars(self, scalars: Sequence[Any]) -> FloatArray:
        return np.array(scalars, dtype=np.float64)

    def to_numpy(self, a: Array) -> Any:
        return a

    def concat(self, parts: Sequence[Array], axis: int = 0) -> Array:
        return np.concatenate(parts, axis=axis)

    def asarray(self, values: Any, like: Array) -> Array:
        return np.asarray(_to_host(values), dtype=like.dtype)

    def indices(self, values: Any, like: Array) -> Array:
        return np.asarray(_to_host(values), dtype=np.int64)

    def double(self, a: Array) -> Array:
        return a.astype(np.float64, copy=False)

    def finfo_eps(self, a: Array) -> float:
        return float(np.finfo(a.dtype).eps)

    def finfo_max(self, a: Array) -> float:
        return float(np.finfo(a.dtype).max)

    def all_finite(self, a: Array) -> bool:
        return bool(np.isfinite(a).all())

    def mean(self, a: Array) -> Array:
        return a.mean(axis=0, dtype=np.float64)

    def unique(self, a: Array) -> tuple[FloatArray, Array]:
        distinct, index = np.unique(a, return_inverse=True)
        return distinct, index

    def eigh(self, a: Array) -> tuple[Array, Array]:
        values, vectors = np.linalg.eigh(a)  # SciPy's own BLAS threads would compete with NumPy's
        return values, vectors

    def gram(self, a: Array) -> Array:
        if a.dtype == np.float64:
            return a.T @ a
        total = np.zeros((a.shape[1], a.shape[1]))
        for start in range(0, len(a), _SUM_ROWS):
            block = a[start : start + _SUM_ROWS].astype(np.float64)
            total += block.T @ block
        return total

    def inner(self, a: Array, b: Array) -> Array:
        return a @ b.T.astype(a.dtype, copy=False)

    def transposed_product(self, a: Array, b: Array) -> Array:
        if b.dtype == np.float64 or len(a) <= _SUM_ROWS:
            return a.T @ b
        total = np.zeros((a.shape[1], b.shape[1]))
        for start in range(0, len(a), _SUM_ROWS):
            block = slice(start, start + _SUM_ROWS)
            total += a[block].T.astype(b.dtype, copy=False) @ b[block]
        return total.astype(a.dtype)

    def product(self, a: Array, b: Array) -> Array:
        return a @ b

    def subtract(self, a: Array, b: Array, out: Array) -> Array:
        return np.subtract(a, b, out=out)

    def multiply(self, a: Array, factor: float, out: Array) -> Array:
        return np.multiply(a, factor, out=out)

    def empty(self, shape: tuple[int, ...], like: Array) -> Array:
        return np.empty(shape, dtype=like.dtype)

    def exp(self, a: Array, out: Array) -> Array:
        return np.exp(a, out=out)

    def segment_sum(self, a: Array, segment: Array, n_segments: int) -> Array:
        ones = np.ones(len(segment), dtype=a.dtype)
        indicator = scipy.sparse.csr_array((ones, (segment, np.arange(len(segment)))), shape=(n_segments, len(segment)))
        return indicator @ a

    def pairs(self, first: Array, second: Array, n_samples: int, like: Array) -> SparsePairs:
        kind = SparsePairs if n_samples <= _CACHED_SAMPLES else ReorderedPairs
        return kind(first, second, n_samples)

    def block_elements(self, a: Array) -> int:
        return _BLOCK_ELEMENTS

    def block_multiplier(self, a: Array) -> int:
        return 1

    def to_sum_precision(self, a: Array) -> Array:
        return a

    def to_low_precision(self, a: Array) -> Array:
        return a.astype(np.float32)

    def low_precision_product(self, a: Array, b: Array) -> Array:
        return a @ b.T

    def norm(self, a: Array) -> Array:
        return np.sqrt(self.squared_norm(a))

    def squared_norm(self, a: Array) -> Array:
        return np.einsum("...i,...i->...", a, a)

    def distances(self, queries: Array, points: Array, candidates: Array) -> Array:
        distances = np.empty(candidates.shape)
        block_rows = max(1, _CACHED_ELEMENTS // max(1, candidates.shape[1] * points.shape[1]))
        for start in range(0, len(queries), block_rows):
            block = slice(start, start + block_rows)
            differences = self.double(points.take(candidates[block], axis=0))
            differences -= queries[block, None]
            distances[block] = self.norm(differences)
        return distances

    def amin(self, a: Array, axis: int) -> Array:
        return a.min(axis=axis)

    def nsmallest(self, values: Array, k: int) -> tuple[Array, Array]:
        columns = np.argpartition(values, k - 1, axis=1)[:, :k] if k < values.shape[1] else None
        chosen = values if columns is None else np.take_along_axis(values, columns, axis=1)
        sorted_, order = self.sort(chosen)
        return sorted_, order if columns is None else np.take_along_axis(columns, order, axis=1)

    def sort(self, values: Array) -> tuple[Array, Array]:
        order = np.argsort(values, axis=1, kind="stable")
        return np.take_along_axis(values, order, axis=1), order

    def put_along_axis(self, values: Array, columns: Array, value: float) -> Array:
        np.put_along_axis(values, columns, value, axis=1)
        return values

    def take_along_axis(self, values: Array, columns: Array) -> Array:
        return np.take_along_axis(values, columns, axis=1)


def _to_host(values: Any) -> Any:
    """Copy a torch tensor to the host; return anything else unchanged."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values
