"""Connections that say nothing, or say it too slowly."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ordrank.web.problems import CLOSE, problem_response

# Seconds in which the head of a request must arrive.
HEAD_SECONDS = 10.0


class PatientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP with a limit on the time that the head of a request may take.

    Uvicorn limits how long a connection rests between two requests, and :mod:`ordrank.web.uploads` how long a body
    takes; without this one, a client could hold a connection with a head that never ends.
    """

    head_seconds = HEAD_SECONDS

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._heard = False
        self._waiting: asyncio.TimerHandle | None = self._wait()

    def data_received(self, data: bytes) -> None:
        """Hear a part of a request."""
        self._heard = True
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # all of the head is there
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self._wait()

    def connection_lost(self, error: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(error)

    def _wait(self) -> asyncio.TimerHandle:
        waiting: asyncio.TimerHandle = self.loop.call_later(self.head_seconds, self._hang_up)
        return waiting

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _hang_up(self) -> None:
        self._waiting = None
        if self.transport.is_closing():
            return
        if self._heard:
            self.transport.write(_too_slow(self.head_seconds))
        self.transport.close()


def _too_slow(seconds: float) -> bytes:
    answer: Any = problem_response(408, f"the head of the request did not arrive within {seconds:g} seconds", CLOSE)
    lines = [b"HTTP/1.1 408 Request Timeout", *(name + b": " + value for name, value in answer.raw_headers)]
    return b"\r\n".join([*lines, b"", bytes(answer.body)])
