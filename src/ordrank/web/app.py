"""The application: the interface under /api/v1, and the page that uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from threadpoolctl import threadpool_limits

from ordrank import __version__
from ordrank.errors import InputError
from ordrank.service import Library
from ordrank.web.problems import ProblemError, handle_problems
from ordrank.web.routes import router
from ordrank.web.safety import API, COOKIE, LOCAL_HOSTS, Guard, Rules
from ordrank.web.uploads import Limits

STATIC = Path(__file__).parent / "static"
# Requests that a process works on at a time: Python runs one thread, but one that takes long must not stop the others.
_THREADS = 2
# Seconds between two looks at the collection.
_WATCH_EVERY = 0.5


def create_app(
    directory: Path,
    *,
    read_only: bool = False,
    token: str | None = None,
    hosts: Collection[str] | None = LOCAL_HOSTS,
    upload_limits: Limits | None = None,
    library: Library | None = None,
) -> FastAPI:
    """Make the application of one collection.

    Parameters
    ----------
    directory : Path
        Of the collection.
    read_only : bool
        Refuse to change grades and to train.
    token : str, optional
        What every request to the interface must know.
    hosts : collection of str, or None
        Names that the server goes by; None: any.
    upload_limits : Limits, optional
        Of pictures that are sent.
    library : Library, optional
        The collection, if it is open already.
    """
    app = FastAPI(
        title="ordrank",
        version=__version__,
        description="Grades and ranks the pictures of one collection.",
        docs_url=None,  # these pages would load scripts from elsewhere
        redoc_url=None,
        openapi_url=f"{API}/openapi.json",
        redirect_slashes=False,
        lifespan=_run,
    )
    rules = Rules(token, hosts)
    app.state.library, app.state.read_only = library or Library(directory), read_only
    app.state.upload_limits, app.state.decoding, app.state.writing = upload_limits or Limits(), None, None
    handle_problems(app)
    app.include_router(router, prefix=API)
    _add_page(app, rules)
    _describe_errors_as_they_are(app)
    app.add_middleware(Guard, rules=rules)
    return app


@asynccontextmanager
async def _run(app: FastAPI) -> AsyncIterator[None]:
    """Work on few requests at a time: more threads than cores would only take turns, and so would those of BLAS."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
    # Large pictures take memory and long, and writers wait for each other: they must not keep all others waiting.
    app.state.decoding, app.state.writing = anyio.CapacityLimiter(1), anyio.CapacityLimiter(1)
    with threadpool_limits(1, "blas"):
        watching = asyncio.create_task(_watch(app.state.library))
        yield
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    app.state.library.close()


async def _watch(library: Library) -> None:
    """Notice what other processes change before anyone asks."""
    while True:
        await asyncio.sleep(_WATCH_EVERY)
        with suppress(InputError, OSError):  # whoever asks is told
            await anyio.to_thread.run_sync(library.renew)


def _add_page(app: FastAPI, rules: Rules) -> None:
    @app.get("/", include_in_schema=False)
    def page(request: Request, token: str | None = None) -> Response:
        if token is not None:
            return _enter(request, rules, token)
        if not (STATIC / "index.html").is_file():
            raise ProblemError(404, "the page is not installed")
        return FileResponse(STATIC / "index.html")

    app.mount("/static", StaticFiles(directory=STATIC, check_dir=False))


def _enter(request: Request, rules: Rules, token: str) -> Response:
    """Take the token out of the address, where it could be read over a shoulder, and keep it as a cookie."""
    if not rules.knows_token(token):
        raise ProblemError(401, "this is not the token of this server")
    response = RedirectResponse("/", 303)
    if rules.token is not None:
        response.set_cookie(
            COOKIE, rules.cookie, httponly=True, samesite="strict", secure=request.url.scheme == "https"
        )
    return response


def _describe_errors_as_they_are(app: FastAPI) -> None:
    """Take out of the description what FastAPI says of its own errors, which are answered as 400 here."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        described = generate()
        for methods in described["paths"].values():
            for operation in methods.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            described["components"]["schemas"].pop(name, None)
        return described

    app.openapi = openapi  # type: ignore[method-assign]
