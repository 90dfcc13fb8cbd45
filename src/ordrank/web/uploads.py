"""Reading what is sent, never more and never longer than allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from fastapi import Request
from starlette.requests import ClientDisconnect

from ordrank.features.pictures import count_pixels
from ordrank.web.problems import CLOSE, ProblemError

MOST_BYTES = 20_000_000
MOST_PIXELS = 40_000_000
_MOST_NAME = 200
# A client that hears "too large" only while it still sends would see a broken connection instead.
_MOST_DISCARDED = 100_000_000
_DISCARD_SECONDS = 2.0


@dataclass(frozen=True)
class Limits:
    """How much may be sent, and for how long."""

    bytes: int = MOST_BYTES
    seconds: float = 20.0


async def read_body(request: Request, limits: Limits, *, accepts: Callable[[str], bool]) -> bytes:
    """Read the body of a request.

    Parameters
    ----------
    request : Request
    limits : Limits
    accepts : callable
        Whether a type of content is welcome.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not accepts(kind):
        raise ProblemError(415, f"content of the type {kind or 'nothing'} is not taken here", CLOSE)
    length = _length(request)
    if length > limits.bytes:
        await _discard(request, length)
        raise _too_large(limits)
    try:
        async with asyncio.timeout(limits.seconds):
            return await _read(request, limits)
    except TimeoutError:
        raise ProblemError(400, f"the content did not arrive within {limits.seconds:g} seconds", CLOSE) from None
    except ClientDisconnect:
        raise ProblemError(400, "the connection ended before all of the content was sent", CLOSE) from None


def check_pixels(data: bytes) -> None:
    """Refuse a picture that would take too much memory, before it is decoded."""
    pixels = count_pixels(data)
    if pixels is not None and pixels > MOST_PIXELS:
        raise ProblemError(413, f"the picture has more than {MOST_PIXELS // 10**6} million pixels; send a smaller one")


def upload_name(request: Request) -> str:
    """Return what an uploaded picture is to be called: the header X-Name, percent-encoded."""
    name = unquote(request.headers.get("x-name", ""), errors="replace")
    return "".join(sign for sign in name if sign.isprintable())[:_MOST_NAME] or "upload"


def _length(request: Request) -> int:
    text = request.headers.get("content-length", "")
    if not (text.isascii() and text.isdigit()):
        raise ProblemError(400, "the header Content-Length must say how many bytes are sent", CLOSE)
    return int(text[:20])


async def _read(request: Request, limits: Limits) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limits.bytes:  # more than its header has said
            raise _too_large(limits)
        parts.append(part)
    return b"".join(parts)


async def _discard(request: Request, length: int) -> None:
    if length > _MOST_DISCARDED:
        return
    try:
        async with asyncio.timeout(_DISCARD_SECONDS):
            async for _ in request.stream():
                pass
    except (TimeoutError, ClientDisconnect):
        return


def _too_large(limits: Limits) -> ProblemError:
    size = f"{limits.bytes / 10**6:g} million" if limits.bytes >= 10**6 else str(limits.bytes)
    return ProblemError(413, f"more than {size} bytes were sent; that is too much", CLOSE)
