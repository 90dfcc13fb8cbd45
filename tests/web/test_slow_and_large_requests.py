"""Requests that are too large, too slow or endless do no harm to the server."""

import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from ordrank import Collection
from ordrank.collection.labeling import Labeling
from ordrank.web import deps
from ordrank.web.app import create_app
from ordrank.web.connections import LimitedProtocol
from ordrank.web.uploads import Limits
from tests.collection.pictures import draw
from tests.web.conftest import API, client_of
from tests.web.raw_http import UPLOAD, error_of, read_response, send_raw, server_in_thread, status
from tests.web.requests import message, png

_MEGABYTE = bytes(1_000_000)
GET = f"GET {API}/rank?picture=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
SLOW_UPLOAD = f"{UPLOAD}Content-Length: 100000\r\n\r\n"


def resident_bytes(server):
    """Return the memory of all processes of a server, shared memory counted once."""
    first = server.process.pid
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    texts = (Path(f"/proc/{number}/smaps_rollup").read_text() for number in (first, *children))
    return sum(int(re.search(r"Pss:\s+(\d+)", text)[1]) for text in texts) * 1024


class TestUploads:
    def check_alive(self, server):
        with server.client() as client:
            assert client.get(f"{API}/collection").status_code == 200
            sent = client.post(f"{API}/queries", content=png(draw(99)), headers={"Content-Type": "image/png"})
            assert sent.status_code == 201

    def test_missing_content_length(self, module_server):
        response = send_raw(module_server.port, f"{UPLOAD}\r\n")
        assert status(response) == 400
        assert "Content-Length" in response

    def test_endless_chunks(self, module_server):
        def flood(connection):
            for _ in range(1000):
                connection.sendall(b"f4240\r\n" + _MEGABYTE + b"\r\n")

        before = resident_bytes(module_server)
        response = send_raw(module_server.port, f"{UPLOAD}Transfer-Encoding: chunked\r\n\r\n", then=flood)
        assert status(response) in (400, None)
        assert resident_bytes(module_server) - before < 50_000_000
        self.check_alive(module_server)

    @pytest.mark.parametrize("length", ["x", "-1", "1e3", "0x10", "", "９"])
    def test_invalid_content_length(self, module_server, length):
        text = f"{UPLOAD}Content-Length: {length}\r\n\r\n".encode()
        assert status(send_raw(module_server.port, text)) == 400
        self.check_alive(module_server)

    def test_upload_of_a_gigabyte(self, module_server):
        def flood(connection):
            for _ in range(1000):
                connection.sendall(_MEGABYTE)

        before = resident_bytes(module_server)
        response = send_raw(module_server.port, f"{UPLOAD}Content-Length: 1000000000\r\n\r\n", then=flood)
        assert status(response) in (413, None)  # or the connection is closed before the response is read
        assert resident_bytes(module_server) - before < 50_000_000
        assert status(send_raw(module_server.port, f"{UPLOAD}Content-Length: 1000000000\r\n\r\n")) == 413
        self.check_alive(module_server)

    def test_slightly_too_large_body_gets_a_response(self, module_server):
        with module_server.client() as client:
            sent = client.post(f"{API}/queries", content=bytes(25_000_000), headers={"Content-Type": "image/png"})
        assert sent.status_code == 413
        assert "20 million bytes" in message(sent)

    def test_upload_that_ends_early(self, module_server):
        with closing(socket.create_connection(("127.0.0.1", module_server.port))) as connection:
            connection.sendall(f"{UPLOAD}Content-Length: 100000\r\n\r\n".encode() + b"half")
        self.check_alive(module_server)

    def test_slow_uploads_do_not_keep_others_waiting(self, trained):
        app = create_app(Collection(trained), upload_limits=Limits(seconds=600.0))
        with server_in_thread(app) as port, trickle(port, SLOW_UPLOAD, 50):
            assert status(send_raw(port, GET)) == 200

    def test_slow_uploads_time_out_and_may_be_tried_again(self, trained):
        app = create_app(Collection(trained), upload_limits=Limits(seconds=0.5))
        with server_in_thread(app) as port, trickle(port, SLOW_UPLOAD, 50) as connections:
            responses = [read_response(connection) for connection in connections]
        assert {status(response) for response in responses} == {408}
        expected = {"code": "too_slow", "message": "the content did not arrive within 0.5 seconds"}
        assert all(error_of(response) == expected for response in responses)
        assert all("connection: close" in response.lower() for response in responses)

    def test_slow_json_times_out_too(self, trained, monkeypatch):
        monkeypatch.setattr(deps, "_JSON_LIMITS", Limits(bytes=1000, seconds=0.5))
        head = (
            UPLOAD.replace("POST", "PUT")
            .replace("queries", "pictures/1/grade")
            .replace("image/png", "application/json")
        )
        with server_in_thread(create_app(Collection(trained))) as port:
            response = send_raw(port, f'{head}Content-Length: 100\r\n\r\n{{"grade":')
        assert (status(response), error_of(response)["code"]) == (408, "too_slow")


class ShortTimeoutProtocol(LimitedProtocol):
    head_timeout = 1.0


class TestHeads:
    """Requests whose head never ends."""

    @pytest.fixture
    def port(self, trained):
        with server_in_thread(create_app(Collection(trained)), http=ShortTimeoutProtocol) as port:
            yield port

    def test_slow_requests_time_out_while_others_are_served(self, port):
        with trickle(port, f"GET {API}/collection HTTP/1.1\r\nX-Slow: ", 20) as connections:
            assert status(send_raw(port, GET)) == 200
            responses = [read_response(connection) for connection in connections]
        assert {status(response) for response in responses} == {408}
        assert all('"the head of the request did not arrive within 1 seconds"' in response for response in responses)

    def test_idle_connections_are_closed(self, port):
        with closing(socket.create_connection(("127.0.0.1", port), timeout=20)) as connection:
            assert connection.recv(100) == b""

    def test_second_request_of_a_connection_times_out_too(self, port):
        with closing(socket.create_connection(("127.0.0.1", port), timeout=20)) as connection:
            connection.sendall(f"GET {API}/training HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert status(read_response(connection)) == 200
            connection.sendall(b"GET / HT")
            assert status(read_response(connection)) == 408

    def test_responses_and_bodies_may_take_longer(self, port, monkeypatch):
        monkeypatch.setattr(Collection, "picture", lambda *_: time.sleep(1.5))
        get = f"GET {API}/pictures/1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert status(send_raw(port, get)) == 200
        content = png(draw(99))

        def send_late(connection):
            time.sleep(1.5)
            connection.sendall(content)

        assert status(send_raw(port, f"{UPLOAD}Content-Length: {len(content)}\r\n\r\n", then=send_late)) == 201


@pytest.mark.parametrize(
    ("method", "path"),
    [("compared", "comparisons"), ("next_pair", "comparisons/next"), ("graders", "graders")],
)
def test_long_fits_do_not_keep_others_waiting(trained, monkeypatch, method, path):
    ended = threading.Event()

    def fit(*arguments, **options):
        ended.wait(20)
        return ()

    monkeypatch.setattr(Labeling, method, fit)
    with client_of(trained) as client, ThreadPoolExecutor(4) as threads:
        fits = [threads.submit(client.get, f"{API}/{path}") for _ in range(3)]
        try:
            other = threads.submit(client.get, f"{API}/rank?picture=1")
            assert other.result(10).status_code == 200
            assert not any(one.done() for one in fits)
        finally:
            ended.set()


@contextmanager
def trickle(port, text, n):
    """Connections with requests that begin with a text and are then sent a byte at a time."""
    stopped = threading.Event()
    with ExitStack() as stack:
        connections = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(n)]
        for connection in connections:
            stack.enter_context(closing(connection))
            connection.sendall(text.encode())
        sender = threading.Thread(target=send_slowly, args=(connections, stopped))
        sender.start()
        try:
            yield connections
        finally:
            stopped.set()
            sender.join()


def send_slowly(connections, stopped):
    while not stopped.wait(0.05):
        for connection in connections:
            with suppress(OSError):  # the server has closed it
                connection.sendall(b"x")
