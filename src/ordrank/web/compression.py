"""Compression of what is text; pictures are compressed already."""

from __future__ import annotations

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

_MINIMUM = 1000  # bytes; less takes one packet anyway
_LEVEL = 5
_COMPRESSED = ("/thumbnail", "/large", "/exports/files", "/points")


class CompressionMiddleware:
    """Compresses pages, scripts, style sheets and JSON for clients that accept it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._compressing = app, GZipMiddleware(app, minimum_size=_MINIMUM, compresslevel=_LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        compress = scope["type"] == "http" and not scope["path"].endswith(_COMPRESSED)
        await (self._compressing if compress else self._app)(scope, receive, send)
