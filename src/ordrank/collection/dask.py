"""Read pictures, train and search collections on a Dask cluster, whose workers see the files under the same paths."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import Extractor
from ordrank.collection.access import read_store
from ordrank.collection.database import is_collection
from ordrank.collection.ingest.reading import ReadPicture, read_batch
from ordrank.collection.search import Searcher
from ordrank.collection.snapshot import Snapshot
from ordrank.collection.store import Store
from ordrank.collection.types import BadPicture, Header
from ordrank.distributed.engine import Engine, import_distributed
from ordrank.distributed.index import ShardedIndex, ShardIndex, index_shard_embeddings
from ordrank.errors import ClusterError, CollectionError

# Pictures per shard: at most some hundred megabytes with their index, at least enough to be worth a task.
MAX_ROWS, MIN_ROWS = 250_000, 5_000
BATCH = 32
# Seconds to wait for a scheduler.
TIMEOUT = 10


@contextmanager
def connected(scheduler: str | None, workers: int | None) -> Iterator[Engine]:
    """Connect to a running scheduler, or start a cluster of worker processes on this machine."""
    distributed = import_distributed()
    local = {"n_workers": workers, "processes": True, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**local) if scheduler is None else nullcontext(scheduler) as address:
        try:
            client = distributed.Client(address, timeout=TIMEOUT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(f"no Dask scheduler at {address}; start it, or correct the address") from error
        with client:
            yield Engine(client)


def read_pictures_on(
    engine: Engine, files: Sequence[tuple[str, Path]], extractor: Extractor
) -> Iterator[ReadPicture | BadPicture]:
    """Read pictures in the given order; the batches of a lost worker are read again.

    Parameters
    ----------
    engine : Engine
    files : sequence of (name, path)
        Paths as the workers see them.
    extractor : Extractor

    Yields
    ------
    ReadPicture or BadPicture
        One per file.
    """
    paths = [(name, os.fspath(path)) for name, path in files]
    batches = (paths[start : start + BATCH] for start in range(0, len(paths), BATCH))
    for outcomes in engine.map_in_order(read_batch, batches, extractor):
        yield from outcomes


class ClusterExecutor:
    """Runs blocks of a training on the workers of a cluster; an :class:`~ordrank.collection.executor.Executor`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def map(self, task: Callable[..., Any], blocks: Iterable[Any], *common: Any) -> Iterator[Any]:
        """Yield ``task(block, *common)`` for each block, in order; the blocks of a lost worker are repeated."""
        return self._engine.map_in_order(task, blocks, *common)

    def feature_reader(self, store: Store) -> StoredFeatures:
        """Return a function with which workers read the features that the store reads."""
        store.checkpoint()
        return StoredFeatures(store.directory.absolute(), store.serial, store.header, store.features_table)


@dataclass(frozen=True)
class StoredFeatures:
    """Reads the features of a collection; workers raise CollectionError if they see an earlier state than ``serial``.

    Later ones differ in grades only, while a training holds the lock of writers.
    """

    directory: Path
    serial: int
    header: Header
    table: str

    def __call__(self, ids: range) -> Iterator[NDArray[np.float32]]:
        """Yield the features of pictures with ids in a range, in blocks (b, dim)."""
        with _read_shared_store(self.directory) as store:
            if store.serial < self.serial:
                raise _changed(self.directory)
            store.header, store.features_table = self.header, self.table
            yield from store.features(ids)


@contextmanager
def cluster_searcher(
    directory: Path, snapshot: Snapshot, scheduler: str | None, workers: int | None
) -> Iterator[Searcher]:
    """Index the embeddings of a collection on a cluster, see :func:`connected`, and search them there.

    Parameters
    ----------
    directory : Path
    snapshot : Snapshot
        Without vectors: these stay with the workers.
    scheduler, workers : str and int, optional
    """
    with (
        connected(scheduler, workers) as engine,
        engine.translate_errors("search"),
        read_store(directory) as store,
    ):
        if store.serial != snapshot.serial:
            raise _changed(directory)
        yield Searcher(snapshot, shard_collection(engine, store, snapshot.trained_model.n_order))


def shard_collection(engine: Engine, store: Store, n_order: int) -> ShardedIndex:
    """Let workers read and index the embeddings of a collection, each a range of ids.

    Parameters
    ----------
    engine : Engine
    store : Store
        Workers raise CollectionError if they read another state than this one.
    n_order : int
        Number of ordinal coordinates.
    """
    ids, threads = store.id_range(), sum(engine.client.nthreads().values())
    n_shards = max(1, -(-len(ids) // MAX_ROWS), min(threads, len(ids) // MIN_ROWS))
    bounds = np.linspace(ids.start, ids.stop, n_shards + 1).astype(np.int64).tolist()
    ranges = [range(start, stop) for start, stop in pairwise(bounds)]
    state = (store.serial, store.header.model)
    directory = store.directory.absolute()
    return ShardedIndex(engine, engine.map(index_range, ranges, directory=directory, state=state, n_order=n_order))


def index_range(ids: range, directory: Path, state: tuple[int, str | None], n_order: int) -> ShardIndex | None:
    """Read and index the embeddings with ids in a range; return None if there are none."""
    with _read_shared_store(directory) as store:
        if (store.serial, store.header.model) != state:
            raise _changed(directory)
        embeddings = store.embeddings(ids)
    return index_shard_embeddings(embeddings, n_order) if len(embeddings.ids) else None


@contextmanager
def _read_shared_store(directory: Path) -> Iterator[Store]:
    """Open a collection in a worker. Raise ClusterError if the worker does not see it."""
    if not is_collection(directory):
        raise ClusterError(f"the worker on {platform.node()} does not see {directory}; all must see it under that path")
    with read_store(directory) as store:
        yield store


def _changed(directory: Path) -> CollectionError:
    return CollectionError(f"{directory} changed while it was being read; try again")
