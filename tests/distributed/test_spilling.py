"""What a fit holds on the workers may be larger than all their memory: Dask puts it on disk and brings it back."""

import os
from pathlib import Path

import numpy as np
import pytest

from ordrank import OrdinalMetric
from ordrank.distributed import DaskOrdinalMetric
from tests.distributed.conftest import two_workers
from tests.distributed.graded import assert_same, noisy

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

LIMIT = 400 * 10**6


@pytest.fixture
def small_client(request):
    """Workers of which each holds a given share of its limit in memory, the rest on disk."""
    with dask.config.set({"distributed.worker.memory.target": request.param}), two_workers(LIMIT) as client:
        yield client


def peak_memory():
    """Largest resident memory of this process so far, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def moved_to_disk(dask_worker):
    """Bytes that a worker wrote and read so far to have room for others."""
    done = dask_worker.data.cumulative_metrics
    return done["disk-write", "bytes"], done["disk-read", "bytes"]


def fitted_within_limits(client, settings, X, y):
    """The metric, and bytes written and read by each worker; none may be killed or pass its limit."""
    processes = client.run(os.getpid)
    metric = DaskOrdinalMetric(**settings).fit(X, y, client=client)
    assert client.run(os.getpid) == processes, "a worker was replaced"
    assert max(client.run(peak_memory).values()) < LIMIT
    return metric, np.array(list(client.run(moved_to_disk).values()))


def in_blocks(rows, d, n_blocks):
    """Samples and labels that the workers draw, and how to draw the same here."""

    def draw():
        return map(np.concatenate, zip(*(noisy(rows, d, seed=place) for place in range(n_blocks)), strict=True))

    lazy = [dask.delayed(noisy, nout=2)(rows, d, seed=place) for place in range(n_blocks)]
    X = da.concatenate([da.from_delayed(block[0], (rows, d), np.float64) for block in lazy])
    y = da.concatenate([da.from_delayed(block[1], (rows,), np.float64) for block in lazy])
    return X, y, draw


# Python and its packages take 240 MB of 400: this leaves room for what a task needs besides.
@pytest.mark.parametrize("small_client", [0.2], indirect=True)
def test_arrays_larger_than_all_memory_are_fitted(small_client):
    settings = {"kernel": "linear", "alpha": 1e-3}
    lazy, labels, draw = in_blocks(6000, 90, 190)
    assert lazy.nbytes > 2 * LIMIT
    metric, moved = fitted_within_limits(small_client, settings, lazy, labels)
    assert moved.sum(axis=0).min() > lazy.nbytes - 2 * LIMIT
    X, y = draw()
    assert_same(OrdinalMetric(**settings).fit(X, y), metric, X[:5000])


@pytest.mark.parametrize("small_client", [0.005], indirect=True)
def test_what_a_local_term_keeps_goes_to_disk_too(small_client):
    settings = {"kernel": "linear", "alpha": 1e-3, "mu": 0.3}
    lazy, labels, draw = in_blocks(1000, 100, 6)
    metric, moved = fitted_within_limits(small_client, settings, lazy, labels)
    assert metric.n_iter_ > 2
    # Each evaluation brings back the samples of both workers, of which all but 2 MB each were on disk.
    assert moved.sum(axis=0)[1] > metric.n_iter_ * (lazy.nbytes - 0.01 * LIMIT)
    X, y = draw()
    assert_same(OrdinalMetric(**settings).fit(X, y), metric, X)
