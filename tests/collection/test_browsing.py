"""Lists of pictures: filters, orders and pages."""

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection.access import write_store
from ordrank.errors import InputError

SORTS = ("grade", "spectrum", "estimate", "certainty", "name", "date")


@pytest.fixture
def collection(trained):
    with Collection.open(trained) as collection:
        yield collection


def listed(collection, **options):
    return collection.pictures(**{"limit": 200, **options}).items


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("descending", [False, True])
def test_pages_of_an_order_have_every_picture_once(collection, sort, descending):
    options = {"sort": sort, "descending": descending}
    pages = [collection.pictures(**options, offset=offset, limit=7) for offset in range(0, 42, 7)]
    assert {page.total for page in pages} == {40}
    ids = [picture.id for page in pages for picture in page.items]
    assert len(ids) == len(set(ids)) == 40
    assert ids == [picture.id for picture in listed(collection, **options)]


def test_orders_are_monotone(collection):
    collection.grade("003.png", 2)
    values = [picture.value for picture in listed(collection, sort="grade")]
    assert values == sorted(values)
    values = [picture.value for picture in listed(collection, sort="spectrum")]
    assert values == sorted(values)
    estimates = [float(picture.estimate) for picture in listed(collection, sort="estimate")]
    assert estimates == sorted(estimates)
    widths = [float(p.highest) - float(p.lowest) for p in listed(collection, sort="certainty")]
    assert widths == sorted(widths, reverse=True)
    names = [picture.name for picture in listed(collection, sort="name")]
    assert names == sorted(names)
    dates = [picture.date for picture in listed(collection, sort="date", descending=True)]
    assert dates == sorted(dates, reverse=True)


@pytest.mark.parametrize("sort", ["grade", "spectrum", "estimate", "certainty"])
@pytest.mark.parametrize("descending", [False, True])
def test_pictures_without_a_value_come_last_in_both_directions(collection, sort, descending):
    with write_store(collection.directory) as store, store.transaction() as cursor:
        statement = (
            "UPDATE pictures SET grade = NULL, estimate = NULL, lowest = NULL, highest = NULL WHERE id IN (1, 2)"
        )
        cursor.execute(statement)
    found = listed(collection, sort=sort, descending=descending)
    assert [picture.name for picture in found[-2:]] == ["000.png", "001.png"]
    assert all(picture.value is not None for picture in found[:-2])


def test_the_spectrum_continues_within_a_grade_in_the_learned_order(collection):
    redness = {}
    snapshot = collection._live.current()
    for picture in listed(collection, sort="spectrum"):
        redness.setdefault(picture.value, []).append(snapshot.orders.coordinates[snapshot.row_of(picture.id)])
    steps = [np.sign(np.diff(values)) for values in redness.values()]
    assert len({sign for signs in steps for sign in signs.tolist()} - {0.0}) == 1  # the same direction in all grades


def test_every_third_picture_is_an_overview(collection):
    everything = listed(collection, sort="spectrum")
    page = collection.pictures(sort="spectrum", step=3, limit=5, offset=1)
    assert page.total == 40
    assert list(page.items) == list(everything[1::3][:5])


def test_words_are_searched_whatever_their_case(collection):
    assert [picture.name for picture in listed(collection, search="03 PNG", sort="name")] == [
        "003.png", *(f"03{i}.png" for i in range(10)),
    ]  # fmt: skip
    assert listed(collection, search="nothing") == ()
    assert len(listed(collection, search="  ")) == 40


def test_filters_combine(collection):
    found = listed(collection, grade="1", given=False)
    assert {(picture.grade, picture.estimate) for picture in found} == {(None, "1")}
    counts = {grade.grade: grade for grade in collection.info().grades}
    assert len(found) == counts["1"].estimated
    assert len(listed(collection, grade="1", given=True)) == counts["1"].pictures


def test_grades_change_the_order_at_once(collection):
    assert listed(collection, sort="grade")[-1].name != "000.png"
    collection.grade("000.png", 9)
    assert listed(collection, sort="grade")[-1].name == "000.png"
    assert listed(collection, sort="spectrum", descending=True)[0].name == "000.png"


@pytest.mark.parametrize(
    "options", [{"sort": "size"}, {"limit": 0}, {"offset": -1}, {"step": 0}, {"grade": "tall"}], ids=str
)
def test_impossible_requests_are_rejected(collection, options):
    with pytest.raises(InputError):
        collection.pictures(**options)
