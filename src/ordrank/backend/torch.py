"""PyTorch, on the CPU and on CUDA; the one file that imports it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ordrank._types import Array, FloatArray
from ordrank.errors import InputError

try:
    import torch
except ImportError as error:
    raise ImportError("computing with tensors needs PyTorch: pip install 'ordrank[torch]'") from error

# Elements of the largest temporary array: on a CPU as with NumPy, on a GPU 1.6 GB of single precision.
_BLOCK_ELEMENTS = {"cpu": 4_000_000, "cuda": 400_000_000}
_ROWS_AT_ONCE = 65536
# Rows whose products are summed in single precision; a solver stops early where sums of many more lose digits.
_ROWS_OF_A_SUM = 4096


def _kernels(a: Array) -> Any:
    """The kernels for tensors on a GPU; None elsewhere, and where Triton is not installed beside torch."""
    if not a.is_cuda:
        return None
    try:
        from ordrank.backend import kernels
    except ImportError:
        return None
    return kernels


class TensorPairs:
    """Pairs through gathered rows, or through kernels of their own on a GPU.

    The kernels go through the entries of the adjacency matrix: both samples of a pair have one for the other, and
    entry e belongs to pair ``_pair[e]``. So their results do not depend on the order of threads.
    """

    def __init__(self, first: Array, second: Array, n_samples: int) -> None:
        self._first, self._second = first, second
        here, order = torch.cat([first, second]).sort(stable=True)
        # Half as many bytes to read as with 64 bits; samples and entries of one device are fewer than 2³¹.
        self._there = torch.cat([second, first])[order].int()
        self._pair = (order % max(len(first), 1)).int()
        self._starts = torch.searchsorted(here, torch.arange(n_samples + 1, device=here.device)).int()

    def dots(self, A: Array, B: Array) -> Array:
        """Row sums of (EA) ∘ (EB), a block of pairs at a time."""
        if (kernels := _kernels(A)) is not None:
            return kernels.pair_dots((A, A), None if B is A else (B, B), self._first, self._second)
        products = torch.empty(len(self._first), dtype=torch.float64, device=A.device)
        for first, second, part in self._blocks(A.shape[1], A.device):
            of_a = (A[first] - A[second]).double()
            products[part] = (of_a * (of_a if B is A else B[first] - B[second])).sum(dim=1)
        return products

    def _blocks(self, width: int, device: Any) -> Iterator[tuple[Array, Array, slice]]:
        """Both samples of some pairs at a time, and which pairs."""
        at_once = max(1, _BLOCK_ELEMENTS[device.type] // max(1, width))
        for start in range(0, len(self._first), at_once):
            part = slice(start, start + at_once)
            yield self._first[part], self._second[part], part

    def laplacian_product(self, weights: Array, Z: Array) -> Array:
        """Eᵀ diag(weights) E Z."""
        if (kernels := _kernels(Z)) is not None:
            return kernels.laplacian_product(weights, self._pair, self._there, self._starts, Z)
        total = torch.zeros_like(Z)
        for first, second, part in self._blocks(Z.shape[1], Z.device):
            pull = weights[part, None].to(Z.dtype) * (Z[first] - Z[second])
            total.index_add_(0, first, pull).index_add_(0, second, pull, alpha=-1)
        return total


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

    def map_rows(self, a: Array, b: Array) -> Array:
        """ABᵀ in the precision of the tall factor."""
        b, kernels = b.to(a.dtype), _kernels(a)
        if kernels is None or a.dtype != torch.float32 or len(b) > kernels.MOST_COLUMNS:
            return a @ b.T
        return kernels.thin_product(a, b)

    def transposed_product(self, a: Array, b: Array) -> Array:
        """AᵀB; sums of many single-precision rows are sums of blocks, in double."""
        if a.dtype == torch.float64:
            return a.T @ b
        kernels = _kernels(a)
        if kernels is not None and a.shape[1] <= kernels.MOST_COLUMNS:
            return kernels.transposed_product(a, b)
        total = torch.zeros(a.shape[1], b.shape[1], dtype=torch.float64, device=a.device)
        for start in range(0, len(a), _ROWS_OF_A_SUM):
            total += a[start : start + _ROWS_OF_A_SUM].T @ b[start : start + _ROWS_OF_A_SUM]
        return total.to(a.dtype)

    def product(self, a: Array, b: Array) -> Array:
        """AB in the higher of their precisions."""
        dtype = torch.promote_types(a.dtype, b.dtype)
        return a.to(dtype) @ b.to(dtype)

    def subtract(self, a: Array, b: Array, out: Array) -> Array:
        """A - B."""
        return torch.sub(a, b, out=out)

    def multiply(self, a: Array, factor: float, out: Array) -> Array:
        """A times a number."""
        return torch.mul(a, factor, out=out)

    def empty(self, shape: tuple[int, ...], like: Array) -> Array:
        """Room for a tensor of the type and on the device of ``like``."""
        return torch.empty(shape, dtype=like.dtype, device=like.device)

    def exp(self, a: Array) -> Array:
        """The exponential, in place."""
        return a.exp_()

    def group_sums(self, a: Array, group: Array, n_groups: int) -> Array:
        """Sums of the rows of each group, one group after the other."""
        members = group.argsort(stable=True)
        counts = torch.bincount(group, minlength=n_groups)
        return torch.segment_reduce(a[members], "sum", lengths=counts, axis=0, unsafe=True, initial=0)

    def pairs(self, first: Array, second: Array, n_samples: int, like: Array) -> TensorPairs:
        """Pairs on the device of ``like``."""
        return TensorPairs(self.indices(first, like), self.indices(second, like), n_samples)

    def block_elements(self, a: Array) -> int:
        """As many as the device likes."""
        return _BLOCK_ELEMENTS[a.device.type]

    def blocks_at_once(self, a: Array) -> int:
        """A GPU is busy with sixteen."""
        return 16 if a.is_cuda else 1

    def summable(self, a: Array) -> Array:
        """Double: a GPU sums the products of a large block, and where it is told so in less than single precision."""
        return a.double()

    def coarse(self, a: Array) -> Array:
        """Half precision on a GPU, single on a CPU."""
        return a.half() if a.is_cuda else a.float()

    def coarse_product(self, a: Array, b: Array) -> Array:
        """ABᵀ; of halves summed and given in single precision."""
        return torch.mm(a, b.T, out_dtype=torch.float32) if a.dtype == torch.float16 else a @ b.T

    def lengths(self, a: Array) -> Array:
        """Norms along the last axis."""
        return torch.linalg.vector_norm(a, dim=-1)

    def squared_lengths(self, a: Array) -> Array:
        """Their squares."""
        return a.square().sum(dim=-1)

    def distances(self, queries: Array, points: Array, candidates: Array) -> Array:
        """Distances by differences in float64."""
        if (kernels := _kernels(points)) is None:
            differences = points[candidates].double()
            differences -= queries[:, None]  # in place: fresh memory costs as much as the work
            return self.lengths(differences)
        first = torch.arange(len(queries), device=points.device)[:, None].expand_as(candidates)
        squared = kernels.pair_dots((queries, points), None, first.reshape(-1), candidates.reshape(-1))
        return squared.sqrt_().reshape(candidates.shape)

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

    def fill(self, values: Array, columns: Array, value: float) -> Array:
        """Set ``values[i, columns[i, j]]``; unlike an assignment, without waiting for the device."""
        return values.scatter_(1, columns, value)

    def take(self, values: Array, columns: Array) -> Array:
        """``values[i, columns[i, j]]``."""
        return values.gather(1, columns)
