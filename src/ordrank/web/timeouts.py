"""Timeout for the head of a request."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ordrank.web.errors import CLOSE, error_response

HEAD_TIMEOUT = 10.0


class TimeoutProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP with a timeout in seconds for the head of a request.

    Uvicorn limits the time between two requests, and :mod:`ordrank.web.uploads` that of a body; without this one, a
    client could hold a connection with a head that never ends.
    """

    head_timeout = HEAD_TIMEOUT

    def connection_made(self, transport: Any) -> None:
        """Start the timer for the first head."""
        super().connection_made(transport)
        self._has_data = False
        self._timer: asyncio.TimerHandle | None = self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request."""
        self._has_data = True
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # the head is complete
            self._stop_timer()
        elif self._timer is None:
            self._timer = self._start_timer()

    def connection_lost(self, error: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(error)

    def _start_timer(self) -> asyncio.TimerHandle:
        timer: asyncio.TimerHandle = self.loop.call_later(self.head_timeout, self._time_out)
        return timer

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self._has_data:
            self.transport.write(_timeout_response(self.head_timeout))
        self.transport.close()


def _timeout_response(seconds: float) -> bytes:
    response: Any = error_response(408, f"the head of the request did not arrive within {seconds:g} seconds", CLOSE)
    lines = [b"HTTP/1.1 408 Request Timeout", *(name + b": " + value for name, value in response.raw_headers)]
    return b"\r\n".join([*lines, b"", bytes(response.body)])
