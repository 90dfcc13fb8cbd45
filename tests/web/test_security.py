"""Hostile and malformed requests get no access and do no harm."""

import asyncio
import json
import os
import platform
import re
import shutil
import socket
import sys
import time
from contextlib import closing, suppress

import pytest

from ordrank import Collection
from ordrank.collection.access import write_store
from ordrank.collection.writer_lock import writer_lock
from ordrank.errors import CollectionError
from ordrank.web.security import WRONG_TOKEN_DELAY, AccessPolicy, SecurityMiddleware
from tests.collection.pictures import draw, rows
from tests.web.conftest import API, client_of
from tests.web.raw_http import send_raw, status
from tests.web.requests import message, png, train_again


class TestEveryResponse:
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
    def test_security_headers_are_set(self, client, method, path, expected):
        response = client.request(method, path)
        assert response.status_code == expected
        policy = response.headers["Content-Security-Policy"]
        for part in ("default-src 'self';", "script-src 'self';", "style-src 'self';", "img-src 'self';"):
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

    def test_internal_errors_are_logged_but_not_disclosed(self, client, monkeypatch, caplog):
        monkeypatch.setattr(Collection, "info", lambda self: 1 / 0)
        response = client.get(f"{API}/collection")
        assert (response.status_code, response.json()["error"]["code"]) == (500, "internal_error")
        assert "ZeroDivision" not in response.text
        assert "ZeroDivisionError" in caplog.text
        assert "Content-Security-Policy" in response.headers

    @pytest.mark.parametrize("started", [False, True])
    def test_request_cancelled_by_a_server_that_ends_is_answered_with_503(self, started):
        sent = []

        async def app(scope, receive, send):
            if started:
                await send({"type": "http.response.start", "status": 200, "headers": []})
            await asyncio.sleep(60)

        async def send(message):
            sent.append(message)

        async def cancel():
            scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
            task = asyncio.create_task(SecurityMiddleware(app, AccessPolicy())(scope, None, send))
            await asyncio.sleep(0)
            task.cancel()
            await task

        asyncio.run(cancel())
        if started:  # too late for another status; uvicorn closes the connection
            assert [message["type"] for message in sent] == ["http.response.start"]
        else:
            start, body = sent
            assert start["status"] == 503
            assert (b"connection", b"close") in start["headers"]
            assert (b"x-frame-options", b"DENY") in start["headers"]
            assert json.loads(body["body"])["error"]["code"] == "unavailable"

    def test_wrong_method_names_the_allowed_ones(self, client):
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
    def test_cross_site_requests_cannot_change_anything(self, trained, headers, expected):
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
    def test_other_host_names_are_rejected(self, client, host):
        assert client.get(f"{API}/collection", headers={"Host": host}).status_code == 403
        assert client.get("/", headers={"Host": host}).status_code == 403

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000"])
    def test_local_host_names_are_accepted(self, client, host):
        assert client.get(f"{API}/collection", headers={"Host": host}).status_code == 200

    def test_public_server_accepts_any_host_name(self, trained):
        with client_of(trained, hosts=None) as client:
            assert client.get(f"{API}/collection", headers={"Host": "pictures.example"}).status_code == 200


class TestToken:
    @pytest.fixture
    def guarded(self, trained):
        with client_of(trained, token="open sesame") as client:
            yield client

    def test_requests_without_the_token_are_rejected(self, guarded):
        paths = ("collection", "pictures/1/thumbnail", "rank?picture=1", "points", "openapi.json", "nothing")
        for path in (*(f"{API}/{path}" for path in paths), "/static/main.js", "/static/index.html", "/nothing"):
            response = guarded.get(path)
            assert (response.status_code, response.json()["error"]["code"]) == (401, "unauthorized")
        assert guarded.post(f"{API}/training").status_code == 401

    @pytest.mark.parametrize("given", ["Bearer wrong", "Bearer", "Basic open sesame", "Bearer ëü", "bearer open sesam"])
    def test_wrong_token_is_rejected(self, guarded, given):
        headers = {"Authorization": given.encode("latin-1")}
        assert guarded.get(f"{API}/collection", headers=headers).status_code == 401

    def test_authorization_header_is_enough_for_programs(self, trained):
        headers = {"Authorization": "Bearer open sesame"}
        with client_of(trained, token="open sesame", headers=headers) as client:
            assert client.get(f"{API}/collection").status_code == 200
            assert client.put(f"{API}/pictures/6/grade", json={"grade": "0"}).status_code == 200

    def test_the_page_that_asks_for_the_token_loads_nothing(self, guarded):
        response = guarded.get("/")
        assert response.status_code == 401
        assert 'name="token"' in response.text
        assert not re.search(r"""(?:src|href)=["'](?!data:)""", response.text)
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]

    def test_a_wrong_token_is_answered_late_and_a_missing_one_at_once(self, guarded):
        def seconds(headers, **query):
            start = time.perf_counter()
            guarded.get("/", params=query, follow_redirects=False) if query else guarded.get(API, headers=headers)
            return time.perf_counter() - start

        assert seconds({"Authorization": "Bearer wrong"}) >= WRONG_TOKEN_DELAY
        assert seconds({}, token="wrong") >= WRONG_TOKEN_DELAY
        assert seconds({}) < WRONG_TOKEN_DELAY

    def test_login_sets_an_http_only_strict_cookie(self, guarded):
        response = guarded.get("/", params={"token": "open sesame"}, follow_redirects=False)
        assert (response.status_code, response.headers["Location"]) == (303, "/")
        cookie = response.headers["Set-Cookie"]
        assert "httponly" in cookie.lower()
        assert "samesite=strict" in cookie.lower()
        assert "sesame" not in cookie
        assert guarded.get(f"{API}/collection").status_code == 200
        guarded.headers["Sec-Fetch-Site"] = "cross-site"
        assert guarded.post(f"{API}/training").status_code == 403

    def test_wrong_login_returns_to_the_page_without_a_cookie(self, guarded):
        response = guarded.get("/", params={"token": "wrong"}, follow_redirects=False)
        assert (response.status_code, response.headers["Location"]) == (303, "/?token-rejected")
        assert "Set-Cookie" not in response.headers
        assert guarded.get(f"{API}/collection").status_code == 401

    def test_wrong_cookie_is_rejected(self, guarded):
        guarded.get("/", params={"token": "open sesame"})
        (name,) = guarded.cookies.keys()
        headers = {"Cookie": f"{name}=wrong"}
        assert guarded.get(f"{API}/collection", headers=headers).status_code == 401

    @pytest.mark.parametrize("other", ['theme={"dark": true}', "a,b=c", "=", "x=\xe9"])
    def test_cookies_of_other_applications_do_not_matter(self, guarded, other):
        guarded.get("/", params={"token": "open sesame"})
        (cookie,) = guarded.cookies.items()
        headers = {"Cookie": f"{other}; {'='.join(cookie)}".encode("latin-1")}
        assert guarded.get(f"{API}/collection", headers=headers).status_code == 200

    def test_servers_at_two_ports_keep_their_cookies(self, guarded, trained):
        guarded.get("/", params={"token": "open sesame"})
        with client_of(trained, token="other token") as other:
            other.cookies = guarded.cookies  # browsers send cookies to every port of a host
            other.get("/", params={"token": "other token"})
            assert other.get(f"{API}/collection").status_code == 200
            guarded.cookies = other.cookies
        assert guarded.get(f"{API}/collection").status_code == 200


class TestReadOnly:
    def test_changes_are_rejected_and_queries_are_allowed(self, trained):
        before = rows(trained, "SELECT * FROM pictures")
        with client_of(trained, read_only=True) as client:
            assert client.get(f"{API}/collection").json()["read_only"] is True
            for response in (
                client.put(f"{API}/pictures/6/grade", json={"grade": "0"}),
                client.post(f"{API}/training"),
            ):
                assert response.status_code == 403
                assert "read-only" in message(response)
            response = client.post(f"{API}/queries", content=png(draw(99)), headers={"Content-Type": "image/png"})
            assert response.status_code == 201
        assert rows(trained, "SELECT * FROM pictures") == before


class TestMessages:
    """Those who see the page learn nothing about the machine of the server, and get no commands for it."""

    @pytest.mark.parametrize(
        ("text", "public"),
        [
            ("{0}: the file is damaged", "my knees: the file is damaged"),
            (
                "{0}/a.json is missing; train again with `ordrank fit --out {0}`",
                "my knees/a.json is missing; train again",
            ),
            (
                "/etc/x/a.json is gone; get it, or go back with `ordrank fit /etc/x`",
                "a.json is gone; get it, or go back",
            ),
            ("it needs a, and b: pip install 'ordrank[b]'", "it needs a, and b"),
            ("grades are missing: name a file with --labels, or sort", "grades are missing: name a file, or sort"),
            ("3 of 4: a well-known --- sentence, with `code`", "3 of 4: a well-known --- sentence, with `code`"),
        ],
    )
    def test_commands_and_folders_are_left_out(self, trained, monkeypatch, text, public):
        collection = trained.rename(trained.parent / "my knees")

        def fail(*arguments):
            raise CollectionError(text.format(collection))

        monkeypatch.setattr(Collection, "picture", fail)
        with client_of(collection) as client:
            assert message(client.get(f"{API}/pictures/1")) == public

    def test_no_response_of_a_locked_collection_names_who_locks_it(self, client, trained, monkeypatch):
        monkeypatch.setattr("ordrank.collection.added_files._TIMEOUT", 0.1)
        monkeypatch.setattr("ordrank.collection.removal._TIMEOUT", 0.1)
        monkeypatch.setattr("ordrank.web.training_job._PATIENCE", 0.0)
        with writer_lock(trained):
            added = client.post(f"{API}/pictures", content=png(draw(77)), headers={"Content-Type": "image/png"})
            removed = client.post(f"{API}/removals", json={"pictures": [6]})
            trained_again = train_again(client)["message"]
        assert {response.json()["error"]["code"] for response in (added, removed)} == {"busy"}
        self.check_public(trained, message(added), message(removed), trained_again)

    def test_no_error_of_a_damaged_or_untrained_collection_names_a_command(self, trained):
        with write_store(trained) as store, store.transaction() as cursor:
            cursor.execute("DELETE FROM meta WHERE key = 'model'")
        with client_of(trained) as client:
            paths = ("rank?picture=1", "rank.csv?picture=1", "doctor")
            found = [message(client.get(f"{API}/{path}")) for path in paths]
            shutil.rmtree(trained)
            found += [message(client.get(f"{API}/{path}")) for path in ("pictures", "collection", "graders")]
        self.check_public(trained, *found)

    def check_public(self, collection, *messages):
        private = (platform.node(), str(os.getpid()), "ordrank", "`", "--", str(collection.parent), sys.argv[0])
        for text in messages:
            assert text
            assert not [part for part in private if part in text], text


class TestMethods:
    """What is asked for an address, and for the framing of a request."""

    def test_head_of_the_page_is_that_of_get_without_the_content(self, module_server):
        with module_server.client() as client:
            get, head = client.get("/"), client.head("/")
        assert (head.status_code, head.content) == (200, b"")
        for name in ("Content-Type", "ETag", "Content-Security-Policy", "Cache-Control"):
            assert head.headers[name] == get.headers[name]

    @pytest.mark.parametrize(
        ("path", "allowed"),
        [
            ("/", "GET, HEAD"),
            ("/static/main.js", "GET, HEAD"),
            (f"{API}/pictures", "GET, POST"),
            (f"{API}/pictures/3", "GET"),
            (f"{API}/pictures/3/grade", "PUT"),
            (f"{API}/comparisons", "GET, POST"),
            (f"{API}/training", "GET, POST"),
        ],
    )
    def test_all_methods_of_an_address_are_named(self, client, path, allowed):
        for method in ("OPTIONS", "PATCH", "TRACE"):
            response = client.request(method, path)
            assert (response.status_code, response.headers["Allow"]) == (405, allowed)
            assert response.json()["error"]["code"] == "method_not_allowed"

    @pytest.mark.parametrize("request_line", [f"POST {API}/training", f"GET {API}/collection", "GET /"])
    @pytest.mark.parametrize("coding", ["chunked", "identity", "gzip, chunked", "chunked, identity"])
    def test_two_framings_of_a_body_are_rejected_and_the_connection_is_closed(
        self, module_server, request_line, coding
    ):
        smuggled = f"GET {API}/pictures HTTP/1.1\r\nHost: localhost\r\n\r\n"
        head = f"{request_line} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n"
        framing = f"Content-Length: 5\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n"
        with closing(socket.create_connection(("127.0.0.1", module_server.port), timeout=20)) as connection:
            connection.sendall((head + framing + smuggled).encode())
            received = b""
            with suppress(ConnectionError):
                while part := connection.recv(65536):
                    received += part
        assert received.startswith(b"HTTP/1.1 400 ")
        assert received.count(b"HTTP/1.1 ") == 1
        assert b"connection: close" in received.lower()


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
    def test_path_traversal_is_rejected(self, module_server, path):
        response = send_raw(module_server.port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert status(response) in (400, 404)
        assert '{"error":' in response
        assert "root:" not in response
        assert "create_app" not in response

    def test_files_of_the_page_are_served(self, module_server):
        with module_server.client() as client:
            page = client.get("/")
            assert page.headers["Content-Type"].startswith("text/html")
            for name in re.findall(r'(?:src|href)="(?:\./|/)?(static/[^"]+)"', page.text):
                assert client.get(f"/{name}").status_code == 200
