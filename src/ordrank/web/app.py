"""The FastAPI application: the API under /api/v1, and the page that uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Container
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
from ordrank.collection.collection import Collection
from ordrank.errors import InputError
from ordrank.web.body_limit import BodyLimitMiddleware
from ordrank.web.compression import CompressionMiddleware
from ordrank.web.decoder import Decode, DecoderProcess, make_decoder
from ordrank.web.errors import ApiError, add_error_handlers
from ordrank.web.routes import router
from ordrank.web.security import API, LOCAL_HOSTS, WRONG_TOKEN_DELAY, AccessPolicy, SecurityMiddleware, login_page
from ordrank.web.shared_state import LocalState, SharedState
from ordrank.web.uploads import Limits

STATIC = Path(__file__).parent / "static"
# Requests handled at a time: Python runs one thread, but a long request must not block the others.
_THREADS = 2
# What takes much time or memory, or waits for others that write, has one thread more for each of these.
_LIMITERS = ("adding", "comparing", "decoding", "examining", "writing")
# Seconds between two checks for changes of the collection by other processes.
_REFRESH_INTERVAL = 0.5


def create_app(
    collection: Collection,
    *,
    state: SharedState | None = None,
    read_only: bool = False,
    token: str | None = None,
    hosts: Container[str] | None = LOCAL_HOSTS,
    upload_limits: Limits | None = None,
    decode: Decode | None = None,
) -> FastAPI:
    """Create the application that serves one collection.

    Parameters
    ----------
    collection : Collection
    state : SharedState, optional
        Shared with other processes that serve it.
    read_only : bool
        Reject changes of grades and training.
    token : str, optional
        Secret that every request must present, except those for the page that asks for it.
    hosts : collection of str, or None
        Host names that are accepted; None accepts any.
    upload_limits : Limits, optional
        Of uploaded pictures.
    decode : callable, optional
        Decodes pictures; by default in a process of its own, with limits of time and memory, where that is possible.
    """
    collection.refresh()
    app = FastAPI(
        title="ordrank",
        version=__version__,
        description="Grades and ranks the pictures of one collection.",
        docs_url=None,  # these pages would load scripts from elsewhere
        redoc_url=None,
        openapi_url=f"{API}/openapi.json",
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    policy = AccessPolicy(token, hosts)
    app.state.collection, app.state.shared = collection, state or LocalState(collection)
    app.state.decode = decode or make_decoder(app.state.shared.large_picture_lock)
    app.state.read_only = read_only
    app.state.upload_limits = upload_limits or Limits()
    for name in _LIMITERS:
        setattr(app.state, name, None)  # the usual limit, until the server starts
    add_error_handlers(app)
    app.include_router(router, prefix=API)
    _add_page(app, policy)
    _remove_validation_errors(app)
    app.add_middleware(BodyLimitMiddleware)
    app.add_middleware(CompressionMiddleware)
    app.add_middleware(SecurityMiddleware, policy=policy)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Limit the threads of requests and of BLAS: more threads than cores would only take turns."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
    for name in _LIMITERS:
        setattr(app.state, name, anyio.CapacityLimiter(1))
    with threadpool_limits(1, "blas"):
        refreshing = asyncio.create_task(_refresh(app.state.collection))
        yield
        refreshing.cancel()
        with suppress(asyncio.CancelledError):
            await refreshing
    if isinstance(app.state.decode, DecoderProcess):
        app.state.decode.close()
    app.state.collection.close()


async def _refresh(collection: Collection) -> None:
    """Load what other processes have changed before the next request."""
    while True:
        await asyncio.sleep(_REFRESH_INTERVAL)
        with suppress(InputError, OSError, ApiError):  # the next request reports it
            await anyio.to_thread.run_sync(collection.refresh)


def _add_page(app: FastAPI, policy: AccessPolicy) -> None:
    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page(request: Request, token: str | None = None) -> Response:
        if token is not None:
            return await _log_in(request, policy, token)
        if not policy.is_authorized(request.headers):
            return login_page()
        if not (STATIC / "index.html").is_file():
            raise ApiError(404, "the page is not installed")
        return FileResponse(STATIC / "index.html")

    app.mount("/static", StaticFiles(directory=STATIC, check_dir=False))


async def _log_in(request: Request, policy: AccessPolicy, token: str) -> Response:
    """Move the token from the address, where others could read it, to a cookie."""
    if not policy.is_token(token):
        await asyncio.sleep(WRONG_TOKEN_DELAY)
        return RedirectResponse("/?token-rejected", 303)  # the page asks again
    response = RedirectResponse("/", 303)
    if policy.token is not None:
        secure = request.url.scheme == "https"
        response.set_cookie(policy.cookie_name, policy.cookie, httponly=True, samesite="strict", secure=secure)
    return response


def _remove_validation_errors(app: FastAPI) -> None:
    """Remove FastAPI's own validation errors (422) from the schema: they are returned as 400 here."""
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
