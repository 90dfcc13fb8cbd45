"""A collection read, trained and searched by the workers of a cluster equals one of this machine alone."""

import shutil
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection import dask, train
from ordrank.collection.access import open_judgements, read_store, write_store
from ordrank.collection.ingest.reading import ReadPicture
from ordrank.collection.ingest.rows import add_rows
from ordrank.collection.model_file import current_model
from ordrank.collection.queries import QueryReader
from ordrank.distributed.engine import Engine
from ordrank.errors import ClusterError, CollectionError
from tests.cli.running import document, done, failed, paint, run, write_folder
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


# --- training ------------------------------------------------------------------------------------------------------

MANY = 1600  # of more than 1500 graded pictures, fits without a fold tell what each is without its grade
TASKS = ("_moments", "_coordinates", "_fit_without_fold", "_embed", "_estimate")


@pytest.fixture
def small_blocks(monkeypatch):
    """Train in many blocks."""
    monkeypatch.setattr(train, "_ROWS_PER_BLOCK", 500)
    monkeypatch.setattr(train, "_ROWS_PER_MOMENTS", 300)


def create(directory, n, *, ungraded=5, groups=False):
    """Create an untrained collection of synthetic rows, whose ids have gaps, one in ``ungraded`` not graded."""
    drawn = directory.with_name(f"drawn for {directory.name}")
    drawn.mkdir()
    paint(0, 0).save(drawn / "first.png")
    Collection.create_ungraded(directory, drawn, features="pixels:4", n_jobs=1)
    rng, names = np.random.default_rng(0), [f"{i:05d}.png" for i in range(n)]
    grades, features = rng.integers(4, size=n), rng.normal(100, 20, size=(n, 48))
    features[:, :6] += 15 * grades[:, None]
    with write_store(directory) as store:
        thumbnail = store.thumbnails([1])[0]
        pictures = [
            ReadPicture(name, f"{i:064x}", 0, 0, 12, 12, row, thumbnail)
            for i, (name, row) in enumerate(zip(names, features.astype(np.float32), strict=True))
        ]
        given = {name: float(grades[i]) for i, name in enumerate(names) if i % ungraded}
        add_rows(store, pictures, {name: Path(name) for name in names}, given)
        store.remove(["first.png", *names[20:40]])
        if groups:
            store.set_groups({name: f"person {i % 30}" for i, name in enumerate(names) if i % 7})
    return directory


def state(directory):
    """Return everything that a training decides: the model with its files, embeddings and estimates."""
    with read_store(directory) as store:
        model = current_model(directory, store.header)
        embeddings, columns = store.embeddings(), [(row.estimate, row.lowest, row.highest) for row in store.rows()]
        held_out = store.held_out(model.n_held_out)
        return store.header.model, embeddings.vectors, np.array(columns), *held_out, store.error


def assert_equal(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A collection with more than 1500 grades, and what a training on this machine makes of it."""
    directory = create(tmp_path_factory.mktemp("many") / "c", MANY, ungraded=50)
    here = shutil.copytree(directory, directory.with_name("here"))
    with pytest.MonkeyPatch.context() as patch:
        small_blocks.__wrapped__(patch)
        Collection.open(here).fit()
    return directory, state(here)


@pytest.mark.parametrize(
    "options", [{"n": 150}, {"n": 150, "groups": True}, {"n": 90, "ungraded": 3}], ids=["alone", "groups", "few"]
)
def test_training_equals_that_of_one_machine(options, client, tmp_path, small_blocks, monkeypatch):
    monkeypatch.setattr(train, "_ROWS_PER_MOMENTS", 20)
    monkeypatch.setattr(train, "_ROWS_PER_FEATURE", 0)
    monkeypatch.setattr(train, "_ROWS_PER_BLOCK", 32)
    there = create(tmp_path / "there", **options)
    here = shutil.copytree(there, tmp_path / "here")
    reports = [
        Collection.open(there).fit(scheduler=client.scheduler.address),
        Collection.open(here).fit(),
    ]
    assert reports[0] == reports[1]
    assert_equal(state(there), state(here))


@pytest.mark.parametrize("task", TASKS)
def test_training_survives_a_killed_worker(task, many, killable_client, tmp_path, small_blocks):
    untrained, expected = many
    flag, directory = tmp_path / "flag", shutil.copytree(untrained, tmp_path / "c")
    killable_client.run(kill_workers_at, "ordrank.collection.train", task, [str(flag)])
    Collection.open(directory).fit(scheduler=killable_client.scheduler.address)
    assert flag.exists()
    assert_equal(state(directory), expected)


def test_training_on_other_features_equals_that_of_one_machine(folder, client):
    fit(folder, "alone", "--jobs", "1")
    shutil.copytree(folder / "alone", folder / "cluster")
    again = [
        fit(folder, "cluster", "--features", "pixels:3", "--scheduler", client.scheduler.address),
        fit(folder, "alone", "--features", "pixels:3", "--jobs", "1"),
    ]
    assert again[0] == again[1]
    assert again[0][0]["imported"]["reread"] == 80
    assert_equal(state(folder / "cluster"), state(folder / "alone"))


@pytest.fixture
def collection(searched, tmp_path):
    """A trained collection, and its state."""
    directory = shutil.copytree(searched / "c", tmp_path / "c")
    with write_store(directory) as store:
        store.set_grades({"p001.png": 2.0})  # another model would be another one
    return directory, (state(directory), sorted(file.name for file in directory.glob("*model-*")))


def assert_unchanged(collection):
    directory, (before, files) = collection
    assert_equal(state(directory), before)
    assert sorted(file.name for file in directory.glob("*model-*")) == files


@pytest.mark.parametrize("task", ["_moments", "_estimate"])
def test_lost_scheduler_leaves_the_old_model(task, collection, killable_scheduler):
    from distributed import Client

    address, scheduler = killable_scheduler
    with Client(address, timeout=5, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=30)
        client.run(kill_process_at, "ordrank.collection.train", task, scheduler.pid)
    message = failed("fit", "--out", collection[0], "--scheduler", address)
    assert f"the scheduler at {address} was lost during the fit; no data was lost" in message
    assert_unchanged(collection)
    done("fit", "--out", collection[0])
    assert state(collection[0])[0] != collection[1][0][0]


def hide_collections():
    """Let this worker look for collections under another name, as if it had another file system."""
    from ordrank.collection import database

    database.DATABASE = "elsewhere.sqlite"


def test_workers_that_do_not_see_the_collection_are_reported(collection, killable_client):
    killable_client.run(hide_collections)
    message = failed("fit", "--out", collection[0], "--scheduler", killable_client.scheduler.address)
    assert f"does not see {collection[0]}; all must see it under that path" in " ".join(message.split())
    assert_unchanged(collection)
    with pytest.raises(ClusterError, match="does not see"):
        rank(collection[0], ["p003.png"], scheduler=killable_client.scheduler.address)


def test_worker_that_sees_an_earlier_state_is_reported(collection, client, monkeypatch):
    original = dask.ClusterExecutor.feature_reader

    def later(self, store):
        reader = original(self, store)
        return replace(reader, serial=reader.serial + 1)

    monkeypatch.setattr(dask.ClusterExecutor, "feature_reader", later)
    message = failed("fit", "--out", collection[0], "--scheduler", client.scheduler.address)
    assert "changed while it was being read; try again" in message
    assert_unchanged(collection)


def test_grades_can_be_given_while_workers_read(collection, client, monkeypatch):
    original, directory = train.components_of, collection[0]

    def grade_meanwhile(moments):
        with closing(open_judgements(directory, timeout=1)) as store:
            store.give_grades(store.ids()[:1], 2.0)
        return original(moments)

    monkeypatch.setattr(train, "components_of", grade_meanwhile)
    done("fit", "--out", directory, "--scheduler", client.scheduler.address)
    assert Collection.open(directory).picture("p000.png").grade == "2"


def test_large_values_are_broadcast_without_a_warning(client):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Engine(client).broadcast(np.zeros(3_000_000)).result().nbytes == 24_000_000


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
