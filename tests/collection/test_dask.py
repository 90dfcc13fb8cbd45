"""A collection read and searched by the workers of a cluster equals one read and searched by this machine."""

import shutil

import numpy as np
import pytest

from ordrank.collection import dask
from ordrank.collection.access import write_store
from ordrank.collection.queries import QueryReader
from ordrank.errors import CollectionError
from tests.cli.running import document, failed, paint, run, write_folder
from tests.collection.commands import rank, remove
from tests.distributed.fault_injection import kill_process_at, kill_workers_at

pytest.importorskip("distributed", reason="Dask is not installed: pip install 'ordrank[dask]'")

# --- reading -------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    write_folder(tmp_path / "pictures", 80, table=tmp_path / "grades.csv")
    (tmp_path / "pictures" / "broken.png").write_bytes(b"no picture")
    return tmp_path


def fit(folder, out, *options):
    """Return the report of a fit, and the ranking of a picture in the collection."""
    report = document("fit", folder / "pictures", "--labels", folder / "grades.csv", "--out", folder / out, *options)
    ranking = document("rank", folder / out, folder / "pictures" / "p003.png", "-k", "9")
    return {name: value for name, value in report.items() if name != "collection"}, ranking["results"]


def test_collection_survives_a_killed_worker(folder, killable_client):
    flag = folder / "flag"
    killable_client.run(kill_workers_at, "ordrank.collection.ingest.reading", "read_batch", [str(flag)])
    by_cluster = fit(folder, "cluster", "--scheduler", killable_client.scheduler.address)
    assert flag.exists()
    assert by_cluster == fit(folder, "alone", "--jobs", "1")
    assert by_cluster[0]["imported"]["read"] == 80


def test_fit_resumes_without_a_lost_scheduler(folder, killable_scheduler):
    from distributed import Client

    address, scheduler = killable_scheduler
    with Client(address, timeout=5, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=30)
        client.run(kill_process_at, "ordrank.collection.ingest.reading", "read_batch", scheduler.pid)
    options = ("--labels", folder / "grades.csv", "--out", folder / "c", "--scheduler", address)
    assert f"the scheduler at {address} was lost" in failed("fit", folder / "pictures", *options)
    assert fit(folder, "c", "--jobs", "1") == fit(folder, "alone", "--jobs", "1")


@pytest.mark.parametrize("workers", [1, 3])
def test_local_cluster_has_the_requested_number_of_workers(workers):
    with dask.connected(None, workers) as engine:
        engine.client.wait_for_workers(workers, timeout=60)
        assert len(engine.client.ncores()) == workers


def test_fit_with_local_workers(folder):
    assert fit(folder, "cluster", "--workers", "1")[0]["pictures"] == 80


def test_unreachable_scheduler_is_reported(folder, monkeypatch):
    monkeypatch.setattr(dask, "TIMEOUT", 1)
    options = ("--labels", folder / "grades.csv", "--out", folder / "c")
    message = failed("fit", folder / "pictures", *options, "--scheduler", "tcp://127.0.0.1:9")
    assert "no Dask scheduler at tcp://127.0.0.1:9" in message
    both = run("fit", folder / "pictures", *options, "--scheduler", "tcp://127.0.0.1:9", "--workers", "2")
    assert both.exit_code == 2


# --- search --------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(dask, "MAX_ROWS", 7)


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Return a folder with a collection, whose ids have gaps, and a new picture."""
    folder = tmp_path_factory.mktemp("collection")
    write_folder(folder / "pictures", 90, table=folder / "grades.csv")
    document("fit", folder / "pictures", "--labels", folder / "grades.csv", "--out", folder / "c")
    document("remove", folder / "c", *(f"p{number:03d}.png" for number in range(40, 52)))
    paint(1, 1000).save(folder / "new.png")
    return folder


@pytest.mark.parametrize(
    "options", [(), ("-k", 200), ("--within-grade",), ("--from", 1), ("--from", 1, "--to", 1, "-k", 40)]
)
def test_ranking_equals_that_of_one_machine(searched, client, options):
    command = ("rank", searched / "c", "p003.png", "p005.png", searched / "new.png", *options)
    assert document(*command, "--scheduler", client.scheduler.address) == document(*command)


def test_ranking_by_local_workers_equals_that_of_one_machine(searched):
    command = ("rank", searched / "c", searched / "new.png")
    assert document(*command, "--workers", 1) == document(*command)
    assert run(*command, "--workers", 1, "--scheduler", "tcp://127.0.0.1:9").exit_code == 2


def test_ranking_survives_a_killed_worker(searched, killable_client, tmp_path):
    flag = tmp_path / "flag"
    killable_client.run(kill_workers_at, "ordrank.distributed.index", "take_vectors", [str(flag)])
    command = ("rank", searched / "c", "p003.png", "p005.png")
    assert document(*command, "--scheduler", killable_client.scheduler.address) == document(*command)
    assert flag.exists()


def test_concurrent_change_is_reported(searched, client, monkeypatch):
    original = QueryReader.embed

    def change(self, snapshot, queries, **options):
        with write_store(searched / "c") as store:
            store.set_estimates([], np.empty((0, 3)))
        return original(self, snapshot, queries, **options)

    monkeypatch.setattr(QueryReader, "embed", change)
    message = failed("rank", searched / "c", "p003.png", "--scheduler", client.scheduler.address)
    assert "changed while it was being read; try again" in message


def test_collection_without_grades_raises(searched, client, tmp_path):
    collection = shutil.copytree(searched / "c", tmp_path / "c")
    with write_store(collection) as store:
        names = [row.name for row in store.rows()]
        store.give_grades(store.ids(), None)
    for cluster in ({}, {"scheduler": client.scheduler.address}):
        with pytest.raises(CollectionError, match="no picture of the collection has a grade to vote with"):
            rank(collection, ["p003.png"], **cluster)
    remove(collection, names)
    with pytest.raises(CollectionError, match="no picture of the collection has a grade to vote with"):
        rank(collection, [str(searched / "new.png")], scheduler=client.scheduler.address)
