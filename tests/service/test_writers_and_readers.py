"""One process writes, many read, and nobody waits for another."""

import os
import re
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from ordrank import service
from ordrank.collection.store import read_store, write_store
from ordrank.collection.training import model_of
from ordrank.errors import CollectionBusyError, CollectionError
from tests.service.drawing import content, draw_files, files, names, rows, write_grades
from tests.service.processes import CONTEXT, alive, without_rights


def hold(pipe, collection):
    """Be the writer of a collection until told to go on."""
    with write_store(collection):
        pipe.send("holding")
        pipe.recv()


def fit_when_told(pipe, folder, collection, **options):
    """Stop before training, with all pictures kept and the right to write."""

    def wait(text):
        if text == "learning a distance":
            pipe.send("learning")
            pipe.recv()

    service.fit(folder, collection, **options, watch=service.Watch(tell=wait))


def try_to_hold(pipe, collection, started):
    """Whether the right to write was to be had; it is kept until told otherwise."""
    started.wait()
    try:
        with write_store(collection):
            pipe.send(True)
            pipe.recv()
    except CollectionBusyError:
        pipe.send(False)


class TestWriters:
    def test_a_second_one_is_refused_and_told_who_is_first(self, trained):
        with alive(hold, trained) as first:
            assert first.hear() == "holding"
            with pytest.raises(CollectionBusyError) as error:
                service.remove(trained, ["000.png"])
        sentence = str(error.value)
        assert str(trained) in sentence
        assert re.search(rf"process {first.pid} on \S+ \(`.+`, since \d{{4}}-\d\d-\d\d \d\d:\d\d UTC\)", sentence)
        assert "try again" in sentence
        assert "000.png" in names(trained)

    def test_the_right_to_write_ends_with_its_holder(self, trained):
        with alive(hold, trained) as first:
            assert first.hear() == "holding"
            first.kill()
            assert service.remove(trained, ["000.png"]) == 39

    def test_the_right_to_write_is_given_back(self, trained):
        with alive(hold, trained) as first:
            assert first.hear() == "holding"
            first.say("go on")
            assert first.end() == ("done", None)
            assert service.remove(trained, ["000.png"]) == 39

    def test_a_refused_one_leaves_no_trace(self, trained):
        before = content(trained), files(trained)
        with alive(hold, trained) as first:
            assert first.hear() == "holding"
            for work in (lambda: service.fit(None, trained), lambda: service.remove(trained, ["000.png"])):
                with pytest.raises(CollectionBusyError):
                    work()
        assert (content(trained), files(trained)) == before


class TestReaders:
    def test_a_reader_sees_one_state_while_a_writer_commits(self, trained):
        with read_store(trained) as store:
            before = store.rows(), store.places().vectors.tobytes(), list(store.stamps())
            service.remove(trained, ["001.png", "002.png"])
            assert (store.rows(), store.places().vectors.tobytes(), list(store.stamps())) == before
        assert service.describe(trained).pictures == 38

    def test_a_reader_from_before_a_retraining_finishes_with_the_old_model(self, trained):
        with read_store(trained) as store:
            old = store.header.model
            service.remove(trained, ["001.png", "002.png"])
            service.fit(None, trained)
            placed = model_of(store).place(np.vstack(list(store.features())))
            np.testing.assert_allclose(placed, store.places().vectors, rtol=1e-5, atol=1e-6)
        assert rows(trained, "SELECT value FROM meta WHERE key = 'model'") != [(old,)]

    def test_while_a_fit_goes_on_readers_get_the_answers_of_before(self, trained, drawn, tmp_path):
        new = draw_files(tmp_path / "new", range(50, 60))
        before = service.ask(trained, ["005.png"], k=100)
        grades = service.Grades(write_grades(tmp_path / "grades.csv", new))
        with alive(fit_when_told, tmp_path / "new", trained, grades=grades, n_jobs=1) as writer:
            assert writer.hear() == "learning"
            assert service.ask(trained, ["005.png"], k=100) == before
            assert service.describe(trained).waiting == len(new)
            writer.say("go on")
            assert writer.end()[0] == "done"
        assert service.describe(trained).waiting == 0
        assert {found.name for found in service.ask(trained, ["005.png"], k=100)[0].results} >= set(new)

    def test_a_picture_that_waits_for_its_place_can_be_asked_about(self, trained, tmp_path):
        (waiting,) = draw_files(tmp_path / "new", [50])
        with alive(fit_when_told, tmp_path / "new", trained, n_jobs=1) as writer:
            assert writer.hear() == "learning"
            writer.kill()
        (by_name,) = service.ask(trained, [waiting], k=100)
        assert len(by_name.results) == 40
        assert waiting not in {found.name for found in by_name.results}


@pytest.fixture
def public():
    """A directory that everybody may enter."""
    directory = Path(tempfile.mkdtemp(prefix="ordrank-"))
    directory.chmod(0o755)
    yield directory
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o700)
    shutil.rmtree(directory)


def close_to_writers(directory):
    for path in (*directory.rglob("*"), directory):
        path.chmod(0o555 if path.is_dir() else 0o444)


class TestReadOnlyDirectories:
    @pytest.fixture
    def closed(self, trained, drawn, public):
        """A collection and its pictures that nobody may write in."""
        shutil.copytree(trained, public / "collection")
        shutil.copytree(drawn, public / "drawn")
        close_to_writers(public)
        return public

    def test_reading_works(self, closed):
        asked = ["005.png"]
        with alive(without_rights, ("ask", closed / "collection", asked), ("describe", closed / "collection")) as child:
            done, (answers, description) = child.end()
        assert done == "done"
        assert answers == service.ask(closed / "collection", asked)
        assert description.pictures == 40

    def test_reading_works_where_a_reader_left_its_files(self, trained, closed):
        for suffix in ("-wal", "-shm"):
            leftover = closed / "collection" / f"collection.sqlite{suffix}"
            leftover.write_bytes(b"")
            leftover.chmod(0o444)
        with alive(without_rights, ("describe", closed / "collection")) as child:
            done, (description,) = child.end()
        assert (done, description.pictures) == ("done", 40)

    def test_writing_is_refused_in_a_sentence_and_changes_nothing(self, closed):
        collection, folder = closed / "collection", closed / "drawn" / "pictures"
        before = content(collection), set(os.listdir(collection))
        calls = (
            ("fit", None, collection),
            ("add", collection, folder),
            ("remove", collection, ["000.png"]),
            ("export", collection, closed / "out.csv"),
            ("export", collection, closed / "out.parquet"),
        )
        with alive(without_rights, *calls) as child:
            done, sentences = child.end()
        assert done == "done"
        assert sentences[:3] == [f"CollectionError: {collection}: it cannot be written in; check its permissions"] * 3
        assert all("Permission denied" in sentence for sentence in sentences[3:])
        assert (content(collection), set(os.listdir(collection))) == before
        assert not any(path.name.startswith((".out", "out")) for path in closed.iterdir())

    def test_a_new_collection_is_refused_in_a_sentence(self, closed):
        grades = service.Grades(closed / "drawn" / "grades.csv")
        with alive(fit_without_rights, closed / "drawn" / "pictures", closed / "new", grades) as child:
            kind, error, sentence = child.end()
        assert (kind, error) == ("refused", "PermissionError")
        assert str(closed / "new") in sentence
        assert not (closed / "new").exists()


def fit_without_rights(pipe, folder, collection, grades):
    without_rights(pipe)
    service.fit(folder, collection, grades=grades, n_jobs=1)


def test_of_many_that_start_together_one_gets_to_write(trained):
    started = CONTEXT.Event()
    with ExitStack() as stack:
        children = [stack.enter_context(alive(try_to_hold, trained, started)) for _ in range(4)]
        started.set()
        assert sum(child.hear() for child in children) == 1


def test_who_is_no_collection_is_told_so(tmp_path):
    for work in (service.describe, lambda path: service.ask(path, ["a"]), lambda path: service.remove(path, ["a"])):
        with pytest.raises(CollectionError, match="is not a collection; make one with `ordrank fit"):
            work(tmp_path)
    assert not list(tmp_path.iterdir())
