import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ordrank.collection.database import DATABASE, is_collection
from ordrank.collection.records import Header, Placed
from ordrank.collection.store import read_store, write_store
from ordrank.errors import CollectionError
from ordrank.features.reading import ReadPicture

DIM = 4
VALUES = st.floats(-300, 300, width=32) | st.integers(0, 256)
HEADER = Header("pixels:1", "pixels:1;version=1", DIM)


def picture(name, features=(1, 2, 3, 4), content=None):
    values = np.array(features, dtype=np.float32)
    return ReadPicture(name, content or f"sha of {name}", 10, 20, 30, 40, values, f"thumbnail of {name}".encode())


def keep(store, *pictures, grades=None, **options):
    return store.add(
        pictures, {each.name: Path("/somewhere") / each.name for each in pictures}, grades or {}, **options
    )


def keep_and_fail(store, *pictures):
    keep(store, *pictures)
    raise sqlite3.InterfaceError("something else")


@pytest.fixture
def directory(tmp_path):
    """Of a collection with the pictures a, b and c, of which b has a grade."""
    with write_store(tmp_path / "collection", HEADER) as store:
        keep(store, *map(picture, "abc"), grades={"b": 2.0})
    return tmp_path / "collection"


class TestKeeping:
    def test_what_is_kept_comes_back(self, directory):
        with read_store(directory) as store:
            assert store.header == HEADER
            assert len(store) == 3
            assert [row.name for row in store.rows()] == ["a", "b", "c"]
            row = store.find("b")
            assert (row.id, row.path, row.sha256, row.grade, row.estimate) == (2, "/somewhere/b", "sha of b", 2.0, None)
            assert (row.size, row.mtime_ns, row.width, row.height) == (10, 20, 30, 40)
            assert store.find_content("sha of b") == row
            assert store.find("x") is store.find_content("x") is None
            np.testing.assert_array_equal(store.grades(), [np.nan, 2, np.nan])
            assert store.stamps() == {name: (f"/somewhere/{name}", 10, 20) for name in "abc"}

    def test_rows_and_thumbnails_come_in_the_order_asked_for(self, directory):
        with read_store(directory) as store:
            assert [row.name for row in store.rows([3, 1, 3])] == ["c", "a", "c"]
            assert store.thumbnails([2, 1]) == [b"thumbnail of b", b"thumbnail of a"]
            assert store.rows([]) == store.thumbnails([]) == []

    def test_so_many_rows_can_be_asked_for_at_once(self, tmp_path):
        with write_store(tmp_path, HEADER) as store:
            keep(store, *(picture(f"{number:04d}") for number in range(2000)))
            ids = list(range(2000, 0, -1))
            assert [row.id for row in store.rows(ids)] == ids
            assert len(store.thumbnails(ids)) == 2000

    @pytest.mark.parametrize("rows", [1, 2, 3, 100])
    def test_features_come_in_blocks_in_the_order_of_rows(self, directory, rows):
        with write_store(directory) as store:
            keep(store, picture("d", [0.5, -1, 256, np.pi]))
        with read_store(directory) as store:
            blocks = list(store.features(rows))
            assert [len(block) for block in blocks] == [min(rows, 4 - start) for start in range(0, 4, rows)]
            np.testing.assert_array_equal(np.vstack(blocks)[-1], np.float32([0.5, -1, 256, np.pi]))
            np.testing.assert_array_equal(store.features_of(4), np.vstack(blocks)[3])

    @settings(max_examples=15)
    @given(vectors=st.lists(arrays(np.float32, DIM, elements=VALUES), min_size=1, max_size=30))
    def test_features_come_back_to_the_last_bit(self, vectors, tmp_path_factory):
        with write_store(tmp_path_factory.mktemp("collection"), HEADER) as store:
            keep(store, *(picture(f"{number:02d}", vector) for number, vector in enumerate(vectors)))
            np.testing.assert_array_equal(np.vstack(list(store.features())), vectors)

    def test_whole_numbers_up_to_255_take_a_byte_each(self, directory):
        with closing(sqlite3.connect(directory / DATABASE)) as connection:
            assert connection.execute("SELECT DISTINCT length(vector) FROM features").fetchall() == [(DIM,)]

    def test_a_known_name_is_replaced_and_keeps_number_and_grade(self, directory):
        with write_store(directory) as store:
            keep(store, picture("b", content="new"))
            assert (store.find("b").id, store.find("b").grade, store.find("b").sha256) == (2, 2.0, "new")
            keep(store, picture("b"), grades={"b": 5.0})
            assert store.find("b").grade == 5.0
            assert len(store) == 3

    def test_copies_are_kept_once(self, directory, monkeypatch):
        monkeypatch.setattr("os.path.exists", lambda path: path == "/somewhere/a")
        with write_store(directory) as store:
            (bad,) = keep(store, picture("d", content="sha of a"))
            assert (bad.name, bad.reason) == ("d", "has the same content as 'a' and is kept once")
            assert store.find("d") is None

    def test_all_of_a_batch_or_nothing_is_kept(self, directory):
        broken = picture("e", content=object())
        with write_store(directory) as store:
            with pytest.raises(sqlite3.Error):
                keep(store, picture("d"), broken)
            assert len(store) == 3
            keep(store, picture("d"))
            assert len(store) == 4

    def test_forgotten_pictures_are_gone_from_every_table(self, directory):
        with write_store(directory) as store:
            store.place_all("model-x", [placed(3)], {})
            store.remove(["a", "b"])
        with closing(sqlite3.connect(directory / DATABASE)) as connection:
            for table in ("pictures", "features", "embeddings", "thumbnails"):
                assert connection.execute(f"SELECT id FROM {table}").fetchall() == [(3,)]

    def test_names_and_notes_of_grades_are_kept(self, directory):
        with write_store(directory) as store:
            store.place_all("model-x", [placed(3)], {"fitted": "today"})
        with read_store(directory) as store:
            assert (store.header.model, store.state("fitted"), store.state("nothing")) == ("model-x", "today", None)


def placed(*lengths):
    """Places of blocks of so many pictures: the n-th is at (n, n) and estimated as n."""
    numbers = np.arange(sum(lengths), dtype=np.float32)
    return Placed(np.stack([numbers, numbers], axis=1), numbers.astype(np.float64))


class TestPlaces:
    def test_come_back_for_pictures_that_have_one(self, directory):
        with write_store(directory) as store:
            assert store.places().vectors.shape == (0, 0)
            store.place_all("model-x", [placed(3)], {})
            keep(store, picture("d"))
            places = store.places()
            np.testing.assert_array_equal(places.ids, [1, 2, 3])
            np.testing.assert_array_equal(places.vectors, [[0, 0], [1, 1], [2, 2]])
            np.testing.assert_array_equal(places.grades, [np.nan, 2, np.nan])
            np.testing.assert_array_equal(places.estimates, [0, np.nan, 2])
            assert store.count_without_place() == 1

    def test_are_given_to_all_pictures_or_to_none(self, directory):
        with write_store(directory) as store:
            store.place_all("model-x", [placed(3)], {})
            for wrong in ([placed(2)], [placed(3), placed(1)]):
                with pytest.raises((ValueError, IndexError)):
                    store.place_all("model-y", wrong, {"fitted": "today"})
                assert (store.header.model, store.state("model"), store.state("fitted")) == ("model-x", "model-x", None)
                assert len(store.places().ids) == 3

    def test_a_picture_has_an_estimate_only_while_it_has_no_grade(self, directory):
        with write_store(directory) as store:
            store.place_all("model-x", [placed(3)], {})
            store.set_grades({"a": 7.0})
            store.set_estimates([1, 3], [8.0, 9.0])
            assert [row.estimate for row in store.rows()] == [None, None, 9.0]
            keep(store, picture("b", content="new"), placed=placed(1))
            assert store.find("b").estimate is None


class TestOpening:
    def test_a_new_collection_that_fails_before_its_first_picture_is_gone(self, tmp_path):
        with pytest.raises(RuntimeError), write_store(tmp_path / "new", HEADER):
            raise RuntimeError
        assert not (tmp_path / "new").exists()

    def test_a_new_collection_that_fails_later_keeps_its_pictures(self, tmp_path):
        with pytest.raises(sqlite3.Error), write_store(tmp_path / "new", HEADER) as store:
            keep_and_fail(store, picture("a"))
        with read_store(tmp_path / "new") as store:
            assert [row.name for row in store.rows()] == ["a"]

    def test_an_old_collection_that_fails_stays(self, directory):
        with write_store(directory) as store:
            store.remove(["a", "b", "c"])
        with pytest.raises(RuntimeError), write_store(directory):
            raise RuntimeError
        with read_store(directory) as store:
            assert len(store) == 0

    def test_a_new_header_does_not_change_an_old_collection(self, directory):
        with write_store(directory, Header("hog", "hog", 7)) as store:
            assert store.header == HEADER

    def test_leftovers_of_a_making_that_was_ended_are_no_collection_and_are_removed(self, tmp_path):
        for suffix in ("", "-journal"):
            (tmp_path / f".{DATABASE}{suffix}").write_text("half")
        assert not is_collection(tmp_path)
        with write_store(tmp_path, HEADER) as store:
            keep(store, picture("a"))
        assert set(os.listdir(tmp_path)) == {DATABASE, "writer.lock"}

    @pytest.mark.parametrize("name", ["with space", "per%cent", "que?stion#hash", "ünïcödé 🍎", "a;b&c=d", "quo'te"])
    def test_any_name_of_a_directory_will_do(self, tmp_path, name):
        with write_store(tmp_path / name, HEADER) as store:
            keep(store, picture("a"))
        with read_store(tmp_path / name) as store:
            assert len(store) == 1

    def test_where_there_is_none_a_sentence_says_how_to_make_one(self, tmp_path):
        for open_store in (read_store, write_store):
            with (
                pytest.raises(CollectionError, match="is not a collection; make one with `ordrank fit"),
                open_store(tmp_path),
            ):
                pass
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("order", "grade", "shown"),
    [
        (None, 2.0, "2"),
        (None, 2.5, "2.5"),
        (("low", "high"), 0.5, "low"),
        (("low", "high"), 0.51, "high"),
        (("low", "high"), 9.0, "high"),
        (("low", "high"), -9.0, "low"),
    ],
)
def test_a_grade_is_shown_as_it_is_written(order, grade, shown):
    assert Header("e", "f", 1, order).show(grade) == shown
