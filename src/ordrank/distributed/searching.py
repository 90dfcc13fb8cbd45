"""Graded places in parts on the workers of a cluster: each answers with its k best, and the best of these are found.

A part is read, mapped and indexed by a task, so that a part that is lost with its worker is made again by another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.collection.index import ExactIndex
from ordrank.collection.records import Places
from ordrank.collection.searching import ALL, Among, Found, SearchedPlaces, merge
from ordrank.collection.store import Store, read_store
from ordrank.distributed.engine import SMALL_FAN_IN, Engine
from ordrank.distributed.sizes import bytes_of
from ordrank.errors import CollectionError

# Rows of a collection in one part: at most, some hundred megabytes with their index, and as few as are worth a task.
PART_ROWS, FEWEST_ROWS = 250_000, 5_000


@dataclass(frozen=True, eq=False)
class Part:
    """Places of one shard, ready to be searched."""

    searched: SearchedPlaces

    def __sizeof__(self) -> int:
        places = self.searched.places
        return bytes_of([places.ids, places.grades, places.estimates, self.searched.index])  # with the vectors


class Summary(NamedTuple):
    """What the client knows of a part: first number, width of the vectors, distinct given grades."""

    first: int
    width: int
    labels: FloatArray


class ShardedPlaces:
    """Places on a cluster, see :class:`~ordrank.collection.searching.Searchable`.

    Parameters
    ----------
    engine : Engine
    parts : list
        Futures of parts whose numbers rise from part to part; None for a part without places.
    """

    def __init__(self, engine: Engine, parts: list[Any]) -> None:
        summaries = engine.gather(engine.each(summarize, parts))
        there = [(part, found) for part, found in zip(parts, summaries, strict=True) if found is not None]
        self._engine, self._parts = engine, [part for part, _ in there]
        self._first = np.array([found.first for _, found in there], dtype=np.int64)
        self._width = there[0][1].width if there else 0
        self.labels: FloatArray = np.unique(np.concatenate([np.empty(0), *(found.labels for _, found in there)]))

    def nearest(self, queries: NDArray[np.floating], k: int, among: Among = ALL, *, but: int | None = None) -> Found:
        """The k places nearest to each query; of every part its k best move."""
        answers = self._engine.each(nearest_in, self._parts, queries=queries, k=k, among=among, but=but)
        found: Found = self._engine.total(partial(merge, k), answers, SMALL_FAN_IN)
        return found

    def take(self, ids: IntArray) -> NDArray[np.floating]:
        """Vectors (m, s + d) of the places with these numbers."""
        if not len(ids):
            return np.empty((0, self._width))
        home = np.searchsorted(self._first, ids, side="right") - 1
        asked = np.unique(home)
        wanted = [ids[home == part] for part in asked]
        taken = self._engine.gather(self._engine.each(take_from, [self._parts[part] for part in asked], wanted))
        vectors = np.empty((len(ids), self._width), dtype=taken[0].dtype)
        for part, rows in zip(asked, taken, strict=True):
            vectors[home == part] = rows
        return vectors


def summarize(part: Part | None) -> Summary | None:
    """Say what a part holds."""
    if part is None:
        return None
    places = part.searched.places
    return Summary(int(places.ids[0]), places.vectors.shape[1], part.searched.labels)


def nearest_in(part: Part, queries: NDArray[np.floating], k: int, among: Among, but: int | None) -> Found:
    """The k places of a part nearest to each query."""
    return part.searched.nearest(queries, k, among, but=but)


def take_from(part: Part, ids: IntArray) -> NDArray[np.floating]:
    """Vectors of some places of a part."""
    return part.searched.take(ids)


def shard_collection(engine: Engine, store: Store, n_order: int) -> ShardedPlaces:
    """Let workers read the places of a collection, each a range of numbers, from a path that all of them see.

    Parameters
    ----------
    engine : Engine
    store : Store
        What the workers read must be in the state that is seen here.
    n_order : int
        Coordinates of the order.
    """
    numbers, threads = store.numbers(), sum(engine.client.nthreads().values())
    n_parts = max(1, -(-len(numbers) // PART_ROWS), min(threads, len(numbers) // FEWEST_ROWS))
    bounds = np.linspace(numbers.start, numbers.stop, n_parts + 1).astype(np.int64).tolist()
    ranges = [range(*bounds[place : place + 2]) for place in range(n_parts)]
    state = (store.serial, store.header.model)
    parts = engine.each(read_part, ranges, directory=store.directory.absolute(), state=state, n_order=n_order)
    return ShardedPlaces(engine, parts)


def read_part(numbers: range, directory: Path, state: tuple[int, str | None], n_order: int) -> Part | None:
    """Read and index the places with numbers in a range; None if there are none."""
    with read_store(directory) as store:
        if (store.serial, store.header.model) != state:
            raise CollectionError(f"{directory} was changed while it was being read; ask again")
        places = store.places(numbers)
    return index_part(places, n_order) if len(places.ids) else None


def index_part(places: Places, n_order: int) -> Part:
    """Make places ready to be searched."""
    return Part(SearchedPlaces(places, ExactIndex(places.vectors, n_order)))
