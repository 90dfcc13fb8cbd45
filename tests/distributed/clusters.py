"""Clusters of real processes, and samples in shards."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest

from ordrank.distributed import Shards


@contextmanager
def two_workers(memory_limit=10**9):
    """Start two worker processes, each with a nanny that restarts it; yield a client."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'ordrank[dask]'")
    settings = {"processes": True, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(n_workers=2, memory_limit=memory_limit, **settings) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield client
        loop = cluster._loop_runner._loop_thread
        if not loop._thread.is_alive():
            loop.join()  # raises what has ended it


@pytest.fixture(scope="module")
def client():
    """Return a client of a shared cluster whose workers must not be killed.

    Of a module, not of the session: in one session of many, something in thousands of later tests ends its event loop.
    """
    with two_workers() as client:
        yield client


@pytest.fixture
def killable_client():
    """Return a client of a cluster of its own: a nanny does not always restart a worker that was killed."""
    with two_workers() as client:
        yield client


@pytest.fixture
def killable_scheduler(tmp_path):
    """Return address and process of a scheduler that has one worker."""
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'ordrank[dask]'")
    file, common = tmp_path / "scheduler.json", [sys.executable, "-m"]
    options = ["--no-dashboard", "--scheduler-file", str(file)]
    scheduler = subprocess.Popen(
        [*common, "distributed.cli.dask_scheduler", "--port", "0", *options],
        stderr=subprocess.DEVNULL,
        env=os.environ | {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"},
    )
    worker = subprocess.Popen(
        [*common, "distributed.cli.dask_worker", "--no-nanny", *options], stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 30
    while not (file.exists() and file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    yield json.loads(file.read_text())["address"], scheduler
    for process in (worker, scheduler):
        process.kill()
        process.wait()


@pytest.fixture
def in_shards(tmp_path):
    """Return a function that writes samples and labels to NumPy files, split at given rows."""

    def write(X, y, bounds, weights=None):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for number, (start, stop) in enumerate(pairwise(bounds)):
            np.save(folder / f"{number:03}.npy", X[start:stop])
            np.save(folder / f"{number:03}.labels.npy", y[start:stop])
            if weights is not None:
                np.save(folder / f"{number:03}.weights.npy", weights[start:stop])
        return Shards.from_npy(folder)

    return write
