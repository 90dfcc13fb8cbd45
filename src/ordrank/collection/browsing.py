"""Listing the pictures of a collection: filters, orders and pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.collection.types import ListRequest, PicturePage
from ordrank.errors import InputError

if TYPE_CHECKING:
    from ordrank.collection.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class PictureOrders:
    """Orders of n pictures; pictures without the value that counts come last, equal ones are ordered by name.

    Attributes
    ----------
    names : tuple of n str
    name_ranks, times : ndarray of shape (n,)
        Rank by name, and modification time of the file.
    values, estimates, widths : ndarray of shape (n,)
        Given or else estimated grade, estimated grade, and width of its interval; NaN for none.
    coordinates : ndarray of shape (n,)
        Leading ordinal coordinate of the embedding; NaN for none.
    """

    names: tuple[str, ...]
    name_ranks: IntArray
    times: IntArray
    values: FloatArray
    estimates: FloatArray
    widths: FloatArray
    coordinates: FloatArray

    @cached_property
    def grade(self) -> IntArray:
        """Rows by grade."""
        return np.lexsort((self.name_ranks, self.values))

    @cached_property
    def spectrum(self) -> IntArray:
        """Rows from the lowest to the highest: by grade, and within a grade by the learned order."""
        known = ~np.isnan(self.values) & ~np.isnan(self.coordinates)
        rising = not known.any() or np.cov(self.values[known], self.coordinates[known], bias=True)[0, 1] >= 0
        return np.lexsort((self.name_ranks, self.coordinates if rising else -self.coordinates, self.values))

    @cached_property
    def estimate(self) -> IntArray:
        """Rows by estimated grade."""
        return np.lexsort((self.name_ranks, self.estimates))

    @cached_property
    def certainty(self) -> IntArray:
        """Rows by certainty of the estimate, the least certain first."""
        return np.lexsort((self.name_ranks, -self.widths))

    @cached_property
    def name(self) -> IntArray:
        """Rows by name."""
        return np.argsort(self.name_ranks)

    @cached_property
    def date(self) -> IntArray:
        """Rows by modification time of the file."""
        return np.lexsort((self.name_ranks, self.times))

    @cached_property
    def lower_names(self) -> list[str]:
        """Names without upper case."""
        return [name.casefold() for name in self.names]


_ORDERS: dict[str, Callable[[PictureOrders], IntArray]] = {
    "grade": lambda orders: orders.grade,
    "spectrum": lambda orders: orders.spectrum,
    "estimate": lambda orders: orders.estimate,
    "certainty": lambda orders: orders.certainty,
    "name": lambda orders: orders.name,
    "date": lambda orders: orders.date,
}
# What counts in an order, where not every picture has it.
_VALUES: dict[str, Callable[[PictureOrders], FloatArray]] = {
    "grade": lambda orders: orders.values,
    "spectrum": lambda orders: orders.values,
    "estimate": lambda orders: orders.estimates,
    "certainty": lambda orders: orders.widths,
}


def list_pictures(snapshot: Snapshot, request: ListRequest) -> PicturePage:
    """Return a page of the pictures that match a request, in its order."""
    rows = matching_rows(snapshot, request)
    page = rows[request.offset :: request.step][: request.limit]
    return PicturePage(len(rows), tuple(snapshot.picture(row) for row in page.tolist()))


def matching_rows(snapshot: Snapshot, request: ListRequest) -> IntArray:
    """Return the rows of the pictures that match a request, in its order."""
    if request.sort not in _ORDERS:
        raise InputError(f"pictures are not sorted by {request.sort!r}, but by {', '.join(_ORDERS)}")
    rows = _ORDERS[request.sort](snapshot.orders)
    if request.descending and request.sort in _VALUES:
        is_known = ~np.isnan(_VALUES[request.sort](snapshot.orders)[rows])
        rows = np.concatenate([rows[is_known][::-1], rows[~is_known]])
    elif request.descending:
        rows = rows[::-1]
    return rows[_matches(snapshot, request)[rows]]


def _matches(snapshot: Snapshot, request: ListRequest) -> NDArray[np.bool_]:
    matches = np.ones(len(snapshot.images.ids), dtype=np.bool_)
    if request.grade is not None:
        matches &= snapshot.has_grade(snapshot.parse_grade(request.grade))
    if request.given is not None:
        matches &= np.isnan(snapshot.grades) != request.given
    if request.search:
        words = request.search.casefold().split()
        names = snapshot.orders.lower_names
        matches &= np.fromiter((all(word in name for word in words) for name in names), np.bool_, len(names))
    return matches
