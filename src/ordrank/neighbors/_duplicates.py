"""Identical vectors of an index.

Identical vectors have the same distance to every query, so that no bound separates them. A search therefore compares
only the first of them and expands its hits by the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray


@dataclass(frozen=True)
class Duplicates:
    """Rows grouped by identical vectors."""

    members: IntArray  # (n,), all rows, grouped, ascending within a group
    starts: IntArray  # (u + 1,), first position of each group among the members
    group: IntArray  # (n,), group of each row

    @property
    def first(self) -> IntArray:
        """First row (u,) of every group."""
        return self.members[self.starts[:-1]]

    def first_allowed(self, allowed: NDArray[np.bool_]) -> IntArray:
        """Return the first allowed row (u,) of every group; n if there is none."""
        n = len(self.members)
        first: IntArray = np.minimum.reduceat(np.where(allowed[self.members], self.members, n), self.starts[:-1])
        return first

    def expand(
        self, rows: IntArray, distances: FloatArray, k: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[IntArray, FloatArray]:
        """Return the k nearest rows including duplicates, nearest first, ties by row.

        Parameters
        ----------
        rows, distances : ndarray of shape (m,)
            One row of each group, nearest first; together the groups have at least k allowed rows.
        k : int
        allowed : ndarray of shape (n,), bool, optional
            Mask of rows; all by default.
        """
        row_parts: list[IntArray] = []
        distance_parts: list[FloatArray] = []
        n_found = 0
        for row, distance in zip(rows, distances, strict=True):
            if n_found >= k and distance > distance_parts[-1][-1]:
                break
            begin, end = self.starts[self.group[row]], self.starts[self.group[row] + 1]
            same = self.members[begin:end]
            same = same[:k] if allowed is None else same[allowed[same]][:k]
            row_parts.append(same)
            distance_parts.append(np.full(len(same), distance))
            n_found += len(same)
        all_rows, all_distances = np.concatenate(row_parts), np.concatenate(distance_parts)
        best = np.lexsort((all_rows, all_distances))[:k]
        return all_rows[best], all_distances[best]


def find_duplicates(
    vectors: NDArray[np.floating], keys: NDArray[np.floating], block_elements: int
) -> Duplicates | None:
    """Group the rows of ``vectors`` (n, s + d) that are identical; None if all differ.

    ``keys`` (n, c) are some of the coordinates, best those with the largest spread: most rows differ in these, and
    only the others are read in full. ``block_elements`` bounds temporary arrays, apart from one number per row.
    """
    hashes = _hashes(keys, np.arange(len(keys)), block_elements)
    order = np.argsort(hashes)
    equal = hashes[order][1:] == hashes[order][:-1]
    candidates = np.unique(order[np.append(equal, False) | np.insert(equal, 0, False)])
    if len(candidates) == 0:
        return None
    hashes = _hashes(vectors, candidates, block_elements)
    order = np.argsort(hashes, kind="stable")
    candidates = candidates[order]
    firsts = candidates[np.arange(len(order)) - rank_within(hashes[order])]
    same = _equal_rows(vectors, candidates, firsts, block_elements)
    first = np.arange(len(vectors))
    first[candidates[same]] = firsts[same]
    members = np.argsort(first, kind="stable")
    is_first = rank_within(first[members]) == 0
    group = np.empty(len(members), dtype=np.int64)
    group[members] = np.cumsum(is_first) - 1
    return None if is_first.all() else Duplicates(members, np.append(np.flatnonzero(is_first), len(members)), group)


def _hashes(values: NDArray[np.floating], rows: IntArray, block_elements: int) -> NDArray[np.uint64]:
    """Return a hash of each of the rows."""
    width = values.shape[1]
    keys = np.random.default_rng(0).integers(1, 2**63, size=width, dtype=np.uint64) | np.uint64(1)
    hashes = np.empty(len(rows), dtype=np.uint64)
    step = max(1, block_elements // width)
    for start in range(0, len(rows), step):
        block = values[rows[start : start + step]] + values.dtype.type(0)  # 0 and -0 are equal
        bits = block.view(f"u{values.dtype.itemsize}").astype(np.uint64)
        # Round numbers differ in their high bits only, which a product never carries down.
        bits ^= bits >> np.uint64(23) ^ bits >> np.uint64(47)
        hashes[start : start + step] = (bits * keys).sum(axis=1, dtype=np.uint64)
    return hashes


def _equal_rows(
    vectors: NDArray[np.floating], first: IntArray, second: IntArray, block_elements: int
) -> NDArray[np.bool_]:
    """Return whether the vectors of two lists of rows are equal, pair by pair."""
    same = np.empty(len(first), dtype=np.bool_)
    step = max(1, block_elements // vectors.shape[1])
    for start in range(0, len(first), step):
        part = slice(start, start + step)
        same[part] = (vectors[first[part]] == vectors[second[part]]).all(axis=1)
    return same


def rank_within(group: NDArray[np.integer]) -> IntArray:
    """Return 0, 1, 2, … for the elements of each run of equal numbers."""
    positions = np.arange(len(group))
    is_first = np.append(True, group[1:] != group[:-1])[: len(group)]
    return positions - np.maximum.accumulate(np.where(is_first, positions, 0))
