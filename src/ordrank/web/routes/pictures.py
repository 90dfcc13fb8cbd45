"""The pictures of the collection: lists, thumbnails and grades."""

from __future__ import annotations

from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response
from pydantic import ValidationError

from ordrank.collection.types import Picture, PicturePage
from ordrank.web.deps import Offset, OpenCollection, PictureId, Writable, binary, json_response
from ordrank.web.errors import ApiError, documented, validation_message
from ordrank.web.schemas import GradeBody
from ordrank.web.uploads import Limits, read_body

_GRADE_LIMITS = Limits(bytes=10_000, seconds=10.0)

router = APIRouter(prefix="/pictures")


@router.get("", response_model=PicturePage, responses=documented(409))
def pictures(
    collection: OpenCollection,
    grade: Annotated[str | None, Query(max_length=200, description="Only pictures of this grade.")] = None,
    given: Annotated[bool | None, Query(description="Only pictures whose grade was given, or was not.")] = None,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 60,
) -> Response:
    """List pictures by grade, then by name."""
    return json_response(collection.pictures(grade=grade, given=given, offset=offset, limit=limit))


@router.get("/{picture}", response_model=Picture, responses=documented(404, 409))
def picture(collection: OpenCollection, picture: PictureId) -> Response:
    """Return one picture."""
    return json_response(collection.picture(picture))


@router.get(
    "/{picture}/thumbnail",
    response_class=Response,
    responses={
        **documented(404, 409),
        **binary("image/jpeg", "The picture, at most 128 pixels wide and high.", {"ETag": "Of its content."}),
        304: {"description": "The client has the current content."},
    },
)
def thumbnail(request: Request, collection: OpenCollection, picture: PictureId) -> Response:
    """Return the thumbnail of a picture."""
    tag = f'"{collection.sha256(picture)}"'
    # Revalidated each time, which reads nothing: an id may stand for other content after the next fit.
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    known = [text.strip().removeprefix("W/") for text in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(collection.thumbnail(picture), media_type="image/jpeg", headers=headers)


@router.put(
    "/{picture}/grade",
    response_model=Picture,
    dependencies=[Writable],
    responses=documented(404, 409, 413, 415),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": GradeBody.model_json_schema()}},
        }
    },
)
async def set_grade(request: Request, collection: OpenCollection, picture: PictureId) -> Response:
    """Set the grade of a picture; it is on disk when the response is sent."""
    body = await read_body(request, _GRADE_LIMITS, accepts=lambda kind: kind == "application/json")
    try:
        grade = GradeBody.model_validate_json(body).grade
    except ValidationError as error:
        errors = ({**detail, "loc": ("body", *detail["loc"])} for detail in error.errors())
        raise ApiError(400, "; ".join(map(validation_message, errors))) from None
    limiter = request.app.state.writing
    return json_response(await anyio.to_thread.run_sync(collection.grade, picture, grade, limiter=limiter))
