"""Workers are killed in the middle of each phase; the fit finishes with the same answer. A lost scheduler is said."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from ordrank import OrdinalMetric
from ordrank.distributed import DaskOrdinalMetric, DaskPCA
from ordrank.errors import ClusterError
from ordrank.estimators import order_fit, order_map
from tests.distributed.graded import assert_same, noisy
from tests.distributed.killing import KillScheduler, die, make_mortal

LOCAL = {"kernel": "linear", "mu": 0.3}
TASKS = {
    "survey": ("ordrank.distributed.sums", "survey", {"kernel": "linear"}),
    "statistics": ("ordrank.distributed.sums", "moments_of_shard", {"kernel": "linear"}),
    "sample": ("ordrank.distributed.sharded_samples", "take_rows", {"kernel": "linear"}),
    "features": ("ordrank.distributed.sums", "moments_of_features", {"kernel": "rbf", "sharpness": 1.0}),
    "neighbours": ("ordrank.distributed.target_neighbors", "nearest_in", LOCAL),
    "shares": ("ordrank.distributed.local_term", "prepare", LOCAL),
    "gradients": ("ordrank.distributed.local_term", "value_and_gradient", LOCAL),
    "lines": ("ordrank.distributed.local_term", "line_polynomial", LOCAL),
}


@pytest.fixture(autouse=True)
def few_drawn(monkeypatch):
    for module in (order_fit, order_map):
        monkeypatch.setattr(module, "SEARCH_SAMPLES", 200)
    monkeypatch.setattr(order_fit, "LANDMARKS", 60)


@pytest.mark.parametrize("kills", [1, 2])
@pytest.mark.parametrize("phase", TASKS)
def test_a_fit_survives_its_workers(phase, kills, mortal_client, in_shards, tmp_path):
    module, task, settings = TASKS[phase]
    X, y = noisy(2500, 8)
    shards = in_shards(X, y, [0, 300, 900, 1700, 2100, 2500])
    flags = [str(tmp_path / f"flag{place}") for place in range(kills)]
    mortal_client.run(make_mortal, module, task, flags)
    metric = DaskOrdinalMetric(alpha=1e-3, **settings).fit(shards, client=mortal_client)
    assert all((tmp_path / f"flag{place}").exists() for place in range(kills)), "nobody was killed"
    assert_same(OrdinalMetric(alpha=1e-3, **settings).fit(X, y), metric, X)


@pytest.mark.parametrize("task", ["survey", "moments_of_shard"])
def test_principal_components_survive_workers(task, mortal_client, in_shards, tmp_path):
    X, y = noisy(2500, 8)
    mortal_client.run(make_mortal, "ordrank.distributed.sums", task, [str(tmp_path / "flag")])
    pca = DaskPCA(3).fit(in_shards(X, y, [0, 300, 300, 1700, 2500]), client=mortal_client)
    assert (tmp_path / "flag").exists()
    np.testing.assert_allclose(pca.components_, PCA(3, svd_solver="full").fit(X).components_, atol=1e-10)


def test_blocks_of_dask_arrays_are_computed_again(mortal_client, tmp_path):
    da = pytest.importorskip("dask.array")
    X, y = noisy(2500, 8)
    mortal_client.run(make_mortal, "ordrank.distributed.sums", "moments_of_shard", [str(tmp_path / "flag")])
    arrays = da.from_array(X, chunks=(400, 8)), da.from_array(y, chunks=400)
    metric = DaskOrdinalMetric(kernel="linear", alpha=1e-3).fit(*arrays, client=mortal_client)
    assert (tmp_path / "flag").exists()
    assert_same(OrdinalMetric(kernel="linear", alpha=1e-3).fit(X, y), metric, X)


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
        with pytest.raises(ClusterError, match="was lost during the fit; nothing you had is gone") as lost:
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
