"""A damaged collection ends the server before its address is printed; invalid changes do not wait for other writers."""

import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from fastapi.testclient import TestClient

from ordrank import Collection
from ordrank.web.app import create_app
from tests.web.conftest import API, FROM_PAGE
from tests.web.requests import message, set_grade


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_damaged_collection_is_reported_before_the_address(trained, workers):
    for file in trained.glob("model-*.safetensors"):
        file.write_bytes(b"damaged")
    options = ["--port", "0", "--workers", workers]
    command = [sys.executable, "-m", "ordrank", "serve", str(trained), *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "is damaged" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.fixture
def waiting(trained):
    """A client of a server whose write lock another process holds until the event is set."""
    released = threading.Event()

    @contextmanager
    def write_lock():
        assert released.wait(30)
        yield

    app = create_app(Collection(trained, write_lock=write_lock))
    with TestClient(app, base_url="http://localhost", headers=FROM_PAGE) as client:
        yield client, released
        released.set()


def test_invalid_changes_are_rejected_without_the_write_lock(waiting):
    client, released = waiting
    assert set_grade(client, 1, "high").status_code == 400
    assert "not a grade" in message(set_grade(client, 1, "high"))
    assert set_grade(client, 1000, "1").status_code == 404
    assert not released.is_set()


def test_valid_changes_wait_for_the_write_lock(waiting):
    client, released = waiting
    responses = []
    thread = threading.Thread(target=lambda: responses.append(set_grade(client, 1, "2")))
    thread.start()
    thread.join(0.3)
    assert not responses
    released.set()
    thread.join(30)
    assert responses[0].status_code == 200
    assert client.get(f"{API}/pictures/1").json()["grade"] == "2"
