"""The report on the collection over HTTP: once after each change, and without delaying other requests."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from ordrank import Collection
from ordrank.collection import doctor
from ordrank.collection.access import write_store
from ordrank.web.app import create_app
from tests.cli.running import document
from tests.web.conftest import API, FROM_PAGE, client_of, wait_until
from tests.web.raw_http import server_in_thread
from tests.web.requests import message, set_grade

DOCTOR = f"{API}/doctor"


def test_report_equals_that_of_the_command(client, trained):
    set_grade(client, 2, "0")
    report = document("doctor", trained)
    del report["collection"]
    assert client.get(DOCTOR).json() == report
    assert report["suspects"][0]["id"] == 2


def test_a_correction_removes_the_grade_from_the_report(client):
    set_grade(client, 2, "0")
    first = client.get(DOCTOR).json()["suspects"][0]
    assert (first["id"], first["grade"], first["estimate"]) == (2, "0", "1")
    set_grade(client, 2, first["estimate"])
    assert 2 not in [suspect["id"] for suspect in client.get(DOCTOR).json()["suspects"]]


def test_read_only_servers_report_too(trained):
    with client_of(trained, read_only=True) as client:
        assert client.get(DOCTOR).status_code == 200


def test_a_collection_without_a_model_or_grades_is_a_conflict(trained):
    with client_of(trained) as client:
        for number in range(1, 41):
            set_grade(client, number, None)
        response = client.get(DOCTOR)
        assert (response.status_code, response.json()["error"]["code"]) == (409, "collection")
        assert "no picture of the collection has a grade" in message(response)
        with write_store(trained) as store, store.transaction() as cursor:
            cursor.execute("DELETE FROM meta WHERE key = 'model'")
        response = client.get(DOCTOR)
        assert response.status_code == 409
        assert "no model yet" in message(response)


class Examination:
    """Takes the place of the examination, and lasts until it is released or stopped by its progress."""

    def __init__(self, examine):
        self._examine = examine
        self.started, self.released, self.stopped = threading.Event(), threading.Event(), threading.Event()
        self.count = 0

    def __call__(self, *arguments):
        self.count += 1
        self.started.set()
        try:
            while not self.released.wait(0.01):
                arguments[-1]("checking grades", 0, 1)
        except BaseException:
            self.stopped.set()
            raise
        return self._examine(*arguments)


@pytest.fixture
def examination(monkeypatch):
    examination = Examination(doctor._examine)
    monkeypatch.setattr(doctor, "_examine", examination)
    yield examination
    examination.released.set()


def test_other_requests_are_served_while_several_wait_for_one_report(trained, examination):
    with (
        server_in_thread(create_app(Collection(trained))) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=FROM_PAGE, timeout=30) as client,
        ThreadPoolExecutor() as pool,
    ):
        waiting = [pool.submit(client.get, DOCTOR) for _ in range(5)]
        assert examination.started.wait(30)
        assert client.get(f"{API}/rank?picture=1").status_code == 200
        assert client.get(f"{API}/pictures/1/thumbnail").status_code == 200
        assert not any(response.done() for response in waiting)
        examination.released.set()
        reports = [response.result().json() for response in waiting]
        assert examination.count == 1
        assert all(report == reports[0] for report in reports)
        set_grade(client, 2, "0")
        assert client.get(DOCTOR).json() != reports[0]
        assert examination.count == 2


def test_a_server_that_stops_does_not_wait_for_a_report(trained, examination):
    with (
        ThreadPoolExecutor() as pool,
        server_in_thread(create_app(Collection(trained)), timeout_graceful_shutdown=1) as port,
    ):
        waiting = pool.submit(httpx.get, f"http://127.0.0.1:{port}{DOCTOR}", timeout=30)
        assert examination.started.wait(30)
    wait_until(examination.stopped.is_set)
    assert waiting.exception() is not None or waiting.result().status_code == 503
