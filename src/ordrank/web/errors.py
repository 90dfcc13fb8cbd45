"""Errors of the API in one format: a code for programs and a message for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ordrank.errors import (
    AccessDeniedError,
    CollectionBusyError,
    CollectionError,
    ConflictError,
    DiskFullError,
    InputError,
    NewGradeError,
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
_MESSAGES = {404: "there is nothing at this address", 405: "this address does not support that method"}


class ApiError(Exception):
    """An error response with an HTTP status, a message and optional headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


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
    message = hide_folders(str(error))
    if isinstance(error, UnknownError):
        return error_response(404, message)
    if isinstance(error, ConflictError):
        return error_response(409, message)
    if isinstance(error, NewGradeError):
        return error_response(409, message, code="new_grade")
    if isinstance(error, CollectionBusyError):
        # Its own message names a process and a machine.
        return error_response(409, "pictures are being imported or trained with; try again in a while", code="busy")
    if isinstance(error, DiskFullError):
        return error_response(507, "the disk of the server is full; free some space there and try again")
    if isinstance(error, AccessDeniedError):
        return error_response(
            403, "the server may not open or change the files of the collection; check their permissions"
        )
    if isinstance(error, CollectionError):
        return error_response(409, message, code="collection")
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
    return error_response(error.status_code, _MESSAGES.get(error.status_code, error.detail), error.headers)
