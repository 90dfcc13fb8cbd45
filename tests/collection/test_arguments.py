"""Invalid arguments are rejected before anything is read or started; equivalent ones give the same result."""

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection import queries
from ordrank.collection.ingest.grades_csv import parse_order
from ordrank.collection.types import RankRequest
from ordrank.errors import InputError
from tests.collection.pictures import draw


@pytest.fixture
def collection(trained):
    with Collection.open(trained) as collection:
        yield collection


@pytest.mark.parametrize(("arguments", "message"), [({"k": 0}, "k must be at least 1"), ({"offset": -1}, "offset")])
def test_a_request_needs_a_positive_k_and_no_negative_offset(arguments, message):
    with pytest.raises(InputError, match=message):
        RankRequest(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"), [({"limit": 0}, "limit and step must be at least 1"), ({"offset": -1}, "offset")]
)
def test_a_page_needs_a_positive_limit_and_no_negative_offset(collection, arguments, message):
    with pytest.raises(InputError, match=message):
        collection.pictures(**arguments)


@pytest.mark.parametrize("workers", [None, 1])
@pytest.mark.parametrize(("lowest", "highest"), [("2", "1"), ("high", None), (None, "nan")])
def test_a_range_of_grades_is_checked_before_queries_are_read(
    collection, tmp_path, monkeypatch, lowest, highest, workers
):
    monkeypatch.setattr(queries, "read_pictures", lambda *_, **__: pytest.fail("the query was read"))
    monkeypatch.setattr("ordrank.collection.dask.connected", lambda *_: pytest.fail("a cluster was started"))
    draw(60).save(tmp_path / "new.png")
    with pytest.raises(InputError, match="grade"):
        collection.rank_all([tmp_path / "new.png"], RankRequest(lowest=lowest, highest=highest), workers=workers)
    with pytest.raises(InputError, match="grade"):
        collection.rank_all([], RankRequest(lowest=lowest, highest=highest), workers=workers)


def test_ids_may_be_numpy_integers(collection):
    expected = collection.rank(3)
    for picture in (np.int64(3), np.int32(3), np.uint8(3)):
        assert collection.rank(picture) == expected
        assert collection.picture(picture) == collection.picture(3)
    np.testing.assert_array_equal(collection.embed(list(np.array([3, 4]))), collection.embed([3, 4]))


class TestOrder:
    def test_names_in_a_sequence_may_hold_commas(self, drawn, tmp_path):
        names = ("low, early", "high, late")
        labels = {f"{i:03d}.png": names[i % 3 == 2] for i in range(40)}
        options = {"order": list(names), "features": "pixels:4", "n_jobs": 1}
        with Collection.create(tmp_path / "c", drawn / "pictures", labels, **options) as created:
            assert [count.grade for count in created.info().grades] == list(names)
            assert created.picture("002.png").grade == names[1]
            created.fit(labels=labels, order=names)

    def test_text_is_split_at_commas(self):
        assert parse_order("low, early,late") == parse_order(["low", "early", "late"]) == ("low", "early", "late")
        assert parse_order(["low, early", " late "]) == ("low, early", "late")

    @pytest.mark.parametrize("order", ["a", ["a"], "a,,b", ["a", " "], "a,a", ["a", "a "]])
    def test_invalid_orders_are_rejected(self, order):
        with pytest.raises(InputError, match="order of grades"):
            parse_order(order)

    def test_an_order_without_labels_is_rejected(self, collection):
        with pytest.raises(InputError, match="name their CSV file with --labels"):
            collection.fit(order=["low", "high"])
