"""Training in the background."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ordrank.web.deps import State, Writable, json_response
from ordrank.web.errors import documented
from ordrank.web.training_job import TrainingStatus

router = APIRouter(prefix="/training")


@router.post("", status_code=202, response_model=TrainingStatus, dependencies=[Writable], responses=documented(409))
def start_training(state: State) -> Response:
    """Start to learn from the current grades; the old model serves meanwhile."""
    return json_response(state.start_training(), 202)


@router.get("", response_model=TrainingStatus, responses=documented())
def training(state: State) -> Response:
    """Return the progress of the training."""
    return json_response(state.training())
