"""Bytes to and from a real server, unlike those of a well-behaved client."""

import json
import re
import socket
import threading
from contextlib import closing, contextmanager, suppress

import uvicorn

from tests.web.conftest import API, wait_until

UPLOAD = f"POST {API}/queries HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\nContent-Type: image/png\r\n"


@contextmanager
def server_in_thread(app, **options):
    """The port of a real server in this process."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", **options))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)


def send_raw(port, text, *, then=lambda connection: None, seconds=30):
    """Return the response to bytes; ``then`` sends more."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=seconds)) as connection:
        connection.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
        with suppress(OSError):  # the server has closed the connection
            then(connection)
        return read_response(connection)


def read_response(connection):
    response = b""
    try:
        while part := connection.recv(65536):
            response += part
            head, found, body = response.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            if found and length and len(body) >= int(length[1]):
                break
    except ConnectionError:
        pass
    return response.decode("latin-1")


def status(response):
    return int(response.split(" ", 2)[1]) if response else None


def error_of(response):
    """The error of a response, which must be JSON."""
    head, _, body = response.partition("\r\n\r\n")
    assert "content-type: application/json" in head.lower()
    return json.loads(body)["error"]
