"""Where the parts of a training run that grow with the number of pictures: in this process, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ordrank.collection.store import Store

# From a range of ids to blocks (b, dim) of the features of its pictures, by ascending id.
ReadRange: TypeAlias = Callable[[range], Iterator[NDArray[np.float32]]]


class Executor(Protocol):
    """Runs a function on blocks of pictures."""

    def map(self, task: Callable[..., Any], blocks: Iterable[Any], *common: Any) -> Iterator[Any]:
        """Yield ``task(block, *common)`` for each block, in order."""

    def feature_reader(self, store: Store) -> ReadRange:
        """Return a function for the arguments of tasks that reads the features of the pictures of a store."""


class LocalExecutor:
    """Runs one block after the other in this process."""

    def map(self, task: Callable[..., Any], blocks: Iterable[Any], *common: Any) -> Iterator[Any]:
        """Yield ``task(block, *common)`` for each block."""
        return (task(block, *common) for block in blocks)

    def feature_reader(self, store: Store) -> ReadRange:
        """Return the method of the store."""
        return store.features


LOCAL = LocalExecutor()
