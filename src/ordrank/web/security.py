"""Access control: token, host names, same origin, and security headers.

A page elsewhere on the web can make a browser send requests to a server on the same machine. Three checks prevent it:
the Host header must be a name of this server (against DNS rebinding), requests that change something must come from
the page itself (against CSRF), and headers forbid other sites to read or embed responses.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
from asyncio import CancelledError
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ordrank.web.errors import CLOSE, ENDING, ApiError, error_response

API = "/api/v1"
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
LOGIN_PAGE = Path(__file__).parent / "login.html"
# Seconds until a wrong token is answered.
WRONG_TOKEN_DELAY = 0.5
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_RESTRICTIONS = "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
_POLICY = f"default-src 'self'; img-src 'self'; script-src 'self'; style-src 'self'; object-src 'none'; {_RESTRICTIONS}"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True)
class AccessPolicy:
    """Which requests are accepted.

    Attributes
    ----------
    token : str or None
        Secret that requests must present, if any.
    hosts : container of str, or None
        Accepted host names; None accepts any.
    """

    token: str | None = field(default=None, repr=False)
    hosts: Container[str] | None = LOCAL_HOSTS

    @property
    def cookie(self) -> str:
        """Cookie derived from the token: cookies are sent to every port of a host, the token must not be."""
        return hmac.new((self.token or "").encode(), b"the page of ordrank", "sha256").hexdigest()

    @property
    def cookie_name(self) -> str:
        """Name of the cookie, by the token: servers at other ports of the host must not replace it."""
        return f"ordrank-{self.cookie[:8]}"

    def is_token(self, text: str) -> bool:
        """Return whether a text is the token, in constant time."""
        return self.token is None or hmac.compare_digest(text.encode(), self.token.encode())

    def check(self, scope: Scope) -> None:
        """Raise ApiError for a request that is not accepted; only the address where one logs in needs no token."""
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:  # RFC 9112, section 6.1: request smuggling
            raise ApiError(400, "a request has either Content-Length or Transfer-Encoding", CLOSE)
        self._check_host(headers)
        if not (self.is_authorized(headers) or scope["path"] == "/"):
            raise ApiError(
                401,
                "this server needs a token: open the address that it printed, or send Authorization: Bearer TOKEN",
                {"WWW-Authenticate": "Bearer", **CLOSE},
            )
        # No browser sends the token in a header for another site.
        authorized_by_token = self.token is not None and self._is_bearer(headers)
        if scope["method"] not in _SAFE_METHODS and not authorized_by_token and not _is_same_origin(headers):
            raise ApiError(403, "requests that change something must come from the page of this server", CLOSE)

    def is_authorized(self, headers: Headers) -> bool:
        """Return whether a request presents the token, or the cookie of a page that has."""
        return self._is_bearer(headers) or self._has_cookie(headers)

    def is_guess(self, headers: Headers) -> bool:
        """Return whether a request presents a token that is wrong."""
        return "authorization" in headers and not self._is_bearer(headers)

    def _check_host(self, headers: Headers) -> None:
        if self.hosts is None:
            return
        if _host_name(headers.get("host", "")) not in self.hosts:
            raise ApiError(403, "this host name is not accepted; use the address that the server printed", CLOSE)

    def _is_bearer(self, headers: Headers) -> bool:
        kind, _, text = headers.get("authorization", "").partition(" ")
        return self.token is None or (kind.lower() == "bearer" and self.is_token(text.strip()))

    def _has_cookie(self, headers: Headers) -> bool:
        # Other applications of this host may set cookies that http.cookies would not parse.
        cookie = cookie_parser(headers.get("cookie", "")).get(self.cookie_name, "")
        return hmac.compare_digest(cookie.encode(), self.cookie.encode())


class SecurityMiddleware:
    """Applies an :class:`AccessPolicy`, adds security headers, and turns unexpected exceptions into error responses."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy) -> None:
        self._app, self._policy = app, policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _add_headers(message, scope["path"])
            await send(message)

        try:
            self._policy.check(scope)
            await self._app(scope, receive, send_with_headers)
        except ApiError as error:
            if error.status == 401 and self._policy.is_guess(Headers(scope=scope)):
                await asyncio.sleep(WRONG_TOKEN_DELAY)
            response = error_response(error.status, error.message, error.headers)
            await response(scope, receive, send_with_headers)
        except CancelledError:
            # The server ends and waits no longer. Raised again, it would be logged by uvicorn, with a traceback.
            if not started:
                response = error_response(503, ENDING, CLOSE)
                await response(scope, receive, send_with_headers)
        except Exception:
            logging.getLogger(__name__).exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise
            response = error_response(500, "internal error; the log of the server says what happened")
            await response(scope, receive, send_with_headers)


def login_page() -> HTMLResponse:
    """Return the page that asks for the token. It needs no other file: its policy allows its own style and script."""
    text = LOGIN_PAGE.read_text(encoding="utf-8")
    own = [f"{kind}-src {_sha256_source(text, kind)}" for kind in ("style", "script")]
    policy = "; ".join(["default-src 'none'", "img-src data:", *own, _RESTRICTIONS])
    return HTMLResponse(text, 401, {"Content-Security-Policy": policy, "WWW-Authenticate": "Bearer"})


def _sha256_source(text: str, element: str) -> str:
    """Return the content of an element as a source of a content security policy."""
    content = text.partition(f"<{element}>")[2].partition(f"</{element}>")[0]
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _add_headers(message: Message, path: str) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    # Responses change with every grade, static files with every version.
    headers.setdefault("Cache-Control", "no-store" if path.startswith("/api/") else "no-cache")


def _is_same_origin(headers: Headers) -> bool:
    """Return whether a request comes from this server's own page, or from no page, according to the browser."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc == headers.get("host")
    except ValueError:
        return False


def _host_name(host: str) -> str:
    """Return a host without port and without the brackets of IPv6."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
