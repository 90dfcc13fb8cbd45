"""Search embeddings on the workers of a cluster: every shard returns its k nearest, which are merged.

Tasks read, embed and index each shard, so that the index of a lost worker is built again by another.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.distributed._sizeof import ArraySizeof
from ordrank.distributed.engine import SMALL_FAN_IN, Engine
from ordrank.neighbors.index import ExactIndex
from ordrank.neighbors.search import ALL, Embeddings, Filter, Hits, InMemoryIndex, merge


class ShardIndex(ArraySizeof, InMemoryIndex):
    """Embeddings of one shard in the memory of a worker."""


class ShardedIndex:
    """Embeddings on a cluster, a :class:`~ordrank.neighbors.search.VectorIndex`.

    Parameters
    ----------
    engine : Engine
    shards : list of futures of ShardIndex or None
        Ids ascend from shard to shard; None for a shard without embeddings.
    """

    def __init__(self, engine: Engine, shards: list[Any]) -> None:
        results = zip(shards, engine.gather(engine.map(summarize, shards)), strict=True)
        kept = [(shard, *summary) for shard, summary in results if summary is not None]
        self._engine, self._shards = engine, [shard for shard, *_ in kept]
        self._first_ids = np.array([first_id for _, first_id, _, _ in kept], dtype=np.int64)
        self._width = kept[0][2] if kept else 0
        self.labels: FloatArray = np.unique(np.concatenate([np.empty(0), *(labels for *_, labels in kept)]))

    def nearest(
        self, queries: NDArray[np.floating], k: int, where: Filter = ALL, *, exclude: int | None = None
    ) -> Hits:
        """Return the k embeddings nearest to each query (q, s + d); k hits per shard and query move."""
        hits = self._engine.map(search_shard, self._shards, queries=queries, k=k, where=where, exclude=exclude)
        merged: Hits = self._engine.tree_reduce(partial(merge, k), hits, SMALL_FAN_IN)
        return merged

    def take(self, ids: IntArray) -> NDArray[np.floating]:
        """Return the vectors (m, s + d) with these ids."""
        if not len(ids):
            return np.empty((0, self._width))
        owner = np.searchsorted(self._first_ids, ids, side="right") - 1
        owners = np.unique(owner)
        taken = self._engine.map(
            take_vectors, [self._shards[shard] for shard in owners], [ids[owner == shard] for shard in owners]
        )
        order = np.argsort(owner, kind="stable")  # rows come by shard
        return np.concatenate(self._engine.gather(taken))[np.argsort(order)]


def summarize(shard: ShardIndex | None) -> tuple[int, int, FloatArray] | None:
    """Return lowest id, width of the vectors and distinct given grades of a shard; None if it is empty."""
    if shard is None:
        return None
    return int(shard.embeddings.ids[0]), shard.embeddings.vectors.shape[1], shard.labels


def search_shard(shard: ShardIndex, queries: NDArray[np.floating], k: int, where: Filter, exclude: int | None) -> Hits:
    """Return the k embeddings of a shard nearest to each query."""
    return shard.nearest(queries, k, where, exclude=exclude)


def take_vectors(shard: ShardIndex, ids: IntArray) -> NDArray[np.floating]:
    """Return some vectors of a shard."""
    return shard.take(ids)


def index_shard_embeddings(embeddings: Embeddings, n_order: int) -> ShardIndex:
    """Build the index of a shard; the first ``n_order`` coordinates are ordinal."""
    return ShardIndex(embeddings, ExactIndex(embeddings.vectors, n_order))
