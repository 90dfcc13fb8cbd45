"""Everything that can go wrong, in one shape: a word for programs and a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ordrank.errors import CollectionBusyError, CollectionError, InputError, UnknownError
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
}
CLOSE = {"Connection": "close"}
_SENTENCES = {404: "there is nothing at this address", 405: "this address does not know that method"}


class ProblemError(Exception):
    """An answer that is an error.

    Parameters
    ----------
    status : int
    message : str
        A sentence.
    headers : mapping, optional
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


def problem_response(
    status: int, message: str, headers: Mapping[str, str] | None = None, code: str | None = None
) -> JSONResponse:
    """Return an error in its shape."""
    detail = {"code": code or CODES.get(status, "error"), "message": message}
    return JSONResponse({"error": detail}, status, headers=dict(headers or {}))


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what the description of an address says about its errors; those that every address has are added."""
    return {
        status: {"model": ErrorBody, "description": HTTPStatus(status).phrase}
        for status in sorted({400, 401, 403, *statuses})
    }


def handle_problems(app: FastAPI) -> None:
    """Let an app answer every error in the one shape."""
    app.add_exception_handler(ProblemError, _problem)
    app.add_exception_handler(InputError, _input)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)


def _problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)
    return problem_response(error.status, error.message, error.headers)


def _input(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, UnknownError):
        return problem_response(404, str(error))
    if isinstance(error, CollectionBusyError):
        return problem_response(409, str(error), code="busy")
    if isinstance(error, CollectionError):
        return problem_response(409, str(error), code="collection")
    return problem_response(400, str(error))


def _validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return problem_response(400, "; ".join(map(validation_sentence, error.errors())))


def validation_sentence(found: Mapping[str, Any]) -> str:
    """Say what is wrong with a parameter."""
    where = ".".join(str(part) for part in found["loc"][1:] or found["loc"])
    return f"{where}: {found['msg']}" if where else str(found["msg"])


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return problem_response(error.status_code, _SENTENCES.get(error.status_code, error.detail), error.headers)
