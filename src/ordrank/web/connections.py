"""Limits of connections: their number, the time for the head of a request, and the bytes that clients do not read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ordrank.web.errors import CLOSE, error_response

HEAD_TIMEOUT = 10.0
WRITE_TIMEOUT = 20.0
MAX_CONNECTIONS = 400
MAX_UNSENT_BYTES = 64_000_000
_CHECK_INTERVAL = 1.0
# A client that reads fewer bytes than this within the timeout does not read.
_MIN_READ_BYTES = 10_000


class LimitedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP for clients that may be slow, silent or many.

    Uvicorn limits the time between two requests, and :mod:`ordrank.web.uploads` that of a body. Here are limits in
    seconds for the head of a request, and for a response that the client does not read. Of more connections than
    ``max_connections``, or more than ``max_unsent_bytes`` in memory for all of them, the one that has waited for its
    client longest is closed: whoever is active is served, however many are not.
    """

    head_timeout = HEAD_TIMEOUT
    write_timeout = WRITE_TIMEOUT
    max_connections = MAX_CONNECTIONS
    max_unsent_bytes = MAX_UNSENT_BYTES

    def connection_made(self, transport: Any) -> None:
        """Start the timers; close another connection if there are too many."""
        super().connection_made(transport)
        self._has_data = False
        self._head_timer: asyncio.TimerHandle | None = self._start_head_timer()
        self.active_since = self._read_since = self.loop.time()
        self._unsent = 0
        self._check_timer: asyncio.TimerHandle = self.loop.call_later(_CHECK_INTERVAL, self._check_progress)
        if len(self.connections) > self.max_connections:
            _close_one(self.connections)

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request."""
        self._has_data = True
        self.active_since = self.loop.time()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # the head is complete
            self._stop_head_timer()
        elif self._head_timer is None:
            self._head_timer = self._start_head_timer()

    def pause_writing(self) -> None:
        """Wait until the client has read; close a connection if too many bytes wait."""
        super().pause_writing()
        if sum(connection.unsent_bytes for connection in self.connections) > self.max_unsent_bytes:
            _close_one(connection for connection in self.connections if connection.unsent_bytes)

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        self.active_since = self._read_since = self.loop.time()
        self._unsent = self.unsent_bytes

    def connection_lost(self, error: Exception | None) -> None:
        """Stop the timers."""
        self._stop_head_timer()
        self._check_timer.cancel()
        super().connection_lost(error)

    @property
    def unsent_bytes(self) -> int:
        """Bytes in memory that the client has not read."""
        size: int = self.transport.get_write_buffer_size()
        return size

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing happens here until the client sends or reads."""
        answering = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        return not answering or self.unsent_bytes > 0

    def _check_progress(self) -> None:
        """Close the connection if the client has not read for too long; else check again later."""
        unsent, now = self.unsent_bytes, self.loop.time()
        if unsent <= max(0, self._unsent - _MIN_READ_BYTES):
            self._unsent, self._read_since = unsent, now
        self._unsent = max(self._unsent, unsent)  # more has been written since
        if now - self._read_since > self.write_timeout:
            self.transport.abort()
        else:
            self._check_timer = self.loop.call_later(_CHECK_INTERVAL, self._check_progress)

    def _start_head_timer(self) -> asyncio.TimerHandle:
        timer: asyncio.TimerHandle = self.loop.call_later(self.head_timeout, self._time_out)
        return timer

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _time_out(self) -> None:
        self._head_timer = None
        if self.transport.is_closing():
            return
        if self._has_data:
            self.transport.write(_timeout_response(self.head_timeout))
        self.transport.close()


def _close_one(connections: Iterable[LimitedProtocol]) -> None:
    """Close the connection that has waited for its client longest, at once: it may never read what is left."""
    waiting = [connection for connection in connections if connection.waits_for_client]
    if waiting:
        min(waiting, key=lambda connection: connection.active_since).transport.abort()


def _timeout_response(seconds: float) -> bytes:
    response: Any = error_response(408, f"the head of the request did not arrive within {seconds:g} seconds", CLOSE)
    lines = [b"HTTP/1.1 408 Request Timeout", *(name + b": " + value for name, value in response.raw_headers)]
    return b"\r\n".join([*lines, b"", bytes(response.body)])
