"""The collection as a whole: its summary, and its pictures as points."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from ordrank.web.deps import OpenCollection, binary
from ordrank.web.errors import documented
from ordrank.web.routes.queries import MAX_TABLE_ROWS
from ordrank.web.schemas import CollectionBody

router = APIRouter()


@router.get("/collection", responses=documented(409))
def collection(request: Request, collection: OpenCollection) -> CollectionBody:
    """Return a summary of the collection."""
    limits = {"read_only": request.app.state.read_only, "max_table_rows": MAX_TABLE_ROWS}
    return CollectionBody.model_validate({**asdict(collection.info()), **limits})


@router.get(
    "/points",
    response_class=Response,
    responses={
        **documented(409),
        **binary(
            "application/octet-stream",
            "Little endian: n ids as int32, n × 3 positions as float32, n grades as float64.",
            {"X-Count": "n", "X-Total": "Number of embedded pictures."},
        ),
    },
)
def points(collection: OpenCollection, limit: Annotated[int, Query(ge=1, le=1_000_000)] = 100_000) -> Response:
    """Return the pictures as points to display; a fixed random sample if there are more than the limit."""
    sample = collection.points(limit)
    headers = {"X-Count": str(sample.count), "X-Total": str(sample.total)}
    return Response(sample.content, media_type="application/octet-stream", headers=headers)
