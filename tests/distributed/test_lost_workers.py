"""A fit survives workers killed in each of its phases; a lost scheduler leaves the estimator unchanged."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from ordrank import OrdinalMetric
from ordrank.distributed import DaskOrdinalMetric, DaskPCA
from ordrank.errors import ClusterError
from tests.distributed.fault_injection import KillIfFileExists, kill_self, kill_workers_at
from tests.distributed.samples import assert_same_metric, make_ordinal

pytestmark = pytest.mark.usefixtures("small_model_selection")
LOCAL = {"kernel": "linear", "mu": 0.3}
TASKS = {
    "survey": ("ordrank.distributed.shard_stats", "survey", {"kernel": "linear"}),
    "statistics": ("ordrank.distributed.shard_stats", "moments_of_shard", {"kernel": "linear"}),
    "sample": ("ordrank.distributed.sharded_data", "take_rows", {"kernel": "linear"}),
    "features": ("ordrank.distributed.shard_stats", "moments_of_features", {"kernel": "rbf", "sharpness": 1.0}),
    "neighbours": ("ordrank.distributed.target_neighbors", "update_nearest", LOCAL),
    "local terms": ("ordrank.distributed.local_term", "build_term", LOCAL),
    "gradients": ("ordrank.distributed.local_term", "value_and_gradient", LOCAL),
    "line searches": ("ordrank.distributed.local_term", "line_polynomial", LOCAL),
}


@pytest.mark.parametrize("kills", [1, 2])
@pytest.mark.parametrize("phase", TASKS)
def test_fit_survives_killed_workers(phase, kills, killable_client, in_shards, tmp_path):
    module, task, settings = TASKS[phase]
    X, y = make_ordinal(2500, 8)
    shards = in_shards(X, y, [0, 300, 900, 1700, 2100, 2500])
    flags = [tmp_path / f"flag{number}" for number in range(kills)]
    killable_client.run(kill_workers_at, module, task, list(map(str, flags)))
    metric = DaskOrdinalMetric(alpha=1e-3, **settings).fit(shards, client=killable_client)
    assert all(flag.exists() for flag in flags), "no worker was killed"
    assert_same_metric(OrdinalMetric(alpha=1e-3, **settings).fit(X, y), metric, X)


@pytest.mark.parametrize("task", ["survey", "moments_of_shard"])
def test_pca_survives_killed_workers(task, killable_client, in_shards, tmp_path):
    X, y = make_ordinal(2500, 8)
    killable_client.run(kill_workers_at, "ordrank.distributed.shard_stats", task, [str(tmp_path / "flag")])
    pca = DaskPCA(3).fit(in_shards(X, y, [0, 300, 300, 1700, 2500]), client=killable_client)
    assert (tmp_path / "flag").exists()
    np.testing.assert_allclose(pca.components_, PCA(3, svd_solver="full").fit(X).components_, atol=1e-10)


def test_lost_blocks_of_dask_arrays_are_recomputed(killable_client, tmp_path):
    da = pytest.importorskip("dask.array")
    X, y = make_ordinal(2500, 8)
    flag = tmp_path / "flag"
    killable_client.run(kill_workers_at, "ordrank.distributed.shard_stats", "moments_of_shard", [str(flag)])
    arrays = da.from_array(X, chunks=(400, 8)), da.from_array(y, chunks=400)
    metric = DaskOrdinalMetric(kernel="linear", alpha=1e-3).fit(*arrays, client=killable_client)
    assert flag.exists()
    assert_same_metric(OrdinalMetric(kernel="linear", alpha=1e-3).fit(X, y), metric, X)


def test_lost_scheduler_leaves_the_estimator_unchanged(killable_scheduler, in_shards, tmp_path):
    from distributed import Client

    address, scheduler = killable_scheduler
    X, y = make_ordinal(2500, 8)
    signal = tmp_path / "signal"
    shards = in_shards(X, y, [0, 1000, 2500]).map(KillIfFileExists(scheduler.pid, signal))
    with Client(address, timeout=5, set_as_default=False) as client:
        metric = DaskOrdinalMetric(kernel="linear", alpha=1e-3).fit(shards, client=client)
        before = dict(vars(metric))
        signal.touch()
        with pytest.raises(ClusterError, match="was lost during the fit; no data was lost") as lost:
            metric.set_params(alpha=1e-2).fit(shards, client=client)
    assert address in str(lost.value)
    assert {name: value for name, value in vars(metric).items() if name != "alpha"} == {
        name: value for name, value in before.items() if name != "alpha"
    }


def test_shard_that_kills_its_workers_is_reported(killable_scheduler, in_shards):
    from distributed import Client

    X, y = make_ordinal(400, 4)
    shards = in_shards(X, y, [0, 400]).map(kill_self)
    reported = pytest.raises(ClusterError, match="workers died repeatedly at the task survey")
    with Client(killable_scheduler[0], timeout=5, set_as_default=False) as client, reported:
        DaskOrdinalMetric(kernel="linear").fit(shards, client=client)
