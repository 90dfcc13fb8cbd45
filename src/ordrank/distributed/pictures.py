"""Picture files read by the workers of a cluster, from a path that all of them see."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ordrank._types import BadPicture, Extractor
from ordrank.distributed.engine import Engine, import_distributed
from ordrank.distributed.sharded_samples import itself
from ordrank.errors import ClusterError
from ordrank.features.reading import ReadPicture, read_batch

BATCH = 32
# Batches that are handed out before the first result is taken: what a slow caller leaves waiting stays bounded.
WINDOW = 128
# Seconds in which a scheduler should answer.
TIMEOUT = 10


@contextmanager
def connected(scheduler: str | None, workers: int | None) -> Iterator[Engine]:
    """A cluster: one that runs already, or so many processes of this machine for the time being."""
    distributed = import_distributed()
    if scheduler is not None:
        try:
            client = distributed.Client(scheduler, timeout=TIMEOUT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(f"no Dask scheduler answers at {scheduler}; start it, or correct the address") from error
        with client:
            yield Engine(client)
        return
    settings: dict[str, Any] = {"processes": True, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(n_workers=workers, **settings) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield Engine(client)


def read_pictures_on(
    engine: Engine, files: Sequence[tuple[str, Path]], extractor: Extractor
) -> Iterator[ReadPicture | BadPicture]:
    """Read files one after another in the order given; a lost worker costs the batches that it had.

    Parameters
    ----------
    engine : Engine
    files : sequence of (name, path)
        The paths are those on the workers.
    extractor : Extractor

    Yields
    ------
    ReadPicture or BadPicture
        One for each file.
    """
    with engine.watched():
        there = engine.once(itself, extractor)
        waiting: deque[Any] = deque()
        for start in range(0, len(files), BATCH):
            batch = [(name, os.fspath(path)) for name, path in files[start : start + BATCH]]
            waiting.append(engine.once(read_batch, batch, there))
            if len(waiting) >= WINDOW:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
