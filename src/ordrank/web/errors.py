"""Errors of the API in one format: a code for programs and a message for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount

from ordrank.errors import (
    AccessDeniedError,
    CollectionBusyError,
    CollectionError,
    ConflictError,
    DiskFullError,
    InputError,
    NewGradeError,
    PictureTooLargeError,
    UnknownError,
)
from ordrank.web.schemas import ErrorBody

CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    415: "unsupported_type",
    500: "internal_error",
    503: "unavailable",
    507: "disk_full",
}
CLOSE = {"Connection": "close"}
ENDING = "the server is ending; start it again"
_ABSOLUTE_FOLDER = re.compile(r"""(?<![\w.~-])(?:[A-Za-z]:)?[/\\](?:[^/\\\s'"`]+[/\\])+""")
# How to do something at the machine of the server.
_COMMAND = re.compile(r" with (?:`ordrank [^`]*`|--[a-z-]+)|[:;] pip install [^;]*")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_MESSAGES = {404: "there is nothing at this address", 405: "this address does not support that method"}


class ApiError(Exception):
    """An error response with an HTTP status, a message and optional headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


def public_message(error: Exception, directory: Path) -> str:
    """Return the message of an error without what only those at the server of the collection may or need to know.

    That is the process that locks the collection, its machine and command line, folders, and commands to enter.

    Examples
    --------
    >>> error = CollectionError("../my knees: there is no model; train it with `ordrank fit x`")
    >>> public_message(error, Path("../my knees"))
    'my knees: there is no model; train it'
    """
    if isinstance(error, CollectionBusyError):
        return "pictures are being imported or trained with; try again in a while"
    if isinstance(error, DiskFullError):
        return "the disk of the server is full; free some space there and try again"
    if isinstance(error, AccessDeniedError):
        return "the server may not open or change the files of the collection; check their permissions"
    text = str(error)
    for folder in (directory, directory.absolute()):
        if len(folder.parts) > 1:  # folders may have spaces in their names
            text = text.replace(str(folder), folder.name)
    return _COMMAND.sub("", hide_folders(text))


def hide_folders(text: str) -> str:
    """Return a text with file names instead of absolute paths, which are nothing to those who see the page.

    Examples
    --------
    >>> hide_folders("/home/me/knees/model.json is damaged; train again with `ordrank fit --out /home/me/knees`")
    'model.json is damaged; train again with `ordrank fit --out knees`'
    """
    return _ABSOLUTE_FOLDER.sub("", text)


def error_response(
    status: int, message: str, headers: Mapping[str, str] | None = None, code: str | None = None
) -> JSONResponse:
    """Return the response for an error."""
    detail = {"code": code or CODES.get(status, "error"), "message": message}
    return JSONResponse({"error": detail}, status, headers=dict(headers or {}))


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI description of error responses; every route has some in common."""
    return {
        status: {"model": ErrorBody, "description": HTTPStatus(status).phrase}
        for status in sorted({400, 401, 403, 503, *statuses})
    }


def add_error_handlers(app: FastAPI) -> None:
    """Return every error of an app in the same format."""
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(InputError, _input_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)


def _api_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)
    return error_response(error.status, error.message, error.headers)


def _input_error(request: Request, error: Exception) -> JSONResponse:
    message = public_message(error, request.app.state.collection.directory)
    if isinstance(error, UnknownError):
        return error_response(404, message)
    if isinstance(error, ConflictError):
        return error_response(409, message)
    if isinstance(error, NewGradeError):
        return error_response(409, message, code="new_grade")
    if isinstance(error, CollectionBusyError):
        return error_response(409, message, code="busy")
    if isinstance(error, DiskFullError):
        return error_response(507, message)
    if isinstance(error, AccessDeniedError):
        return error_response(403, message)
    if isinstance(error, CollectionError):
        return error_response(409, message, code="collection")
    if isinstance(error, PictureTooLargeError):
        return error_response(413, message)
    return error_response(400, message)


def _validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return error_response(400, "; ".join(map(validation_message, error.errors())))


def validation_message(error: Mapping[str, Any]) -> str:
    """Return the message of an error of Pydantic, with the name of the parameter."""
    name = ".".join(str(part) for part in error["loc"][1:] or error["loc"])
    return f"{name}: {error['msg']}" if name else str(error["msg"])


def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = error.headers
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {"Allow": ", ".join(_allowed_methods(request)) or "GET, HEAD"}  # those of static files
    return error_response(error.status_code, _MESSAGES.get(error.status_code, error.detail), headers)


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes with the address of a request; Starlette names those of the first."""
    routes = [route for route in request.app.router.routes if not isinstance(route, Mount)]
    scopes = ({**request.scope, "method": method} for method in _METHODS)
    return [scope["method"] for scope in scopes if any(route.matches(scope)[0] is Match.FULL for route in routes)]
