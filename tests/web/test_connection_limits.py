"""Clients that are silent, do not read, or are too many cost neither memory nor the service of others."""

import logging
import socket
import time
from contextlib import ExitStack, closing, suppress

import pytest

from ordrank import Collection
from ordrank.web import body_limit, supervisor
from ordrank.web.app import create_app
from ordrank.web.connections import LimitedProtocol
from ordrank.web.supervisor import OncePerMinute
from tests.collection.pictures import draw
from tests.web.conftest import API, serving
from tests.web.raw_http import UPLOAD, error_of, read_response, send_raw, server_in_thread, status
from tests.web.requests import png

GET = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
N_BYTES = 20_000_000  # more than sockets buffer


async def large_response(scope, receive, send):
    headers = [(b"content-length", str(N_BYTES).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": bytes(N_BYTES)})


class Protocol(LimitedProtocol):
    write_timeout = 2.0
    max_connections = 5
    max_unsent_bytes = 3 * N_BYTES


def connect(port, sent=""):
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(sent.encode())
    return connection


def is_open(connection):
    """Whether the server has not closed it, without reading more than a byte."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        connection.settimeout(30)


def n_received(connection, *, pause=0.0):
    size = 0
    with suppress(ConnectionError):
        while part := connection.recv(1_000_000):
            size += len(part)
            time.sleep(pause)
            if size > N_BYTES:
                break
    return size


@pytest.fixture
def port():
    with server_in_thread(large_response, http=Protocol, lifespan="off") as port:
        yield port


def test_client_that_does_not_read_is_disconnected(port):
    with closing(connect(port, GET)) as silent:
        time.sleep(Protocol.write_timeout + 2)
        assert n_received(silent) < N_BYTES


def test_client_that_reads_slowly_gets_everything(port):
    with closing(connect(port, GET)) as slow:
        assert n_received(slow, pause=0.1) > N_BYTES


def test_the_connection_that_has_been_silent_longest_makes_room(port):
    with ExitStack() as stack:
        connections = []
        for _ in range(Protocol.max_connections + 2):
            connections.append(stack.enter_context(closing(connect(port))))
            time.sleep(0.1)
        assert [is_open(connection) for connection in connections] == 2 * [False] + Protocol.max_connections * [True]
        connections[2].sendall(b"G")  # the third is not the oldest any more
        time.sleep(0.1)
        newest = stack.enter_context(closing(connect(port, GET)))
        assert n_received(newest) > N_BYTES
        assert [is_open(connection) for connection in connections[2:4]] == [True, False]


def test_responses_that_nobody_reads_are_limited_together(port):
    with ExitStack() as stack:
        connections = []
        for _ in range(5):
            connections.append(stack.enter_context(closing(connect(port, GET))))
            time.sleep(0.2)
        received = [n_received(connection) > N_BYTES for connection in connections]
    assert received[-1]
    assert not received[0]


class TestBodies:
    """Bodies of 100,000 bytes at most are in memory."""

    @pytest.fixture
    def port(self, trained, monkeypatch):
        monkeypatch.setattr(body_limit.BodyLimitMiddleware.__init__, "__defaults__", (100_000,))
        with server_in_thread(create_app(Collection(trained))) as port:
            yield port

    def test_slow_upload_gives_way_to_a_fast_one(self, port):
        with closing(connect(port, f"{UPLOAD}Content-Length: 99900\r\n\r\n")) as slow:
            slow.sendall(bytes(99_500))
            time.sleep(0.5)
            content = png(draw(99))
            assert len(content) > 1000
            request = f"{UPLOAD}Connection: close\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
            assert status(send_raw(port, request)) == 201
            response = read_response(slow)
        assert (status(response), error_of(response)["code"]) == (503, "unavailable")
        assert "retry-after: 2" in response.lower()
        assert status(send_raw(port, f"GET {API}/collection HTTP/1.1\r\nHost: localhost\r\n\r\n")) == 200

    def test_a_body_that_is_too_large_alone_ends(self, port):
        response = send_raw(port, f"{UPLOAD}Content-Length: 200000\r\n\r\n".encode() + bytes(200_000))
        assert status(response) == 503

    def test_bodies_that_were_handled_do_not_count(self, port):
        content = png(draw(99))
        request = f"{UPLOAD}Connection: close\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
        for _ in range(100_000 // len(content) + 2):
            assert status(send_raw(port, request)) == 201


def test_a_message_is_logged_once_a_minute(monkeypatch):
    lines, once = [], OncePerMinute()
    times = iter([0.0, 1.0, 59.0, 61.0, 62.0])
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: next(times))
    for _ in range(5):
        lines.append(once.filter(logging.makeLogRecord({"msg": "Invalid HTTP request received."})))
    assert lines == [True, False, False, True, False]


def test_invalid_requests_do_not_fill_the_log(trained):
    with serving(trained, "--workers", "1") as server:
        for _ in range(20):
            assert status(send_raw(server.port, "no HTTP\r\n\r\n")) == 400
        errors = server.end()[2]
    assert errors.count("Invalid HTTP request") == 1
