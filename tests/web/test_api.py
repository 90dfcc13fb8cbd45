"""The interface: what it says is what the collection holds and what the commands say."""

import csv
import io
import re
import shutil
import struct
import time
import zlib

import numpy as np
import pytest

from ordrank import service
from ordrank.collection.store import read_store, write_store
from ordrank.web.uploads import Limits
from tests.service.drawing import draw, draw_files, rows, write_grades
from tests.web.conftest import API, client_of

WORDS = ("green", "amber", "red")


def png(picture):
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()


def claiming(data, size):
    """A PNG whose head names another size."""
    head = b"IHDR" + struct.pack(">II", *size) + data[24:29]
    return data[:12] + head + struct.pack(">I", zlib.crc32(head)) + data[33:]


def send(client, data, kind="image/png", **headers):
    return client.post(f"{API}/queries", content=data, headers={"Content-Type": kind, **headers})


def say(client, number, grade):
    return client.put(f"{API}/pictures/{number}/grade", json={"grade": grade})


def message(response):
    return response.json()["error"]["message"]


def trained_again(client):
    assert client.post(f"{API}/training").status_code == 202
    for _ in range(600):
        found = client.get(f"{API}/training").json()
        if found["state"] != "running":
            return found
        time.sleep(0.05)
    raise AssertionError("training does not end")


class TestCollection:
    def test_is_described(self, client, trained):
        found, described = client.get(f"{API}/collection").json(), service.describe(trained)
        assert (found["pictures"], found["graded"]) == (described.pictures, described.graded) == (40, 30)
        assert {grade["grade"]: grade["pictures"] for grade in found["grades"]} == described.grades
        assert [grade["value"] for grade in found["grades"]] == [0, 1, 2]
        assert found["model"] == described.model
        assert (found["features"], found["fitted"]) == ("pixels:4", described.fitted)
        assert (found["changed"], found["read_only"], found["error"]) == (0, False, described.error)

    def test_without_a_model_is_shown_and_says_so(self, trained):
        with write_store(trained) as store, store._transaction() as cursor:
            cursor.execute("DELETE FROM meta WHERE key = 'model'")
        with client_of(trained) as client:
            assert client.get(f"{API}/collection").json()["model"] is None
            assert client.get(f"{API}/pictures").json()["total"] == 40
            assert client.get(f"{API}/points").headers["X-Count"] == "0"
            for response in (client.get(f"{API}/rank?picture=1"), send(client, png(draw(99)))):
                assert response.status_code == 409
                assert "no model yet" in message(response)
            assert say(client, 2, "2").json()["grade"] == "2"
            assert say(client, 2, None).json()["estimate"] is None
            assert trained_again(client)["state"] == "done"
            assert client.get(f"{API}/rank?picture=1").status_code == 200

    def test_named_grades_are_all_listed_and_written_as_words(self, drawn, tmp_path):
        collection = tmp_path / "named"
        graded = [f"{number:03d}.png" for number in range(30) if number % 3 != 1]
        file = write_grades(tmp_path / "words.csv", graded, grade=lambda name: WORDS[int(name[:3]) % 3])
        grades = service.Grades(file, order=WORDS)
        service.fit(drawn / "pictures", collection, grades=grades, features="pixels:2", n_jobs=1)
        with client_of(collection) as client:
            counts = [(g["grade"], g["pictures"]) for g in client.get(f"{API}/collection").json()["grades"]]
            assert counts == [("green", 10), ("amber", 0), ("red", 10)]
            number = client.get(f"{API}/pictures?grade=red&given=true").json()["items"][0]["id"]
            assert say(client, number, "amber").json()["grade"] == "amber"
            assert client.get(f"{API}/pictures?grade=amber&given=true").json()["total"] == 1
            for grade in WORDS:
                listed = client.get(f"{API}/pictures", params={"grade": grade}).json()["items"]
                assert {item["grade"] or item["estimate"] for item in listed} == {grade}
            assert "its grades are green, amber, red" in message(say(client, number, "1"))


class TestPictures:
    def test_come_by_grade_then_name_in_pages(self, client):
        whole = client.get(f"{API}/pictures?limit=200").json()
        assert whole["total"] == len(whole["items"]) == 40
        assert whole["items"] == sorted(whole["items"], key=lambda item: (item["value"], item["name"]))
        pages = [client.get(f"{API}/pictures?limit=7&offset={start}").json()["items"] for start in range(0, 49, 7)]
        assert [item for page in pages for item in page] == whole["items"]

    def test_are_filtered_by_grade_and_by_whether_it_was_given(self, client):
        parts = [
            client.get(f"{API}/pictures?grade={grade}&given={given}").json()
            for grade in range(3)
            for given in ("true", "false")
        ]
        assert sum(part["total"] for part in parts) == 40
        assert [part["total"] for part in parts[::2]] == [10, 10, 10]
        for part, given in zip(parts, (True, False) * 3, strict=True):
            assert all((item["grade"] is not None) == given == (item["estimate"] is None) for item in part["items"])
        assert client.get(f"{API}/pictures?grade=7").json() == {"total": 0, "items": []}

    def test_one_is_told_as_it_is_kept(self, client, trained):
        with read_store(trained) as store:
            for row in store.rows()[:5]:
                found = client.get(f"{API}/pictures/{row.id}").json()
                assert (found["name"], found["width"], found["height"]) == (row.name, row.width, row.height)
                assert found["value"] == (row.estimate if row.grade is None else row.grade)

    def test_thumbnails_are_those_kept_and_are_sent_once(self, client, trained):
        with read_store(trained) as store:
            (kept,) = store.thumbnails([3])
        first = client.get(f"{API}/pictures/3/thumbnail")
        assert (first.content, first.headers["Content-Type"]) == (kept, "image/jpeg")
        tag = first.headers["ETag"]
        for known in (tag, f'"other", W/{tag}', "*"):
            again = client.get(f"{API}/pictures/3/thumbnail", headers={"If-None-Match": known})
            assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
        assert client.get(f"{API}/pictures/3/thumbnail", headers={"If-None-Match": '"other"'}).status_code == 200
        assert client.get(f"{API}/pictures/4/thumbnail").headers["ETag"] != tag

    def test_a_thumbnail_of_new_content_has_another_tag(self, client, trained):
        before = client.get(f"{API}/pictures/3/thumbnail")
        with write_store(trained) as store, store._transaction() as cursor:
            cursor.execute("UPDATE pictures SET sha256 = 'new' WHERE id = 3")
            cursor.execute("UPDATE thumbnails SET jpeg = (SELECT jpeg FROM thumbnails WHERE id = 4) WHERE id = 3")
        after = client.get(f"{API}/pictures/3/thumbnail", headers={"If-None-Match": before.headers["ETag"]})
        assert after.status_code == 200
        assert after.content != before.content

    @pytest.mark.parametrize("number", ["0", "41", str(2**31 - 1)])
    @pytest.mark.parametrize("rest", ["", "/thumbnail"])
    def test_unknown_ones_are_not_found(self, client, number, rest):
        response = client.get(f"{API}/pictures/{number}{rest}")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")

    @pytest.mark.parametrize("number", ["-1", "x", "1.5", str(2**31), "9" * 30])
    def test_what_is_no_number_is_refused(self, client, number):
        assert client.get(f"{API}/pictures/{number}").status_code == 400


class TestRank:
    @pytest.mark.parametrize(
        ("params", "options"),
        [
            ({}, {}),
            ({"within_grade": "true"}, {"within_grade": True}),
            ({"lowest": "1"}, {"lowest": "1"}),
            ({"lowest": "1", "highest": "1"}, {"lowest": "1", "highest": "1"}),
            ({"highest": "0", "within_grade": "true"}, {"highest": "0", "within_grade": True}),
        ],
    )
    def test_says_what_the_command_says(self, client, trained, tmp_path, params, options):
        draw(99).save(tmp_path / "new.png")
        asked = [("005.png", {"picture": 6}), ("004.png", {"picture": 5})]
        token = send(client, (tmp_path / "new.png").read_bytes()).json()["id"]
        asked.append((str(tmp_path / "new.png"), {"query": token}))
        for name, question in asked:
            (expected,) = service.ask(trained, [name], k=200, **options)
            found = client.get(f"{API}/rank", params={**question, **params, "limit": 200}).json()
            answer = found["answer"]
            assert (answer["grade"], answer["value"]) == (expected.grade, expected.value)
            assert answer["known_grade"] == expected.known_grade
            assert [(v["grade"], v["share"]) for v in answer["votes"]] == [(v.grade, v.share) for v in expected.votes]
            keys = ("name", "grade", "estimated", "distance", "order_distance", "appearance_distance")
            assert [tuple(item[key] for key in keys) for item in found["items"]] == [
                tuple(getattr(picture, key) for key in keys) for picture in expected.results
            ]
            assert found["total"] == len(expected.results)

    def test_pages_join_to_the_whole(self, client):
        whole = client.get(f"{API}/rank?picture=6&limit=200").json()
        pages = [client.get(f"{API}/rank?picture=6&limit=6&offset={start}").json() for start in range(0, 48, 6)]
        assert [item for page in pages for item in page["items"]] == whole["items"]
        assert {page["total"] for page in pages} == {whole["total"]} == {39}

    def test_as_a_table_it_is_the_same(self, client):
        listed = client.get(f"{API}/rank?picture=6&limit=10&offset=5").json()["items"]
        response = client.get(f"{API}/rank.csv?picture=6&limit=10&offset=5")
        assert response.headers["Content-Type"].startswith("text/csv")
        assert response.headers["Content-Disposition"].startswith("attachment")
        head, *lines = csv.reader(io.StringIO(response.text))
        assert head == ["rank", "name", "grade", "estimated", "distance", "order", "appearance"]
        assert [line[:3] for line in lines] == [[str(i), e["name"], e["grade"]] for i, e in enumerate(listed, start=6)]
        assert [float(line[4]) for line in lines] == pytest.approx([item["distance"] for item in listed], rel=1e-8)

    def test_a_table_holds_no_formula(self, trained):
        with write_store(trained) as store, store._transaction() as cursor:
            cursor.execute("UPDATE pictures SET name = '=1+1,\"x\".png' WHERE id = 7")
        with client_of(trained) as client:
            lines = list(csv.reader(io.StringIO(client.get(f"{API}/rank.csv?picture=6&limit=100").text)))
        assert '\'=1+1,"x".png' in [line[1] for line in lines]

    @pytest.mark.parametrize(
        "params",
        [
            "",
            "picture=1&query=x",
            "picture=1&limit=0",
            "picture=1&limit=201",
            "picture=1&offset=-1",
            "picture=x",
            "picture=1&lowest=nan",
            "picture=1&highest=tall",
            "picture=1&within_grade=perhaps",
        ],
    )
    def test_nonsense_is_refused_in_a_sentence(self, client, params):
        response = client.get(f"{API}/rank?{params}")
        assert (response.status_code, response.json()["error"]["code"]) == (400, "bad_request")
        assert message(response)

    def test_unknown_queries_are_not_found(self, client):
        assert client.get(f"{API}/rank?query=nobody").status_code == 404
        assert client.get(f"{API}/rank?picture=1000").status_code == 404
        assert client.get(f"{API}/queries/nobody/thumbnail").status_code == 404


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
        monkeypatch.setattr("ordrank.service.library.MOST_QUERIES", 3)
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


class TestPoints:
    def read(self, response):
        n, data = int(response.headers["X-Count"]), response.content
        ids, rest = np.frombuffer(data[: 4 * n], "<i4"), np.frombuffer(data[4 * n :], "<f4")
        return ids, rest[: 3 * n].reshape(n, 3), rest[3 * n :]

    def test_are_all_pictures_with_their_grades_and_order(self, client, trained):
        ids, positions, grades = self.read(client.get(f"{API}/points"))
        with read_store(trained) as store:
            places = store.places()
        np.testing.assert_array_equal(ids, places.ids)
        np.testing.assert_array_equal(grades, np.where(np.isnan(places.grades), places.estimates, places.grades))
        n_order = service.describe(trained).dimensions["order"]
        np.testing.assert_allclose(positions[:, :n_order], places.vectors[:, :n_order][:, :3], rtol=1e-6)
        assert (positions.std(axis=0) > 0).all()

    def test_a_picture_that_is_asked_about_is_where_its_point_is(self, client):
        ids, positions, _ = self.read(client.get(f"{API}/points"))
        for number in (1, 6, 30):
            found = client.get(f"{API}/rank?picture={number}").json()["answer"]["position"]
            np.testing.assert_allclose(found, positions[ids == number][0], rtol=1e-3, atol=1e-4)

    def test_of_too_many_a_sample_is_shown_that_stays_the_same(self, client):
        first, second = client.get(f"{API}/points?limit=10"), client.get(f"{API}/points?limit=10")
        assert first.content == second.content
        assert (first.headers["X-Count"], first.headers["X-Total"]) == ("10", "40")
        assert len(set(self.read(first)[0].tolist())) == 10


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
            raise service.UnknownError("enough")

        monkeypatch.setattr("ordrank.service.retraining.fit", hold)
        client.post(f"{API}/training")
        inside.wait(30)
        assert say(client, 6, "1").status_code == 409
        gate.set()


def test_a_copy_of_the_collection_answers_the_same(client, trained, tmp_path):
    with client_of(shutil.copytree(trained, tmp_path / "copy")) as other:
        assert other.get(f"{API}/rank?picture=6").json() == client.get(f"{API}/rank?picture=6").json()
