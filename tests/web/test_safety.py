"""Hostile and clumsy requests: none gets more than it should, none brings the server down."""

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
import uvicorn

from ordrank.web.app import STATIC, create_app
from ordrank.web.patience import PatientProtocol
from ordrank.web.uploads import Limits
from tests.service.drawing import draw, rows
from tests.web.conftest import API, client_of, serving
from tests.web.requests import message, png

UPLOAD = f"POST {API}/queries HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\nContent-Type: image/png\r\n"
_MEGABYTE = bytes(1_000_000)


@contextmanager
def in_a_thread(app, **options):
    """The port of a real server in this process."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", **options))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)


def ask_raw(port, text, *, then=lambda connection: None, seconds=30):
    """What a server answers to bytes; ``then`` sends more."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=seconds)) as connection:
        connection.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
        with suppress(OSError):  # the server has heard enough
            then(connection)
        return read_answer(connection)


def read_answer(connection):
    answer = b""
    try:
        while part := connection.recv(65536):
            answer += part
            head, found, body = answer.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            if found and length and len(body) >= int(length[1]):
                break
    except ConnectionError:
        pass
    return answer.decode("latin-1")


def status(answer):
    return int(answer.split(" ", 2)[1]) if answer else None


def resident_bytes(server):
    """Of all processes of a server, what they share counted once."""
    first = server.process.pid
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    texts = (Path(f"/proc/{number}/smaps_rollup").read_text() for number in (first, *children))
    return sum(int(re.search(r"Pss:\s+(\d+)", text)[1]) for text in texts) * 1024


class TestEveryAnswer:
    @pytest.mark.parametrize(
        ("method", "path", "expected"),
        [
            ("GET", f"{API}/collection", 200),
            ("GET", f"{API}/pictures/3/thumbnail", 200),
            ("GET", f"{API}/pictures/1000", 404),
            ("GET", f"{API}/nothing", 404),
            ("GET", "/nothing", 404),
            ("GET", "/static/nothing.js", 404),
            ("DELETE", f"{API}/collection", 405),
            ("GET", f"{API}/rank", 400),
            ("PATCH", "/", 405),
            ("GET", "/docs", 404),
        ],
    )
    def test_tells_browsers_what_to_refuse(self, client, method, path, expected):
        response = client.request(method, path)
        assert response.status_code == expected
        policy = response.headers["Content-Security-Policy"]
        for part in ("default-src 'self'", "script-src 'self'", "style-src 'self'", "img-src 'self' blob: data:"):
            assert part in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert not any(name.startswith("access-control") for name in response.headers)
        if expected >= 400:
            assert response.json().keys() == {"error"}
            assert response.json()["error"].keys() == {"code", "message"}

    def test_an_accident_is_one_too_and_its_cause_stays_in_the_log(self, client, monkeypatch, caplog):
        monkeypatch.setattr("ordrank.service.library.Library.describe", lambda self: 1 / 0)
        response = client.get(f"{API}/collection")
        assert (response.status_code, response.json()["error"]["code"]) == (500, "internal_error")
        assert "ZeroDivision" not in response.text
        assert "ZeroDivisionError" in caplog.text
        assert "Content-Security-Policy" in response.headers

    def test_a_refusal_names_the_methods_that_work(self, client):
        assert set(client.delete(f"{API}/training").headers["Allow"].split(", ")) <= {"GET", "POST"}


class TestOtherSites:
    @pytest.mark.parametrize(
        ("headers", "expected"),
        [
            ({"Sec-Fetch-Site": "same-origin"}, 200),
            ({"Sec-Fetch-Site": "none"}, 200),
            ({"Origin": "http://localhost"}, 200),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Sec-Fetch-Site": "same-site"}, 403),
            ({"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"}, 403),
            ({"Origin": "http://localhost:8001"}, 403),
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "http://localhost.evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": "http://[bad"}, 403),
            ({}, 403),
        ],
    )
    def test_cannot_change_anything(self, trained, headers, expected):
        before = rows(trained, "SELECT * FROM pictures")
        with client_of(trained, headers=headers) as client:
            response = client.put(f"{API}/pictures/6/grade", json={"grade": "0"})
            assert response.status_code == expected
            if expected == 403:
                assert client.post(f"{API}/training").status_code == 403
                assert client.post(f"{API}/queries", content=b"x").status_code == 403
                assert rows(trained, "SELECT * FROM pictures") == before
            assert client.get(f"{API}/collection").status_code == 200

    @pytest.mark.parametrize(
        "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "[", "a b"]
    )
    def test_cannot_pretend_to_be_this_server(self, client, host):
        assert client.get(f"{API}/collection", headers={"Host": host}).status_code == 403
        assert client.get("/", headers={"Host": host}).status_code == 403

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000"])
    def test_names_of_this_machine_are_fine(self, client, host):
        assert client.get(f"{API}/collection", headers={"Host": host}).status_code == 200

    def test_a_public_server_goes_by_any_name(self, trained):
        with client_of(trained, hosts=None) as client:
            assert client.get(f"{API}/collection", headers={"Host": "pictures.example"}).status_code == 200


class TestToken:
    @pytest.fixture
    def guarded(self, trained):
        with client_of(trained, token="open sesame") as client:
            yield client

    def test_without_it_nothing_of_the_collection_is_told(self, guarded):
        for path in ("collection", "pictures/1/thumbnail", "rank?picture=1", "points", "openapi.json", "nothing"):
            response = guarded.get(f"{API}/{path}")
            assert (response.status_code, response.json()["error"]["code"]) == (401, "unauthorized")
        assert guarded.post(f"{API}/training").status_code == 401

    @pytest.mark.parametrize("given", ["Bearer wrong", "Bearer", "Basic open sesame", "Bearer ëü", "bearer open sesam"])
    def test_a_wrong_one_does_not_help(self, guarded, given):
        headers = {"Authorization": given.encode("latin-1")}
        assert guarded.get(f"{API}/collection", headers=headers).status_code == 401

    def test_the_header_is_enough_even_for_changes_by_programs(self, trained):
        headers = {"Authorization": "Bearer open sesame"}
        with client_of(trained, token="open sesame", headers=headers) as client:
            assert client.get(f"{API}/collection").status_code == 200
            assert client.put(f"{API}/pictures/6/grade", json={"grade": "0"}).status_code == 200

    def test_the_address_sets_a_cookie_that_scripts_and_other_sites_do_not_get(self, guarded):
        response = guarded.get("/", params={"token": "open sesame"}, follow_redirects=False)
        assert (response.status_code, response.headers["Location"]) == (303, "/")
        cookie = response.headers["Set-Cookie"]
        assert "httponly" in cookie.lower()
        assert "samesite=strict" in cookie.lower()
        assert "sesame" not in cookie
        assert guarded.get(f"{API}/collection").status_code == 200
        guarded.headers["Sec-Fetch-Site"] = "cross-site"
        assert guarded.post(f"{API}/training").status_code == 403

    def test_a_wrong_address_sets_none(self, guarded):
        response = guarded.get("/", params={"token": "wrong"}, follow_redirects=False)
        assert response.status_code == 401
        assert "Set-Cookie" not in response.headers
        guarded.cookies.set("ordrank", "wrong")
        assert guarded.get(f"{API}/collection").status_code == 401


class TestReadOnly:
    def test_nothing_changes_and_everything_can_be_asked(self, trained):
        before = rows(trained, "SELECT * FROM pictures")
        with client_of(trained, read_only=True) as client:
            assert client.get(f"{API}/collection").json()["read_only"] is True
            for response in (
                client.put(f"{API}/pictures/6/grade", json={"grade": "0"}),
                client.post(f"{API}/training"),
            ):
                assert response.status_code == 403
                assert "--read-only" in message(response)
            sent = client.post(f"{API}/queries", content=png(draw(99)), headers={"Content-Type": "image/png"})
            assert sent.status_code == 201
        assert rows(trained, "SELECT * FROM pictures") == before


@pytest.fixture(scope="module")
def module_server(_trained_once, tmp_path_factory):
    import shutil

    with serving(shutil.copytree(_trained_once, tmp_path_factory.mktemp("served") / "collection")) as server:
        yield server


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        [
            "/static/../app.py",
            "/static/%2e%2e/app.py",
            "/static/..%2fapp.py",
            "/static/..%5capp.py",
            "/static/%252e%252e/app.py",
            "/static/....//app.py",
            "/static//etc/passwd",
            "/static/%2fetc/passwd",
            "/static/../../../../../../../../etc/passwd",
            "/static/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
            "/static/x%00.js",
            "/static/" + "a" * 5000,
            "/static/",
            "/static",
            "/../app.py",
            "//etc/passwd",
            f"{API}/pictures/..%2f..%2fcollection.sqlite/thumbnail",
            f"{API}/pictures/%2e%2e/thumbnail",
            f"{API}/queries/..%2f..%2fetc%2fpasswd/thumbnail",
            "/collection.sqlite",
        ],
    )
    def test_lead_nowhere_else(self, module_server, path):
        answer = ask_raw(module_server.port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert status(answer) in (400, 404)
        assert '{"error":' in answer
        assert "root:" not in answer
        assert "create_app" not in answer

    def test_files_of_the_page_are_served(self, module_server):
        if not (STATIC / "index.html").exists():
            pytest.skip("there is no page yet")
        with module_server.client() as client:
            page = client.get("/")
            assert page.headers["Content-Type"].startswith("text/html")
            for name in re.findall(r'(?:src|href)="(?:\./|/)?(static/[^"]+)"', page.text):
                assert client.get(f"/{name}").status_code == 200


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


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "ordrank", "serve", *map(str, arguments)], capture_output=True, text=True, timeout=60
    )


class TestCommand:
    def test_what_is_no_collection_is_told_so(self, tmp_path):
        ended = command(tmp_path, "--port", "0")
        assert ended.returncode == 1
        assert "is not a collection; make one with `ordrank fit" in ended.stderr

    def test_a_taken_port_is_told_so(self, trained, module_server):
        ended = command(trained, "--port", module_server.port)
        assert ended.returncode == 1
        assert (
            ended.stderr
            == f"ordrank: port {module_server.port} is taken; choose another with --port, or 0 for any that is free\n"
        )

    @pytest.mark.parametrize("options", [("--port", "70000"), ("--port", "x"), ("--tokens", "x")])
    def test_wrong_usage_is_told_so(self, trained, options):
        assert command(trained, *options).returncode == 2

    @pytest.mark.parametrize("options", [("--token", " "), ("--host", "no such host.example")])
    def test_what_cannot_be_is_told_in_a_sentence(self, trained, options):
        ended = command(trained, "--port", "0", *options)
        assert ended.returncode == 1
        assert ended.stderr.startswith("ordrank: ")
        assert "Traceback" not in ended.stderr

    def test_ctrl_c_ends_one_process_in_a_sentence(self, trained):
        with serving(trained, "--workers", "1") as server:
            code, _, complained = server.end(signal.SIGINT)
        assert code == 130
        assert "every grade that was confirmed is kept" in complained
        assert "Traceback" not in complained

    def test_an_open_door_is_warned_of(self, trained):
        with serving(trained, "--host", "0.0.0.0") as server:
            _, said, complained = server.end()
        assert "everybody who reaches 0.0.0.0 can see these pictures and change their grades" in complained
        with serving(trained, "--host", "0.0.0.0", "--token", "sesame") as server, server.client() as client:
            assert client.get(f"{API}/collection").status_code == 401
            assert client.get("/?token=sesame").status_code == 303
            _, said, complained = server.end()
        assert "everybody" not in complained
        assert "sesame" not in said + complained  # the address with the token was the first line
