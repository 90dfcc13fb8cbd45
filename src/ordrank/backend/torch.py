"""PyTorch, on the CPU and on CUDA; the one file that imports it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ordrank._types import Array, FloatArray
from ordrank.errors import InputError

try:
    import torch
except ImportError as error:  # pragma: no cover - needs an environment without torch
    raise ImportError("computing with tensors needs PyTorch: pip install 'ordrank[torch]'") from error

# Elements of the largest temporary array: on a CPU as with NumPy, on a GPU 1.6 GB of single precision.
_BLOCK_ELEMENTS = {"cpu": 4_000_000, "cuda": 400_000_000}
_ROWS_AT_ONCE = 65536
# Parts into which a sum over many rows is divided, so that all of a GPU works on it.
_PARTS = 512


class TensorPairs:
    """Pairs through gathered rows and sparse CSR matrices; no result depends on the order of threads."""

    def __init__(self, first: Array, second: Array, n_samples: int) -> None:
        self._first, self._second = first, second
        here, there = torch.cat([first, second]), torch.cat([second, first])
        sorted_, order = here.sort(stable=True)
        # Half as many bytes to read as with 64 bits; samples and entries of one device are fewer than 2³¹.
        self._there = there[order].int()
        self._pair = (order % max(len(first), 1)).int()
        starts = torch.searchsorted(sorted_, torch.arange(n_samples + 1, device=here.device))
        self._starts = starts.int()
        self._shape = (n_samples, n_samples)

    def dots(self, A: Array, B: Array) -> Array:
        """Row sums of (EA) ∘ (EB), a block of pairs at a time."""
        at_once = max(1, _BLOCK_ELEMENTS[A.device.type] // max(1, A.shape[1]))
        parts = []
        for start in range(0, max(1, len(self._first)), at_once):
            first, second = self._first[start : start + at_once], self._second[start : start + at_once]
            of_a = A[first].sub_(A[second])
            if B is A:
                parts.append(torch.linalg.vector_norm(of_a, dim=1, dtype=torch.float64).square_())
            else:
                parts.append((of_a.double() * (B[first].sub_(B[second]))).sum(dim=1))
        return torch.cat(parts)

    def laplacian_product(self, weights: Array, Z: Array) -> Array:
        """(D - W) Z with the weighted adjacency matrix W of the pairs and its degrees D."""
        entries = weights.to(Z.dtype)[self._pair]
        adjacency = torch.sparse_csr_tensor(self._starts, self._there, entries, self._shape, check_invariants=False)
        ones = torch.ones(len(Z), 1, dtype=Z.dtype, device=Z.device)
        return (adjacency @ ones) * Z - adjacency @ Z


class TorchBackend:
    """PyTorch."""

    name = "torch"

    def move(self, array: Any, device: str) -> Array:
        """The array as a tensor on a device, in its own precision."""
        try:
            place = torch.device(device)
        except RuntimeError:
            place = None
        if place is None or place.type not in _BLOCK_ELEMENTS:
            raise InputError(f"device must be None, 'cpu' or 'cuda', got {device!r}")
        if place.type == "cuda" and not torch.cuda.is_available():
            raise InputError(f"device={device!r} needs a CUDA device, and torch finds none; use device='cpu' or None")
        return torch.as_tensor(array, device=place)

    def as_samples(self, tensor: Any) -> Array:
        """A dense tensor of single or double precision without history; scikit-learn's rules for other types."""
        if tensor.layout != torch.strided or tensor.is_complex():
            raise InputError(f"X must be a dense tensor of real numbers, got {tensor.dtype} in {tensor.layout}")
        if tensor.dtype in (torch.float32, torch.float64):
            return tensor.detach()
        return tensor.detach().to(torch.float32 if tensor.is_floating_point() else torch.float64)

    def dot(self, a: Array, b: Array) -> Array:
        """Sum of the elementwise product in float64, a scalar tensor."""
        if a is b:
            return torch.linalg.vector_norm(a, dtype=torch.float64).square()
        return torch.dot(a.reshape(-1).double(), b.reshape(-1).double())

    def floats(self, scalars: Sequence[Any]) -> FloatArray:
        """One transfer for all."""
        tensors = [scalar for scalar in scalars if isinstance(scalar, torch.Tensor)]
        found = iter(torch.stack([t.double() for t in tensors]).tolist() if tensors else [])
        return np.array([next(found) if isinstance(s, torch.Tensor) else s for s in scalars], dtype=np.float64)

    def to_numpy(self, a: Array) -> Any:
        """The array on the host."""
        return a.detach().cpu().numpy()

    def join(self, parts: Sequence[Array], axis: int = 0) -> Array:
        """One tensor."""
        return torch.cat(list(parts), dim=axis)

    def asarray(self, values: Any, like: Array) -> Array:
        """A tensor of the type and on the device of ``like``."""
        return torch.as_tensor(values, dtype=like.dtype, device=like.device)

    def indices(self, values: Any, like: Array) -> Array:
        """Integers on the device of ``like``."""
        return torch.as_tensor(values, dtype=torch.int64, device=like.device)

    def double(self, a: Array) -> Array:
        """Float64."""
        return a.double()

    def epsilon(self, a: Array) -> float:
        """Relative rounding of the tensor's type."""
        return float(torch.finfo(a.dtype).eps)

    def largest(self, a: Array) -> float:
        """Largest number of the tensor's type."""
        return float(torch.finfo(a.dtype).max)

    def all_finite(self, a: Array) -> bool:
        """Whether no element is infinite or NaN."""
        return bool(torch.isfinite(a).all())

    def mean(self, a: Array) -> Array:
        """Mean of the rows in float64."""
        return a.mean(dim=0, dtype=torch.float64)

    def unique(self, a: Array) -> tuple[FloatArray, Array]:
        """Distinct values on the host and the place of each element among them on the device."""
        distinct, index = torch.unique(a, return_inverse=True)
        return self.to_numpy(distinct.double()), index

    def eigh(self, a: Array) -> tuple[Array, Array]:
        """Symmetric eigendecomposition on the device."""
        values, vectors = torch.linalg.eigh(a)
        return values, vectors

    def gram(self, a: Array) -> Array:
        """AᵀA in double precision, a block of rows at a time."""
        total = torch.zeros(a.shape[1], a.shape[1], dtype=torch.float64, device=a.device)
        for start in range(0, len(a), _ROWS_AT_ONCE):
            block = a[start : start + _ROWS_AT_ONCE].double()
            total.addmm_(block.T, block)
        return total

    def transposed_product(self, a: Array, b: Array) -> Array:
        """AᵀB; on a GPU in many parts at once, since one sum over all rows would keep few processors busy."""
        rows = len(a) // _PARTS if a.is_cuda else 0
        if rows == 0:
            return a.T @ b
        whole = rows * _PARTS
        left, right = (part[:whole].view(_PARTS, rows, -1) for part in (a.contiguous(), b.contiguous()))
        return torch.bmm(left.transpose(1, 2), right).sum(dim=0) + a[whole:].T @ b[whole:]

    def group_sums(self, a: Array, group: Array, n_groups: int) -> Array:
        """Sums of the rows of each group through its sparse indicator matrix."""
        sorted_, members = self.indices(group, a).sort(stable=True)
        starts = torch.searchsorted(sorted_, torch.arange(n_groups + 1, device=a.device))
        ones = torch.ones(len(a), dtype=a.dtype, device=a.device)
        shape = (n_groups, len(a))
        return torch.sparse_csr_tensor(starts.int(), members.int(), ones, shape, check_invariants=False) @ a

    def pairs(self, first: Array, second: Array, n_samples: int, like: Array) -> TensorPairs:
        """Pairs on the device of ``like``."""
        return TensorPairs(self.indices(first, like), self.indices(second, like), n_samples)

    def block_elements(self, a: Array) -> int:
        """As many as the device likes."""
        return _BLOCK_ELEMENTS[a.device.type]

    def coarse(self, a: Array) -> Array:
        """Half precision on a GPU, single on a CPU."""
        return a.half() if a.is_cuda else a.float()

    def coarse_product(self, a: Array, b: Array) -> Array:
        """ABᵀ; of halves summed and given in single precision."""
        return torch.mm(a, b.T, out_dtype=torch.float32) if a.dtype == torch.float16 else a @ b.T

    def squared_norms(self, a: Array) -> Array:
        """Sums of squares along the last axis."""
        return torch.linalg.vecdot(a, a)

    def minimum(self, a: Array, axis: int) -> Array:
        """Minima along an axis."""
        return a.amin(dim=axis)

    def smallest(self, values: Array, k: int) -> tuple[Array, Array]:
        """The k smallest elements of each row."""
        found = values.topk(k, dim=1, largest=False, sorted=True)
        return found.values, found.indices

    def rising(self, values: Array) -> tuple[Array, Array]:
        """Stable sort of each row."""
        found = values.sort(dim=1, stable=True)
        return found.values, found.indices

    def take(self, values: Array, columns: Array) -> Array:
        """``values[i, columns[i, j]]``."""
        return values.gather(1, columns)
