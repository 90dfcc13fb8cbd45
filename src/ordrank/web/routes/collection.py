"""The collection as a whole: its summary, its pictures as points, and what may be wrong with it."""

from __future__ import annotations

from asyncio import CancelledError
from dataclasses import asdict, replace
from functools import partial
from threading import Event
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response

from ordrank.collection.annotations import GradersReport
from ordrank.collection.quality import QualityReport
from ordrank.collection.reports import DoctorReport
from ordrank.web.deps import OpenCollection, binary, json_response
from ordrank.web.errors import documented, hide_folders
from ordrank.web.routes.queries import MAX_TABLE_ROWS
from ordrank.web.schemas import CollectionBody

router = APIRouter()


@router.get("/collection", responses=documented(409))
def collection(request: Request, collection: OpenCollection) -> CollectionBody:
    """Return a summary of the collection."""
    info = collection.info()
    limits = {"read_only": request.app.state.read_only, "max_table_rows": MAX_TABLE_ROWS}
    return CollectionBody.model_validate({**asdict(info), "features": hide_folders(info.features), **limits})


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


@router.get("/quality", response_model=QualityReport, responses=documented(409))
async def quality(request: Request, collection: OpenCollection) -> Response:
    """Return errors, confusions and calibration of the estimates of graded pictures, and past trainings."""
    report = await anyio.to_thread.run_sync(collection.quality, limiter=request.app.state.examining)
    return json_response(replace(report, features=hide_folders(report.features)))


@router.get("/graders", response_model=GradersReport, responses=documented(409))
async def graders(request: Request, collection: OpenCollection) -> Response:
    """Return who graded how much, how far graders agree, and where they differ."""
    report = await anyio.to_thread.run_sync(collection.labeling.graders, limiter=request.app.state.comparing)
    return json_response(report)


@router.get("/doctor", response_model=DoctorReport, responses=documented(409))
async def doctor(request: Request, collection: OpenCollection) -> Response:
    """Return what may be wrong with the collection; a large one takes long to examine after it has changed."""
    cancelled = Event()

    def check_cancelled(*progress: object) -> None:
        if cancelled.is_set():
            raise CancelledError

    examine = partial(collection.doctor, progress=check_cancelled)
    try:
        return json_response(await anyio.to_thread.run_sync(examine, limiter=request.app.state.examining))
    finally:
        cancelled.set()  # a server that stops does not wait for the thread
