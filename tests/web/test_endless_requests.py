"""Requests that are too long, too slow, or never end: the server stays well."""

import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ordrank.web.app import create_app
from ordrank.web.patience import PatientProtocol
from ordrank.web.uploads import Limits
from tests.service.drawing import draw
from tests.web.conftest import API
from tests.web.requests import message, png
from tests.web.talking import UPLOAD, ask_raw, in_a_thread, read_answer, status

_MEGABYTE = bytes(1_000_000)


def resident_bytes(server):
    """Of all processes of a server, what they share counted once."""
    first = server.process.pid
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    texts = (Path(f"/proc/{number}/smaps_rollup").read_text() for number in (first, *children))
    return sum(int(re.search(r"Pss:\s+(\d+)", text)[1]) for text in texts) * 1024


class TestUploads:
    def well(self, server):
        with server.client() as client:
            assert client.get(f"{API}/collection").status_code == 200
            sent = client.post(f"{API}/queries", content=png(draw(99)), headers={"Content-Type": "image/png"})
            assert sent.status_code == 201

    def test_without_a_length(self, module_server):
        answer = ask_raw(module_server.port, f"{UPLOAD}\r\n")
        assert status(answer) == 400
        assert "Content-Length" in answer

    def test_in_chunks_of_which_there_is_no_end(self, module_server):
        def flood(connection):
            for _ in range(1000):
                connection.sendall(b"f4240\r\n" + _MEGABYTE + b"\r\n")

        before = resident_bytes(module_server)
        answer = ask_raw(module_server.port, f"{UPLOAD}Transfer-Encoding: chunked\r\n\r\n", then=flood)
        assert status(answer) in (400, None)
        assert resident_bytes(module_server) - before < 50_000_000
        self.well(module_server)

    @pytest.mark.parametrize("length", ["x", "-1", "1e3", "0x10", "", "９"])
    def test_with_a_length_that_is_none(self, module_server, length):
        text = f"{UPLOAD}Content-Length: {length}\r\n\r\n".encode()
        assert status(ask_raw(module_server.port, text)) == 400
        self.well(module_server)

    def test_of_a_gigabyte(self, module_server):
        def flood(connection):
            for _ in range(1000):
                connection.sendall(_MEGABYTE)

        before, begin = resident_bytes(module_server), time.monotonic()
        answer = ask_raw(module_server.port, f"{UPLOAD}Content-Length: 1000000000\r\n\r\n", then=flood)
        assert status(answer) in (413, None)  # or the connection is gone before the answer is read
        assert time.monotonic() - begin < 10
        assert resident_bytes(module_server) - before < 50_000_000
        assert status(ask_raw(module_server.port, f"{UPLOAD}Content-Length: 1000000000\r\n\r\n")) == 413
        self.well(module_server)

    def test_a_bit_too_large_is_told_so_after_all_was_sent(self, module_server):
        with module_server.client() as client:
            sent = client.post(f"{API}/queries", content=bytes(25_000_000), headers={"Content-Type": "image/png"})
        assert sent.status_code == 413
        assert "20 million bytes" in message(sent)

    def test_that_end_early(self, module_server):
        with closing(socket.create_connection(("127.0.0.1", module_server.port))) as connection:
            connection.sendall(f"{UPLOAD}Content-Length: 100000\r\n\r\n".encode() + b"half")
        self.well(module_server)

    def test_that_trickle_are_cut_off_while_others_are_served(self, trained):
        app = create_app(trained, upload_limits=Limits(seconds=1.0))
        with in_a_thread(app) as port, ThreadPoolExecutor(50) as threads:
            begin = time.monotonic()
            slow = [threads.submit(trickle, port, f"{UPLOAD}Content-Length: 100000\r\n\r\n") for _ in range(50)]
            get = f"GET {API}/rank?picture=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            assert status(ask_raw(port, get)) == 200
            assert time.monotonic() - begin < 1.0
            answers = [one.result(30) for one in slow]
            assert time.monotonic() - begin < 10
        assert {status(answer) for answer in answers} == {400}
        assert all("did not arrive within 1 seconds" in answer for answer in answers)
        assert all("connection: close" in answer.lower() for answer in answers)


class Impatient(PatientProtocol):
    head_seconds = 1.0


class TestHeads:
    """Requests whose head never ends."""

    @pytest.fixture
    def port(self, trained):
        with in_a_thread(create_app(trained), http=Impatient) as port:
            yield port

    def test_that_trickle_are_cut_off_while_others_are_served(self, port):
        begin = time.monotonic()
        with ThreadPoolExecutor(20) as threads:
            slow = [threads.submit(trickle, port, f"GET {API}/collection HTTP/1.1\r\nX-Slow: ") for _ in range(20)]
            get = f"GET {API}/rank?picture=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            assert status(ask_raw(port, get)) == 200
            answers = [one.result(30) for one in slow]
        assert 0.9 < time.monotonic() - begin < 10
        assert {status(answer) for answer in answers} == {408}
        assert all('"the head of the request did not arrive within 1 seconds"' in answer for answer in answers)

    def test_that_never_begin_are_hung_up_on(self, port):
        begin = time.monotonic()
        with closing(socket.create_connection(("127.0.0.1", port), timeout=20)) as connection:
            assert connection.recv(100) == b""
        assert 0.9 < time.monotonic() - begin < 10

    def test_the_second_one_of_a_connection_is_limited_too(self, port):
        with closing(socket.create_connection(("127.0.0.1", port), timeout=20)) as connection:
            connection.sendall(f"GET {API}/training HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert status(read_answer(connection)) == 200
            connection.sendall(b"GET / HT")
            assert status(read_answer(connection)) == 408

    def test_answers_and_bodies_may_take_longer(self, port, monkeypatch):
        monkeypatch.setattr("ordrank.service.library.Library.picture", lambda *_: time.sleep(1.5))
        get = f"GET {API}/pictures/1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert status(ask_raw(port, get)) == 200
        content = png(draw(99))

        def send_late(connection):
            time.sleep(1.5)
            connection.sendall(content)

        assert status(ask_raw(port, f"{UPLOAD}Content-Length: {len(content)}\r\n\r\n", then=send_late)) == 201


def trickle(port, text):
    """What a server answers to a request that comes a byte at a time."""
    stopped = threading.Event()
    with closing(socket.create_connection(("127.0.0.1", port), timeout=20)) as connection:
        connection.sendall(text.encode())
        sender = threading.Thread(target=send_slowly, args=(connection, stopped))
        sender.start()
        answer = read_answer(connection)
        stopped.set()
        sender.join()
    return answer


def send_slowly(connection, stopped):
    with suppress(OSError):
        while not stopped.wait(0.05):
            connection.sendall(b"x")
