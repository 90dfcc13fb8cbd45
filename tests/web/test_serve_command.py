"""`ordrank serve` from the shell."""

import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import pytest

from ordrank.web.supervisor import can_fork
from tests.collection.pictures import draw
from tests.web.conftest import API, serving
from tests.web.raw_http import UPLOAD, error_of, read_response, status
from tests.web.requests import png

TOKEN = "open sesame, said he"
WORKERS = ["1", pytest.param("2", marks=pytest.mark.skipif(not can_fork(), reason="this system has one process only"))]


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "ordrank", "serve", *map(str, arguments)], capture_output=True, text=True, timeout=60
    )


class TestCommand:
    def test_missing_collection_is_reported(self, tmp_path):
        ended = command(tmp_path, "--port", "0")
        assert ended.returncode == 1
        assert "is not a collection; create one with `ordrank fit" in ended.stderr

    def test_taken_port_is_reported(self, trained, module_server):
        ended = command(trained, "--port", module_server.port)
        assert ended.returncode == 1
        assert (
            ended.stderr
            == f"ordrank: port {module_server.port} is taken; choose another with --port, or 0 for any that is free\n"
        )

    @pytest.mark.parametrize("options", [("--port", "70000"), ("--port", "x"), ("--tokens", "x")])
    def test_wrong_usage_exits_with_2(self, trained, options):
        assert command(trained, *options).returncode == 2

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (("--token", " "), "can be guessed"),
            (("--token", "open sesame"), "can be guessed: it must have 16 characters or more"),
            (("--token", "a" * 40), "8 of them different"),
            (("--token", "ä" * 40), "ASCII"),
            (("--token", TOKEN, "--no-token"), "contradict each other"),
            (("--host", "no such host.example"), "cannot listen at no such host.example"),
            (("--host", "0.0.0.0", "--no-token"), "--allowed-host NAME"),
        ],
    )
    def test_invalid_token_or_host_is_reported_in_one_sentence(self, trained, options, complaint):
        ended = command(trained, "--port", "0", *options)
        assert ended.returncode == 1
        assert ended.stderr.startswith("ordrank: ")
        assert complaint in ended.stderr
        assert "Traceback" not in ended.stderr

    def test_ctrl_c_ends_a_single_process_with_one_sentence(self, trained):
        with serving(trained, "--workers", "1") as server:
            code, _, errors = server.end(signal.SIGINT)
        assert code == 130
        assert "every confirmed grade is stored" in errors
        assert "Traceback" not in errors

    @pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
    def test_each_start_has_its_own_token_which_opens_the_printed_address(self, trained, host):
        tokens = set()
        for _ in range(2):
            with serving(trained, "--host", host) as server, server.client() as client:
                assert client.get(f"{API}/collection").status_code == 401
                assert "needs a token" in client.get("/").text
                token = re.search(r"\?token=(\S{32})$", server.address)[1]
                assert client.get("/", params={"token": token}).status_code == 303
                assert client.get(f"{API}/collection").status_code == 200
                assert "<title>ordrank" in client.get("/").text
                _, output, errors = server.end()
            assert token not in output + errors  # only in the first line
            tokens.add(token)
        assert len(tokens) == 2

    def test_a_token_can_be_chosen(self, trained):
        with serving(trained, "--token", TOKEN) as server, server.client() as client:
            assert client.get("/", params={"token": TOKEN}).status_code == 303
            assert client.get(f"{API}/collection").status_code == 200
            _, output, errors = server.end()
        assert TOKEN not in output + errors

    def test_public_address_without_a_token_is_for_named_hosts_and_prints_a_warning(self, trained):
        options = ("--host", "0.0.0.0", "--no-token", "--allowed-host", "pictures.example")
        with serving(trained, *options) as server, server.client() as client:
            for host, expected in {"pictures.example": 200, "localhost": 200, "other.example": 403}.items():
                assert client.get(f"{API}/collection", headers={"Host": host}).status_code == expected
            errors = server.end()[2]
        assert "anyone who can reach 0.0.0.0 can see these pictures and change their grades" in errors


@contextmanager
def half_an_upload(server, content):
    """A connection on which the server waits for the second half of a picture."""
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=30)) as connection:
        half = len(content) // 2
        connection.sendall(f"{UPLOAD}Content-Length: {len(content)}\r\n\r\n".encode() + content[:half])
        time.sleep(0.3)  # until a worker has accepted it
        yield connection, content[half:]


@pytest.mark.parametrize("workers", WORKERS)
class TestShutdown:
    """What becomes of requests that run when the server is stopped."""

    @pytest.fixture
    def server(self, trained, workers):
        with serving(trained, "--workers", workers) as server:
            yield server

    @pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
    def test_request_that_takes_too_long_is_answered_with_503(self, server, how):
        with half_an_upload(server, png(draw(99))) as (connection, _):
            server.process.send_signal(how)
            response = read_response(connection)
        assert status(response) == 503
        assert error_of(response) == {"code": "unavailable", "message": "the server is ending; start it again"}
        assert "Traceback" not in server.wait()[2]

    def test_request_in_a_thread_is_answered_with_503(self, trained, workers):
        code = "import time, ordrank; ordrank.Collection.info = lambda self: time.sleep(30)"
        with serving(trained, "--workers", workers, code=code) as server:
            with closing(socket.create_connection(("127.0.0.1", server.port), timeout=30)) as connection:
                connection.sendall(f"GET {API}/collection HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                time.sleep(0.3)
                server.press_ctrl_c()
                response = read_response(connection)
            time.sleep(0.5)
            if server.process.poll() is None:  # it waits for the thread
                server.press_ctrl_c()
            _, _, errors = server.wait()
        assert (status(response), error_of(response)["code"]) == (503, "unavailable")
        assert "every confirmed grade is stored" in errors
        assert "Traceback" not in errors

    def test_request_that_ends_soon_succeeds(self, server):
        with half_an_upload(server, png(draw(99))) as (connection, rest):
            server.process.terminate()
            time.sleep(0.5)
            connection.sendall(rest)
            assert status(read_response(connection)) == 201

    def test_second_ctrl_c_changes_nothing(self, server):
        with half_an_upload(server, png(draw(99))) as (connection, rest):
            for _ in range(2):
                server.press_ctrl_c()
                time.sleep(0.3)
            connection.sendall(rest)
            assert status(read_response(connection)) == 201
        code, _, errors = server.wait()
        assert code == 130
        assert "Traceback" not in errors

    @pytest.mark.parametrize("delay", [0, 0.1, 0.3])
    def test_ctrl_c_ends_a_training_without_a_traceback(self, server, delay):
        with server.client() as client:
            assert client.post(f"{API}/training").status_code == 202
            time.sleep(delay)
            server.press_ctrl_c()
        code, _, errors = server.wait()
        assert code == 130
        assert errors.splitlines()[1:] == [
            "ordrank: interrupted; the page is closed, and every confirmed grade is stored"
        ]
