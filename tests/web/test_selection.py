"""The API for single and several pictures: grades, confirmations, new and removed pictures, exports, reports."""

import csv
import errno
import io
import os
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from ordrank.collection.access import write_store
from tests.collection.pictures import draw, names, rows
from tests.web.conftest import API, client_of
from tests.web.requests import message, png, send, set_grade


def post(client, path, **body):
    return client.post(f"{API}/{path}", json=body)


def add(client, data, name="a.png"):
    return client.post(f"{API}/pictures", content=data, headers={"Content-Type": "image/png", "X-Name": name})


class TestGrades:
    def test_several_pictures_get_a_grade_and_lose_it_together(self, client):
        before = [client.get(f"{API}/pictures/{number}").json() for number in (2, 3, 6)]
        graded = post(client, "grades", pictures=[2, 3, 6], grade="0").json()
        assert [(picture["id"], picture["grade"]) for picture in graded] == [(2, "0"), (3, "0"), (6, "0")]
        undone = post(client, "grades/undo").json()
        assert sorted(undone, key=lambda picture: picture["id"]) == before
        assert post(client, "grades/undo").json() == []

    def test_one_unknown_picture_changes_none(self, client, trained):
        before = rows(trained, "SELECT id, grade FROM pictures")
        assert post(client, "grades", pictures=[2, 1000], grade="0").status_code == 404
        assert rows(trained, "SELECT id, grade FROM pictures") == before

    def test_a_grade_off_the_scale_is_confirmed_first(self, client):
        response = set_grade(client, 6, "42", accept_new=False)
        assert (response.status_code, response.json()["error"]["code"]) == (409, "new_grade")
        assert "from 0 to 2" in message(response)
        assert post(client, "grades", pictures=[6], grade="42").status_code == 409
        assert client.get(f"{API}/pictures/6").json()["grade"] == "2"
        assert set_grade(client, 6, "42").json()["grade"] == "42"

    def test_the_key_of_another_change_is_a_conflict(self, client):
        assert post(client, "grades", pictures=[6], grade="0", key="a").status_code == 200
        response = post(client, "grades", pictures=[6, 7], grade="0", key="a")
        assert (response.status_code, response.json()["error"]["code"]) == (409, "conflict")
        assert post(client, "grades", pictures=[6], grade="0", key="a").status_code == 200
        assert post(client, "grades", pictures=[6], grade="0", key="").status_code == 400

    def test_graders_are_reported(self, client):
        for grader, grade in (("Ann", "0"), ("Ben", "2")):
            post(client, "grades", pictures=[6], grade=grade, grader=grader)
        report = client.get(f"{API}/graders").json()
        assert [grader["name"] for grader in report["graders"]] == ["Ann", "Ben"]
        assert report["disagreements"][0]["id"] == 6
        given = client.get(f"{API}/pictures/6/grades").json()
        assert [(grade["grader"], grade["grade"]) for grade in given] == [("Ann", "0"), ("Ben", "2")]

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"pictures": []},
            {"pictures": [6]},
            {"pictures": ["6"], "grade": "1"},
            {"pictures": [-1], "grade": "1"},
            {"pictures": list(range(10_001)), "grade": "1"},
            {"pictures": [6], "grade": "tall"},
            {"pictures": [6], "grade": "1", "grader": "x" * 101},
            {"pictures": [6], "grade": "1", "grader": "a\nb"},
        ],
        ids=range(9),
    )
    def test_impossible_requests_are_rejected(self, client, trained, body):
        before = rows(trained, "SELECT id, grade FROM pictures")
        assert post(client, "grades", **body).status_code == 400
        assert rows(trained, "SELECT id, grade FROM pictures") == before


class TestConfirmation:
    def test_a_confirmation_is_kept_and_withdrawn(self, client, trained):
        for confirmed in (True, False):
            response = client.put(f"{API}/pictures/6/confirmation", json={"confirmed": confirmed})
            assert response.json()["id"] == 6
            assert rows(trained, "SELECT count(*) FROM confirmed") == [(int(confirmed),)]
        assert client.put(f"{API}/pictures/1000/confirmation", json={"confirmed": True}).status_code == 404


class TestAddAndRemove:
    @pytest.mark.parametrize(
        ("number", "expected"),
        [(errno.ENOSPC, (507, "disk_full")), (errno.EACCES, (403, "forbidden")), (errno.EIO, (409, "collection"))],
    )
    def test_a_disk_that_takes_no_files_is_reported(self, client, monkeypatch, number, expected):
        def write(*arguments):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("ordrank.collection.added_files.write_files", write)
        response = add(client, png(draw(77)))
        assert (response.status_code, response.json()["error"]["code"]) == expected

    def test_files_that_cannot_be_deleted_stay_with_their_pictures(self, client, monkeypatch):
        added = add(client, png(draw(77))).json()["picture"]["id"]
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        assert post(client, "removals", pictures=[added]).status_code == 403
        assert client.get(f"{API}/pictures/{added}").status_code == 200

    def test_too_many_pixels_are_too_much(self, client, monkeypatch):
        monkeypatch.setattr("ordrank.features.pictures.MAX_PIXELS", 10)
        assert add(client, png(draw(77))).status_code == 413

    def test_others_do_not_wait_for_one_that_waits_for_a_writer(self, client, trained, monkeypatch):
        monkeypatch.setattr("ordrank.collection.added_files._TIMEOUT", 20.0)
        with ThreadPoolExecutor(1) as thread:
            with write_store(trained):
                waiting = thread.submit(add, client, png(draw(77)))
                time.sleep(0.3)
                assert send(client, png(draw(78))).status_code == 201
                assert client.get(f"{API}/pictures/6/large").status_code == 200
                assert not waiting.done()
            assert waiting.result(30).status_code == 201

    def test_a_picture_is_added_once_and_removed(self, client, trained):
        data = png(draw(77))
        response = add(client, data, "my%20scan.png")
        assert response.status_code == 201
        picture = response.json()["picture"]
        assert (picture["name"], picture["grade"], response.json()["is_new"]) == ("my scan.png", None, True)
        assert picture["estimate"] == str(77 % 3)
        again = add(client, data, "other.png")
        assert (again.status_code, again.json()) == (200, {"picture": picture, "is_new": False})
        assert client.get(f"{API}/collection").json()["pictures"] == 41
        assert post(client, "removals", pictures=[picture["id"], 6]).json() == {"removed": 2, "left": 39}
        assert client.get(f"{API}/pictures/{picture['id']}").status_code == 404
        assert len(names(trained)) == 39

    @pytest.mark.parametrize("data", [b"", b"no picture", png(draw(99))[:300]])
    def test_what_is_no_picture_is_named(self, client, trained, data):
        response = add(client, data, "mine.png")
        assert response.status_code == 400
        assert message(response).startswith("mine.png ")
        assert len(names(trained)) == 40

    @pytest.mark.parametrize("name", ["../../x.png", "/etc/x.png", "..%2F..%2Fx.png", "C:%5Cx.png", "%00", ".."])
    def test_no_name_leaves_the_collection(self, client, trained, name):
        assert add(client, png(draw(77)), name).status_code == 201
        (path,) = rows(trained, "SELECT path FROM pictures WHERE id > 40")[0]
        assert (trained / path).resolve().is_relative_to((trained / "pictures").resolve())
        assert (trained / path).is_file()

    def test_unknown_pictures_are_not_removed(self, client, trained):
        assert post(client, "removals", pictures=[6, 1000]).status_code == 404
        assert len(names(trained)) == 40


class TestImages:
    def test_large_versions_are_cached_by_content_and_size(self, client):
        response = client.get(f"{API}/pictures/6/large?side=12")
        assert Image.open(io.BytesIO(response.content)).size == (12, 12)
        tag = response.headers["etag"]
        assert client.get(f"{API}/pictures/6/large?side=12", headers={"If-None-Match": tag}).status_code == 304
        assert client.get(f"{API}/pictures/6/large?side=13", headers={"If-None-Match": tag}).status_code == 200

    @pytest.mark.parametrize("side", [0, -1, 4097, "x"])
    def test_impossible_sizes_are_rejected(self, client, side):
        assert client.get(f"{API}/pictures/6/large?side={side}").status_code == 400

    def test_a_missing_file_is_named_without_its_folder(self, client, pictures):
        (pictures / "005.png").unlink()
        response = client.get(f"{API}/pictures/6/large")
        assert response.status_code == 404
        assert "005.png" in message(response)
        assert str(pictures) not in message(response)


class TestExports:
    def test_a_table_of_some_pictures(self, client, trained):
        from ordrank.collection.access import write_store

        with write_store(trained) as store, store.transaction() as cursor:
            cursor.execute("UPDATE pictures SET name = '=1+1' WHERE id = 7")
        client.app.state.collection.refresh()
        response = post(client, "exports/table", pictures=[7, 6])
        assert "pictures.csv" in response.headers["content-disposition"]
        table = list(csv.DictReader(io.StringIO(response.text)))
        assert [line["name"] for line in table] == ["'=1+1", "005.png"]
        assert (table[1]["grade"], table[1]["estimate"], table[1]["width"]) == ("2", "2", "24")

    def test_files_of_some_pictures(self, client, drawn):
        response = post(client, "exports/files", pictures=[7, 6])
        archive = zipfile.ZipFile(io.BytesIO(response.content))
        assert archive.namelist() == ["006.png", "005.png"]
        assert archive.read("005.png") == (drawn / "pictures" / "005.png").read_bytes()

    @pytest.mark.parametrize("kind", ["table", "files"])
    def test_unknown_pictures_are_named(self, client, kind):
        assert post(client, f"exports/{kind}", pictures=[6, 1000]).status_code == 404


class TestReports:
    def test_quality(self, client):
        report = client.get(f"{API}/quality").json()
        assert (report["pictures"], report["graded"]) == (40, 30)
        assert report["error"] < 0.2
        assert len(report["calibration"]) == 6

    def test_grades_count_given_and_estimated(self, client):
        grades = client.get(f"{API}/collection").json()["grades"]
        for grade in grades:
            for given in ("true", "false"):
                total = client.get(f"{API}/pictures?grade={grade['grade']}&given={given}").json()["total"]
                assert total == grade["pictures" if given == "true" else "estimated"]


def test_nothing_changes_on_a_read_only_server(trained):
    with client_of(trained, read_only=True) as client:
        requests = [
            set_grade(client, 6, "1"),
            add(client, png(draw(77))),
            post(client, "grades", pictures=[6], grade="1"),
            post(client, "grades/undo"),
            post(client, "removals", pictures=[6]),
            client.put(f"{API}/pictures/6/confirmation", json={"confirmed": True}),
        ]
        assert {response.status_code for response in requests} == {403}
        assert post(client, "exports/table", pictures=[6]).status_code == 200
    assert len(names(trained)) == 40
