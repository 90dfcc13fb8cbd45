"""Lightweight HTTP clients for load tests on the machine of the server.

All clients run in one thread. Requests are prepared in advance, each client keeps one connection, and only the status
and the length of a response are parsed.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle

import numpy as np

API = "/api/v1"
_BUFFER_BYTES = 262_144
_RETRY_SECONDS = 0.05


def http_request(kind: str, number: int, grade: str = "1") -> bytes:
    """Return a request in the form that the page sends."""
    path = {
        "rank": f"rank?picture={number}&limit=30",
        "thumbnail": f"pictures/{number}/thumbnail",
        "browse": f"pictures?offset={number % 1000}&limit=60",
        "picture": f"pictures/{number}",
        "grade": f"pictures/{number}/grade",
    }[kind]
    body = json.dumps({"grade": grade, "accept_new": True}) if kind == "grade" else ""
    head = f"{'PUT' if body else 'GET'} {API}/{path} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n"
    content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{head}{content}\r\n{body}".encode()


@dataclass(frozen=True)
class Request:
    """A request with its parameters."""

    kind: str
    number: int
    grade: str
    content: bytes


def draw_requests(mix: Mapping[str, float], numbers: np.ndarray, count: int, seed: int) -> list[Request]:
    """Draw requests about the given pictures; ``mix`` holds the probability of each kind."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(list(mix), p=list(mix.values()), size=count).tolist()
    grades = rng.integers(1, 6, size=count).astype(str).tolist()
    drawn = zip(kinds, rng.choice(numbers, size=count).tolist(), grades, strict=True)
    return [Request(kind, number, grade, http_request(kind, number, grade)) for kind, number, grade in drawn]


@dataclass
class Responses:
    """Responses to all clients.

    Attributes
    ----------
    seconds : dict
        Response times by kind.
    errors : list of str
        Responses with an error status.
    broken : int
        Broken connections.
    acknowledged : dict
        Last acknowledged grade of each picture.
    pending : dict
        Grades sent after it without a response: they may have been stored or not.
    """

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: list[str] = field(default_factory=list)
    broken: int = 0
    acknowledged: dict[int, str] = field(default_factory=dict)
    pending: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))


class _Client:
    """One connection with one request at a time."""

    def __init__(self, port: int, requests: Iterator[Request], responses: Responses) -> None:
        self._port, self._requests, self._responses = port, requests, responses
        self.socket: socket.socket | None = None

    def connect(self) -> bool:
        """Connect and send a request; return False if there is no server."""
        try:
            self.socket = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        except ConnectionError:
            return False
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._send()
        return True

    def _send(self) -> None:
        assert self.socket is not None
        self._request = next(self._requests)
        self._received, self._length = b"", 0
        if self._request.kind == "grade":
            self._responses.pending[self._request.number].add(self._request.grade)
        self._begin = time.perf_counter()
        self.socket.sendall(self._request.content)

    def receive(self) -> bool:
        """Read from the socket, and send the next request after a complete response; False if the connection broke."""
        assert self.socket is not None
        try:
            part = self.socket.recv(_BUFFER_BYTES)
            self._received = self._received + part if self._received else part
            if not self._length and (end := self._received.find(b"\r\n\r\n")) >= 0:
                head = self._received[:end].lower()
                self._length = end + 4 + int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
            if self._length and len(self._received) >= self._length:
                self._finish()
                self._send()
        except OSError:
            part = b""
        if not part:
            self._responses.broken += 1
            self.socket.close()
            self.socket = None
        return bool(part)

    def _finish(self) -> None:
        request, responses = self._request, self._responses
        responses.seconds[request.kind].append(time.perf_counter() - self._begin)
        if not self._received.startswith(b"HTTP/1.1 200"):
            responses.errors.append(f"{request.kind}: {self._received[:20]!r} {self._received[-100:]!r}")
        elif request.kind == "grade":
            responses.acknowledged[request.number] = request.grade
            responses.pending.pop(request.number, None)


def run_clients(port: int, requests: list[list[Request]], seconds: float) -> Responses:
    """Send requests for some seconds; clients reconnect to a server that was restarted.

    Parameters
    ----------
    port : int
    requests : list of lists of Request
        Of each client, repeated in a cycle.
    seconds : float
    """
    responses, poll = Responses(), select.epoll()
    clients = [_Client(port, cycle(own), responses) for own in requests]
    by_file: dict[int, _Client] = {}
    lost, retry = list(clients), 0.0
    until = time.perf_counter() + seconds
    while (now := time.perf_counter()) < until:
        if lost and now >= retry:
            lost, retry = [one for one in lost if not _connect(one, poll, by_file)], now + _RETRY_SECONDS
        for number, _ in poll.poll(_RETRY_SECONDS):
            client = by_file.get(number)  # None: of a connection that broke since
            if client is not None and not client.receive():
                lost.append(by_file.pop(number))
    for client in by_file.values():
        assert client.socket is not None
        client.socket.close()
    poll.close()
    return responses


def _connect(client: _Client, poll: select.epoll, by_file: dict[int, _Client]) -> bool:
    if not client.connect():
        return False
    assert client.socket is not None
    by_file[client.socket.fileno()] = client
    poll.register(client.socket, select.EPOLLIN)
    return True
