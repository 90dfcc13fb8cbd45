"""A fit may hold more than the memory of all workers: Dask spills it to disk."""

import os
from pathlib import Path

import numpy as np
import pytest

from ordrank import OrdinalMetric
from ordrank.distributed import DaskOrdinalMetric
from tests.distributed.clusters import two_workers
from tests.distributed.samples import assert_same_metric, make_ordinal

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

LIMIT = 400 * 10**6


@pytest.fixture
def small_client(request):
    """Return a client of workers that keep a given share of their memory limit and spill the rest."""
    with dask.config.set({"distributed.worker.memory.target": request.param}), two_workers(LIMIT) as client:
        yield client


def peak_memory():
    """Return the peak resident memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def spilled(dask_worker):
    """Return the bytes that a worker spilled to disk and read back."""
    metrics = dask_worker.data.cumulative_metrics
    return metrics["disk-write", "bytes"], metrics["disk-read", "bytes"]


def fit_within_limits(client, settings, X, y):
    """Return the metric and the bytes spilled and read back by each worker, which must stay within its limit."""
    processes = client.run(os.getpid)
    metric = DaskOrdinalMetric(**settings).fit(X, y, client=client)
    assert client.run(os.getpid) == processes, "a worker was replaced"
    assert max(client.run(peak_memory).values()) < LIMIT
    return metric, np.array(list(client.run(spilled).values()))


def in_blocks(rows, d, n_blocks):
    """Return samples and labels that workers draw, and a function that draws the same here."""

    def draw():
        return map(np.concatenate, zip(*(make_ordinal(rows, d, seed=seed) for seed in range(n_blocks)), strict=True))

    lazy = [dask.delayed(make_ordinal, nout=2)(rows, d, seed=seed) for seed in range(n_blocks)]
    X = da.concatenate([da.from_delayed(block[0], (rows, d), np.float64) for block in lazy])
    y = da.concatenate([da.from_delayed(block[1], (rows,), np.float64) for block in lazy])
    return X, y, draw


# Python and its packages take 240 MB of 400: this leaves memory for the tasks.
@pytest.mark.parametrize("small_client", [0.2], indirect=True)
def test_dask_arrays_may_exceed_the_memory_of_all_workers(small_client):
    settings = {"kernel": "linear", "alpha": 1e-3}
    lazy, labels, draw = in_blocks(6000, 90, 190)
    assert lazy.nbytes > 2 * LIMIT
    metric, on_disk = fit_within_limits(small_client, settings, lazy, labels)
    assert on_disk.sum(axis=0).min() > lazy.nbytes - 2 * LIMIT
    X, y = draw()
    assert_same_metric(OrdinalMetric(**settings).fit(X, y), metric, X[:5000])


@pytest.mark.parametrize("small_client", [0.005], indirect=True)
def test_terms_of_the_local_objective_are_spilled(small_client):
    settings = {"kernel": "linear", "alpha": 1e-3, "mu": 0.3}
    lazy, labels, draw = in_blocks(1000, 100, 6)
    metric, on_disk = fit_within_limits(small_client, settings, lazy, labels)
    assert metric.n_iter_ > 2
    # Each evaluation reads the samples of both workers, all but 2 MB of each from disk.
    assert on_disk.sum(axis=0)[1] > metric.n_iter_ * (lazy.nbytes - 0.01 * LIMIT)
    X, y = draw()
    assert_same_metric(OrdinalMetric(**settings).fit(X, y), metric, X)
