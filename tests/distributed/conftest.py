"""Clusters of real processes, and data in shards."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'ordrank[dask]'")


@contextmanager
def two_workers(memory_limit=10**9):
    """A client of two workers, each a process of its own with a nanny that replaces it when it dies."""
    settings = {"processes": True, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(n_workers=2, memory_limit=memory_limit, **settings) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture(scope="session")
def client():
    """A cluster for all who leave it whole."""
    with two_workers() as client:
        yield client


@pytest.fixture
def mortal_client():
    """A cluster whose workers may be killed: a nanny does not always bring back one that dies."""
    with two_workers() as client:
        yield client


@pytest.fixture
def mortal_scheduler(tmp_path):
    """A scheduler and a worker in processes of their own; address and process of the scheduler."""
    where, common = tmp_path / "scheduler.json", [sys.executable, "-m"]
    once = os.environ | {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    scheduler = subprocess.Popen(
        [*common, "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(where)],
        stderr=subprocess.DEVNULL,
        env=once,
    )
    worker = subprocess.Popen(
        [*common, "distributed.cli.dask_worker", "--no-nanny", "--no-dashboard", "--scheduler-file", str(where)],
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while not where.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    yield json.loads(where.read_text())["address"], scheduler
    for process in (worker, scheduler):
        process.kill()
        process.wait()


@pytest.fixture
def in_shards(tmp_path):
    """Write samples and labels into files of NumPy, cut at given rows."""
    from ordrank.distributed import Shards

    def write(X, y, bounds, weights=None):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for place, (start, stop) in enumerate(pairwise(bounds)):
            np.save(folder / f"{place:03}.npy", X[start:stop])
            np.save(folder / f"{place:03}.labels.npy", y[start:stop])
            if weights is not None:
                np.save(folder / f"{place:03}.weights.npy", weights[start:stop])
        return Shards.from_npy(folder)

    return write
