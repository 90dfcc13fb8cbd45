"""Reading request bodies within limits of size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from fastapi import Request
from starlette.requests import ClientDisconnect

from ordrank.web.errors import CLOSE, ApiError

MAX_UPLOAD_BYTES = 20_000_000
_MAX_NAME = 200
# A body that is too large is read and discarded: else the client sees a broken connection, not the error.
_MAX_DISCARDED = 100_000_000
_DISCARD_TIMEOUT = 2.0


@dataclass(frozen=True)
class Limits:
    """Largest size and longest time of a body."""

    bytes: int = MAX_UPLOAD_BYTES
    seconds: float = 20.0


async def read_body(request: Request, limits: Limits, *, accepts: Callable[[str], bool]) -> bytes:
    """Return the body of a request whose content type ``accepts`` accepts. Raise ApiError beyond the limits."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not accepts(kind):
        raise ApiError(415, f"content of the type {kind or 'unknown'} is not accepted here", CLOSE)
    length = _length(request)
    if length > limits.bytes:
        await _discard(request, length)
        raise _too_large(limits)
    try:
        async with asyncio.timeout(limits.seconds):
            return await _read(request, limits)
    except TimeoutError:
        raise ApiError(408, f"the content did not arrive within {limits.seconds:g} seconds", CLOSE) from None
    except ClientDisconnect:
        raise ApiError(400, "the connection ended before all of the content was sent", CLOSE) from None


def upload_name(request: Request) -> str:
    """Return the name of an uploaded picture, from the percent-encoded header X-Name."""
    name = unquote(request.headers.get("x-name", ""), errors="replace")
    return "".join(character for character in name if character.isprintable())[:_MAX_NAME] or "upload"


def _length(request: Request) -> int:
    text = request.headers.get("content-length", "")
    if not (text.isascii() and text.isdigit()):
        raise ApiError(400, "the header Content-Length must state the number of bytes", CLOSE)
    return int(text[:20])


async def _read(request: Request, limits: Limits) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limits.bytes:  # more than Content-Length
            raise _too_large(limits)
        parts.append(part)
    return b"".join(parts)


async def _discard(request: Request, length: int) -> None:
    if length > _MAX_DISCARDED:
        return
    try:
        async with asyncio.timeout(_DISCARD_TIMEOUT):
            async for _ in request.stream():
                pass
    except (TimeoutError, ClientDisconnect):
        return


def _too_large(limits: Limits) -> ApiError:
    size = f"{limits.bytes / 10**6:g} million" if limits.bytes >= 10**6 else str(limits.bytes)
    return ApiError(413, f"more than {size} bytes were sent; that is too much", CLOSE)
