"""Single pictures: lists, images and grades, and new ones."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response

from ordrank.collection.annotations import GivenGrade
from ordrank.collection.types import Picture, PicturePage
from ordrank.errors import UnreadablePictureError
from ordrank.web.deps import (
    Decoder,
    ListParameters,
    OpenCollection,
    PictureId,
    Writable,
    binary,
    json_body,
    json_response,
    picture_body,
    read_json,
    read_picture,
)
from ordrank.web.errors import documented
from ordrank.web.schemas import AddedBody, ConfirmationBody, GradeBody
from ordrank.web.uploads import upload_name

MAX_SIDE = 4096
_ETAG = {"ETag": "Of its content."}
_UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "The client has the current content."}}

router = APIRouter(prefix="/pictures")


@router.get("", response_model=PicturePage, responses=documented(409))
def pictures(collection: OpenCollection, request: ListParameters) -> Response:
    """List pictures."""
    return json_response(collection.pictures(**request))


@router.post(
    "",
    status_code=201,
    response_model=AddedBody,
    dependencies=[Writable],
    responses={**documented(409, 413, 415, 507), 200: {"model": AddedBody, "description": "It was there already."}},
    openapi_extra=picture_body(),
)
async def add_picture(request: Request, collection: OpenCollection, decode: Decoder) -> Response:
    """Add a picture to the collection; its file is kept in the directory of the collection."""
    data, name = await read_picture(request), upload_name(request)

    def add() -> Response:
        try:
            picture, is_new = collection.files.add(data, name, decode=decode)
        except UnreadablePictureError as error:
            raise type(error)(f"{name} {error}") from None
        collection.refresh()
        return json_response({"picture": collection.picture(picture), "is_new": is_new}, 201 if is_new else 200)

    return await anyio.to_thread.run_sync(add, limiter=request.app.state.adding)


@router.get("/{picture}", response_model=Picture, responses=documented(404, 409))
def picture(collection: OpenCollection, picture: PictureId) -> Response:
    """Return one picture."""
    return json_response(collection.picture(picture))


@router.get(
    "/{picture}/thumbnail",
    response_class=Response,
    responses={
        **documented(404, 409),
        **binary("image/jpeg", "The picture, at most 256 pixels wide and high.", _ETAG),
        **_UNCHANGED,
    },
)
def thumbnail(request: Request, collection: OpenCollection, picture: PictureId) -> Response:
    """Return the thumbnail of a picture."""
    tag = f'"{collection.files.sha256(picture)}-thumbnail"'
    if _is_known(request, tag):
        return Response(status_code=304, headers=_cached(tag))
    return Response(collection.files.thumbnail(picture), media_type="image/jpeg", headers=_cached(tag))


@router.get(
    "/{picture}/large",
    response_class=Response,
    responses={**documented(404, 409), **binary("image/jpeg", "The picture from its file.", _ETAG), **_UNCHANGED},
)
async def large(
    request: Request,
    collection: OpenCollection,
    decode: Decoder,
    picture: PictureId,
    side: Annotated[int, Query(ge=1, le=MAX_SIDE, description="Largest width and height in pixels.")] = 1024,
) -> Response:
    """Return a large version of a picture, without the metadata of its file."""
    tag = f'"{await anyio.to_thread.run_sync(collection.files.sha256, picture)}-{side}"'
    if _is_known(request, tag):
        return Response(status_code=304, headers=_cached(tag))
    read = partial(collection.files.large_version, picture, side, decode=decode)
    content = await anyio.to_thread.run_sync(read, limiter=request.app.state.decoding)
    return Response(content, media_type="image/jpeg", headers=_cached(tag))


@router.put(
    "/{picture}/grade",
    response_model=Picture,
    dependencies=[Writable],
    responses=documented(404, 409, 413, 415, 507),
    openapi_extra=json_body(GradeBody),
)
async def set_grade(request: Request, collection: OpenCollection, picture: PictureId) -> Response:
    """Set the grade of a picture; it is on disk when the response is sent."""
    body = await read_json(request, GradeBody)
    labeling, allow_new = collection.labeling, body.accept_new
    grade = partial(labeling.grade, [picture], body.grade, grader=body.grader, allow_new=allow_new, key=body.key)
    (graded,) = await anyio.to_thread.run_sync(grade, limiter=request.app.state.writing)
    return json_response(graded)


@router.get("/{picture}/grades", response_model=list[GivenGrade], responses=documented(404, 409))
def grades(collection: OpenCollection, picture: PictureId) -> Response:
    """Return who gave a picture which grade."""
    return json_response(collection.labeling.grades_of(picture))


@router.put(
    "/{picture}/confirmation",
    response_model=Picture,
    dependencies=[Writable],
    responses=documented(404, 409, 413, 415, 507),
    openapi_extra=json_body(ConfirmationBody),
)
async def confirm(request: Request, collection: OpenCollection, picture: PictureId) -> Response:
    """Record that the grade of a picture was looked at and kept: it is not suspected again."""
    body = await read_json(request, ConfirmationBody)
    set_confirmed = partial(collection.labeling.confirm, picture, body.grade, is_confirmed=body.confirmed)
    return json_response(await anyio.to_thread.run_sync(set_confirmed, limiter=request.app.state.writing))


def _is_known(request: Request, tag: str) -> bool:
    """Return whether the client has the content with this entity tag."""
    known = [text.strip().removeprefix("W/") for text in request.headers.get("if-none-match", "").split(",")]
    return tag in known or "*" in known


def _cached(tag: str) -> dict[str, str]:
    # Revalidated each time, which reads nothing: an id may stand for other content after the next fit.
    return {"ETag": tag, "Cache-Control": "private, no-cache"}
