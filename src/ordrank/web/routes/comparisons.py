"""Comparisons of two pictures: which pair to compare next, the answers, and the order they imply."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from ordrank.web.deps import Offset, OpenCollection, Writable, json_body, json_response, read_json
from ordrank.web.errors import documented
from ordrank.web.schemas import ComparedPage, ComparisonBody, ComparisonCount, NextPair

router = APIRouter(prefix="/comparisons")

MAX_SKIPPED = 1000
Pair = Annotated[str, Field(pattern=r"^[0-9]{1,10}-[0-9]{1,10}$")]


@router.get("/next", response_model=NextPair, responses=documented(409))
async def next_pair(
    request: Request,
    collection: OpenCollection,
    grader: Annotated[str | None, Query(max_length=100, description="Whose answers are not asked for again.")] = None,
    skip: Annotated[
        list[Pair], Query(max_length=MAX_SKIPPED, description="Pairs of ids like 3-7 that are not to be returned.")
    ] = [],  # noqa: B006  # FastAPI copies it
) -> Response:
    """Return the two pictures whose comparison is most informative; null if there is no other pair."""
    labeling = collection.labeling
    skipped = [(int(first), int(second)) for first, second in (pair.split("-") for pair in skip)]

    def choose() -> Response:
        pair = labeling.next_pair(grader=grader, skip=skipped)
        return json_response({"pair": pair, "comparisons": labeling.count_comparisons()})

    return await anyio.to_thread.run_sync(choose, limiter=request.app.state.comparing)


@router.post(
    "",
    response_model=ComparisonCount,
    dependencies=[Writable],
    responses=documented(404, 409, 413, 415, 507),
    openapi_extra=json_body(ComparisonBody),
)
async def compare(request: Request, collection: OpenCollection) -> Response:
    """Record which of two pictures is higher; it is on disk when the response is sent."""
    body = await read_json(request, ComparisonBody)
    record = partial(collection.labeling.compare, body.first, body.second, body.outcome, grader=body.grader)
    total = await anyio.to_thread.run_sync(record, limiter=request.app.state.writing)
    return json_response({"comparisons": total})


@router.get("", response_model=ComparedPage, responses=documented(409))
async def compared(
    request: Request,
    collection: OpenCollection,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """List the compared pictures, lowest first."""
    found = await anyio.to_thread.run_sync(collection.labeling.compared, limiter=request.app.state.comparing)
    return json_response({"total": len(found), "items": found[offset : offset + limit]})
