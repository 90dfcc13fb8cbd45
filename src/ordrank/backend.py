"""The array operations in which array libraries differ.

Objectives and solvers use operators, indexing, ``.T``, ``.reshape`` and ``.sum``, which all libraries share,
and come here for the rest. A library joins by providing one more :class:`Backend`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy.sparse

from ordrank._types import Array, IntArray


class PairOperator(Protocol):
    """The P × n incidence matrix E of a set of pairs: row p is +1 at ``first[p]`` and -1 at ``second[p]``."""

    def differences(self, Z: Array) -> Array:
        """E Z: the P differences ``Z[first] - Z[second]``."""
        ...

    def scatter(self, V: Array) -> Array:
        """Eᵀ V: add each pair's row to its first sample, subtract it from its second."""
        ...

    def laplacian_product(self, weights: Array, Z: Array) -> Array:
        """Eᵀ diag(weights) E Z, the weighted Laplacian of the graph of pairs applied to Z."""
        ...


class Backend(Protocol):
    """What an array library must provide."""

    name: str

    def dot(self, a: Array, b: Array) -> float:
        """Sum of the elementwise product, accumulated in double precision."""
        ...

    def row_dots(self, a: Array, b: Array) -> Array:
        """Inner products of the rows of two matrices, in double precision."""
        ...

    def concatenate(self, parts: list[Array]) -> Array:
        """One flat array from several."""
        ...

    def asarray(self, values: Any, like: Array) -> Array:
        """An array of the type and on the device of ``like``."""
        ...

    def epsilon(self, a: Array) -> float:
        """Relative rounding of the array's type."""
        ...

    def all_finite(self, a: Array) -> bool:
        """Whether no element is infinite or NaN."""
        ...

    def eigh(self, a: Array) -> tuple[Array, Array]:
        """Ascending eigenvalues and orthonormal eigenvectors (columns) of a symmetric matrix."""
        ...

    def gram(self, a: Array) -> Array:
        """AᵀA in double precision: squaring halves the digits, and single precision has none to spare."""
        ...

    def group_sums(self, a: Array, group: IntArray, n_groups: int) -> Array:
        """Sums of the rows of each group: (n, d) -> (n_groups, d)."""
        ...

    def pairs(self, first: IntArray, second: IntArray, n_samples: int, like: Array) -> PairOperator:
        """Incidence operator of the pairs, of the type and on the device of ``like``."""
        ...


class SparsePairs:
    """Incidence matrix as a SciPy CSR matrix: its product beats fancy indexing and ``np.add.at``."""

    def __init__(self, first: IntArray, second: IntArray, n_samples: int, dtype: Any) -> None:
        n_pairs = len(first)
        rows = np.repeat(np.arange(n_pairs), 2)
        columns = np.column_stack([first, second]).reshape(-1)
        signs = np.tile(np.array([1, -1], dtype=dtype), n_pairs)
        self._matrix = scipy.sparse.csr_array((signs, (rows, columns)), shape=(n_pairs, n_samples))
        self._transpose = self._matrix.T.tocsr()

    def differences(self, Z: Array) -> Array:
        """E Z."""
        return self._matrix @ Z

    def scatter(self, V: Array) -> Array:
        """Eᵀ V."""
        return self._transpose @ V

    def laplacian_product(self, weights: Array, Z: Array) -> Array:
        """Eᵀ diag(weights) E Z through the sparse n × n Laplacian."""
        weighted = self._matrix.multiply(weights[:, None]).tocsr()
        return (self._transpose @ weighted) @ Z


class NumpyBackend:
    """NumPy and SciPy."""

    name = "numpy"

    def dot(self, a: Array, b: Array) -> float:
        """Sum of the elementwise product in float64."""
        if a.dtype == np.float64:
            return float(np.dot(a.reshape(-1), b.reshape(-1)))
        return float(np.multiply(a, b, dtype=np.float64).sum())

    def row_dots(self, a: Array, b: Array) -> Array:
        """Inner products of rows in float64; einsum needs no product array and beats ``sum(axis=1)``."""
        return np.einsum("ij,ij->i", a, b, dtype=np.float64)

    def concatenate(self, parts: list[Array]) -> Array:
        """One flat array."""
        return np.concatenate([part.reshape(-1) for part in parts])

    def asarray(self, values: Any, like: Array) -> Array:
        """An array of the type of ``like``."""
        return np.asarray(values, dtype=like.dtype)

    def epsilon(self, a: Array) -> float:
        """Relative rounding of the array's type."""
        return float(np.finfo(a.dtype).eps)

    def all_finite(self, a: Array) -> bool:
        """Whether no element is infinite or NaN."""
        return bool(np.isfinite(a).all())

    def eigh(self, a: Array) -> tuple[Array, Array]:
        """Symmetric eigendecomposition, by NumPy: SciPy's own BLAS threads would compete with NumPy's."""
        values, vectors = np.linalg.eigh(a)
        return values, vectors

    def gram(self, a: Array) -> Array:
        """AᵀA in double precision, a block of rows at a time."""
        if a.dtype == np.float64:
            return a.T @ a
        total = np.zeros((a.shape[1], a.shape[1]))
        for start in range(0, len(a), 4096):
            block = a[start : start + 4096].astype(np.float64)
            total += block.T @ block
        return total

    def group_sums(self, a: Array, group: IntArray, n_groups: int) -> Array:
        """Sums of the rows of each group through its sparse indicator matrix."""
        ones = np.ones(len(group), dtype=a.dtype)
        indicator = scipy.sparse.csr_array((ones, (group, np.arange(len(group)))), shape=(n_groups, len(group)))
        return indicator @ a

    def pairs(self, first: IntArray, second: IntArray, n_samples: int, like: Array) -> PairOperator:
        """Incidence operator of the pairs."""
        return SparsePairs(first, second, n_samples, like.dtype)


_NUMPY = NumpyBackend()


def backend_of(array: Array) -> Backend:
    """Return the backend that computes with arrays of this kind."""
    if isinstance(array, np.ndarray):
        return _NUMPY
    raise TypeError(f"no backend computes with {type(array).__module__}.{type(array).__name__}")
