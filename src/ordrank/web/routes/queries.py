"""Queries: uploaded pictures, and rankings for them or for pictures of the collection."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response

from ordrank.collection.collection import Collection
from ordrank.collection.csv_cells import escape_formulas
from ordrank.collection.types import QueryPicture, RankRequest, RankResult
from ordrank.errors import UnreadablePictureError
from ordrank.web.decoder import Decode
from ordrank.web.deps import (
    Decoder,
    OpenCollection,
    QueryId,
    RankParameters,
    State,
    Token,
    binary,
    json_response,
    picture_body,
    read_picture,
)
from ordrank.web.errors import documented
from ordrank.web.schemas import EstimateBody, RankingBody
from ordrank.web.shared_state import SharedState
from ordrank.web.uploads import upload_name

MAX_TABLE_ROWS = 10_000
_ESTIMATE_ONLY = RankRequest(1, with_position=True)

router = APIRouter()


@router.post(
    "/queries",
    status_code=201,
    response_model=EstimateBody,
    responses=documented(409, 413, 415),
    openapi_extra=picture_body(),
)
async def upload(request: Request, collection: OpenCollection, state: State, decode: Decoder) -> Response:
    """Grade an uploaded picture; it is kept in memory for a while, and never written to disk."""
    data, name = await read_picture(request), upload_name(request)
    client = request.client.host if request.client else ""

    def grade() -> Response:
        query = _read_query(collection, data, name, decode)
        result = _rank(collection, query)
        token = "" if isinstance(query, int) else state.put_query(query, client)
        return json_response(_estimate(result, token), 201)

    return await anyio.to_thread.run_sync(grade, limiter=request.app.state.decoding)


def _read_query(collection: Collection, data: bytes, name: str, decode: Decode) -> int | QueryPicture:
    collection.check_trained()  # before decoding
    try:
        return collection.read_query(data, name, decode=decode)
    except UnreadablePictureError as error:
        raise type(error)(f"{name} {error}") from None


@router.get(
    "/queries/{token}/thumbnail",
    response_class=Response,
    responses={**documented(404), **binary("image/jpeg", "The picture, at most 256 pixels wide and high.")},
)
def thumbnail(state: State, token: Token) -> Response:
    """Return the thumbnail of an uploaded picture."""
    headers = {"Cache-Control": "private, no-cache"}
    return Response(state.get_query(token).thumbnail, media_type="image/jpeg", headers=headers)


@router.get("/rank", response_model=RankingBody, responses=documented(404, 409))
def rank(
    collection: OpenCollection,
    state: State,
    query: QueryId,
    parameters: RankParameters,
    limit: Annotated[int, Query(ge=1, le=200)] = 30,
) -> Response:
    """Estimate the grade of a picture and list the most similar pictures, nearest first."""
    result = _rank(collection, _resolve(state, query), replace(parameters, k=limit))
    return json_response({"query": _estimate(result, query), "total": result.total, "items": result.hits})


@router.get(
    "/rank.csv",
    response_class=Response,
    responses={**documented(404, 409), **binary("text/csv", "A row for each picture.")},
)
def rank_table(
    collection: OpenCollection,
    state: State,
    query: QueryId,
    parameters: RankParameters,
    limit: Annotated[int, Query(ge=1, le=MAX_TABLE_ROWS)] = 30,
) -> Response:
    """Return a ranking as a table."""
    result = _rank(collection, _resolve(state, query), replace(parameters, k=limit))
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(["rank", "name", "grade", "estimated", "distance", "order", "appearance"])
    for rank, hit in enumerate(result.hits, start=parameters.offset + 1):
        distances = (hit.distance, hit.order_distance, hit.appearance_distance)
        cells = (f"{distance:.9g}" for distance in distances)
        estimated = "true" if hit.estimated else "false"
        writer.writerow(escape_formulas([rank, hit.name, hit.grade, estimated, *cells]))
    headers = {"Content-Disposition": 'attachment; filename="ranking.csv"'}
    return Response(stream.getvalue(), media_type="text/csv", headers=headers)


def _resolve(state: SharedState, query: int | str) -> int | QueryPicture:
    return query if isinstance(query, int) else state.get_query(query)


def _rank(collection: Collection, query: int | QueryPicture, request: RankRequest = _ESTIMATE_ONLY) -> RankResult:
    (result,) = collection.rank_all([query], request)
    return result


def _estimate(result: RankResult, token: int | str = "") -> dict[str, Any]:
    """Return the estimate of a query; ``token`` names it if it does not belong to the collection."""
    return {
        "kind": "query" if result.id is None else "picture",
        "id": token if result.id is None else result.id,
        "name": result.query,
        "grade": result.grade,
        "value": result.value,
        "lowest": result.lowest,
        "highest": result.highest,
        "shown_grade": result.shown_grade,
        "explanation": result.explanation,
        "known_grade": result.known_grade,
        "probabilities": result.probabilities,
        "novelty": result.novelty,
        "is_novel": result.is_novel,
        "position": result.position,
    }
