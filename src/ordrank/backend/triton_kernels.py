"""Triton kernels that fuse operations which take many passes over memory in PyTorch.

Products of float32 matrices use ``tf32x3``: three TF32 products on tensor cores, accurate to float32.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Rows summed by one program in float32; the programs' sums are added in float64.
_PROGRAM_ROWS = 2048
# The thin products below beat cuBLAS up to this many columns.
MAX_COLUMNS = 64


def pair_dots(A: tuple[Any, Any], B: tuple[Any, Any] | None, first: Any, second: Any) -> Any:
    """Return products (P,) of A[0][first] - A[1][second] and B[0][first] - B[1][second] in float64; B = A if None."""
    rows = [part.contiguous() for part in (*A, *(B or A))]
    first, second = first.contiguous(), second.contiguous()
    out = torch.empty(len(first), dtype=torch.float64, device=first.device)
    width = A[0].shape[1]
    columns = min(128, triton.next_power_of_2(width))
    pairs = 1024 // columns
    if len(first):
        grid = (triton.cdiv(len(first), pairs),)
        with torch.cuda.device_of(out):
            _pair_dots[grid](*rows, first, second, out, len(first), width, B is None, pairs, columns)
    return out


def laplacian_product(weights: Any, pair: Any, columns: Any, starts: Any, Z: Any) -> Any:
    """Return Σ_e w_e (z_i - z_j) for every row i (n, s), over the CSR entries e of row i.

    Entry e, ``starts[i] <= e < starts[i + 1]``, has column j = ``columns[e]`` and the weight of pair ``pair[e]``.
    """
    Z = Z.contiguous()
    out = torch.empty_like(Z)
    width = min(64, triton.next_power_of_2(Z.shape[1]))
    rows = max(1, 128 // width)
    grid = (triton.cdiv(len(Z), rows), triton.cdiv(Z.shape[1], width))
    # Some samples have hundreds of neighbours: few rows per program, so that few wait for them.
    with torch.cuda.device_of(out):
        _laplacian[grid](weights, pair, columns, starts, Z, out, len(Z), Z.shape[1], rows, 8, width, num_warps=1)
    return out


def thin_product(X: Any, L: Any) -> Any:
    """Return XLᵀ for float32 X (n, d) and L (s, d), s small."""
    X, L = X.contiguous(), L.contiguous()
    out = torch.empty(len(X), len(L), dtype=X.dtype, device=X.device)
    columns = max(16, triton.next_power_of_2(len(L)))
    grid = (triton.cdiv(len(X), 128),)
    with torch.cuda.device_of(out):
        _thin_product[grid](X, L, out, len(X), X.shape[1], len(L), 128, 64, columns, num_warps=8)
    return out


def transposed_product(W: Any, X: Any) -> Any:
    """Return WᵀX for float32 W (n, s) and X (n, d), s small."""
    W, X = W.contiguous(), X.contiguous()
    (n, s), d = W.shape, X.shape[1]
    parts = triton.cdiv(n, _PROGRAM_ROWS)
    sums = torch.empty(parts, s, d, dtype=X.dtype, device=X.device)
    columns = max(16, triton.next_power_of_2(s))
    grid = (parts, triton.cdiv(d, 256))
    with torch.cuda.device_of(sums):
        _transposed_product[grid](W, X, sums, n, d, s, _PROGRAM_ROWS, 32, 256, columns, num_warps=8)
    return sums.sum(dim=0, dtype=torch.float64).to(X.dtype)


@triton.jit
def _pair_dots(
    A0, A1, B0, B1, first, second, out, n_pairs, width, SAME: tl.constexpr, PAIRS: tl.constexpr, COLUMNS: tl.constexpr
):
    pair = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    inside = pair < n_pairs
    here = tl.load(first + pair, mask=inside, other=0).to(tl.int64)[:, None] * width
    there = tl.load(second + pair, mask=inside, other=0).to(tl.int64)[:, None] * width
    total = tl.zeros([PAIRS], dtype=tl.float64)
    for start in range(0, width, COLUMNS):
        column = start + tl.arange(0, COLUMNS)[None, :]
        mask = inside[:, None] & (column < width)
        of_a = tl.load(A0 + here + column, mask=mask, other=0).to(tl.float64)
        of_a -= tl.load(A1 + there + column, mask=mask, other=0).to(tl.float64)
        of_b = of_a
        if not SAME:
            of_b = tl.load(B0 + here + column, mask=mask, other=0).to(tl.float64)
            of_b -= tl.load(B1 + there + column, mask=mask, other=0).to(tl.float64)
        total += tl.sum(of_a * of_b, axis=1)
    tl.store(out + pair, total, mask=inside)


@triton.jit
def _laplacian(
    weights, pair, columns, starts, Z, out, n, width, ROWS: tl.constexpr, ENTRIES: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = row < n
    offset = row[:, None] * width + column[None, :]
    mask = inside[:, None] & (column < width)[None, :]
    begin = tl.load(starts + row, mask=inside, other=0)
    end = tl.load(starts + row + 1, mask=inside, other=0)
    z = tl.load(Z + offset, mask=mask, other=0)
    total = tl.zeros_like(z)
    for step in range(0, tl.max(end - begin, axis=0), ENTRIES):
        entry = begin[:, None] + step + tl.arange(0, ENTRIES)[None, :]
        valid = entry < end[:, None]
        of_pair = tl.load(pair + entry, mask=valid, other=0)
        weight = tl.load(weights + of_pair, mask=valid, other=0).to(z.dtype)
        other = tl.load(columns + entry, mask=valid, other=0).to(tl.int64)
        source = Z + other[:, :, None] * width + column[None, None, :]
        z_other = tl.load(source, mask=valid[:, :, None] & (column < width)[None, None, :], other=0)
        total += tl.sum(weight[:, :, None] * (z[:, None, :] - z_other), axis=1)
    tl.store(out + offset, total, mask=mask)


@triton.jit
def _thin_product(X, L, out, n, d, s, ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    total = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for start in range(0, d, DEPTH):
        across = start + tl.arange(0, DEPTH)[None, :]
        down = start + tl.arange(0, DEPTH)[:, None]
        x = tl.load(X + row * d + across, mask=(row < n) & (across < d), other=0)
        l = tl.load(L + column * d + down, mask=(column < s) & (down < d), other=0)  # noqa: E741
        total = tl.dot(x, l, total, input_precision="tf32x3")
    tl.store(out + row * s + column, total, mask=(row < n) & (column < s))


@triton.jit
def _transposed_product(
    W, X, sums, n, d, s, PART: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr
):
    part = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, COLUMNS)[:, None]
    feature = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)[None, :]
    total = tl.zeros([COLUMNS, WIDTH], dtype=tl.float32)
    for start in range(0, PART, ROWS):
        across = part * PART + start + tl.arange(0, ROWS)[None, :]
        down = part * PART + start + tl.arange(0, ROWS)[:, None]
        w = tl.load(W + across * s + column, mask=(across < n) & (column < s), other=0)
        x = tl.load(X + down * d + feature, mask=(down < n) & (feature < d), other=0)
        total = tl.dot(w, x, total, input_precision="tf32x3")
    tl.store(sums + (part * s + column) * d + feature, total, mask=(column < s) & (feature < d))
