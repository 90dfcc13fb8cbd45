"""Limit of the bytes of all request bodies that are in memory at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ordrank.web.errors import ApiError

MAX_BODY_BYTES = 64_000_000


@dataclass(eq=False)
class _Body:
    """What has arrived of the body of a request that is handled, and the scope that ends it."""

    bytes: int = 0
    arrives: bool = True
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class BodyLimitMiddleware:
    """Ends the request whose body has been arriving longest if those of all requests take too much memory.

    Slow uploads are the ones that end, so that others go on; if all bodies have arrived and wait to be handled, the new
    request ends. The response asks to try again.
    """

    def __init__(self, app: ASGIApp, max_bytes: int = MAX_BODY_BYTES) -> None:
        self._app, self._max_bytes = app, max_bytes
        self._bodies: dict[_Body, None] = {}  # in order of their requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body()

        async def receive_counted() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                body.arrives = message.get("more_body", False)
                self._add(body, len(message.get("body", b"")))
            return message

        self._bodies[body] = None
        try:
            with body.scope:
                await self._app(scope, receive_counted, send)
        finally:
            del self._bodies[body]
        if body.scope.cancelled_caught:
            raise ApiError(503, "too much is being sent to this server at a time; try again", {"Retry-After": "2"})

    def _add(self, body: _Body, size: int) -> None:
        body.bytes += size
        if sum(other.bytes for other in self._bodies) > self._max_bytes:
            ended = next((other for other in self._bodies if other.arrives and other.bytes), body)
            ended.bytes = 0
            ended.scope.cancel()
