"""The interface where it takes something in: pictures to ask with, grades, training."""

import re
import time

import numpy as np
import pytest

from ordrank import service
from ordrank.collection.store import write_store
from ordrank.errors import UnknownError
from ordrank.web.uploads import Limits
from tests.service.drawing import draw, draw_files, rows
from tests.web.conftest import API, client_of
from tests.web.requests import claiming, message, png, say, send, trained_again


class TestQueries:
    def test_a_picture_of_the_collection_is_recognised(self, client, drawn):
        response = send(client, (drawn / "pictures" / "005.png").read_bytes())
        assert response.status_code == 201
        assert {key: response.json()[key] for key in ("kind", "id", "name")} == {
            "kind": "picture",
            "id": 6,
            "name": "005.png",
        }
        assert response.json() == client.get(f"{API}/rank?picture=6").json()["answer"]

    def test_a_new_one_gets_a_token_that_works(self, client):
        response = send(client, png(draw(99)), **{"X-Name": "my%20p%C3%AFcture%0A.png"})
        answer = response.json()
        assert (answer["kind"], answer["name"], answer["known_grade"]) == ("query", "my pïcture.png", None)
        assert re.fullmatch(r"[\w-]{20,}", answer["id"])
        assert client.get(f"{API}/rank", params={"query": answer["id"]}).json()["answer"] == answer
        assert client.get(f"{API}/queries/{answer['id']}/thumbnail").content.startswith(b"\xff\xd8")
        assert send(client, png(draw(99))).json()["id"] != answer["id"]

    def test_only_so_many_are_remembered(self, client, monkeypatch):
        monkeypatch.setattr("ordrank.service.desk.MOST_QUERIES", 3)
        tokens = [send(client, png(draw(number))).json()["id"] for number in range(90, 95)]
        found = [client.get(f"{API}/queries/{token}/thumbnail").status_code for token in tokens]
        assert found == [404, 404, 200, 200, 200]

    def test_nothing_is_written(self, client, trained):
        before = {
            path.name: path.stat().st_mtime_ns for path in trained.iterdir() if path.name.startswith(("coll", "model"))
        }
        send(client, png(draw(99)))
        after = {
            path.name: path.stat().st_mtime_ns for path in trained.iterdir() if path.name.startswith(("coll", "model"))
        }
        assert before == {name: when for name, when in after.items() if not name.endswith("-shm")} | {
            name: when for name, when in before.items() if name.endswith("-shm")
        }

    def test_one_that_is_added_later_becomes_a_picture(self, client, trained, tmp_path):
        draw_files(tmp_path / "new", [99])
        token = send(client, (tmp_path / "new" / "099.png").read_bytes()).json()["id"]
        service.add(trained, tmp_path / "new", n_jobs=1)
        answer = client.get(f"{API}/rank", params={"query": token}).json()["answer"]
        assert (answer["kind"], answer["name"]) == ("picture", "099.png")

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (b"", "is empty"),
            (b"no picture", "is not a picture that can be read"),
            (png(draw(99))[:300], "is cut off"),
            (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is not a picture that can be read"),
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is not a picture that can be read"),
        ],
    )
    def test_what_cannot_be_decoded_is_refused_with_the_reason(self, client, data, said):
        response = send(client, data, **{"X-Name": "mine.png"})
        assert response.status_code == 400
        assert f"mine.png {said}" in message(response)

    @pytest.mark.parametrize(
        ("features", "said"), [(lambda p: 1 / 0, "gives no features"), (lambda p: [[np.nan] * 48], "not finite")]
    )
    def test_what_gives_no_features_is_refused_with_the_reason(self, client, monkeypatch, features, said):
        monkeypatch.setattr("ordrank.features.pixels.Pixels.extract", lambda self, pictures: features(pictures))
        response = send(client, png(draw(99)))
        assert response.status_code == 400
        assert said in message(response)

    @pytest.mark.parametrize("kind", ["text/html", "multipart/form-data; boundary=x", "application/json", "images", ""])
    def test_other_types_are_refused(self, client, kind):
        assert send(client, png(draw(99)), kind).status_code == 415

    @pytest.mark.parametrize("size", [(8000, 5001), (20_000, 20_000), (2**31 - 1, 2**31 - 1)])
    def test_too_many_pixels_are_refused_before_they_are_decoded(self, client, monkeypatch, size):
        monkeypatch.setattr("ordrank.service.library.decode_picture", None)
        response = send(client, claiming(png(draw(99)), size))
        assert response.status_code == 413
        assert "40 million pixels" in message(response)

    def test_too_many_bytes_are_refused(self, trained):
        with client_of(trained, upload_limits=Limits(bytes=1000)) as client:
            assert send(client, b"x" * 1001).status_code == 413
            assert send(client, b"x" * 1000).status_code == 400

    def test_a_body_of_unknown_length_is_refused(self, client):
        response = client.post(f"{API}/queries", content=iter([png(draw(99))]), headers={"Content-Type": "image/png"})
        assert response.status_code == 400
        assert "Content-Length" in message(response)


class TestGrades:
    def test_a_correction_is_kept_shown_and_votes_at_once(self, client, trained):
        assert say(client, 6, "7").json() == {
            "id": 6, "name": "005.png", "grade": "7", "estimate": None, "value": 7.0, "width": 24, "height": 24
        }  # fmt: skip
        assert rows(trained, "SELECT grade FROM pictures WHERE id = 6") == [(7.0,)]
        assert client.get(f"{API}/pictures/6").json()["grade"] == "7"
        found = client.get(f"{API}/collection").json()
        assert [grade["grade"] for grade in found["grades"]] == ["0", "1", "2", "7"]
        assert [v["grade"] for v in client.get(f"{API}/rank?picture=1").json()["answer"]["votes"]] == [
            "0",
            "1",
            "2",
            "7",
        ]

    def test_one_that_is_taken_back_leaves_the_estimate_that_the_command_gives(self, client, trained):
        taken = say(client, 6, None).json()
        assert (taken["grade"], taken["estimate"]) == (None, "2")
        (answer,) = service.ask(trained, ["005.png"])
        assert (taken["value"], answer.known_grade) == (answer.value, None)
        assert rows(trained, "SELECT grade, estimate FROM pictures WHERE id = 6") == [(None, answer.value)]

    def test_changes_since_the_fit_are_counted_until_the_next(self, client):
        def changed():
            return client.get(f"{API}/collection").json()["changed"]

        say(client, 6, "1")
        say(client, 6, "1")
        say(client, 7, None)
        assert changed() == 2
        assert trained_again(client)["state"] == "done"
        assert changed() == 0

    @pytest.mark.parametrize(
        "content",
        [b"", b"{", b"[]", b"{}", b'{"grade": 3}', b'{"grade": true}', b'{"grade": "3", "name": "x"}', b"null", b"\xff",
         b'{"grade": "tall"}', b'{"grade": "nan"}', b'{"grade": "inf"}', b'{"grade": ""}', b'{"grade": "\\u0000"}',
         b'{"grade": "' + b"9" * 400 + b'"}'],
    )  # fmt: skip
    def test_nonsense_is_refused_and_changes_nothing(self, client, trained, content):
        before = rows(trained, "SELECT * FROM pictures")
        headers = {"Content-Type": "application/json"}
        response = client.put(f"{API}/pictures/6/grade", content=content, headers=headers)
        assert response.status_code == 400
        assert message(response)
        assert rows(trained, "SELECT * FROM pictures") == before

    def test_wrong_types_sizes_and_numbers_are_refused(self, client):
        url = f"{API}/pictures/6/grade"
        assert client.put(url, content=b'{"grade": "1"}', headers={"Content-Type": "text/plain"}).status_code == 415
        assert client.put(url, content=b" " * 20_000, headers={"Content-Type": "application/json"}).status_code == 413
        assert say(client, 1000, "1").status_code == 404

    def test_a_collection_that_another_process_writes_is_busy(self, client, trained):
        with write_store(trained):
            response = say(client, 6, "1")
        assert (response.status_code, response.json()["error"]["code"]) == (409, "busy")
        assert "is being written by process" in message(response)
        assert say(client, 6, "1").status_code == 200


class TestTraining:
    def test_learns_from_the_corrections(self, client, trained):
        before = rows(trained, "SELECT value FROM meta WHERE key = 'model'")
        for number in range(1, 7):
            say(client, number, "9")
        found = trained_again(client)
        assert found["state"] == "done"
        assert "learned from" in found["message"]
        after = client.get(f"{API}/collection").json()
        assert after["error"] is not None
        assert rows(trained, "SELECT value FROM meta WHERE key = 'model'") != before
        (expected,) = service.ask(trained, ["010.png"], k=5)
        assert client.get(f"{API}/rank?picture=11").json()["answer"]["value"] == expected.value

    def test_one_at_a_time(self, client, monkeypatch):
        from threading import Event

        gate = Event()
        fit = service.fit
        monkeypatch.setattr("ordrank.service.retraining.fit", lambda *a, **k: gate.wait(30) and fit(*a, **k))
        before = client.get(f"{API}/rank?picture=6").json()
        assert client.post(f"{API}/training").json()["state"] == "running"
        second = client.post(f"{API}/training")
        assert (second.status_code, second.json()["error"]["code"]) == (409, "busy")
        assert client.get(f"{API}/rank?picture=6").json() == before
        gate.set()
        while client.get(f"{API}/training").json()["state"] == "running":
            time.sleep(0.02)
        assert client.get(f"{API}/training").json()["state"] == "done"

    def test_what_goes_wrong_is_told(self, client, trained, monkeypatch):
        with write_store(trained):
            found = trained_again(client)
        assert found["state"] == "failed"
        assert "is being written" in found["message"]
        monkeypatch.setattr("ordrank.service.retraining.fit", lambda *a, **k: 1 / 0)
        assert trained_again(client) == {
            "state": "failed",
            "message": "training failed; the log says why",
            "done": 0,
            "total": 0,
        }

    def test_grades_cannot_be_changed_meanwhile_and_that_is_said(self, client, trained, monkeypatch):
        from threading import Event

        inside, gate = Event(), Event()

        def hold(images, collection, **options):
            with write_store(collection):
                inside.set()
                gate.wait(30)
            raise UnknownError("enough")

        monkeypatch.setattr("ordrank.service.retraining.fit", hold)
        client.post(f"{API}/training")
        inside.wait(30)
        assert say(client, 6, "1").status_code == 409
        gate.set()
