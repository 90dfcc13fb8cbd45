"""Results that are computed once for each snapshot."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from ordrank.collection.live import LiveSnapshot
from ordrank.collection.snapshot import Snapshot

_T = TypeVar("_T")


class PerSnapshot(Generic[_T]):
    """A result that is computed anew after each change; safe to use from several threads.

    Parameters
    ----------
    live : LiveSnapshot
    compute : callable
        Returns the result for a snapshot.
    """

    def __init__(self, live: LiveSnapshot, compute: Callable[[Snapshot], _T]) -> None:
        self._live, self._compute, self._computing = live, compute, Lock()
        # Of the last snapshot only: the keys are weak.
        self._results: WeakKeyDictionary[Snapshot, _T] = WeakKeyDictionary()

    def current(self) -> _T:
        """Return the result for the current snapshot."""
        with self._computing:
            snapshot = self._live.current()
            if snapshot not in self._results:
                self._results[snapshot] = self._compute(snapshot)
            return self._results[snapshot]
