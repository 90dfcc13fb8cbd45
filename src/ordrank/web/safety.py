"""Who may ask, from where, and what browsers are told to refuse.

A page elsewhere on the web can make a browser send requests to a server on the same machine. Three things keep it out:
requests must name a host that this server goes by (a foreign name that resolves to this machine is refused), requests
that change something must come from the page itself, and no answer may be read or embedded by another site.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ordrank.web.problems import CLOSE, ProblemError, problem_response

API = "/api/v1"
COOKIE = "ordrank"
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; script-src 'self'; style-src 'self'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True)
class Rules:
    """Whom the server answers.

    Attributes
    ----------
    token : str or None
        What every request must know; None: nothing.
    hosts : collection of str, or None
        Names that the server goes by; None: any.
    """

    token: str | None = field(default=None, repr=False)
    hosts: Collection[str] | None = LOCAL_HOSTS

    @property
    def cookie(self) -> str:
        """What a browser is given for the token: cookies are sent to every port of a host, the token is not."""
        return hmac.new((self.token or "").encode(), b"the page of ordrank", "sha256").hexdigest()

    def knows_token(self, text: str) -> bool:
        """Whether a text is the token, in a time that does not tell how much of it was right."""
        return self.token is None or hmac.compare_digest(text.encode(), self.token.encode())

    def check(self, scope: Scope) -> None:
        """Refuse a request that must not be answered."""
        headers = Headers(scope=scope)
        self._check_host(headers)
        bearer = self._is_bearer(headers)
        if scope["path"].startswith("/api/") and not (bearer or self._has_cookie(headers)):
            raise ProblemError(
                401,
                "this server wants a token: open the address that it printed, or send Authorization: Bearer TOKEN",
                {"WWW-Authenticate": "Bearer", **CLOSE},
            )
        # Whoever sends the token in a header has read it: no browser does that for another site.
        asked_by_token = self.token is not None and bearer
        if scope["method"] not in _READING and not asked_by_token and not _is_same_origin(headers):
            raise ProblemError(403, "requests that change something must come from the page of this server", CLOSE)

    def _check_host(self, headers: Headers) -> None:
        if self.hosts is None:
            return
        if _host_name(headers.get("host", "")) not in self.hosts:
            raise ProblemError(403, "this server does not go by that name; use the address that it printed", CLOSE)

    def _is_bearer(self, headers: Headers) -> bool:
        kind, _, text = headers.get("authorization", "").partition(" ")
        return self.token is None or (kind.lower() == "bearer" and self.knows_token(text.strip()))

    def _has_cookie(self, headers: Headers) -> bool:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(found.value.encode(), self.cookie.encode())


class Guard:
    """Lets through what the rules allow, puts the headers on every answer, and turns accidents into errors.

    Parameters
    ----------
    app : ASGI application
    rules : Rules
    """

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def send_safely(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _add_headers(message, scope["path"])
            await send(message)

        try:
            self._rules.check(scope)
            await self._app(scope, receive, send_safely)
        except ProblemError as problem:
            response = problem_response(problem.status, problem.message, problem.headers)
            await response(scope, receive, send_safely)
        except Exception:
            logging.getLogger(__name__).exception("%s %s failed", scope["method"], scope["path"])
            if begun:
                raise
            response = problem_response(500, "something went wrong here; the log of the server says what")
            await response(scope, receive, send_safely)


def _add_headers(message: Message, path: str) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    # Answers change with every correction; files of the page may change with every version.
    headers.setdefault("Cache-Control", "no-store" if path.startswith("/api/") else "no-cache")


def _is_same_origin(headers: Headers) -> bool:
    """Whether a browser says that a request comes from this server's own page, or from nobody's."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc == headers.get("host")
    except ValueError:
        return False


def _host_name(host: str) -> str:
    """Return a host without its port, and without the brackets of IPv6."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
