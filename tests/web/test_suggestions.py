"""What to grade next, over HTTP."""

import pytest

from ordrank import Collection
from tests.web.conftest import API, client_of
from tests.web.requests import message, set_grade

SUGGESTIONS = f"{API}/suggestions"


def test_suggestions_are_those_of_the_collection(client, trained):
    body = client.get(SUGGESTIONS, params={"limit": 4}).json()
    with Collection.open(trained) as collection:
        expected = collection.labeling.suggest(4)
    assert [item["picture"]["id"] for item in body["items"]] == [suggestion.picture.id for suggestion in expected]
    assert [item["reason"] for item in body["items"]] == [suggestion.reason for suggestion in expected]
    assert [item["explanation"] for item in body["items"]] == [suggestion.explanation for suggestion in expected]
    assert body["items"][0]["picture"] == client.get(f"{API}/pictures/{expected[0].picture.id}").json()


def test_the_total_is_the_number_of_pictures_without_a_grade(client):
    body = client.get(SUGGESTIONS, params={"limit": 200}).json()
    assert body["total"] == len(body["items"]) == 10
    first = body["items"][0]["picture"]["id"]
    set_grade(client, first, "1")
    body = client.get(SUGGESTIONS).json()
    assert body["total"] == 9
    assert first not in [item["picture"]["id"] for item in body["items"]]


def test_a_completely_graded_collection_has_none(client):
    for item in client.get(SUGGESTIONS, params={"limit": 200}).json()["items"]:
        set_grade(client, item["picture"]["id"], "1")
    assert client.get(SUGGESTIONS).json() == {"items": [], "total": 0}


def test_graders_get_different_pictures(client):
    for number, grader in ((2, "Ann"), (3, "Ben")):
        client.put(f"{API}/pictures/{number}/grade", json={"grade": "1", "grader": grader})
    parts = [client.get(SUGGESTIONS, params={"limit": 5, "grader": name}).json()["items"] for name in ("Ann", "Ben")]
    first, second = ({item["picture"]["id"] for item in part} for part in parts)
    assert len(first) == len(second) == 5
    assert not first & second


def test_read_only_servers_suggest_too(trained):
    with client_of(trained, read_only=True) as client:
        assert client.get(SUGGESTIONS).status_code == 200


def test_a_collection_without_a_model_has_suggestions(drawn, tmp_path):
    options = {"features": "pixels:4", "n_jobs": 1}
    Collection.create_ungraded(tmp_path / "ungraded", drawn / "pictures", **options).close()
    with client_of(tmp_path / "ungraded") as client:
        body = client.get(SUGGESTIONS, params={"limit": 3}).json()
    assert (len(body["items"]), body["total"]) == (3, 40)
    assert {item["reason"] for item in body["items"]} == {"representative"}


@pytest.mark.parametrize("parameters", [{"limit": 0}, {"limit": 201}, {"limit": "many"}, {"grader": "a\nb"}])
def test_impossible_parameters_are_rejected(client, parameters):
    response = client.get(SUGGESTIONS, params=parameters)
    assert response.status_code == 400
    assert message(response)
