"""Workers of a cluster read the pictures of a collection, which is then the same as any other."""

import pytest

from ordrank.distributed import pictures
from tests.cli.running import document, failed, run, write_folder
from tests.distributed.killing import make_deadly, make_mortal


@pytest.fixture
def folder(tmp_path):
    write_folder(tmp_path / "pictures", 80, table=tmp_path / "grades.csv")
    (tmp_path / "pictures" / "broken.png").write_bytes(b"no picture")
    return tmp_path


def fitted(folder, out, *options):
    """What a fit says, and what the collection answers about a picture."""
    found = document("fit", folder / "pictures", "--labels", folder / "grades.csv", "--out", folder / out, *options)
    answer = document("rank", folder / out, folder / "pictures" / "p003.png", "-k", "9")
    return {name: value for name, value in found.items() if name != "collection"}, answer["answers"]


def test_the_collection_is_that_of_one_machine_though_a_worker_dies(folder, mortal_client):
    flag = folder / "flag"
    mortal_client.run(make_mortal, "ordrank.features.reading", "read_batch", [str(flag)])
    by_cluster = fitted(folder, "cluster", "--scheduler", mortal_client.scheduler.address)
    assert flag.exists()
    assert by_cluster == fitted(folder, "alone", "--jobs", "1")
    assert by_cluster[0]["intake"]["read"] == 80


def test_a_lost_scheduler_is_said_and_the_collection_goes_on_without(folder, mortal_scheduler):
    from distributed import Client

    address, scheduler = mortal_scheduler
    with Client(address, timeout=5, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=30)
        client.run(make_deadly, "ordrank.features.reading", "read_batch", scheduler.pid)
    options = ("--labels", folder / "grades.csv", "--out", folder / "c", "--scheduler", address)
    assert f"the scheduler at {address} was lost" in failed("fit", folder / "pictures", *options)
    assert fitted(folder, "c", "--jobs", "1") == fitted(folder, "alone", "--jobs", "1")


@pytest.mark.parametrize("workers", [1, 3])
def test_a_cluster_here_has_as_many_workers_as_were_asked_for(workers):
    with pictures.connected(None, workers) as engine:
        engine.client.wait_for_workers(workers, timeout=60)
        assert len(engine.client.ncores()) == workers


def test_workers_of_this_machine(folder):
    assert fitted(folder, "cluster", "--workers", "1")[0]["pictures"] == 80


def test_a_cluster_that_is_not_there_is_said(folder, monkeypatch):
    monkeypatch.setattr(pictures, "TIMEOUT", 1)
    options = ("--labels", folder / "grades.csv", "--out", folder / "c")
    said = failed("fit", folder / "pictures", *options, "--scheduler", "tcp://127.0.0.1:9")
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in said
    both = run("fit", folder / "pictures", *options, "--scheduler", "tcp://127.0.0.1:9", "--workers", "2")
    assert both.exit_code == 2
