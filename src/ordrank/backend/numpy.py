"""NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import DTypeLike, NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ordrank._types import Array, FloatArray, IntArray

# Elements of the largest temporary array: 32 MB of doubles.
_BLOCK_ELEMENTS = 4_000_000
_ROWS_AT_ONCE = 4096
# Elements of a temporary array that stays in a processor's own cache.
_CACHED_ELEMENTS = 100_000
# Rows of more samples leave the cache that all processors share.
_CACHED_SAMPLES = 150_000


class SparsePairs:
    """Pairs by gathering rows, and by sparse products that scatter them."""

    def __init__(self, first: IntArray, second: IntArray, n_samples: int) -> None:
        index = scipy.sparse.get_index_dtype(maxval=n_samples)  # else every sparse product would copy them
        self._first, self._second = first.astype(index, copy=False), second.astype(index, copy=False)
        # Made once, only their weights change: of few pairs SciPy checks a matrix longer than it multiplies with it.
        weights, ends, shape = np.zeros(len(first)), (self._first, self._second), (n_samples, n_samples)
        self._there = scipy.sparse.coo_array((weights, ends), shape=shape)
        self._back = self._there.T
        self._rooms: list[Array] = []

    def dots(self, A: Array, B: Array) -> Array:
        """Row sums of (EA) ∘ (EB), a block of pairs at a time; a product with ones sums narrow rows fastest."""
        products, ones = np.empty(len(self._first)), np.ones(A.shape[1])
        at_once = max(1, min(_CACHED_ELEMENTS // max(1, A.shape[1]), len(products)))
        of_a, of_b, other, product = self._rooms_of((at_once, A.shape[1]), A.dtype)
        for start in range(0, len(products), at_once):
            block = slice(start, start + at_once)
            size = len(products[block])
            left = right = self._differences(A, block, of_a[:size], other[:size])
            if B is not A:
                right = self._differences(B, block, of_b[:size], other[:size])
            np.matmul(np.multiply(left, right, out=product[:size], dtype=np.float64), ones, out=products[block])
        return products

    def laplacian_product(self, weights: Array, Z: Array) -> Array:
        """(D - W) Z with the weighted adjacency matrix W of the pairs and its degrees D."""
        self._there.data = self._back.data = weights.astype(Z.dtype, copy=False)
        padded = np.column_stack([Z, np.ones(len(Z), dtype=Z.dtype)])  # its last column becomes the degrees
        product = self._there @ padded
        product += self._back @ padded
        return product[:, -1:] * Z - product[:, :-1]

    def _rooms_of(self, shape: tuple[int, int], dtype: DTypeLike) -> list[Array]:
        """Three of that type and one of doubles, for all blocks and calls: fresh memory costs as much as the work."""
        if not self._rooms or (self._rooms[0].shape, self._rooms[0].dtype) != (shape, dtype):
            self._rooms = [np.empty(shape, dtype) for _ in range(3)] + [np.empty(shape)]
        return self._rooms

    def _differences(self, A: Array, block: slice, out: Array, room: Array) -> Array:
        # Rows are known to be there; to be told what to do with others spares NumPy a buffer.
        A.take(self._first[block], axis=0, out=out, mode="clip")
        out -= A.take(self._second[block], axis=0, out=room, mode="clip")
        return out


class RenumberedPairs(SparsePairs):
    """The same, the samples numbered so that those of a pair lie near each other in memory.

    Rows are brought into that order once for every product, which is one way at random through memory instead of one
    for every pair.
    """

    def __init__(self, first: IntArray, second: IntArray, n_samples: int) -> None:
        links = np.ones(len(first), dtype=np.float32), (first, second)
        self._samples = reverse_cuthill_mckee(scipy.sparse.csr_array(links, shape=(n_samples, n_samples)))
        self._place = _inverse(self._samples)
        first, second = self._place[first], self._place[second]
        self._pairs = np.argsort(first, kind="stable")
        self._pair_place = _inverse(self._pairs)
        super().__init__(first[self._pairs], second[self._pairs], n_samples)

    def dots(self, A: Array, B: Array) -> Array:
        """Row sums of (EA) ∘ (EB)."""
        of_a = A.take(self._samples, axis=0)
        of_b = of_a if B is A else B.take(self._samples, axis=0)
        return super().dots(of_a, of_b).take(self._pair_place)

    def laplacian_product(self, weights: Array, Z: Array) -> Array:
        """(D - W) Z."""
        product = super().laplacian_product(weights.take(self._pairs), Z.take(self._samples, axis=0))
        return product.take(self._place, axis=0)


def _inverse(order: NDArray[np.signedinteger]) -> NDArray[np.signedinteger]:
    """Where each number is in an order of them."""
    places = np.empty_like(order)
    places[order] = np.arange(len(order), dtype=order.dtype)
    return places


class NumpyBackend:
    """NumPy and SciPy."""

    name = "numpy"

    def dot(self, a: Array, b: Array) -> Array:
        """Sum of the elementwise product in float64."""
        if a.dtype == np.float64:
            return np.dot(a.reshape(-1), b.reshape(-1))
        return np.multiply(a, b, dtype=np.float64).sum()

    def floats(self, scalars: Sequence[Any]) -> FloatArray:
        """Scalars as one array."""
        return np.array(scalars, dtype=np.float64)

    def to_numpy(self, a: Array) -> Any:
        """Itself."""
        return a

    def join(self, parts: Sequence[Array], axis: int = 0) -> Array:
        """One array."""
        return np.concatenate(parts, axis=axis)

    def asarray(self, values: Any, like: Array) -> Array:
        """An array of the type of ``like``."""
        return np.asarray(_on_host(values), dtype=like.dtype)

    def indices(self, values: Any, like: Array) -> Array:
        """Integers."""
        return np.asarray(_on_host(values), dtype=np.int64)

    def double(self, a: Array) -> Array:
        """Float64."""
        return a.astype(np.float64, copy=False)

    def epsilon(self, a: Array) -> float:
        """Relative rounding of the array's type."""
        return float(np.finfo(a.dtype).eps)

    def largest(self, a: Array) -> float:
        """Largest number of the array's type."""
        return float(np.finfo(a.dtype).max)

    def all_finite(self, a: Array) -> bool:
        """Whether no element is infinite or NaN."""
        return bool(np.isfinite(a).all())

    def mean(self, a: Array) -> Array:
        """Mean of the rows in float64."""
        return a.mean(axis=0, dtype=np.float64)

    def unique(self, a: Array) -> tuple[FloatArray, Array]:
        """Distinct values and the place of each element among them."""
        distinct, index = np.unique(a, return_inverse=True)
        return distinct, index

    def eigh(self, a: Array) -> tuple[Array, Array]:
        """Symmetric eigendecomposition, by NumPy: SciPy's own BLAS threads would compete with NumPy's."""
        values, vectors = np.linalg.eigh(a)
        return values, vectors

    def gram(self, a: Array) -> Array:
        """AᵀA in double precision, a block of rows at a time."""
        if a.dtype == np.float64:
            return a.T @ a
        total = np.zeros((a.shape[1], a.shape[1]))
        for start in range(0, len(a), _ROWS_AT_ONCE):
            block = a[start : start + _ROWS_AT_ONCE].astype(np.float64)
            total += block.T @ block
        return total

    def map_rows(self, a: Array, b: Array) -> Array:
        """ABᵀ in the precision of the tall factor: no copy of it in another."""
        return a @ b.T.astype(a.dtype, copy=False)

    def transposed_product(self, a: Array, b: Array) -> Array:
        """AᵀB; sums of many single-precision rows are sums of blocks, in double."""
        if b.dtype == np.float64 or len(a) <= _ROWS_AT_ONCE:
            return a.T @ b
        total = np.zeros((a.shape[1], b.shape[1]))
        for start in range(0, len(a), _ROWS_AT_ONCE):
            block = slice(start, start + _ROWS_AT_ONCE)
            total += a[block].T.astype(b.dtype, copy=False) @ b[block]
        return total.astype(a.dtype)

    def product(self, a: Array, b: Array) -> Array:
        """AB."""
        return a @ b

    def subtract(self, a: Array, b: Array, out: Array) -> Array:
        """A - B."""
        return np.subtract(a, b, out=out)

    def multiply(self, a: Array, factor: float, out: Array) -> Array:
        """A times a number."""
        return np.multiply(a, factor, out=out)

    def empty(self, shape: tuple[int, ...], like: Array) -> Array:
        """Room for an array of the type of ``like``."""
        return np.empty(shape, dtype=like.dtype)

    def exp(self, a: Array) -> Array:
        """The exponential, in place."""
        return np.exp(a, out=a)

    def group_sums(self, a: Array, group: Array, n_groups: int) -> Array:
        """Sums of the rows of each group through its sparse indicator matrix."""
        ones = np.ones(len(group), dtype=a.dtype)
        indicator = scipy.sparse.csr_array((ones, (group, np.arange(len(group)))), shape=(n_groups, len(group)))
        return indicator @ a

    def pairs(self, first: Array, second: Array, n_samples: int, like: Array) -> SparsePairs:
        """Gathered and scattered rows."""
        kind = SparsePairs if n_samples <= _CACHED_SAMPLES else RenumberedPairs
        return kind(first, second, n_samples)

    def block_elements(self, a: Array) -> int:
        """So many that a block fits a processor's cache and memory alike."""
        return _BLOCK_ELEMENTS

    def blocks_at_once(self, a: Array) -> int:
        """One."""
        return 1

    def summable(self, a: Array) -> Array:
        """Itself: blocks are small, and the sums over them of double precision."""
        return a

    def coarse(self, a: Array) -> Array:
        """Float32."""
        return a.astype(np.float32)

    def coarse_product(self, a: Array, b: Array) -> Array:
        """ABᵀ in the precision of its factors."""
        return a @ b.T

    def lengths(self, a: Array) -> Array:
        """Norms along the last axis."""
        return np.sqrt(self.squared_lengths(a))

    def squared_lengths(self, a: Array) -> Array:
        """Their squares; einsum needs no array of squares."""
        return np.einsum("...i,...i->...", a, a)

    def distances(self, queries: Array, points: Array, candidates: Array) -> Array:
        """Distances by differences in float64, of so many queries at a time that these stay in the cache."""
        distances = np.empty(candidates.shape)
        at_once = max(1, _CACHED_ELEMENTS // max(1, candidates.shape[1] * points.shape[1]))
        for start in range(0, len(queries), at_once):
            block = slice(start, start + at_once)
            differences = self.double(points.take(candidates[block], axis=0))
            differences -= queries[block, None]
            distances[block] = self.lengths(differences)
        return distances

    def minimum(self, a: Array, axis: int) -> Array:
        """Minima along an axis."""
        return a.min(axis=axis)

    def smallest(self, values: Array, k: int) -> tuple[Array, Array]:
        """The k smallest elements of each row by selection, then sorted."""
        columns = np.argpartition(values, k - 1, axis=1)[:, :k] if k < values.shape[1] else None
        chosen = values if columns is None else np.take_along_axis(values, columns, axis=1)
        sorted_, order = self.rising(chosen)
        return sorted_, order if columns is None else np.take_along_axis(columns, order, axis=1)

    def rising(self, values: Array) -> tuple[Array, Array]:
        """Stable sort of each row."""
        order = np.argsort(values, axis=1, kind="stable")
        return np.take_along_axis(values, order, axis=1), order

    def fill(self, values: Array, columns: Array, value: float) -> Array:
        """Set ``values[i, columns[i, j]]``."""
        np.put_along_axis(values, columns, value, axis=1)
        return values

    def take(self, values: Array, columns: Array) -> Array:
        """``values[i, columns[i, j]]``."""
        return np.take_along_axis(values, columns, axis=1)


def _on_host(values: Any) -> Any:
    """Tensors of torch come from wherever they are."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values
