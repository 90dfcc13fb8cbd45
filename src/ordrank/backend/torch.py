"""PyTorch on CPU and CUDA; methods of TorchBackend are documented by :class:`ordrank.backend.Backend`."""

# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ordrank._protocols import Array, FloatArray
from ordrank.errors import InputError

try:
    import torch
except ImportError as error:
    raise InputError("device= and tensors need PyTorch: pip install 'ordrank[deep]'") from error

# Elements of the largest temporary array: on a CPU as with NumPy, on a GPU 1.6 GB in float32.
_BLOCK_ELEMENTS = {"cpu": 4_000_000, "cuda": 400_000_000}
_GRAM_ROWS = 65536
# Rows whose products are summed in float32; longer sums lose digits and make solvers stop early.
_SUM_ROWS = 4096
_NOT_IN_NUMPY = (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


def _kernels(a: Array) -> Any:
    """Return the Triton kernels for tensors on a GPU; None on a CPU or without Triton."""
    if not a.is_cuda:
        return None
    try:
        from ordrank.backend import triton_kernels
    except ImportError:
        return None
    return triton_kernels


class TensorPairs:
    """:class:`~ordrank.backend.PairOperator` by gathering rows, or by Triton kernels on a GPU.

    The kernels walk the adjacency matrix in CSR form: entry e connects its row to ``_columns[e]`` and belongs to pair
    ``_pair[e]``. Results therefore do not depend on the order of threads.
    """

    def __init__(self, first: Array, second: Array, n_samples: int) -> None:
        self._first, self._second = first, second
        rows, order = torch.cat([first, second]).sort(stable=True)
        # int32 halves the memory traffic; one device holds fewer than 2³¹ samples and entries.
        self._columns = torch.cat([second, first])[order].int()
        self._pair = (order % max(len(first), 1)).int()
        self._starts = torch.searchsorted(rows, torch.arange(n_samples + 1, device=rows.device)).int()

    def dots(self, A: Array, B: Array) -> Array:
        if (kernels := _kernels(A)) is not None:
            return kernels.pair_dots((A, A), None if B is A else (B, B), self._first, self._second)
        products = torch.empty(len(self._first), dtype=torch.float64, device=A.device)
        for first, second, part in self._blocks(A.shape[1], A.device):
            of_a = (A[first] - A[second]).double()
            products[part] = (of_a * (of_a if B is A else B[first] - B[second])).sum(dim=1)
        return products

    def _blocks(self, width: int, device: Any) -> Iterator[tuple[Array, Array, slice]]:
        """Yield both samples of a block of pairs, and the slice of pairs."""
        size = max(1, _BLOCK_ELEMENTS[device.type] // max(1, width))
        for start in range(0, len(self._first), size):
            part = slice(start, start + size)
            yield self._first[part], self._second[part], part

    def laplacian_product(self, weights: Array, Z: Array) -> Array:
        if (kernels := _kernels(Z)) is not None:
            return kernels.laplacian_product(weights, self._pair, self._columns, self._starts, Z)
        total = torch.zeros_like(Z)
        for first, second, part in self._blocks(Z.shape[1], Z.device):
            pull = weights[part, None].to(Z.dtype) * (Z[first] - Z[second])
            total.index_add_(0, first, pull).index_add_(0, second, pull, alpha=-1)
        return total


class TorchBackend:
    """PyTorch."""

    def to_device(self, array: Any, device: str) -> Array:
        try:
            target = torch.device(device)
        except RuntimeError:
            target = None
        if target is None or target.type not in _BLOCK_ELEMENTS:
            raise InputError(f"device must be None, 'cpu' or 'cuda', got {device!r}")
        if target.type == "cuda" and not torch.cuda.is_available():
            raise InputError(f"device={device!r} needs a CUDA device, and torch finds none; use device='cpu' or None")
        return torch.as_tensor(array, device=target)

    def as_samples(self, tensor: Any) -> Array:
        """Return a dense, detached tensor in float32 or float64, following scikit-learn's rules for other dtypes."""
        if tensor.layout != torch.strided or tensor.is_complex():
            raise InputError(f"X must be a dense tensor of real numbers, got {tensor.dtype} in {tensor.layout}")
        if tensor.dtype in (torch.float32, torch.float64):
            return tensor.detach()
        return tensor.detach().to(torch.float32 if tensor.is_floating_point() else torch.float64)

    def dot(self, a: Array, b: Array) -> Array:
        if a is b:
            return torch.linalg.vector_norm(a, dtype=torch.float64).square()
        return torch.dot(a.reshape(-1).double(), b.reshape(-1).double())

    def to_host_scalars(self, scalars: Sequence[Any]) -> FloatArray:
        tensors = [scalar for scalar in scalars if isinstance(scalar, torch.Tensor)]
        copied = iter(torch.stack([t.double() for t in tensors]).tolist() if tensors else [])
        return np.array([next(copied) if isinstance(s, torch.Tensor) else s for s in scalars], dtype=np.float64)

    def to_numpy(self, a: Array) -> Any:
        a = a.detach().cpu()
        return (a.float() if a.dtype in _NOT_IN_NUMPY else a).numpy()

    def concat(self, parts: Sequence[Array], axis: int = 0) -> Array:
        return torch.cat(list(parts), dim=axis)

    def asarray(self, values: Any, like: Array) -> Array:
        return torch.as_tensor(values, dtype=like.dtype, device=like.device)

    def indices(self, values: Any, like: Array) -> Array:
        return torch.as_tensor(values, dtype=torch.int64, device=like.device)

    def double(self, a: Array) -> Array:
        return a.double()

    def finfo_eps(self, a: Array) -> float:
        return float(torch.finfo(a.dtype).eps)

    def finfo_max(self, a: Array) -> float:
        return float(torch.finfo(a.dtype).max)

    def all_finite(self, a: Array) -> bool:
        return bool(torch.isfinite(a).all())

    def mean(self, a: Array) -> Array:
        return a.mean(dim=0, dtype=torch.float64)

    def unique(self, a: Array) -> tuple[FloatArray, Array]:
        distinct, index = torch.unique(a, return_inverse=True)
        return self.to_numpy(distinct.double()), index

    def eigh(self, a: Array) -> tuple[Array, Array]:
        values, vectors = torch.linalg.eigh(a)
        return values, vectors

    def gram(self, a: Array) -> Array:
        total = torch.zeros(a.shape[1], a.shape[1], dtype=torch.float64, device=a.device)
        for start in range(0, len(a), _GRAM_ROWS):
            block = a[start : start + _GRAM_ROWS].double()
            total.addmm_(block.T, block)
        return total

    def inner(self, a: Array, b: Array) -> Array:
        b, kernels = b.to(a.dtype), _kernels(a)
        if kernels is None or a.dtype != torch.float32 or len(b) > kernels.MAX_COLUMNS:
            return a @ b.T
        return kernels.thin_product(a, b)

    def transposed_product(self, a: Array, b: Array) -> Array:
        if a.dtype == torch.float64:
            return a.T @ b
        kernels = _kernels(a)
        if kernels is not None and a.shape[1] <= kernels.MAX_COLUMNS:
            return kernels.transposed_product(a, b)
        total = torch.zeros(a.shape[1], b.shape[1], dtype=torch.float64, device=a.device)
        for start in range(0, len(a), _SUM_ROWS):
            total += a[start : start + _SUM_ROWS].T @ b[start : start + _SUM_ROWS]
        return total.to(a.dtype)

    def product(self, a: Array, b: Array) -> Array:
        dtype = torch.promote_types(a.dtype, b.dtype)
        return a.to(dtype) @ b.to(dtype)

    def subtract(self, a: Array, b: Array, out: Array) -> Array:
        return torch.sub(a, b, out=out)

    def multiply(self, a: Array, factor: float, out: Array) -> Array:
        return torch.mul(a, factor, out=out)

    def empty(self, shape: tuple[int, ...], like: Array) -> Array:
        return torch.empty(shape, dtype=like.dtype, device=like.device)

    def exp(self, a: Array, out: Array) -> Array:
        return torch.exp(a, out=out)

    def segment_sum(self, a: Array, segment: Array, n_segments: int) -> Array:
        members = segment.argsort(stable=True)  # in a fixed order, unlike atomic additions
        counts = torch.bincount(segment, minlength=n_segments)
        return torch.segment_reduce(a[members], "sum", lengths=counts, axis=0, unsafe=True, initial=0)

    def pairs(self, first: Array, second: Array, n_samples: int, like: Array) -> TensorPairs:
        return TensorPairs(self.indices(first, like), self.indices(second, like), n_samples)

    def block_elements(self, a: Array) -> int:
        return _BLOCK_ELEMENTS[a.device.type]

    def block_multiplier(self, a: Array) -> int:
        return 16 if a.is_cuda else 1  # 16 blocks keep a GPU busy

    def to_sum_precision(self, a: Array) -> Array:
        return a.double()  # a GPU sums a large block at once, with TF32 in less than float32

    def to_low_precision(self, a: Array) -> Array:
        return a.half() if a.is_cuda else a.float()

    def low_precision_product(self, a: Array, b: Array) -> Array:
        return torch.mm(a, b.T, out_dtype=torch.float32) if a.dtype == torch.float16 else a @ b.T

    def norm(self, a: Array) -> Array:
        return torch.linalg.vector_norm(a, dim=-1)

    def squared_norm(self, a: Array) -> Array:
        return a.square().sum(dim=-1)

    def distances(self, queries: Array, points: Array, candidates: Array) -> Array:
        if (kernels := _kernels(points)) is None:
            differences = points[candidates].double()
            differences -= queries[:, None]  # in place: allocation costs as much as the work
            return self.norm(differences)
        first = torch.arange(len(queries), device=points.device)[:, None].expand_as(candidates)
        squared = kernels.pair_dots((queries, points), None, first.reshape(-1), candidates.reshape(-1))
        return squared.sqrt_().reshape(candidates.shape)

    def amin(self, a: Array, axis: int) -> Array:
        return a.amin(dim=axis)

    def nsmallest(self, values: Array, k: int) -> tuple[Array, Array]:
        result = values.topk(k, dim=1, largest=False, sorted=True)
        return result.values, result.indices

    def sort(self, values: Array) -> tuple[Array, Array]:
        result = values.sort(dim=1, stable=True)
        return result.values, result.indices

    def put_along_axis(self, values: Array, columns: Array, value: float) -> Array:
        return values.scatter_(1, columns, value)  # unlike an assignment, without synchronising

    def take_along_axis(self, values: Array, columns: Array) -> Array:
        return values.gather(1, columns)
