"""Several pictures at once: grades, removal, downloads."""

from __future__ import annotations

import csv
import io
from functools import partial

import anyio.to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from ordrank.collection.collection import Collection
from ordrank.collection.csv_cells import escape_formulas
from ordrank.collection.reports import RemovalReport
from ordrank.collection.types import Picture
from ordrank.web.deps import OpenCollection, Writable, binary, json_body, json_response, read_json
from ordrank.web.errors import documented
from ordrank.web.schemas import GradesBody, SelectionBody, UndoBody

_COLUMNS = ("name", "grade", "estimate", "lowest", "highest", "width", "height", "date")

router = APIRouter()


@router.post(
    "/grades",
    response_model=list[Picture],
    dependencies=[Writable],
    responses=documented(404, 409, 413, 415, 507),
    openapi_extra=json_body(GradesBody),
)
async def set_grades(request: Request, collection: OpenCollection) -> Response:
    """Set the same grade of several pictures, all or none."""
    body = await read_json(request, GradesBody)
    labeling, allow_new = collection.labeling, body.accept_new
    grade = partial(labeling.grade, body.pictures, body.grade, grader=body.grader, allow_new=allow_new, key=body.key)
    return json_response(await anyio.to_thread.run_sync(grade, limiter=request.app.state.writing))


@router.post(
    "/grades/undo",
    response_model=list[Picture],
    dependencies=[Writable],
    responses=documented(409, 413, 415, 507),
    openapi_extra=json_body(UndoBody),
)
async def undo(request: Request, collection: OpenCollection) -> Response:
    """Undo a change of grades by a person; return the pictures, none if there is nothing to undo."""
    body = await read_json(request, UndoBody)
    undo = partial(collection.labeling.undo, grader=body.grader, key=body.key)
    return json_response(await anyio.to_thread.run_sync(undo, limiter=request.app.state.writing))


@router.post(
    "/removals",
    response_model=RemovalReport,
    dependencies=[Writable],
    responses=documented(404, 409, 413, 415, 507),
    openapi_extra=json_body(SelectionBody),
)
async def remove(request: Request, collection: OpenCollection) -> Response:
    """Remove pictures from the collection; files from elsewhere stay where they are."""
    body = await read_json(request, SelectionBody)

    def remove() -> RemovalReport:
        report = collection.remove(body.pictures)
        collection.refresh()
        return report

    return json_response(await anyio.to_thread.run_sync(remove, limiter=request.app.state.writing))


@router.post(
    "/exports/table",
    response_class=Response,
    responses={**documented(404, 409, 413, 415), **binary("text/csv", "A row for each picture.")},
    openapi_extra=json_body(SelectionBody),
)
async def export_table(request: Request, collection: OpenCollection) -> Response:
    """Return pictures with their grades and estimates as a table."""
    body = await read_json(request, SelectionBody)
    table = await anyio.to_thread.run_sync(_table, collection, body.pictures)
    headers = {"Content-Disposition": 'attachment; filename="pictures.csv"'}
    return Response(table, media_type="text/csv", headers=headers)


@router.post(
    "/exports/files",
    response_class=Response,
    responses={**documented(404, 409, 413, 415), **binary("application/zip", "The files of the pictures.")},
    openapi_extra=json_body(SelectionBody),
)
async def export_files(request: Request, collection: OpenCollection) -> Response:
    """Return the files of pictures as a ZIP file; those that are gone are listed in it."""
    body = await read_json(request, SelectionBody)
    parts = await anyio.to_thread.run_sync(collection.files.zip, body.pictures)
    headers = {"Content-Disposition": 'attachment; filename="pictures.zip"'}
    return StreamingResponse(parts, media_type="application/zip", headers=headers)


def _table(collection: Collection, pictures: list[int]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(_COLUMNS)
    for picture in map(collection.picture, pictures):
        writer.writerow(escape_formulas(getattr(picture, column) for column in _COLUMNS))
    return stream.getvalue()
