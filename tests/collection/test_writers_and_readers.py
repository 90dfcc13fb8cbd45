"""One process writes while many read, and none of them blocks another."""

import os
import re
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection.access import read_store, write_store
from ordrank.collection.model_file import current_model
from ordrank.errors import CollectionBusyError, CollectionError
from tests.collection.commands import fit, info, rank, remove
from tests.collection.pictures import content, draw_files, files, names, rows, write_grades
from tests.collection.processes import CONTEXT, alive, without_rights


def hold(pipe, collection):
    """Hold the writer lock of a collection until a message arrives."""
    with write_store(collection):
        pipe.send("holding")
        pipe.recv()


def fit_with_pause(pipe, folder, collection, **options):
    """Fit, but wait for a message before training, with all pictures stored and the lock held."""

    def wait(stage, done, total):
        if stage == "learning a distance":
            pipe.send("learning")
            pipe.recv()

    fit(folder, collection, **options, progress=wait)


def try_to_lock(pipe, collection, started):
    """Send whether the lock was acquired; hold it until a message arrives."""
    started.wait()
    try:
        with write_store(collection):
            pipe.send(True)
            pipe.recv()
    except CollectionBusyError:
        pipe.send(False)


class TestWriters:
    def test_second_writer_is_rejected_and_the_first_is_named(self, trained):
        with alive(hold, trained) as first:
            assert first.receive() == "holding"
            with pytest.raises(CollectionBusyError) as error:
                remove(trained, ["000.png"])
        message = str(error.value)
        assert str(trained) in message
        assert re.search(rf"process {first.pid} on \S+ \(`.+`, since \d{{4}}-\d\d-\d\d \d\d:\d\d UTC\)", message)
        assert "try again" in message
        assert "000.png" in names(trained)

    def test_lock_is_released_when_its_process_dies(self, trained):
        with alive(hold, trained) as first:
            assert first.receive() == "holding"
            first.kill()
            assert remove(trained, ["000.png"]).left == 39

    def test_lock_is_released(self, trained):
        with alive(hold, trained) as first:
            assert first.receive() == "holding"
            first.send("continue")
            assert first.end() == ("done", None)
            assert remove(trained, ["000.png"]).left == 39

    def test_rejected_writer_changes_nothing(self, trained):
        before = content(trained), files(trained)
        with alive(hold, trained) as first:
            assert first.receive() == "holding"
            for operation in (lambda: fit(None, trained), lambda: remove(trained, ["000.png"])):
                with pytest.raises(CollectionBusyError):
                    operation()
        assert (content(trained), files(trained)) == before


class TestReaders:
    def test_reader_sees_one_state_while_a_writer_commits(self, trained):
        with read_store(trained) as store:
            before = store.rows(), store.embeddings().vectors.tobytes(), list(store.stamps())
            remove(trained, ["001.png", "002.png"])
            assert (store.rows(), store.embeddings().vectors.tobytes(), list(store.stamps())) == before
        assert info(trained).pictures == 38

    def test_reader_opened_before_a_retraining_uses_the_old_model(self, trained):
        with read_store(trained) as store:
            old = store.header.model
            remove(trained, ["001.png", "002.png"])
            fit(None, trained)
            embedded = current_model(store.directory, store.header).embed(np.vstack(list(store.features())))
            np.testing.assert_allclose(embedded, store.embeddings().vectors, rtol=1e-5, atol=1e-6)
        assert rows(trained, "SELECT value FROM meta WHERE key = 'model'") != [(old,)]

    def test_readers_see_the_old_state_during_a_fit(self, trained, drawn, tmp_path):
        new = draw_files(tmp_path / "new", range(50, 60))
        before = rank(trained, ["005.png"], k=100)
        grades = write_grades(tmp_path / "grades.csv", new)
        with alive(fit_with_pause, tmp_path / "new", trained, labels=grades, n_jobs=1) as writer:
            assert writer.receive() == "learning"
            assert rank(trained, ["005.png"], k=100) == before
            assert info(trained).not_embedded == len(new)
            writer.send("continue")
            assert writer.end()[0] == "done"
        assert info(trained).not_embedded == 0
        assert {hit.name for hit in rank(trained, ["005.png"], k=100)[0].hits} >= set(new)

    def test_picture_without_embedding_can_be_a_query(self, trained, tmp_path):
        (name,) = draw_files(tmp_path / "new", [50])
        with alive(fit_with_pause, tmp_path / "new", trained, n_jobs=1) as writer:
            assert writer.receive() == "learning"
            writer.kill()
        (result,) = rank(trained, [name], k=100)
        assert len(result.hits) == 40
        assert name not in {hit.name for hit in result.hits}


@pytest.fixture
def public():
    """Return a directory that every user may read."""
    directory = Path(tempfile.mkdtemp(prefix="ordrank-"))
    directory.chmod(0o755)
    yield directory
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o700)
    shutil.rmtree(directory)


def make_read_only(directory):
    for path in (*directory.rglob("*"), directory):
        path.chmod(0o555 if path.is_dir() else 0o444)


class TestReadOnlyDirectories:
    @pytest.fixture
    def read_only(self, trained, drawn, public):
        """Return a read-only directory with a collection and its pictures."""
        shutil.copytree(trained, public / "collection")
        shutil.copytree(drawn, public / "drawn")
        make_read_only(public)
        return public

    def test_read_only_collection_can_be_read(self, read_only):
        queries = ["005.png"]
        with alive(
            without_rights, ("rank", read_only / "collection", queries), ("info", read_only / "collection")
        ) as child:
            done, (results, summary) = child.end()
        assert done == "done"
        assert results == rank(read_only / "collection", queries)
        assert summary.pictures == 40

    def test_read_only_collection_with_leftover_wal_files_can_be_read(self, trained, read_only):
        for suffix in ("-wal", "-shm"):
            leftover = read_only / "collection" / f"collection.sqlite{suffix}"
            leftover.write_bytes(b"")
            leftover.chmod(0o444)
        with alive(without_rights, ("info", read_only / "collection")) as child:
            done, (summary,) = child.end()
        assert (done, summary.pictures) == ("done", 40)

    def test_changes_by_others_are_seen_in_a_read_only_directory(self, read_only):
        collection = read_only / "collection"
        with alive(read_twice_without_rights, collection, "005.png") as child:
            assert child.receive() == "2"
            for path in (collection, *collection.iterdir()):
                path.chmod(0o755)
            with Collection.open(collection) as opened:
                opened.grade("005.png", "0")
            child.send("read again")
            assert child.end() == ("done", "0")

    def test_writing_is_rejected_and_changes_nothing(self, read_only):
        collection, folder = read_only / "collection", read_only / "drawn" / "pictures"
        before = content(collection), set(os.listdir(collection))
        calls = (
            ("fit", None, collection),
            ("add", collection, folder),
            ("remove", collection, ["000.png"]),
            ("export", collection, read_only / "out.csv"),
            ("export", collection, read_only / "out.parquet"),
        )
        with alive(without_rights, *calls) as child:
            done, messages = child.end()
        assert done == "done"
        assert messages[:3] == [f"AccessDeniedError: {collection}: it is not writable; check its permissions"] * 3
        assert all("Permission denied" in message for message in messages[3:])
        assert (content(collection), set(os.listdir(collection))) == before
        assert not any(path.name.startswith((".out", "out")) for path in read_only.iterdir())

    def test_new_collection_is_rejected(self, read_only):
        grades = read_only / "drawn" / "grades.csv"
        with alive(fit_without_rights, read_only / "drawn" / "pictures", read_only / "new", grades) as child:
            outcome, error, message = child.end()
        assert (outcome, error) == ("failed", "PermissionError")
        assert str(read_only / "new") in message
        assert not (read_only / "new").exists()


def read_twice_without_rights(pipe, collection, name):
    without_rights(pipe)
    with Collection.open(collection) as opened:
        pipe.send(opened.picture(name).grade)
        pipe.recv()
        return opened.picture(name).grade


def fit_without_rights(pipe, folder, collection, grades):
    without_rights(pipe)
    fit(folder, collection, labels=grades, n_jobs=1)


def test_one_of_many_concurrent_writers_gets_the_lock(trained):
    started = CONTEXT.Event()
    with ExitStack() as stack:
        children = [stack.enter_context(alive(try_to_lock, trained, started)) for _ in range(4)]
        started.set()
        assert sum(child.receive() for child in children) == 1


def test_directory_without_a_collection_is_rejected(tmp_path):
    for operation in (info, lambda path: rank(path, ["a"]), lambda path: remove(path, ["a"])):
        with pytest.raises(CollectionError, match="is not a collection; create one with `ordrank fit"):
            operation(tmp_path)
    assert not list(tmp_path.iterdir())
