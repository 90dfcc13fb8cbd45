"""Samples in shards, local workers, and counters of the cluster benchmarks."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from dask.utils import key_split
from distributed import Client, LocalCluster
from numpy.typing import NDArray

from ordrank._protocols import FloatArray
from ordrank.distributed import Shards

SEED = 11
LIMIT = 10**9  # bytes of memory per worker
N_GRADES = 5


def draw(
    rng: np.random.Generator, rows: int, d: int, dtype: Any, n_grades: int = N_GRADES
) -> tuple[NDArray[Any], FloatArray]:
    """Draw samples with features of falling variance and non-zero mean, and grades that depend on a third of them."""
    X = rng.standard_normal((rows, d), dtype=np.float32).astype(dtype) / np.sqrt(1 + np.arange(d)).astype(dtype)
    latent = X[:, ::3].sum(axis=1) + 0.3 * rng.standard_normal(rows)
    return X + dtype(20), np.digitize(latent, np.linspace(-1.5, 1.5, n_grades - 1)).astype(np.float64)


@contextmanager
def shards_on_disk(rows: int, d: int, n_shards: int, dtype: Any) -> Iterator[Shards]:
    """Write drawn samples to files, one shard at a time."""
    folder = Path(tempfile.mkdtemp(prefix="ordrank-shards-"))
    try:
        rng = np.random.default_rng(SEED)
        for i, (start, stop) in enumerate(pairwise(np.linspace(0, rows, n_shards + 1).astype(int))):
            X, y = draw(rng, stop - start, d, dtype)
            np.save(folder / f"{i:04}.npy", X)
            np.save(folder / f"{i:04}.labels.npy", y)
        yield Shards.from_npy(folder)
    finally:
        shutil.rmtree(folder)


@contextmanager
def two_workers(limit: int = LIMIT) -> Iterator[Client]:
    """Start two worker processes of one thread each."""
    settings = {"processes": True, "threads_per_worker": 1, "memory_limit": limit, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=2, **settings) as cluster, Client(cluster) as client:
        yield client


def peak_memory() -> int:
    """Return the peak resident memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def received(dask_worker: Any) -> dict[str, int]:
    """Return the bytes that a worker received from others, by task."""
    by_task: Counter[str] = Counter()
    for transfer in dask_worker.transfer_incoming_log:
        for key, size in transfer["keys"].items():
            by_task[key_split(key)] += size
    return dict(by_task)


def moved(client: Client) -> dict[str, int]:
    """Return the bytes between workers since they started, by task."""
    total: Counter[str] = Counter()
    for one in client.run(received).values():
        total.update(one)
    return dict(total)
