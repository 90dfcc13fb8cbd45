"""The API for uploads, grades and training."""

import re
from io import BytesIO

import numpy as np
import pytest
from PIL import ImageFile

from ordrank import Collection
from ordrank.collection.access import write_store
from ordrank.collection.types import QueryPicture
from ordrank.collection.writer_lock import writer_lock
from ordrank.errors import UnknownError
from ordrank.web import training_job
from ordrank.web.shared_state import QueryCache
from ordrank.web.uploads import Limits
from tests.collection.commands import add, rank
from tests.collection.pictures import draw, draw_files, rows
from tests.web.conftest import API, client_of, wait_until
from tests.web.requests import message, png, send, set_grade, train_again, with_claimed_size


class TestQueries:
    def test_stored_picture_is_recognised(self, client, drawn):
        response = send(client, (drawn / "pictures" / "005.png").read_bytes())
        assert response.status_code == 201
        assert {key: response.json()[key] for key in ("kind", "id", "name")} == {
            "kind": "picture",
            "id": 6,
            "name": "005.png",
        }
        assert response.json() == client.get(f"{API}/rank?picture=6").json()["query"]

    def test_stored_picture_needs_no_extractor(self, client, drawn, monkeypatch):
        monkeypatch.setattr("ordrank.collection.queries.extractor_of", lambda *_: 1 / 0)
        assert send(client, (drawn / "pictures" / "005.png").read_bytes()).json()["id"] == 6

    def test_new_picture_gets_a_token(self, client):
        query = send(client, png(draw(99)), **{"X-Name": "my%20p%C3%AFcture%0A.png"}).json()
        assert (query["kind"], query["name"], query["known_grade"]) == ("query", "my pïcture.png", None)
        assert re.fullmatch(r"[\w-]{20,}", query["id"])
        assert client.get(f"{API}/rank", params={"query": query["id"]}).json()["query"] == query
        assert client.get(f"{API}/queries/{query['id']}/thumbnail").content.startswith(b"\xff\xd8")
        assert send(client, png(draw(99))).json()["id"] != query["id"]

    def test_least_recently_used_queries_are_dropped(self, client, monkeypatch):
        monkeypatch.setattr("ordrank.web.shared_state.MAX_QUERIES", 3)
        tokens = [send(client, png(draw(number))).json()["id"] for number in range(90, 95)]
        found = [client.get(f"{API}/queries/{token}/thumbnail").status_code for token in tokens]
        assert found == [404, 404, 200, 200, 200]

    def test_a_client_with_many_queries_drops_its_own(self, monkeypatch):
        monkeypatch.setattr("ordrank.web.shared_state.MAX_CLIENT_QUERIES", 2)
        queries, cache = [QueryPicture(str(i), "", np.empty(0), b"") for i in range(4)], QueryCache()
        quiet = cache.put_query(queries[0], "quiet")
        first, *rest = [cache.put_query(query, "busy") for query in queries[1:]]
        assert [cache.get_query(token).name for token in (quiet, *rest)] == ["0", "2", "3"]
        with pytest.raises(UnknownError):
            cache.get_query(first)

    def test_upload_writes_nothing_to_disk(self, client, trained):
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

    def test_query_that_is_added_later_becomes_a_picture(self, client, trained, tmp_path):
        draw_files(tmp_path / "new", [99])
        token = send(client, (tmp_path / "new" / "099.png").read_bytes()).json()["id"]
        add(trained, tmp_path / "new", n_jobs=1)
        query = client.get(f"{API}/rank", params={"query": token}).json()["query"]
        assert (query["kind"], query["name"]) == ("picture", "099.png")

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b"", "is empty"),
            (b"no picture", "is not a picture that can be read"),
            (png(draw(99))[:300], "is cut off"),
            (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is not a picture that can be read"),
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is not a picture that can be read"),
        ],
    )
    def test_undecodable_picture_is_rejected_with_the_reason(self, client, data, reason):
        response = send(client, data, **{"X-Name": "mine.png"})
        assert response.status_code == 400
        assert f"mine.png {reason}" in message(response)

    @pytest.mark.parametrize(
        ("features", "reason"), [(lambda p: 1 / 0, "gives no features"), (lambda p: [[np.nan] * 48], "not finite")]
    )
    def test_picture_without_features_is_rejected_with_the_reason(self, client, monkeypatch, features, reason):
        monkeypatch.setattr("ordrank.features.pixels.Pixels.extract", lambda self, pictures: features(pictures))
        response = send(client, png(draw(99)))
        assert response.status_code == 400
        assert reason in message(response)

    @pytest.mark.parametrize("kind", ["text/html", "multipart/form-data; boundary=x", "application/json", "images", ""])
    def test_other_content_types_are_rejected(self, client, kind):
        assert send(client, png(draw(99)), kind).status_code == 415

    @pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
    @pytest.mark.parametrize("size", [(10_000, 10_001), (20_000, 20_000), (2**31 - 1, 2**31 - 1)])
    def test_too_many_pixels_are_rejected_before_decoding(self, client, monkeypatch, size):
        monkeypatch.setattr(ImageFile.ImageFile, "load", None)
        response = send(client, with_claimed_size(png(draw(99)), size))
        assert response.status_code == 413
        assert "more than 100 million" in message(response)

    def test_large_jpeg_is_shrunk_while_it_is_decoded(self, client, monkeypatch):
        stream = BytesIO()
        draw(99).resize((240, 240)).save(stream, "JPEG")
        monkeypatch.setattr("ordrank.features.pictures.MAX_PIXELS", 1000)
        assert send(client, stream.getvalue(), "image/jpeg").status_code == 201

    def test_stored_picture_of_any_size_is_recognised(self, client, drawn, monkeypatch):
        monkeypatch.setattr("ordrank.features.pictures.MAX_PIXELS", 1)
        assert send(client, png(draw(99))).status_code == 413
        assert send(client, (drawn / "pictures" / "005.png").read_bytes()).json()["id"] == 6

    def test_too_many_bytes_are_rejected(self, trained):
        with client_of(trained, upload_limits=Limits(bytes=1000)) as client:
            assert send(client, b"x" * 1001).status_code == 413
            assert send(client, b"x" * 1000).status_code == 400

    def test_body_without_content_length_is_rejected(self, client):
        response = client.post(f"{API}/queries", content=iter([png(draw(99))]), headers={"Content-Type": "image/png"})
        assert response.status_code == 400
        assert "Content-Length" in message(response)


class TestGrades:
    def test_grade_is_stored_returned_and_used_at_once(self, client, trained):
        before = client.get(f"{API}/pictures/6").json()
        assert set_grade(client, 6, "7").json() == {**before, "grade": "7", "value": 7.0}
        assert rows(trained, "SELECT grade FROM pictures WHERE id = 6") == [(7.0,)]
        assert client.get(f"{API}/pictures/6").json()["grade"] == "7"
        found = client.get(f"{API}/collection").json()
        assert [grade["grade"] for grade in found["grades"]] == ["0", "1", "2", "7"]
        probabilities = client.get(f"{API}/rank?picture=1").json()["query"]["probabilities"]
        assert [each["grade"] for each in probabilities] == ["0", "1", "2", "7"]

    def test_withdrawn_grade_leaves_the_stored_estimate(self, client, trained):
        before = client.get(f"{API}/pictures/6").json()
        withdrawn = set_grade(client, 6, None).json()
        assert withdrawn == {**before, "grade": None, "value": float(before["estimate"])}
        (result,) = rank(trained, ["005.png"])
        assert (withdrawn["value"], result.known_grade) == (result.value, None)
        assert rows(trained, "SELECT grade, estimate FROM pictures WHERE id = 6") == [(None, result.value)]

    def test_changes_since_the_fit_are_counted_until_the_next(self, client):
        def changed():
            return client.get(f"{API}/collection").json()["changed"]

        set_grade(client, 6, "1")
        set_grade(client, 6, "1")
        set_grade(client, 7, None)
        assert changed() == 2
        assert train_again(client)["state"] == "done"
        assert changed() == 0

    @pytest.mark.parametrize(
        "content",
        [b"", b"{", b"[]", b"{}", b'{"grade": 3}', b'{"grade": true}', b'{"grade": "3", "name": "x"}', b"null", b"\xff",
         b'{"grade": "tall"}', b'{"grade": "nan"}', b'{"grade": "inf"}', b'{"grade": ""}', b'{"grade": "\\u0000"}',
         b'{"grade": "' + b"9" * 400 + b'"}'],
    )  # fmt: skip
    def test_invalid_grades_are_rejected_and_change_nothing(self, client, trained, content):
        before = rows(trained, "SELECT * FROM pictures")
        headers = {"Content-Type": "application/json"}
        response = client.put(f"{API}/pictures/6/grade", content=content, headers=headers)
        assert response.status_code == 400
        assert message(response)
        assert rows(trained, "SELECT * FROM pictures") == before

    def test_wrong_content_types_sizes_and_ids_are_rejected(self, client):
        url = f"{API}/pictures/6/grade"
        assert client.put(url, content=b'{"grade": "1"}', headers={"Content-Type": "text/plain"}).status_code == 415
        assert client.put(url, content=b" " * 300_000, headers={"Content-Type": "application/json"}).status_code == 413
        assert set_grade(client, 1000, "1").status_code == 404

    def test_a_grade_is_set_while_another_process_imports_or_trains(self, client, trained):
        with write_store(trained):
            assert set_grade(client, 6, "1").json()["grade"] == "1"
        assert client.get(f"{API}/pictures/6").json()["grade"] == "1"


class TestTraining:
    def test_training_uses_changed_grades(self, client, trained):
        before = rows(trained, "SELECT value FROM meta WHERE key = 'model'")
        for number in range(1, 7):
            set_grade(client, number, "9")
        found = train_again(client)
        assert found["state"] == "done"
        assert "learned from" in found["message"]
        after = client.get(f"{API}/collection").json()
        assert after["error"] is not None
        assert rows(trained, "SELECT value FROM meta WHERE key = 'model'") != before
        (expected,) = rank(trained, ["010.png"], k=5)
        assert client.get(f"{API}/rank?picture=11").json()["query"]["value"] == expected.value

    def test_training_waits_for_another_process_that_writes(self, client, trained):
        with writer_lock(trained):
            assert client.post(f"{API}/training").status_code == 202
            wait_until(lambda: "waiting for another process" in client.get(f"{API}/training").json()["message"])
        wait_until(lambda: client.get(f"{API}/training").json()["state"] != "running")
        assert client.get(f"{API}/training").json()["state"] == "done"

    def test_second_training_is_rejected_while_one_runs(self, client, monkeypatch):
        from threading import Event

        gate = Event()
        fit = Collection.fit
        monkeypatch.setattr(Collection, "fit", lambda *a, **k: gate.wait(30) and fit(*a, **k))
        before = client.get(f"{API}/rank?picture=6").json()
        assert client.post(f"{API}/training").json()["state"] == "running"
        second = client.post(f"{API}/training")
        assert (second.status_code, second.json()["error"]["code"]) == (409, "busy")
        assert client.get(f"{API}/rank?picture=6").json() == before
        gate.set()
        wait_until(lambda: client.get(f"{API}/training").json()["state"] != "running")
        assert client.get(f"{API}/training").json()["state"] == "done"

    def test_failure_is_reported(self, client, trained, monkeypatch):
        monkeypatch.setattr(training_job, "_PATIENCE", 0.0)
        with write_store(trained):
            found = train_again(client)
        assert found["state"] == "failed"
        assert "are being imported" in found["message"]
        monkeypatch.setattr(Collection, "fit", lambda *a, **k: 1 / 0)
        assert train_again(client) == {
            "state": "failed",
            "message": "training failed; the log says why",
            "done": 0,
            "total": 0,
        }

    def test_grades_that_are_given_during_training_count_as_changed_after_it(self, client, trained, monkeypatch):
        from threading import Event

        from ordrank.collection import train as training

        inside, gate = Event(), Event()
        serialize = training.serialize_model

        def hold(model):
            inside.set()
            gate.wait(30)
            return serialize(model)

        monkeypatch.setattr(training, "serialize_model", hold)
        client.post(f"{API}/training")
        assert inside.wait(30)
        assert set_grade(client, 6, "1").json()["grade"] == "1"
        gate.set()
        wait_until(lambda: client.get(f"{API}/training").json()["state"] != "running")
        assert client.get(f"{API}/training").json()["state"] == "done"
        assert client.get(f"{API}/pictures/6").json()["grade"] == "1"
        assert client.get(f"{API}/collection").json()["changed"] == 1
        monkeypatch.undo()
        assert train_again(client)["state"] == "done"
        assert client.get(f"{API}/collection").json()["changed"] == 0
