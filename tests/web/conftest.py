"""A trained collection, an application that serves it, and real servers."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import pytest
from fastapi.testclient import TestClient

from ordrank import Collection
from ordrank.features import decode_picture
from ordrank.web.app import create_app
from tests.collection.conftest import _trained_once as _trained_once
from tests.collection.conftest import drawn as drawn
from tests.collection.conftest import pictures as pictures
from tests.collection.conftest import trained as trained

API = "/api/v1"
FROM_PAGE = {"Sec-Fetch-Site": "same-origin"}


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "that takes too long"
        time.sleep(0.02)


@contextmanager
def client_of(collection, *, headers=FROM_PAGE, decode=decode_picture, **options):
    """Requests to an application in this process, which decodes pictures itself, as its page would send them."""
    app = create_app(Collection(collection), decode=decode, **options)
    with TestClient(app, base_url="http://localhost", headers=headers) as client:
        yield client


@pytest.fixture
def client(trained):
    with client_of(trained) as client:
        yield client


class Server:
    """A server in processes of its own. Code of the test can replace functions before it starts."""

    def __init__(self, collection, *options, port=0, code=""):
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        start = ["-c", f"{code}\nfrom ordrank.cli import app; app()"] if code else ["-m", "ordrank"]
        access = [] if {"--token", "--host"} & set(options) else ["--no-token"]
        command = [sys.executable, *start, "serve", str(collection), "--port", str(port), *access, *options]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, **pipes, env=environment, start_new_session=True)
        line = self.process.stdout.readline()
        found = re.search(r"http://([^:/]+|\[[^\]]+\]):(\d+)/", line)
        if found is None:
            pytest.fail(f"the server does not start: {line}{self.process.communicate(timeout=30)}")
        self.address = line[found.start() :].strip()
        self.port = int(found[2])
        self.url = f"http://127.0.0.1:{self.port}"
        self._wait()

    def _wait(self):
        for _ in range(200):
            try:
                httpx.get(f"{self.url}/nothing", timeout=5)
                return
            except httpx.TransportError:
                time.sleep(0.05)
        pytest.fail("the server does not respond")

    def client(self, **options):
        return httpx.Client(base_url=self.url, headers=FROM_PAGE, timeout=30, **options)

    def press_ctrl_c(self):
        """Send SIGINT to all processes, as a terminal does."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait(self):
        """Wait for its end; return exit code, standard output and standard error."""
        output, errors = self.process.communicate(timeout=30)
        return self.process.returncode, output, errors

    def end(self, how=signal.SIGKILL):
        """Send a signal; return exit code, standard output and standard error."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.wait()


@contextmanager
def serving(collection, *options, **others):
    server = Server(collection, *options, **others)
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
def server(trained):
    with serving(trained) as server:
        yield server


@pytest.fixture(scope="module")
def module_server(_trained_once, tmp_path_factory):
    with serving(shutil.copytree(_trained_once, tmp_path_factory.mktemp("served") / "collection")) as server:
        yield server
