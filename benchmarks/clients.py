"""Clients of a page, as light as they can be: they share the machine with the server that they measure.

All of them live in one process and one thread. Their requests are prepared before the clock runs, each keeps one
connection, and of an answer only its status and its end are looked for.
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
_AT_ONCE = 262_144
_RETRY_SECONDS = 0.05


def request(kind: str, number: int, grade: str = "1") -> bytes:
    """Return a request as the page sends it."""
    path = {
        "rank": f"rank?picture={number}&limit=30",
        "thumbnail": f"pictures/{number}/thumbnail",
        "browse": f"pictures?offset={number % 1000}&limit=60",
        "picture": f"pictures/{number}",
        "grade": f"pictures/{number}/grade",
    }[kind]
    body = json.dumps({"grade": grade}) if kind == "grade" else ""
    head = f"{'PUT' if body else 'GET'} {API}/{path} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n"
    content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{head}{content}\r\n{body}".encode()


@dataclass(frozen=True)
class Question:
    """A request, and what it is about."""

    kind: str
    number: int
    grade: str
    content: bytes


def questions(mix: Mapping[str, float], numbers: np.ndarray, count: int, seed: int) -> list[Question]:
    """Draw questions about some pictures; ``mix`` says how often each kind is asked."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(list(mix), p=list(mix.values()), size=count).tolist()
    grades = rng.integers(1, 6, size=count).astype(str).tolist()
    drawn = zip(kinds, rng.choice(numbers, size=count).tolist(), grades, strict=True)
    return [Question(kind, number, grade, request(kind, number, grade)) for kind, number, grade in drawn]


@dataclass
class Heard:
    """What all clients heard.

    Attributes
    ----------
    seconds : dict
        Times of the answers by kind.
    errors : list of str
        Answers that are errors.
    broken : int
        Connections that broke, with the question that was on its way.
    kept : dict
        The last grade of a picture that was acknowledged.
    open : dict
        Grades that were sent and not answered since then: they may have been kept or not.
    """

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: list[str] = field(default_factory=list)
    broken: int = 0
    kept: dict[int, str] = field(default_factory=dict)
    open: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))


class _Client:
    """One connection over which one question after another is asked."""

    def __init__(self, port: int, asked: Iterator[Question], heard: Heard) -> None:
        self._port, self._asked, self._heard = port, asked, heard
        self.socket: socket.socket | None = None

    def connect(self) -> bool:
        """Connect and ask; False if there is no server."""
        try:
            self.socket = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        except ConnectionError:
            return False
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ask()
        return True

    def _ask(self) -> None:
        assert self.socket is not None
        self._question = next(self._asked)
        self._answer, self._length = b"", 0
        if self._question.kind == "grade":
            self._heard.open[self._question.number].add(self._question.grade)
        self._begin = time.perf_counter()
        self.socket.sendall(self._question.content)

    def hear(self) -> bool:
        """Take in what has arrived, and ask again when it is all; False if the connection broke."""
        assert self.socket is not None
        try:
            part = self.socket.recv(_AT_ONCE)
            self._answer = self._answer + part if self._answer else part
            if not self._length and (end := self._answer.find(b"\r\n\r\n")) >= 0:
                head = self._answer[:end].lower()
                self._length = end + 4 + int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
            if self._length and len(self._answer) >= self._length:
                self._finish()
                self._ask()
        except OSError:
            part = b""
        if not part:
            self._heard.broken += 1
            self.socket.close()
            self.socket = None
        return bool(part)

    def _finish(self) -> None:
        asked, heard = self._question, self._heard
        heard.seconds[asked.kind].append(time.perf_counter() - self._begin)
        if not self._answer.startswith(b"HTTP/1.1 200"):
            heard.errors.append(f"{asked.kind}: {self._answer[:20]!r} {self._answer[-100:]!r}")
        elif asked.kind == "grade":
            heard.kept[asked.number] = asked.grade
            heard.open.pop(asked.number, None)


def ask(port: int, asked: list[list[Question]], seconds: float) -> Heard:
    """Let clients ask for a while; who loses the server looks for it until it is there again.

    Parameters
    ----------
    port : int
    asked : list of lists of Question
        Those of each client, again and again.
    seconds : float
    """
    heard, poll = Heard(), select.epoll()
    clients = [_Client(port, cycle(mine), heard) for mine in asked]
    by_file: dict[int, _Client] = {}
    lost, look = list(clients), 0.0
    until = time.perf_counter() + seconds
    while (now := time.perf_counter()) < until:
        if lost and now >= look:
            lost, look = [one for one in lost if not _join(one, poll, by_file)], now + _RETRY_SECONDS
        for number, _ in poll.poll(_RETRY_SECONDS):
            client = by_file[number]
            if not client.hear():
                lost.append(by_file.pop(number))
    for client in by_file.values():
        assert client.socket is not None
        client.socket.close()
    poll.close()
    return heard


def _join(client: _Client, poll: select.epoll, by_file: dict[int, _Client]) -> bool:
    if not client.connect():
        return False
    assert client.socket is not None
    by_file[client.socket.fileno()] = client
    poll.register(client.socket, select.EPOLLIN)
    return True
