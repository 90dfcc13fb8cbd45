"""A collection held open: always one whole state, the newest, for many threads at once."""

import shutil
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from ordrank import service
from ordrank.collection.store import write_store
from ordrank.errors import CollectionBusyError, CollectionError, UnknownError
from ordrank.service import Asked, Library, Part
from ordrank.service.snapshot import Space, _widest_directions, take_snapshot
from tests.service.drawing import draw_files, rows
from tests.web.conftest import API, serving

ALL = Part(limit=200)


@pytest.fixture
def library(trained):
    library = Library(trained)
    yield library
    library.close()


def told(page):
    """What can be compared with the answer of the command."""
    answer = page.answer
    return answer.value, answer.known_grade, answer.votes, tuple((i.name, i.grade, i.distance) for i in page.items)


def expected(collection, name):
    (answer,) = service.ask(collection, [name], k=200)
    found = tuple((picture.name, picture.grade, picture.distance) for picture in answer.results)
    return answer.value, answer.known_grade, answer.votes, found


class TestStates:
    def test_nothing_is_read_again_while_nothing_changes(self, library):
        before = library._current()
        library.rank(Asked(picture=1), ALL)
        assert library._current() is before

    def test_a_correction_keeps_vectors_index_and_names(self, library):
        before = library._current()
        library.set_grade(6, "0")
        after = library._current()
        assert after is not before
        assert after.space is before.space
        assert after.album is before.album
        assert after.grades[5] == 0 != before.grades[5]

    @pytest.mark.parametrize("grade", ["0", "2", "7", None])
    def test_a_correction_leads_to_the_state_that_is_read_from_disk(self, library, trained, grade):
        for number in (5, 6):  # without and with a grade
            library.set_grade(number, grade)
            library.set_grade(number, grade)
        kept, read = library._current(), take_snapshot(trained)
        for name in ("grades", "estimates", "changed", "fitted", "header"):
            np.testing.assert_equal(getattr(kept, name), getattr(read, name))
        before = library._snapshot
        assert library._current() is before  # and it is not read again

    def test_what_commands_change_is_noticed(self, library, trained, tmp_path):
        service.remove(trained, ["001.png"])
        with pytest.raises(UnknownError):
            library.picture(2)
        assert library.describe().pictures == 39
        draw_files(tmp_path / "new", [50])
        service.add(trained, tmp_path / "new", n_jobs=1)
        assert "050.png" in [item.name for item in library.rank(Asked(picture=1), ALL).items]
        model = library._current().space.model
        service.fit(None, trained)
        assert library._current().space.model is not model
        assert told(library.rank(Asked(picture=1), ALL)) == expected(trained, "000.png")

    def test_a_collection_that_is_put_in_its_place_is_noticed(self, library, trained, tmp_path):
        other = shutil.copytree(trained, tmp_path / "other")
        service.remove(other, ["001.png", "002.png"])
        (other / "collection.sqlite").replace(trained / "collection.sqlite")
        assert library.describe().pictures == 38

    def test_one_that_is_gone_is_told_of_in_a_sentence(self, library, trained):
        shutil.rmtree(trained)
        with pytest.raises(CollectionError, match="is not a collection"):
            library.describe()

    def test_closed_files_are_opened_again(self, library, trained):
        library.close()
        service.remove(trained, ["001.png"])
        assert library.describe().pictures == 39
        library.close()
        library.close()
        assert library.describe().pictures == 39

    def test_a_picture_that_waits_for_its_place_can_be_asked_about(self, library, trained):
        with write_store(trained) as store, store._transaction() as cursor:
            cursor.execute("DELETE FROM embeddings WHERE id = 6")
        page = library.rank(Asked(picture=6), ALL)
        assert page.total == 39
        assert library.points(100).total == 39
        assert library.browse().total == 40
        assert library.set_grade(6, None).value is None

    def test_a_picture_removed_a_moment_ago_is_unknown(self, library, trained):
        service.remove(trained, ["005.png"])
        library._renewing.acquire()  # another thread is about to notice
        threading.Timer(0.2, library._renewing.release).start()
        with pytest.raises(UnknownError):
            library.thumbnail(6)

    def test_the_only_graded_picture_has_no_estimate(self, library, trained):
        with write_store(trained) as store, store._transaction() as cursor:
            cursor.execute("UPDATE pictures SET grade = NULL WHERE id != 6")
        assert library.set_grade(6, None).estimate is None
        assert library.describe().grades == ()
        assert library.browse(grade="2").total >= 0
        with pytest.raises(CollectionError, match="has a grade to vote with"):
            library.rank(Asked(picture=1), ALL)

    def test_a_damaged_collection_is_told_of_in_a_sentence(self, library, trained):
        with write_store(trained) as store, store._transaction() as cursor:
            cursor.execute("DELETE FROM thumbnails WHERE id = 6")
        with pytest.raises(CollectionError, match="is damaged"):
            library.thumbnail(6)


class TestManyThreads:
    def test_each_answer_is_that_of_one_state(self, library, trained):
        states = []
        for grade in ("0", "2"):
            library.set_grade(6, grade)
            states.append(expected(trained, "010.png"))
        assert states[0] != states[1]
        stop, heard = threading.Event(), Counter()

        def ask():
            while not stop.is_set():
                heard[told(library.rank(Asked(picture=11), ALL))] += 1

        with ThreadPoolExecutor(4) as threads:
            asking = [threads.submit(ask) for _ in range(4)]
            for turn in range(30):
                library.set_grade(6, "02"[turn % 2])
            library.start_training()
            while library.training().state == "running":
                stop.wait(0.01)
            stop.wait(0.1)
            stop.set()
            for one in asking:
                one.result()
        assert library.training().state == "done"
        states.append(expected(trained, "010.png"))
        assert set(heard) == set(states)

    def test_corrections_at_the_same_time_are_all_kept(self, library, trained):
        with ThreadPoolExecutor(8) as threads:
            done = list(threads.map(lambda number: library.set_grade(number, "1"), range(1, 41)))
        assert {picture.grade for picture in done} == {"1"}
        assert rows(trained, "SELECT DISTINCT grade FROM pictures") == [(1.0,)]

    def test_who_has_corrected_sees_it_whatever_others_do(self, library):
        def correct(number):
            for grade in ("0", "1", "2") * 3:
                library.set_grade(number, grade)
                if library.picture(number).grade != grade:
                    return False
            return True

        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(correct, range(1, 5)))

    def test_a_second_training_is_refused(self, library, monkeypatch):
        gate = threading.Event()

        def wait(*arguments, **options):
            gate.wait(30)
            raise UnknownError("enough")

        monkeypatch.setattr("ordrank.service.retraining.fit", wait)
        library.start_training()
        with pytest.raises(CollectionBusyError):
            library.start_training()
        gate.set()


class TestView:
    def space(self, vectors, n_order):
        class Fake:
            pass

        model = Fake()
        model.n_order = n_order
        return Space(model, np.arange(len(vectors)), vectors, None)

    @pytest.mark.parametrize(("n_order", "width"), [(1, 6), (2, 6), (3, 6), (5, 8), (1, 1), (2, 2), (1, 2)])
    def test_shows_the_order_first_and_then_what_differs_most(self, n_order, width):
        rng = np.random.default_rng(0)
        vectors = (rng.normal(size=(200, width)) * np.arange(1, width + 1)).astype(np.float32)
        positions = self.space(vectors, n_order).positions
        assert positions.shape == (200, 3)
        shown = min(n_order, 3)
        np.testing.assert_allclose(positions[:, :shown], vectors[:, :shown], rtol=1e-6)
        spread = positions.std(axis=0)[shown:]
        possible = min(3, width) - shown
        assert (spread[:possible] > 0).all()
        assert (spread[possible:] == 0).all()
        assert (np.diff(spread) <= 0).all()

    def test_does_not_turn_over(self):
        sample = np.random.default_rng(0).normal(size=(50, 4)) * [1, 2, 3, 4]
        np.testing.assert_allclose(np.abs(_widest_directions(sample, 2)), np.abs(_widest_directions(-sample, 2)))
        largest = np.abs(_widest_directions(sample, 2)).argmax(axis=0)
        assert (_widest_directions(sample, 2)[largest, [0, 1]] > 0).all()


def test_a_confirmed_correction_survives_the_end_of_the_server(trained):
    grades = {}
    for turn in range(3):
        with serving(trained) as server, server.client() as client:
            for number, grade in grades.items():
                assert client.get(f"{API}/pictures/{number}").json()["grade"] == grade
            number, grade = 6 + turn, str(turn + 4)
            answered = client.put(f"{API}/pictures/{number}/grade", json={"grade": grade})
            code, _, _ = server.end(signal.SIGKILL)
            assert code == -signal.SIGKILL
            assert answered.json()["grade"] == grade
            grades[number] = grade
            assert rows(trained, f"SELECT grade FROM pictures WHERE id = {number}") == [(float(grade),)]
            with pytest.raises(httpx.TransportError):
                client.get("/")
