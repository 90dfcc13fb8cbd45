"""What to grade next."""

from __future__ import annotations

from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response

from ordrank.web.deps import OpenCollection, json_response
from ordrank.web.errors import documented
from ordrank.web.schemas import SuggestionsBody

router = APIRouter()


@router.get("/suggestions", response_model=SuggestionsBody, responses=documented(404, 409))
async def suggestions(
    request: Request,
    collection: OpenCollection,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
    grader: Annotated[str | None, Query(max_length=100, description="Name of the person who will grade.")] = None,
) -> Response:
    """Suggest pictures to grade, and say why; with many pictures it takes a second after a change."""

    def suggest() -> Response:
        items = collection.labeling.suggest(limit, grader=grader)
        return json_response({"items": items, "total": collection.pictures(given=False, limit=1).total})

    return await anyio.to_thread.run_sync(suggest, limiter=request.app.state.examining)
