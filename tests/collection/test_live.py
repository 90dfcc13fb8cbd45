"""A collection held open: every query sees one consistent state, the latest, from many threads."""

import shutil
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection.access import write_store
from ordrank.collection.export import COLUMNS
from ordrank.collection.snapshot import EmbeddingSpace, _principal_axes
from ordrank.collection.store import Store
from ordrank.collection.store_reader import ALL_IDS
from ordrank.errors import CollectionError, InputError, UnknownError
from tests.collection.commands import add, fit, rank, remove
from tests.collection.pictures import draw, draw_files, rows
from tests.web.conftest import API, serving


@pytest.fixture
def collection(trained):
    with Collection.open(trained) as collection:
        yield collection


def content_of(result):
    return result.value, result.known_grade, result.shown_grade, result.probabilities, result.novelty, result.hits


def expected(directory, name):
    return content_of(rank(directory, [name], k=200)[0])


class TestRefresh:
    @pytest.mark.parametrize("grade", ["0", "2", "7", None])
    def test_a_grade_leads_to_the_state_that_is_read_from_disk(self, collection, trained, grade):
        for picture in (5, 6):  # without and with a grade
            collection.grade(picture, grade)
            collection.grade(picture, grade)
        read = Collection.open(trained)
        assert collection.info() == read.info()
        assert collection.pictures(limit=100) == read.pictures(limit=100)
        assert content_of(collection.rank(1, 200)) == content_of(read.rank(1, 200))

    def test_changes_by_commands_are_noticed(self, collection, trained, tmp_path):
        remove(trained, ["001.png"])
        with pytest.raises(UnknownError):
            collection.picture(2)
        draw_files(tmp_path / "new", [50])
        add(trained, tmp_path / "new", n_jobs=1)
        assert "050.png" in [hit.name for hit in collection.rank(1, 200).hits]
        assert collection.info().pictures == 40
        model = collection.model_name
        fit(None, trained)
        assert collection.model_name != model
        assert content_of(collection.rank(1, 200)) == expected(trained, "000.png")

    def test_of_added_pictures_only_the_embeddings_are_read(self, collection, trained, tmp_path, monkeypatch):
        collection.picture(1)
        draw_files(tmp_path / "new", [50, 51])
        add(trained, tmp_path / "new", n_jobs=1)
        read, vectors = [], Store.vectors
        with monkeypatch.context() as patch:
            patch.setattr(Store, "vectors", lambda store, n, ids=ALL_IDS: read.append(ids) or vectors(store, n, ids))
            found = content_of(collection.rank(1, 200))
        assert [ids.start for ids in read] == [41]
        assert found == expected(trained, "000.png")
        assert collection.rank(2).known_grade == "1"  # held out as before

    def test_a_replaced_file_is_noticed(self, collection, trained, tmp_path):
        collection.picture(1)
        other = shutil.copytree(trained, tmp_path / "other")
        remove(other, ["001.png", "002.png"])
        (other / "collection.sqlite").replace(trained / "collection.sqlite")
        assert collection.pictures().total == 38
        assert collection.info().pictures == 38

    def test_a_deleted_collection_is_reported(self, collection, trained):
        collection.picture(1)
        shutil.rmtree(trained)
        for use in (collection.info, collection.pictures):
            with pytest.raises(CollectionError, match="is not a collection"):
                use()

    def test_closed_files_are_opened_again(self, collection, trained):
        collection.picture(1)
        collection.close()
        remove(trained, ["001.png"])
        assert collection.pictures().total == 39
        collection.close()
        collection.close()
        assert collection.pictures().total == 39

    def test_a_picture_without_embedding_can_be_a_query(self, collection, trained):
        with write_store(trained) as store, store.transaction() as cursor:
            cursor.execute("DELETE FROM embeddings WHERE id = 6")
        assert collection.rank(6, 200).total == 39
        assert collection.points(100).total == 39
        assert collection.pictures().total == 40
        assert (collection.grade(6, None).grade, collection.picture(6).estimate) == (None, "2")

    def test_an_embedding_of_a_newer_model_is_not_used_with_an_older_snapshot(self, collection, trained, monkeypatch):
        with write_store(trained) as store, store.transaction() as cursor:
            cursor.execute("DELETE FROM embeddings WHERE id = 6")
        before = collection.rank(6, 200)
        monkeypatch.setattr(collection._live, "_refresh", lambda: None)  # as while another thread refreshes
        fit(None, trained, balanced=True)
        assert content_of(collection.rank(6, 200)) == content_of(before)

    def test_a_picture_that_was_just_removed_is_unknown(self, collection, trained):
        collection.picture(6)
        remove(trained, ["005.png"])
        with pytest.raises(UnknownError):
            collection.files.thumbnail(6)

    def test_a_picture_that_was_just_added_is_known(self, collection, trained, tmp_path, monkeypatch):
        collection.picture(6)
        draw(60).save(tmp_path / "060.png")
        add(trained, tmp_path / "060.png", n_jobs=1)
        monkeypatch.setattr("ordrank.collection.live._REFRESH_TIMEOUT", 0.0)
        refreshing, holds = threading.Thread(target=collection.refresh), collection._live._refreshing
        with holds:  # as while another thread reads a newer snapshot
            assert collection.picture(6).name == "005.png"
            refreshing.start()
        assert collection.picture("060.png").estimate == "0"
        refreshing.join()

    def test_estimates_stay_when_all_grades_are_withdrawn(self, collection, trained):
        with write_store(trained) as store, store.transaction() as cursor:
            cursor.execute("UPDATE pictures SET grade = NULL WHERE id != 6")
        assert collection.grade(6, None).estimate == "2"
        assert collection.info().grades == ()
        assert {picture.grade for picture in collection.pictures(grade="2").items} == {None}  # by old estimates
        with pytest.raises(CollectionError, match="has a grade to vote with"):
            collection.rank(1)

    def test_a_damaged_collection_is_reported(self, collection, trained):
        with write_store(trained) as store, store.transaction() as cursor:
            cursor.execute("DELETE FROM thumbnails WHERE id = 6")
        with pytest.raises(CollectionError, match="is damaged"):
            collection.files.thumbnail(6)


class TestGradesAsText:
    def test_grades_with_many_digits_are_found_by_their_text(self, drawn, tmp_path):
        grades = {f"{number:03d}.png": number % 4 / 3 for number in range(40)}
        collection = Collection.create(tmp_path / "c", drawn / "pictures", grades, features="pixels:4", n_jobs=1)
        for shown in collection.info().grades:
            assert collection.pictures(grade=shown.grade).total == shown.pictures == 10
            hits = collection.rank("000.png", 40, lowest=shown.grade, highest=shown.grade).hits
            assert {hit.grade for hit in hits} == {shown.grade}
        collection.grade("000.png", collection.info().grades[1].grade)
        assert [shown.pictures for shown in collection.info().grades] == [9, 11, 10, 10]

    @pytest.mark.parametrize("text", ["1_0", "one", "", "nan", "1e999"])
    def test_text_that_is_not_a_number_is_rejected(self, collection, text):
        with pytest.raises(InputError, match="is not a grade"):
            collection.grade(1, text)

    def test_pictures_within_a_grade_are_shown_with_that_grade(self, drawn, tmp_path):
        order = ("low", "medium", "high")
        grades = {f"{number:03d}.png": order[number % 3] for number in range(40) if number % 4}
        options = {"order": order, "features": "pixels:4", "n_jobs": 1}
        collection = Collection.create(tmp_path / "c", drawn / "pictures", grades, **options)
        for name, grade in grades.items():
            if grade == "medium":
                collection.grade(name, None)
        for name in grades:
            result = collection.rank(name, 40, within_grade=True)
            assert {hit.grade for hit in result.hits} <= {result.grade}


class TestUndo:
    def test_walks_back_through_all_changes(self, collection, trained):
        before = rows(trained, "SELECT id, grade, estimate FROM pictures")
        for picture, grade in ((6, "0"), (5, "1"), (6, None), (6, "2"), ("006.png", 1)):
            collection.grade(picture, grade)
        undone = [collection.undo()[0].name for _ in range(5)]
        assert undone == ["006.png", "005.png", "005.png", "004.png", "005.png"]
        assert collection.undo() == []
        assert rows(trained, "SELECT id, grade, estimate FROM pictures") == before
        assert collection.info().changed == 0

    def test_a_new_change_after_an_undo_can_be_undone(self, collection):
        collection.grade(6, "0")
        collection.undo()
        collection.grade(6, "1")
        assert collection.undo()[0].grade == "2"
        assert collection.undo() == []

    def test_another_process_can_undo(self, collection, trained):
        collection.grade(6, "0")
        assert Collection.open(trained).undo()[0].grade == "2"
        assert collection.picture(6).grade == "2"

    def test_a_grade_that_was_imported_since_is_kept(self, collection, trained):
        collection.grade("005.png", "0")
        fit(None, trained, labels={"005.png": 1})
        assert collection.undo() == []
        assert collection.picture("005.png").grade == "1"


class TestThreads:
    def test_each_result_is_that_of_one_state(self, collection, trained):
        states = []
        for grade in ("0", "2"):
            collection.grade(6, grade)
            states.append(expected(trained, "010.png"))
        assert states[0] != states[1]
        stop, seen = threading.Event(), Counter()

        def query():
            while not stop.is_set():
                seen[content_of(collection.rank(11, 200))] += 1

        with ThreadPoolExecutor(5) as threads:
            querying = [threads.submit(query) for _ in range(4)]
            for turn in range(30):
                collection.grade(6, "02"[turn % 2])
            threads.submit(fit, None, trained).result()
            collection.refresh()
            stop.set()
            for one in querying:
                one.result()
        states.append(expected(trained, "010.png"))
        assert seen
        assert set(seen) <= set(states)
        assert content_of(collection.rank(11, 200)) == states[-1]

    def test_simultaneous_grades_are_all_stored(self, collection, trained):
        with ThreadPoolExecutor(8) as threads:
            done = list(threads.map(lambda picture: collection.grade(picture, "1"), range(1, 41)))
        assert {picture.grade for picture in done} == {"1"}
        assert rows(trained, "SELECT DISTINCT grade FROM pictures") == [(1.0,)]

    def test_a_thread_reads_its_own_writes(self, collection):
        def correct(picture):
            for grade in ("0", "1", "2") * 3:
                collection.grade(picture, grade)
                if collection.picture(picture).grade != grade:
                    return False
            return True

        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(correct, range(1, 5)))


class TestDataFrames:
    def test_pictures_and_rankings_are_tables(self, collection):
        pictures = collection.to_frame()
        assert list(pictures.columns) == list(COLUMNS)
        assert len(pictures) == len(collection) == 40
        assert pictures["grade"].isna().sum() == 10
        assert not pictures[["estimate", "lowest", "highest"]].isna().any(axis=None)
        ranking = collection.rank("005.png", 7).to_frame()
        assert len(ranking) == 7
        assert ranking["distance"].is_monotonic_increasing


class TestDisplay:
    def space(self, vectors, n_order):
        nothing_held_out = np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.float32)
        return EmbeddingSpace(np.arange(len(vectors)), vectors, n_order, None, *nothing_held_out)

    @pytest.mark.parametrize(("n_order", "width"), [(1, 6), (2, 6), (3, 6), (5, 8), (1, 1), (2, 2), (1, 2)])
    def test_axes_are_the_order_and_then_principal_axes_of_the_appearance(self, n_order, width):
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

    def test_signs_of_the_axes_are_fixed(self):
        sample = np.random.default_rng(0).normal(size=(50, 4)) * [1, 2, 3, 4]
        np.testing.assert_allclose(np.abs(_principal_axes(sample, 2)), np.abs(_principal_axes(-sample, 2)))
        largest = np.abs(_principal_axes(sample, 2)).argmax(axis=0)
        assert (_principal_axes(sample, 2)[largest, [0, 1]] > 0).all()


def test_a_confirmed_grade_survives_a_killed_server(trained):
    grades = {}
    for turn in range(3):
        with serving(trained) as server, server.client() as client:
            for number, grade in grades.items():
                assert client.get(f"{API}/pictures/{number}").json()["grade"] == grade
            number, grade = 6 + turn, str(turn + 4)
            answered = client.put(f"{API}/pictures/{number}/grade", json={"grade": grade, "accept_new": True})
            code, _, _ = server.end(signal.SIGKILL)
            assert code == -signal.SIGKILL
            assert answered.json()["grade"] == grade
            grades[number] = grade
            assert rows(trained, f"SELECT grade FROM pictures WHERE id = {number}") == [(float(grade),)]
            with pytest.raises(httpx.TransportError):
                client.get("/")


def test_a_query_is_ranked_again_if_one_of_the_nearest_pictures_is_removed_meanwhile(collection, trained, monkeypatch):
    features_of, removed = Store.features_of, []

    def remove_first(store, ids):
        if len(ids) > 1 and not removed:
            removed.extend(ids[:1])
            remove(trained, [collection.picture(ids[0]).name])
        return features_of(store, ids)

    nearest = collection.rank_all([3])[0].hits
    monkeypatch.setattr(Store, "features_of", remove_first)
    found = collection.rank_all([3])[0].hits
    assert removed[0] in [hit.id for hit in nearest]
    assert removed[0] not in [hit.id for hit in found]
