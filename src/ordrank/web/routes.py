"""The addresses of the interface."""

from __future__ import annotations

import csv
import io
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import ValidationError
from pydantic_core import to_json

from ordrank.errors import UnreadablePictureError
from ordrank.service import Asked, Library, Part
from ordrank.web.problems import ProblemError, documented, validation_sentence
from ordrank.web.schemas import (
    AnswerBody,
    CollectionBody,
    GradeChange,
    PictureBody,
    PicturesBody,
    RankingBody,
    TrainingBody,
)
from ordrank.web.uploads import Limits, check_pixels, read_body, upload_name

MOST_ROWS = 10_000
_LARGEST = 2**31 - 1
_CHANGE_LIMITS = Limits(bytes=10_000, seconds=10.0)

router = APIRouter()


# Dependencies are asynchronous: others are called in threads, which takes longer than all that they do.


async def _library(request: Request) -> Library:
    library: Library = request.app.state.library
    return library


async def _writable(request: Request) -> Library:
    if request.app.state.read_only:
        raise ProblemError(403, "this server was started with --read-only: nothing can be changed")
    return await _library(request)


Open = Annotated[Library, Depends(_library)]
Writable = Annotated[Library, Depends(_writable)]
Number = Annotated[int, Path(ge=0, le=_LARGEST, description="Number of a picture.")]
Offset = Annotated[int, Query(ge=0, le=_LARGEST, description="How many to leave out.")]
Grade = Annotated[str | None, Query(max_length=200)]
IfNoneMatch = "if-none-match"


async def _asked(
    picture: Annotated[int | None, Query(ge=0, le=_LARGEST, description="Number of a picture.")] = None,
    query: Annotated[str | None, Query(max_length=100, description="Token of an uploaded picture.")] = None,
) -> Asked:
    if (picture is None) == (query is None):
        raise ProblemError(400, "name either a picture or a query to rank for")
    return Asked(picture, query)


async def _conditions(
    within_grade: bool = False, lowest: Grade = None, highest: Grade = None, offset: Offset = 0
) -> Part:
    return Part(within_grade, lowest, highest, offset)


Question = Annotated[Asked, Depends(_asked)]
Conditions = Annotated[Part, Depends(_conditions)]


def _with_limit(part: Part, limit: int) -> Part:
    return Part(part.within_grade, part.lowest, part.highest, part.offset, limit)


def _json(found: object, status: int = 200) -> Response:
    """Answer with what a library tells: it has the declared shape, and checking that would take longer than asking."""
    return Response(to_json(found, inf_nan_mode="null"), status, media_type="application/json")


def _bytes_of(kind: str, description: str, headers: dict[str, str] | None = None) -> dict[int | str, dict[str, Any]]:
    content = {kind: {"schema": {"type": "string", "format": "binary"}}}
    described = {name: {"description": text, "schema": {"type": "string"}} for name, text in (headers or {}).items()}
    return {200: {"description": description, "content": content, "headers": described}}


# Looking ---------------------------------------------------------------------------------------------------------


@router.get("/collection", responses=documented(409))
def collection(request: Request, library: Open) -> CollectionBody:
    """Say what the collection holds."""
    found = library.describe()
    return CollectionBody.model_validate(
        {**vars(found), "grades": [vars(grade) for grade in found.grades], "read_only": request.app.state.read_only}
    )


@router.get("/pictures", response_model=PicturesBody, responses=documented(409))
def pictures(
    library: Open,
    grade: Annotated[str | None, Query(max_length=200, description="Only those of this grade.")] = None,
    given: Annotated[bool | None, Query(description="Only those whose grade was given, or was not.")] = None,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 60,
) -> Response:
    """List pictures by grade, then by name."""
    return _json(library.browse(grade=grade, given=given, offset=offset, limit=limit))


@router.get("/pictures/{number}", response_model=PictureBody, responses=documented(404, 409))
def picture(library: Open, number: Number) -> Response:
    """Say what is known of a picture."""
    return _json(library.picture(number))


@router.get(
    "/pictures/{number}/thumbnail",
    response_class=Response,
    responses={
        **documented(404, 409),
        **_bytes_of("image/jpeg", "The picture, at most 128 pixels wide and high.", {"ETag": "Of its content."}),
        304: {"description": "What the client has is still the same."},
    },
)
def picture_thumbnail(request: Request, library: Open, number: Number) -> Response:
    """Show a picture of the collection."""
    tag = f'"{library.content_of(number)}"'
    # Asked again each time, which costs no read: a number may stand for another content after the next fit.
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    known = [text.strip().removeprefix("W/") for text in request.headers.get(IfNoneMatch, "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(library.thumbnail(number), media_type="image/jpeg", headers=headers)


@router.get(
    "/points",
    response_class=Response,
    responses={
        **documented(409),
        **_bytes_of(
            "application/octet-stream",
            "Little endian: n numbers as int32, n × 3 positions as float32, n grades as float32.",
            {"X-Count": "n", "X-Total": "How many pictures have a place."},
        ),
    },
)
def points(library: Open, limit: Annotated[int, Query(ge=1, le=1_000_000)] = 100_000) -> Response:
    """Give the pictures as points in space; a fixed random sample if they are too many."""
    found = library.points(limit)
    headers = {"X-Count": str(found.count), "X-Total": str(found.total)}
    return Response(found.content, media_type="application/octet-stream", headers=headers)


# Asking ----------------------------------------------------------------------------------------------------------

_PICTURE_CONTENT = {
    kind: {"schema": {"type": "string", "format": "binary"}} for kind in ("image/*", "application/octet-stream")
}


@router.post(
    "/queries",
    status_code=201,
    response_model=AnswerBody,
    responses=documented(409, 413, 415),
    openapi_extra={
        "requestBody": {"required": True, "content": _PICTURE_CONTENT},
        "parameters": [
            {
                "name": "X-Name",
                "in": "header",
                "required": False,
                "description": "Name of the file, percent-encoded.",
                "schema": {"type": "string"},
            }
        ],
    },
)
async def queries(request: Request, library: Open) -> Response:
    """Grade a picture that is sent; it is kept in memory for a while, and never on disk."""
    data = await read_body(request, request.app.state.upload_limits, accepts=_is_picture)
    name = upload_name(request)
    return await anyio.to_thread.run_sync(_upload, library, data, name, limiter=request.app.state.decoding)


def _is_picture(kind: str) -> bool:
    return kind.startswith("image/") or kind == "application/octet-stream"


def _upload(library: Library, data: bytes, name: str) -> Response:
    check_pixels(data)
    try:
        return _json(library.upload(data, name), 201)
    except UnreadablePictureError as error:
        raise ProblemError(400, f"{name} {error}") from None


@router.get(
    "/queries/{token}/thumbnail",
    response_class=Response,
    responses={**documented(404), **_bytes_of("image/jpeg", "The picture, at most 128 pixels wide and high.")},
)
def query_thumbnail(library: Open, token: Annotated[str, Path(max_length=100)]) -> Response:
    """Show a picture that was sent."""
    headers = {"Cache-Control": "private, no-cache"}
    return Response(library.upload_thumbnail(token), media_type="image/jpeg", headers=headers)


@router.get("/rank", response_model=RankingBody, responses=documented(404, 409))
def rank(
    library: Open, asked: Question, conditions: Conditions, limit: Annotated[int, Query(ge=1, le=200)] = 30
) -> Response:
    """Grade a picture and list those most like it, nearest first."""
    return _json(library.rank(asked, _with_limit(conditions, limit)))


@router.get(
    "/rank.csv",
    response_class=Response,
    responses={**documented(404, 409), **_bytes_of("text/csv", "A row for each picture.")},
)
def rank_table(
    library: Open, asked: Question, conditions: Conditions, limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 30
) -> Response:
    """Give the same as a table."""
    found = library.rank(asked, _with_limit(conditions, limit))
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(["rank", "name", "grade", "estimated", "distance", "order", "appearance"])
    for position, item in enumerate(found.items, start=conditions.offset + 1):
        estimated = "true" if item.estimated else "false"
        distances = (item.distance, item.order_distance, item.appearance_distance)
        cells = (f"{distance:.9g}" for distance in distances)
        writer.writerow([position, _no_formula(item.name), _no_formula(item.grade), estimated, *cells])
    headers = {"Content-Disposition": 'attachment; filename="ranking.csv"'}
    return Response(stream.getvalue(), media_type="text/csv", headers=headers)


def _no_formula(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "@", "\t", "\r") else text


# Changing --------------------------------------------------------------------------------------------------------


@router.put(
    "/pictures/{number}/grade",
    response_model=PictureBody,
    responses=documented(404, 409, 413, 415),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": GradeChange.model_json_schema()}},
        }
    },
)
async def grade(request: Request, library: Writable, number: Number) -> Response:
    """Give a picture another grade, which is on disk when this is answered."""
    body = await read_body(request, _CHANGE_LIMITS, accepts=lambda kind: kind == "application/json")
    try:
        change = GradeChange.model_validate_json(body)
    except ValidationError as error:
        raise ProblemError(
            400, "; ".join(validation_sentence({**found, "loc": ("body", *found["loc"])}) for found in error.errors())
        ) from None
    found = await anyio.to_thread.run_sync(library.set_grade, number, change.grade, limiter=request.app.state.writing)
    return _json(found)


@router.post("/training", status_code=202, response_model=TrainingBody, responses=documented(409))
def start_training(library: Writable) -> Response:
    """Begin to learn from the grades that are there now; the old model answers meanwhile."""
    return _json(library.start_training(), 202)


@router.get("/training", response_model=TrainingBody, responses=documented())
def training(library: Open) -> Response:
    """Say how far the training is."""
    return _json(library.training())
