"""Workers are killed in the middle of each phase; the fit finishes with the same answer. A lost scheduler is said."""

import json
import os
import subprocess
import sys
import time

import pytest

from ordrank import OrdinalMetric
from ordrank.distributed import DaskOrdinalMetric
from ordrank.errors import ClusterError
from ordrank.estimators import order_map, ordinal_metric
from tests.distributed.graded import assert_same, noisy
from tests.distributed.killing import KillScheduler, die, make_mortal

TASKS = {
    "statistics": ("ordrank.distributed.sums", "moments_of_shard", {"kernel": "linear"}),
    "sample": ("ordrank.distributed.sharded_samples", "take_rows", {"kernel": "linear"}),
    "features": ("ordrank.distributed.sums", "moments_of_features", {"kernel": "rbf", "sharpness": 1.0}),
    "neighbours": ("ordrank.distributed.target_neighbors", "nearest_in", {"kernel": "linear", "mu": 0.3}),
    "gradients": ("ordrank.distributed.local_term", "value_and_gradient", {"kernel": "linear", "mu": 0.3}),
}


@pytest.fixture(autouse=True)
def few_drawn(monkeypatch):
    for module in (ordinal_metric, order_map):
        monkeypatch.setattr(module, "SEARCH_SAMPLES", 200)
    monkeypatch.setattr(ordinal_metric, "LANDMARKS", 60)


@pytest.mark.parametrize(("phase", "kills"), [*((phase, 1) for phase in TASKS), ("gradients", 2)])
def test_a_fit_survives_its_workers(phase, kills, mortal_client, in_shards, tmp_path):
    module, task, settings = TASKS[phase]
    X, y = noisy(2500, 8)
    shards = in_shards(X, y, [0, 300, 900, 1700, 2100, 2500])
    flags = [str(tmp_path / f"flag{place}") for place in range(kills)]
    mortal_client.run(make_mortal, module, task, flags)
    metric = DaskOrdinalMetric(alpha=1e-3, **settings).fit(shards, client=mortal_client)
    assert all((tmp_path / f"flag{place}").exists() for place in range(kills)), "nobody was killed"
    assert_same(OrdinalMetric(alpha=1e-3, **settings).fit(X, y), metric, X)


def test_blocks_of_dask_arrays_are_computed_again(mortal_client, tmp_path):
    da = pytest.importorskip("dask.array")
    X, y = noisy(2500, 8)
    mortal_client.run(make_mortal, "ordrank.distributed.sums", "moments_of_shard", [str(tmp_path / "flag")])
    arrays = da.from_array(X, chunks=(400, 8)), da.from_array(y, chunks=400)
    metric = DaskOrdinalMetric(kernel="linear", alpha=1e-3).fit(*arrays, client=mortal_client)
    assert (tmp_path / "flag").exists()
    assert_same(OrdinalMetric(kernel="linear", alpha=1e-3).fit(X, y), metric, X)


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


def test_a_lost_scheduler_is_said_and_nothing_is_changed(mortal_scheduler, in_shards, tmp_path):
    from distributed import Client

    address, scheduler = mortal_scheduler
    X, y = noisy(2500, 8)
    when = tmp_path / "now"
    shards = in_shards(X, y, [0, 1000, 2500]).mapped(KillScheduler(scheduler.pid, when))
    with Client(address, timeout=5, set_as_default=False) as client:
        metric = DaskOrdinalMetric(kernel="linear", alpha=1e-3).fit(shards, client=client)
        before = dict(vars(metric))
        when.touch()
        with pytest.raises(ClusterError, match="was lost during the fit; nothing was changed") as lost:
            metric.set_params(alpha=1e-2).fit(shards, client=client)
    assert address in str(lost.value)
    assert {name: value for name, value in vars(metric).items() if name != "alpha"} == {
        name: value for name, value in before.items() if name != "alpha"
    }


def test_shards_that_kill_their_workers_are_said(mortal_scheduler, in_shards):
    from distributed import Client

    X, y = noisy(400, 4)
    shards = in_shards(X, y, [0, 400]).mapped(die)
    said = pytest.raises(ClusterError, match="workers died again and again at the task survey")
    with Client(mortal_scheduler[0], timeout=5, set_as_default=False) as client, said:
        DaskOrdinalMetric(kernel="linear").fit(shards, client=client)
