"""The API returns what the collection holds and what the commands print."""

import csv
import io
import shutil
from dataclasses import asdict
from threading import current_thread

import numpy as np
import pytest

from ordrank.collection.access import read_store, write_store
from ordrank.collection.picture_files import PictureFiles
from ordrank.collection.writer_lock import writer_lock
from tests.collection.commands import fit, info, rank
from tests.collection.pictures import draw, write_grades
from tests.web.conftest import API, client_of
from tests.web.requests import WORDS, message, png, send, set_grade, train_again


class TestCollection:
    def test_summary_equals_that_of_the_command(self, client, trained):
        found, described = client.get(f"{API}/collection").json(), info(trained)
        assert (found["pictures"], found["graded"]) == (described.pictures, described.graded) == (40, 30)
        assert found["grades"] == [asdict(count) for count in described.grades]
        assert [grade["value"] for grade in found["grades"]] == [0, 1, 2]
        assert found["model"] == described.model
        assert (found["features"], found["fitted"]) == ("pixels:4", described.fitted)
        assert (found["changed"], found["read_only"], found["error"]) == (0, False, described.error)

    def test_collection_without_a_model_can_be_listed_but_not_ranked(self, trained):
        with write_store(trained) as store, store.transaction() as cursor:
            cursor.execute("DELETE FROM meta WHERE key = 'model'")
        with client_of(trained) as client:
            assert client.get(f"{API}/collection").json()["model"] is None
            assert client.get(f"{API}/pictures").json()["total"] == 40
            assert client.get(f"{API}/points").headers["X-Count"] == "0"
            for response in (client.get(f"{API}/rank?picture=1"), send(client, png(draw(99)))):
                assert response.status_code == 409
                assert "no model yet" in message(response)
            assert set_grade(client, 2, "2").json()["grade"] == "2"
            assert set_grade(client, 2, None).json()["grade"] is None
            assert train_again(client)["state"] == "done"
            assert client.get(f"{API}/rank?picture=1").status_code == 200

    def test_no_response_holds_an_absolute_path(self, trained, monkeypatch):
        with write_store(trained) as store:
            store.set_extractor("onnx:/home/someone/networks/network.onnx")
        with client_of(trained) as client:
            assert client.get(f"{API}/collection").json()["features"] == "onnx:network.onnx"
            for address in ("collection", "pictures", "pictures/1", "rank?picture=1", "rank.csv?picture=1", "training"):
                assert str(trained.parent) not in client.get(f"{API}/{address}").text
            monkeypatch.setattr("ordrank.web.training_job._PATIENCE", 0.0)
            with writer_lock(trained):
                assert train_again(client)["message"].startswith("pictures are being imported or trained with")

    def test_named_grades_are_listed_and_set_by_name(self, drawn, tmp_path):
        collection = tmp_path / "named"
        graded = [f"{number:03d}.png" for number in range(30) if number % 3 != 1]
        file = write_grades(tmp_path / "words.csv", graded, grade=lambda name: WORDS[int(name[:3]) % 3])
        fit(drawn / "pictures", collection, labels=file, order=WORDS, features="pixels:2", n_jobs=1)
        with client_of(collection) as client:
            counts = [(g["grade"], g["pictures"]) for g in client.get(f"{API}/collection").json()["grades"]]
            assert counts == [("green", 10), ("amber", 0), ("red", 10)]
            number = client.get(f"{API}/pictures?grade=red&given=true").json()["items"][0]["id"]
            assert set_grade(client, number, "amber").json()["grade"] == "amber"
            assert client.get(f"{API}/pictures?grade=amber&given=true").json()["total"] == 1
            for grade in WORDS:
                listed = client.get(f"{API}/pictures", params={"grade": grade}).json()["items"]
                assert {item["grade"] or item["estimate"] for item in listed} == {grade}
            assert "its grades are green, amber, red" in message(set_grade(client, number, "1"))


class TestPictures:
    def test_pages_are_sorted_by_grade_and_name(self, client):
        whole = client.get(f"{API}/pictures?limit=200").json()
        assert whole["total"] == len(whole["items"]) == 40
        assert whole["items"] == sorted(whole["items"], key=lambda item: (item["value"], item["name"]))
        pages = [client.get(f"{API}/pictures?limit=7&offset={start}").json()["items"] for start in range(0, 49, 7)]
        assert [item for page in pages for item in page] == whole["items"]

    def test_filter_by_grade_and_by_given_or_estimated(self, client):
        parts = [
            client.get(f"{API}/pictures?grade={grade}&given={given}").json()
            for grade in range(3)
            for given in ("true", "false")
        ]
        assert sum(part["total"] for part in parts) == 40
        assert [part["total"] for part in parts[::2]] == [10, 10, 10]
        for part, given in zip(parts, (True, False) * 3, strict=True):
            assert all((item["grade"] is not None) == given for item in part["items"])
            assert all(item["estimate"] and item["lowest"] and item["highest"] for item in part["items"])
        assert client.get(f"{API}/pictures?grade=7").json() == {"total": 0, "items": []}

    def test_picture_equals_its_database_row(self, client, trained):
        with read_store(trained) as store:
            for row in store.rows()[:5]:
                found = client.get(f"{API}/pictures/{row.id}").json()
                assert (found["name"], found["width"], found["height"]) == (row.name, row.width, row.height)
                assert found["value"] == (row.estimate if row.grade is None else row.grade)

    def test_thumbnails_are_stored_ones_and_cached_by_etag(self, client, trained):
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

    def test_a_thumbnail_that_is_no_jpeg_is_not_sent(self, client, trained):
        with write_store(trained) as store, store.transaction() as cursor:
            cursor.execute("UPDATE thumbnails SET jpeg = ? WHERE id = 3", (b"<svg onload='alert(1)'/>",))
        response = client.get(f"{API}/pictures/3/thumbnail")
        assert (response.status_code, response.headers["Content-Type"]) == (409, "application/json")
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert b"svg" not in response.content

    def test_each_size_has_an_etag_of_its_own(self, client):
        paths = ("thumbnail", "large?side=24", "large?side=256")
        assert len({client.get(f"{API}/pictures/3/{path}").headers["ETag"] for path in paths}) == 3

    def test_no_content_is_read_on_the_event_loop(self, client, monkeypatch):
        threads, sha256 = [], PictureFiles.sha256
        monkeypatch.setattr(PictureFiles, "sha256", lambda *a: threads.append(current_thread().name) or sha256(*a))
        for path in ("thumbnail", "large"):
            assert client.get(f"{API}/pictures/3/{path}").status_code == 200
        assert all(name.startswith("AnyIO worker") for name in threads)

    def test_etag_changes_with_the_content(self, client, trained):
        before = client.get(f"{API}/pictures/3/thumbnail")
        with write_store(trained) as store, store.transaction() as cursor:
            cursor.execute("UPDATE pictures SET sha256 = 'new' WHERE id = 3")
            cursor.execute("UPDATE thumbnails SET jpeg = (SELECT jpeg FROM thumbnails WHERE id = 4) WHERE id = 3")
        after = client.get(f"{API}/pictures/3/thumbnail", headers={"If-None-Match": before.headers["ETag"]})
        assert after.status_code == 200
        assert after.content != before.content

    @pytest.mark.parametrize("number", ["0", "41", str(2**31 - 1)])
    @pytest.mark.parametrize("rest", ["", "/thumbnail"])
    def test_unknown_pictures_are_not_found(self, client, number, rest):
        response = client.get(f"{API}/pictures/{number}{rest}")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")

    @pytest.mark.parametrize("number", ["-1", "x", "1.5", str(2**31), "9" * 30])
    def test_invalid_ids_are_rejected(self, client, number):
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
    def test_result_equals_that_of_the_command(self, client, trained, tmp_path, params, options):
        draw(99).save(tmp_path / "new.png")
        queries = [("005.png", {"picture": 6}), ("004.png", {"picture": 5})]
        token = send(client, (tmp_path / "new.png").read_bytes()).json()["id"]
        queries.append((str(tmp_path / "new.png"), {"query": token}))
        for name, source in queries:
            (expected,) = rank(trained, [name], k=200, **options)
            response = client.get(f"{API}/rank", params={**source, **params, "limit": 200}).json()
            query = response["query"]
            assert (query["grade"], query["value"]) == (expected.grade, expected.value)
            assert query["known_grade"] == expected.known_grade
            for key in ("lowest", "highest", "shown_grade", "explanation", "novelty", "is_novel"):
                assert query[key] == getattr(expected, key)
            assert query["probabilities"] == [asdict(each) for each in expected.probabilities]
            keys = ("name", "grade", "estimated", "distance", "order_distance", "appearance_distance")
            assert [tuple(item[key] for key in keys) for item in response["items"]] == [
                tuple(getattr(picture, key) for key in keys) for picture in expected.hits
            ]
            assert response["total"] == len(expected.hits)

    def test_pages_concatenate_to_the_full_ranking(self, client):
        whole = client.get(f"{API}/rank?picture=6&limit=200").json()
        pages = [client.get(f"{API}/rank?picture=6&limit=6&offset={start}").json() for start in range(0, 48, 6)]
        assert [item for page in pages for item in page["items"]] == whole["items"]
        assert {page["total"] for page in pages} == {whole["total"]} == {39}

    def test_csv_equals_json(self, client):
        listed = client.get(f"{API}/rank?picture=6&limit=10&offset=5").json()["items"]
        response = client.get(f"{API}/rank.csv?picture=6&limit=10&offset=5")
        assert response.headers["Content-Type"].startswith("text/csv")
        assert response.headers["Content-Disposition"].startswith("attachment")
        head, *lines = csv.reader(io.StringIO(response.text))
        assert head == ["rank", "name", "grade", "estimated", "distance", "order", "appearance"]
        assert [line[:3] for line in lines] == [[str(i), e["name"], e["grade"]] for i, e in enumerate(listed, start=6)]
        assert [float(line[4]) for line in lines] == pytest.approx([item["distance"] for item in listed], rel=1e-8)

    @pytest.mark.parametrize("name", ['=1+1,"x".png', "+1+1", "-1+1", "@sum(1)", "\t=1"])
    def test_csv_escapes_formulas(self, trained, name):
        with write_store(trained) as store, store.transaction() as cursor:
            cursor.execute("UPDATE pictures SET name = ? WHERE id = 7", [name])
        with client_of(trained) as client:
            lines = list(csv.reader(io.StringIO(client.get(f"{API}/rank.csv?picture=6&limit=100").text)))
        assert f"'{name}" in [line[1] for line in lines]

    def test_csv_leaves_negative_grades_numbers(self, client):
        set_grade(client, 7, "-1.5")
        lines = csv.DictReader(io.StringIO(client.get(f"{API}/rank.csv?picture=6&limit=100").text))
        assert "-1.5" in [line["grade"] for line in lines]

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
    def test_invalid_parameters_are_rejected_with_a_message(self, client, params):
        response = client.get(f"{API}/rank?{params}")
        assert (response.status_code, response.json()["error"]["code"]) == (400, "bad_request")
        assert message(response)

    def test_unknown_queries_are_not_found(self, client):
        assert client.get(f"{API}/rank?query=nobody").status_code == 404
        assert client.get(f"{API}/rank?picture=1000").status_code == 404
        assert client.get(f"{API}/queries/nobody/thumbnail").status_code == 404


class TestPoints:
    def read(self, response):
        n, data = int(response.headers["X-Count"]), response.content
        positions = np.frombuffer(data[4 * n : 16 * n], "<f4").reshape(n, 3)
        return np.frombuffer(data[: 4 * n], "<i4"), positions, np.frombuffer(data[16 * n :], "<f8")

    def test_points_are_all_embedded_pictures_with_grades(self, client, trained):
        ids, positions, grades = self.read(client.get(f"{API}/points"))
        with read_store(trained) as store:
            embeddings = store.embeddings()
        np.testing.assert_array_equal(ids, embeddings.ids)
        np.testing.assert_array_equal(
            grades, np.where(np.isnan(embeddings.grades), embeddings.estimates, embeddings.grades)
        )
        n_order = info(trained).dimensions["order"]
        np.testing.assert_allclose(positions[:, :n_order], embeddings.vectors[:, :n_order][:, :3], rtol=1e-6)
        assert (positions.std(axis=0) > 0).all()

    def test_grades_that_look_like_dates_stay_apart(self, client):
        for picture, grade in ((6, "20240130"), (7, "20240131")):
            set_grade(client, picture, grade)
        ids, _, grades = self.read(client.get(f"{API}/points"))
        assert grades[np.isin(ids, (6, 7))].tolist() == [20240130, 20240131]

    def test_position_of_a_query_is_that_of_its_point(self, client):
        ids, positions, _ = self.read(client.get(f"{API}/points"))
        for number in (1, 6, 30):
            found = client.get(f"{API}/rank?picture={number}").json()["query"]["position"]
            np.testing.assert_allclose(found, positions[ids == number][0], rtol=1e-3, atol=1e-4)

    def test_sample_of_points_is_deterministic(self, client):
        first, second = client.get(f"{API}/points?limit=10"), client.get(f"{API}/points?limit=10")
        assert first.content == second.content
        assert (first.headers["X-Count"], first.headers["X-Total"]) == ("10", "40")
        assert len(set(self.read(first)[0].tolist())) == 10


def test_copied_collection_gives_the_same_ranking(client, trained, tmp_path):
    with client_of(shutil.copytree(trained, tmp_path / "copy")) as other:
        assert other.get(f"{API}/rank?picture=6").json() == client.get(f"{API}/rank?picture=6").json()
