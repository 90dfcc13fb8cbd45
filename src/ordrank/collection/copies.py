"""Rows of a collection with identical vectors.

The same picture may lie in a collection many times. Its copies are at the same distance from every query, so that no
bound separates them and a search would compare them all. It looks at the first of them only, and its copies are added
to the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray


@dataclass(frozen=True)
class Copies:
    """Rows with the same vector: only the first of them is searched.

    Attributes
    ----------
    members : ndarray of shape (n,)
        All rows, copies side by side and in rising order.
    starts : ndarray of shape (u + 1,)
        Where the copies of each distinct vector begin among the members.
    group : ndarray of shape (n,)
        Which distinct vector each row is.
    """

    members: IntArray
    starts: IntArray
    group: IntArray

    @property
    def first(self) -> IntArray:
        """First row (u,) of every distinct vector."""
        return self.members[self.starts[:-1]]

    def first_allowed(self, allowed: NDArray[np.bool_]) -> IntArray:
        """First allowed row (u,) of every distinct vector; n where there is none."""
        n = len(self.members)
        first: IntArray = np.minimum.reduceat(np.where(allowed[self.members], self.members, n), self.starts[:-1])
        return first

    def of(
        self, rows: IntArray, distances: FloatArray, k: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[IntArray, FloatArray]:
        """The k best rows, every copy counted, given the best distinct vectors.

        Parameters
        ----------
        rows : ndarray of shape (m,)
            One row of each distinct vector, nearest first; together they have at least k allowed copies.
        distances : ndarray of shape (m,)
        k : int
        allowed : ndarray of shape (n,), bool, optional
            Which rows may be found; all where it is None.

        Returns
        -------
        rows : ndarray of shape (k,)
            Nearest first, equal distances by row number.
        distances : ndarray of shape (k,)
        """
        found: list[IntArray] = []
        measured: list[FloatArray] = []
        n_found = 0
        for row, distance in zip(rows, distances, strict=True):
            if n_found >= k and distance > measured[-1][-1]:
                break
            begin, end = self.starts[self.group[row]], self.starts[self.group[row] + 1]
            copies = self.members[begin:end]
            # A row number stands for its first allowed copy, so that k copies from it on are enough.
            copies = copies[:k] if allowed is None else copies[allowed[copies]][:k]
            found.append(copies)
            measured.append(np.full(len(copies), distance))
            n_found += len(copies)
        every_row, every_distance = np.concatenate(found), np.concatenate(measured)
        best = np.lexsort((every_row, every_distance))[:k]
        return every_row[best], every_distance[best]


def find_copies(vectors: NDArray[np.floating], watched: NDArray[np.floating], block_elements: int) -> Copies | None:
    """Find rows with the same vector.

    Parameters
    ----------
    vectors : ndarray of shape (n, s + d)
    watched : ndarray of shape (n, c)
        Some of their coordinates, best those in which they differ most.
    block_elements : int
        Bound on the elements of any temporary array but one number for each row.

    Returns
    -------
    Copies or None
        None where all vectors differ.
    """
    # Most rows differ already in a few coordinates; only the others are read in full.
    hashes = _hashes(watched, np.arange(len(watched)), block_elements)
    order = np.argsort(hashes)
    again = hashes[order][1:] == hashes[order][:-1]
    suspects = np.unique(order[np.append(again, False) | np.insert(again, 0, False)])
    if len(suspects) == 0:
        return None
    hashes = _hashes(vectors, suspects, block_elements)
    order = np.argsort(hashes, kind="stable")
    suspects = suspects[order]
    leaders = suspects[np.arange(len(order)) - rank_within(hashes[order])]
    same = _equal_rows(vectors, suspects, leaders, block_elements)
    leader = np.arange(len(vectors))
    leader[suspects[same]] = leaders[same]
    members = np.argsort(leader, kind="stable")
    is_first = rank_within(leader[members]) == 0
    group = np.empty(len(members), dtype=np.int64)
    group[members] = np.cumsum(is_first) - 1
    return None if is_first.all() else Copies(members, np.append(np.flatnonzero(is_first), len(members)), group)


def _hashes(values: NDArray[np.floating], rows: IntArray, block_elements: int) -> NDArray[np.uint64]:
    """One number for each of the rows; equal rows have equal numbers."""
    width = values.shape[1]
    keys = np.random.default_rng(0).integers(1, 2**63, size=width, dtype=np.uint64) | np.uint64(1)
    hashes = np.empty(len(rows), dtype=np.uint64)
    step = max(1, block_elements // width)
    for start in range(0, len(rows), step):
        block = values[rows[start : start + step]] + values.dtype.type(0)  # 0 and -0 are equal
        bits = block.view(f"u{values.dtype.itemsize}").astype(np.uint64)
        # Round numbers differ in their high bits only, which a product never brings down.
        bits ^= bits >> np.uint64(23) ^ bits >> np.uint64(47)
        hashes[start : start + step] = (bits * keys).sum(axis=1, dtype=np.uint64)
    return hashes


def _equal_rows(
    vectors: NDArray[np.floating], first: IntArray, second: IntArray, block_elements: int
) -> NDArray[np.bool_]:
    """Whether the vectors of two lists of rows are equal, pair by pair."""
    same = np.empty(len(first), dtype=np.bool_)
    step = max(1, block_elements // vectors.shape[1])
    for start in range(0, len(first), step):
        part = slice(start, start + step)
        same[part] = (vectors[first[part]] == vectors[second[part]]).all(axis=1)
    return same


def rank_within(group: NDArray[np.integer]) -> IntArray:
    """Position of each element among its equals.

    Parameters
    ----------
    group : ndarray of shape (m,)
        Equal numbers lie side by side.

    Returns
    -------
    ndarray of shape (m,)
        0 for the first of its equals, 1 for the second, and so on.
    """
    places = np.arange(len(group))
    is_first = np.append(True, group[1:] != group[:-1])[: len(group)]
    return places - np.maximum.accumulate(np.where(is_first, places, 0))
