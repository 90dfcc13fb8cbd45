"""Dependencies of the routes, and their responses.

Dependencies are asynchronous: FastAPI calls others in threads, which takes longer than all that they do.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response
from pydantic_core import to_json

from ordrank.collection.collection import Collection
from ordrank.collection.types import RankRequest
from ordrank.web.errors import ApiError
from ordrank.web.shared_state import SharedState

_MAX_ID = 2**31 - 1

PictureId = Annotated[int, Path(ge=0, le=_MAX_ID, description="Id of a picture.")]
Token = Annotated[str, Path(max_length=100)]
Offset = Annotated[int, Query(ge=0, le=_MAX_ID, description="How many to skip.")]
Grade = Annotated[str | None, Query(max_length=200)]


async def _collection(request: Request) -> Collection:
    collection: Collection = request.app.state.collection
    return collection


async def _shared_state(request: Request) -> SharedState:
    state: SharedState = request.app.state.shared
    return state


async def _check_writable(request: Request) -> None:
    if request.app.state.read_only:
        raise ApiError(403, "this server was started with --read-only: nothing can be changed")


OpenCollection = Annotated[Collection, Depends(_collection)]
State = Annotated[SharedState, Depends(_shared_state)]
Writable = Depends(_check_writable)


async def _query(
    picture: Annotated[int | None, Query(ge=0, le=_MAX_ID, description="Id of a picture.")] = None,
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


# The id of a picture, or the token of an uploaded one.
QueryId = Annotated[int | str, Depends(_query)]
RankParameters = Annotated[RankRequest, Depends(_rank_request)]


def json_response(content: object, status: int = 200) -> Response:
    """Return a dataclass as JSON: it has the declared schema, and validating it would take longer than the query."""
    return Response(to_json(content, inf_nan_mode="null"), status, media_type="application/json")


def binary(kind: str, description: str, headers: dict[str, str] | None = None) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI description of a binary response."""
    content = {kind: {"schema": {"type": "string", "format": "binary"}}}
    described = {name: {"description": text, "schema": {"type": "string"}} for name, text in (headers or {}).items()}
    return {200: {"description": description, "content": content, "headers": described}}
