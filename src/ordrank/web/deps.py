"""Dependencies of the routes, and their responses.

Dependencies are asynchronous: FastAPI calls others in threads, which takes longer than all that they do.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends, Path, Query, Request, Response
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from ordrank.collection.collection import Collection
from ordrank.collection.types import ListOptions, RankRequest
from ordrank.web.decoder import Decode
from ordrank.web.errors import ApiError, validation_message
from ordrank.web.schemas import MAX_ID
from ordrank.web.shared_state import SharedState
from ordrank.web.uploads import Limits, read_body

_JSON_LIMITS = Limits(bytes=200_000, seconds=10.0)

PictureId = Annotated[int, Path(ge=0, le=MAX_ID, description="Id of a picture.")]
Token = Annotated[str, Path(max_length=100)]
Offset = Annotated[int, Query(ge=0, le=MAX_ID, description="How many to skip.")]
Grade = Annotated[str | None, Query(max_length=200)]


async def _collection(request: Request) -> Collection:
    collection: Collection = request.app.state.collection
    return collection


async def _shared_state(request: Request) -> SharedState:
    state: SharedState = request.app.state.shared
    return state


async def _decode(request: Request) -> Decode:
    decode: Decode = request.app.state.decode
    return decode


async def _check_writable(request: Request) -> None:
    if request.app.state.read_only:
        raise ApiError(403, "this server is read-only: nothing can be changed")


OpenCollection = Annotated[Collection, Depends(_collection)]
State = Annotated[SharedState, Depends(_shared_state)]
Decoder = Annotated[Decode, Depends(_decode)]
Writable = Depends(_check_writable)


async def _query(
    picture: Annotated[int | None, Query(ge=0, le=MAX_ID, description="Id of a picture.")] = None,
    query: Annotated[str | None, Query(max_length=100, description="Token of an uploaded picture.")] = None,
) -> int | str:
    if picture is not None and query is None:
        return picture
    if query is not None and picture is None:
        return query
    raise ApiError(400, "name either a picture or a query to rank for")


async def _rank_request(
    within_grade: bool = False, lowest: Grade = None, highest: Grade = None, offset: Offset = 0
) -> RankRequest:
    return RankRequest(offset=offset, within_grade=within_grade, lowest=lowest, highest=highest, with_position=True)


async def _list_request(
    grade: Annotated[str | None, Query(max_length=200, description="Only pictures of this grade.")] = None,
    given: Annotated[bool | None, Query(description="Only pictures whose grade was given, or was not.")] = None,
    search: Annotated[str, Query(max_length=200, description="Words that the name must have in it.")] = "",
    sort: Literal["grade", "spectrum", "estimate", "certainty", "name", "date"] = "grade",
    descending: bool = False,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 60,
    step: Annotated[int, Query(ge=1, le=MAX_ID, description="Only every so many-th, for an overview.")] = 1,
) -> ListOptions:
    return ListOptions(
        grade=grade,
        given=given,
        search=search,
        sort=sort,
        descending=descending,
        offset=offset,
        limit=limit,
        step=step,
    )


# The id of a picture, or the token of an uploaded one.
QueryId = Annotated[int | str, Depends(_query)]
RankParameters = Annotated[RankRequest, Depends(_rank_request)]
ListParameters = Annotated[ListOptions, Depends(_list_request)]


_Body = TypeVar("_Body", bound=BaseModel)


async def read_json(request: Request, schema: type[_Body]) -> _Body:
    """Return the JSON body of a request. Raise ApiError if it does not match the schema."""
    body = await read_body(request, _JSON_LIMITS, accepts=lambda kind: kind == "application/json")
    try:
        return schema.model_validate_json(body)
    except ValidationError as error:
        errors = ({**detail, "loc": ("body", *detail["loc"])} for detail in error.errors())
        raise ApiError(400, "; ".join(map(validation_message, errors))) from None


def json_body(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of the body that :func:`read_json` reads."""
    content = {"application/json": {"schema": schema.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


async def read_picture(request: Request) -> bytes:
    """Return the body of a request if it is a picture, as far as its type says."""

    def is_picture(kind: str) -> bool:
        return kind.startswith("image/") or kind == "application/octet-stream"

    return await read_body(request, request.app.state.upload_limits, accepts=is_picture)


def picture_body() -> dict[str, Any]:
    """Return the OpenAPI description of an uploaded picture."""
    kinds = ("image/*", "application/octet-stream")
    name = {
        "name": "X-Name",
        "in": "header",
        "required": False,
        "description": "Name of the file, percent-encoded.",
        "schema": {"type": "string"},
    }
    content = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in kinds}
    return {"requestBody": {"required": True, "content": content}, "parameters": [name]}


def json_response(content: object, status: int = 200) -> Response:
    """Return a dataclass as JSON: it has the declared schema, and validating it would take longer than the query."""
    return Response(to_json(content, inf_nan_mode="null"), status, media_type="application/json")


def binary(kind: str, description: str, headers: dict[str, str] | None = None) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI description of a binary response."""
    content = {kind: {"schema": {"type": "string", "format": "binary"}}}
    described = {name: {"description": text, "schema": {"type": "string"}} for name, text in (headers or {}).items()}
    return {200: {"description": description, "content": content, "headers": described}}
