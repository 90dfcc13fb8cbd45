"""Comparisons over the API."""

import pytest

from ordrank import Collection
from tests.collection.pictures import N_GRADES, rows
from tests.web.conftest import API, client_of
from tests.web.requests import message


def compare(client, first, second, outcome, **body):
    return client.post(f"{API}/comparisons", json={"first": first, "second": second, "outcome": outcome, **body})


def next_pair(client, **params):
    return client.get(f"{API}/comparisons/next", params=params)


def redness(picture):
    return int(picture["name"][:3]) % N_GRADES


def test_pairs_are_asked_about_answered_and_listed_in_order(client, trained):
    asked = set()
    for count in range(1, 61):
        found = next_pair(client, grader="Ann").json()
        first, second = found["pair"]["first"], found["pair"]["second"]
        assert found["comparisons"] == count - 1
        assert found["pair"]["explanation"]
        outcome = (redness(first) > redness(second)) - (redness(first) < redness(second))
        assert compare(client, first["id"], second["id"], outcome, grader="Ann").json() == {"comparisons": count}
        asked.add(frozenset((first["id"], second["id"])))
    assert len(asked) == 60
    whole = client.get(f"{API}/comparisons").json()
    assert whole["total"] == len(whole["items"])
    assert [item["value"] for item in whole["items"]] == sorted(item["value"] for item in whole["items"])
    assert sum(item["comparisons"] for item in whole["items"]) == 120
    pages = [client.get(f"{API}/comparisons?limit=7&offset={start}").json()["items"] for start in range(0, 42, 7)]
    assert [item for page in pages for item in page] == whole["items"]
    with Collection.open(trained) as collection:
        assert [one.picture.id for one in collection.labeling.compared()] != []


def test_skipped_pairs_are_not_returned(client):
    first = next_pair(client).json()["pair"]
    ids = [first["first"]["id"], first["second"]["id"]]
    other = next_pair(client, skip=[f"{ids[1]}-{ids[0]}", "1-9999999"]).json()["pair"]
    assert {other["first"]["id"], other["second"]["id"]} != set(ids)


@pytest.mark.parametrize("skip", ["3", "3-", "a-b", "3-4-5", "-3-4", "1" * 11 + "-2"])
def test_a_skipped_pair_is_two_ids(client, skip):
    assert next_pair(client, skip=[skip]).status_code == 400


def test_a_comparison_can_be_replaced_and_withdrawn(client, trained):
    assert compare(client, 5, 3, 1).json() == {"comparisons": 1}
    assert compare(client, 3, 5, 0).json() == {"comparisons": 1}
    assert rows(trained, "SELECT first, second, outcome FROM comparisons") == [(3, 5, 0)]
    assert compare(client, 3, 5, None).json() == {"comparisons": 0}


def test_there_is_no_pair_of_a_single_picture(trained):
    with Collection.open(trained) as collection:
        collection.remove([f"{number:03d}.png" for number in range(1, 40)])
    with client_of(trained) as client:
        assert next_pair(client).json() == {"pair": None, "comparisons": 0}
        assert client.get(f"{API}/comparisons").json() == {"total": 0, "items": []}


def test_wrong_comparisons_are_rejected(client):
    assert compare(client, 3, 41, 1).status_code == 404
    same = compare(client, 3, 3, 1)
    assert (same.status_code, "with itself" in message(same)) == (400, True)
    for body in ({"outcome": 2}, {"outcome": "1"}, {"first": -1}, {"first": "3"}, {"other": 1}):
        assert client.post(f"{API}/comparisons", json={"first": 3, "second": 4, "outcome": 1} | body).status_code == 400
    assert compare(client, 3, 4, 1, grader="\x07").status_code == 400
    assert client.get(f"{API}/comparisons").json()["total"] == 0


def test_a_read_only_server_takes_no_comparisons(trained):
    with client_of(trained, read_only=True) as client:
        assert compare(client, 3, 4, 1).status_code == 403
        assert next_pair(client).status_code == 200
