import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ordrank.collection.access import read_store, write_store
from ordrank.collection.database import DATABASE, is_collection
from ordrank.collection.ingest.reading import ReadPicture
from ordrank.collection.ingest.rows import add_rows
from ordrank.collection.types import EmbeddedBatch, Header
from ordrank.errors import CollectionError

DIM = 4
VALUES = st.floats(-300, 300, width=32) | st.integers(0, 256)
HEADER = Header("pixels:1", "pixels:1;version=1", DIM)


def thumbnail(name):
    return b"\xff\xd8\xff of " + name.encode()


def picture(name, features=(1, 2, 3, 4), content=None):
    values = np.array(features, dtype=np.float32)
    return ReadPicture(name, content or f"sha of {name}", 10, 20, 30, 40, values, thumbnail(name))


def insert(store, *pictures, grades=None, **options):
    return add_rows(
        store, pictures, {each.name: Path("/somewhere") / each.name for each in pictures}, grades or {}, **options
    )


def insert_and_fail(store, *pictures):
    insert(store, *pictures)
    raise sqlite3.InterfaceError("failed")


@pytest.fixture
def directory(tmp_path):
    """Return the directory of a collection of pictures a, b and c, of which b has a grade."""
    with write_store(tmp_path / "collection", HEADER) as store:
        insert(store, *map(picture, "abc"), grades={"b": 2.0})
    return tmp_path / "collection"


class TestRows:
    def test_rows_are_read_as_written(self, directory):
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

    def test_rows_and_thumbnails_are_read_in_the_requested_order(self, directory):
        with read_store(directory) as store:
            assert [row.name for row in store.rows([3, 1, 3])] == ["c", "a", "c"]
            assert store.thumbnails([2, 1]) == [thumbnail("b"), thumbnail("a")]
            assert store.rows([]) == store.thumbnails([]) == []

    def test_many_rows_can_be_read_at_once(self, tmp_path):
        with write_store(tmp_path, HEADER) as store:
            insert(store, *(picture(f"{number:04d}") for number in range(2000)))
            ids = list(range(2000, 0, -1))
            assert [row.id for row in store.rows(ids)] == ids
            assert len(store.thumbnails(ids)) == 2000

    @pytest.mark.parametrize("rows", [1, 2, 3, 100])
    def test_features_are_read_in_blocks_in_row_order(self, directory, rows, monkeypatch):
        monkeypatch.setattr("ordrank.collection.store_reader._BLOCK_ROWS", rows)
        with write_store(directory) as store:
            insert(store, picture("d", [0.5, -1, 256, np.pi]))
        with read_store(directory) as store:
            blocks = list(store.features())
            assert [len(block) for block in blocks] == [min(rows, 4 - start) for start in range(0, 4, rows)]
            np.testing.assert_array_equal(np.vstack(blocks)[-1], np.float32([0.5, -1, 256, np.pi]))
            np.testing.assert_array_equal(store.features_of([4, 1]), np.vstack(blocks)[[3, 0]])

    def test_features_are_read_by_ranges_of_ids(self, directory):
        with write_store(directory) as store:
            insert(store, picture("d", [0.5, -1, 256, np.pi]))
            store.remove(["b"])
            everything = np.vstack(list(store.features()))
            for ids, rows in ((range(1, 5), [0, 1, 2]), (range(2, 4), [1]), (range(4, 9), [2]), (range(2, 3), [])):
                blocks = list(store.features(ids))
                np.testing.assert_array_equal(np.vstack([everything[:0], *blocks]), everything[rows])

    def test_a_range_with_a_missing_feature_is_damage(self, directory):
        with closing(sqlite3.connect(directory / DATABASE)) as connection, connection:
            connection.execute("DELETE FROM features WHERE id = 2")
        with read_store(directory) as store:
            assert len(np.vstack(list(store.features(range(3, 4))))) == 1
        with (
            pytest.raises(CollectionError, match="the features of a picture are missing"),
            read_store(directory) as store,
        ):
            list(store.features(range(2, 4)))

    def test_a_checkpoint_empties_the_log(self, directory):
        with write_store(directory) as store:
            insert(store, picture("d"))
            log = directory / f"{DATABASE}-wal"
            assert log.stat().st_size
            store.checkpoint()
            assert log.stat().st_size == 0

    @settings(max_examples=15)
    @given(vectors=st.lists(arrays(np.float32, DIM, elements=VALUES), min_size=1, max_size=30))
    def test_features_are_read_bit_equal(self, vectors, tmp_path_factory):
        with write_store(tmp_path_factory.mktemp("collection"), HEADER) as store:
            insert(store, *(picture(f"{number:02d}", vector) for number, vector in enumerate(vectors)))
            np.testing.assert_array_equal(np.vstack(list(store.features())), vectors)

    def test_integers_up_to_255_are_stored_as_bytes(self, directory):
        with closing(sqlite3.connect(directory / DATABASE)) as connection:
            assert connection.execute("SELECT DISTINCT length(vector) FROM features").fetchall() == [(DIM,)]

    def test_known_name_is_replaced_and_keeps_id_and_grade(self, directory):
        with write_store(directory) as store:
            insert(store, picture("b", content="new"))
            assert (store.find("b").id, store.find("b").grade, store.find("b").sha256) == (2, 2.0, "new")
            insert(store, picture("b"), grades={"b": 5.0})
            assert store.find("b").grade == 5.0
            assert len(store) == 3

    def test_copies_are_stored_once(self, directory, monkeypatch):
        monkeypatch.setattr("os.path.exists", lambda path: str(path) == "/somewhere/a")
        with write_store(directory) as store:
            (bad,) = insert(store, picture("d", content="sha of a"))
            assert (bad.name, bad.reason) == ("d", "has the same content as 'a' and is kept once")
            assert store.find("d") is None

    def test_implied_grades_go_with_their_pictures_which_nobody_looks_through(self, directory, monkeypatch):
        monkeypatch.setattr("os.path.exists", lambda path: True)
        with write_store(directory) as store:
            store_embeddings(store, "model-x", [embedded(3)], implied={1: 0.0, 2: 1.0, 3: 2.0})
            statements = []
            store._connection.set_trace_callback(statements.append)
            insert(store, picture("a", content="new"))
            (duplicate,) = insert(store, picture("b", content="sha of c"))
            store._connection.set_trace_callback(None)
            assert duplicate.duplicate_of == "c"
            assert store.implied_grades() == {3: 2.0}
            plans = [store._connection.execute(f"EXPLAIN QUERY PLAN {text}").fetchall() for text in statements]
            assert not [step for plan in plans for *_, step in plan if step.startswith("SCAN pictures")]

    def test_batch_is_stored_in_one_transaction(self, directory):
        broken = picture("e", content=object())
        with write_store(directory) as store:
            with pytest.raises(sqlite3.Error):
                insert(store, picture("d"), broken)
            assert len(store) == 3
            insert(store, picture("d"))
            assert len(store) == 4

    def test_removed_pictures_are_deleted_from_every_table(self, directory):
        with write_store(directory) as store:
            store_embeddings(store, "model-x", [embedded(3)])
            store.remove(["a", "b"])
        with closing(sqlite3.connect(directory / DATABASE)) as connection:
            for table in ("pictures", "features", "embeddings", "thumbnails"):
                assert connection.execute(f"SELECT id FROM {table}").fetchall() == [(3,)]

    def test_a_training_counts_the_grades_it_began_with(self, directory):
        with write_store(directory) as store:
            grades = store.grades()
            store.give_grades([1], 3.0)
            store.store_embeddings("model-x", [embedded(3)], grades, 0.5, {})
            (training,) = store.trainings()
            assert (training.pictures, training.graded, store.count_changed()) == (3, 1, 1)

    def test_model_name_and_notes_are_stored(self, directory):
        with write_store(directory) as store:
            store_embeddings(store, "model-x", [embedded(3)], {"fitted": "today"})
        with read_store(directory) as store:
            assert (store.header.model, store.note("fitted"), store.note("nothing")) == ("model-x", "today", None)


def store_embeddings(store, model, batches, notes=None, **options):
    store.store_embeddings(model, batches, store.grades(), 0.5, notes or {}, **options)


def embedded(*lengths, held_out=None):
    """Return sum(lengths) embeddings: the n-th is (n, n), with estimate n from n - 1 to n + 1."""
    numbers = np.arange(sum(lengths), dtype=np.float32)
    estimates = numbers[:, None] + np.array([0.0, -1.0, 1.0])
    return EmbeddedBatch(np.stack([numbers, numbers], axis=1), estimates, held_out)


class TestEmbeddings:
    def test_embeddings_are_read_as_written(self, directory):
        with write_store(directory) as store:
            assert store.embeddings().vectors.shape == (0, 0)
            store_embeddings(store, "model-x", [embedded(3)])
            insert(store, picture("d"))
            embeddings = store.embeddings()
            np.testing.assert_array_equal(embeddings.ids, [1, 2, 3])
            np.testing.assert_array_equal(embeddings.vectors, [[0, 0], [1, 1], [2, 2]])
            np.testing.assert_array_equal(embeddings.grades, [np.nan, 2, np.nan])
            np.testing.assert_array_equal(embeddings.estimates, [0, 1, 2])
            assert store.count_not_embedded() == 1

    def test_embeddings_are_stored_in_one_transaction(self, directory):
        with write_store(directory) as store:
            store_embeddings(store, "model-x", [embedded(3)])
            for wrong in ([embedded(2)], [embedded(3), embedded(1)]):
                with pytest.raises((ValueError, IndexError)):
                    store_embeddings(store, "model-y", wrong, {"fitted": "today"})
                assert (store.header.model, store.note("model"), store.note("fitted")) == ("model-x", "model-x", None)
                assert len(store.embeddings().ids) == 3

    def test_estimates_and_intervals_do_not_depend_on_grades(self, directory):
        def estimates(store):
            return [(row.estimate, row.lowest, row.highest) for row in store.rows()]

        with write_store(directory) as store:
            store_embeddings(store, "model-x", [embedded(3)])
            assert estimates(store) == [(0, -1, 1), (1, 0, 2), (2, 1, 3)]
            store.set_grades({"a": 7.0})
            store.give_grades([2], None)
            store.give_grades([3], 7.0)
            assert estimates(store) == [(0, -1, 1), (1, 0, 2), (2, 1, 3)]
            store.set_estimates([1, 3], np.array([[8.0, 7.0, 9.0], [9.0, 9.0, 9.0]]))
            assert estimates(store) == [(8, 7, 9), (1, 0, 2), (9, 9, 9)]
            insert(store, picture("b", content="new"), embedded=embedded(1))
            assert estimates(store)[1] == (0, -1, 1)
            insert(store, picture("b", content="newer"))
            assert estimates(store)[1] == (None, None, None)

    def test_what_pictures_are_without_their_grades_is_read_as_written(self, directory):
        held_out = np.array([[np.nan, np.nan, np.nan], [0.25, 0.5, 0.125], [1.0, np.nan, np.nan]])
        with write_store(directory) as store:
            ids, values = store.held_out(3)
            assert (ids, values.shape) == ([], (0, 3))
            store_embeddings(store, "model-x", [embedded(3, held_out=held_out)])
            ids, values = store.held_out(3)
            assert ids == [2, 3]
            np.testing.assert_array_equal(values, held_out[1:])
            for row in (2, 3):
                ids, values = store.held_out(3, row)
                assert ids == [row]
                np.testing.assert_array_equal(values, held_out[row - 1 : row])
            assert store.held_out(3, 1)[0] == store.held_out(3, 4)[0] == []
            assert [store.is_held_out(row) for row in (1, 2, 3, 4)] == [False, True, True, False]

    def test_a_picture_with_new_content_was_not_in_the_fit(self, directory):
        with write_store(directory) as store:
            store_embeddings(store, "model-x", [embedded(3, held_out=np.ones((3, 2)))])
            insert(store, picture("b", content="new"), embedded=embedded(1))
            assert store.held_out(2)[0] == [1, 3]


class TestOpening:
    def test_new_collection_without_pictures_is_deleted_on_error(self, tmp_path):
        with pytest.raises(RuntimeError), write_store(tmp_path / "new", HEADER):
            raise RuntimeError
        assert not (tmp_path / "new").exists()

    def test_new_collection_with_pictures_is_kept_on_error(self, tmp_path):
        with pytest.raises(sqlite3.Error), write_store(tmp_path / "new", HEADER) as store:
            insert_and_fail(store, picture("a"))
        with read_store(tmp_path / "new") as store:
            assert [row.name for row in store.rows()] == ["a"]

    def test_existing_collection_is_kept_on_error(self, directory):
        with write_store(directory) as store:
            store.remove(["a", "b", "c"])
        with pytest.raises(RuntimeError), write_store(directory):
            raise RuntimeError
        with read_store(directory) as store:
            assert len(store) == 0

    def test_header_of_an_existing_collection_is_not_replaced(self, directory):
        with write_store(directory, Header("hog", "hog", 7)) as store:
            assert store.header == HEADER

    def test_leftovers_of_an_interrupted_creation_are_deleted(self, tmp_path):
        for suffix in ("", "-journal"):
            (tmp_path / f".{DATABASE}{suffix}").write_text("half")
        assert not is_collection(tmp_path)
        with write_store(tmp_path, HEADER) as store:
            insert(store, picture("a"))
        assert set(os.listdir(tmp_path)) == {DATABASE, "writer.lock"}

    @pytest.mark.parametrize("name", ["with space", "per%cent", "que?stion#hash", "ünïcödé 🍎", "a;b&c=d", "quo'te"])
    def test_directory_may_have_any_name(self, tmp_path, name):
        with write_store(tmp_path / name, HEADER) as store:
            insert(store, picture("a"))
        with read_store(tmp_path / name) as store:
            assert len(store) == 1

    def test_error_without_a_collection_says_how_to_create_one(self, tmp_path):
        for open_store in (read_store, write_store):
            with (
                pytest.raises(CollectionError, match="is not a collection; create one with `ordrank fit"),
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
def test_grade_is_formatted_as_a_number_or_the_nearest_name(order, grade, shown):
    assert Header("e", "f", 1, order).format_grade(grade) == shown
