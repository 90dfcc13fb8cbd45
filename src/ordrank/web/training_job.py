"""Training a collection in the background while the old model serves queries."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ordrank._protocols import Progress
from ordrank.collection.collection import Collection
from ordrank.collection.reports import FitReport
from ordrank.errors import CollectionBusyError, InputError
from ordrank.web.errors import public_message

# Seconds to wait for another process that writes, such as an import, and between two attempts.
_PATIENCE, _INTERVAL = 600.0, 0.5


@dataclass(frozen=True)
class TrainingStatus:
    """Progress of a training."""

    state: Literal["idle", "running", "done", "failed"] = "idle"
    message: str = ""
    done: int = 0
    total: int = 0


STARTED = TrainingStatus("running", "starting")


def check_not_running(status: TrainingStatus) -> None:
    """Raise CollectionBusyError while a training runs."""
    if status.state == "running":
        raise CollectionBusyError("the collection is being trained already; wait until that is done")


def run_training(directory: Path, report: Callable[[TrainingStatus], None]) -> None:
    """Train a collection with its current grades, and report the progress up to success or failure."""
    status = STARTED

    def progress(stage: str, done: int, total: int) -> None:
        nonlocal status
        status = TrainingStatus("running", stage, done, total)
        report(status)

    try:
        fitted = _fit_in_turn(directory, progress)
        message = f"learned from {fitted.graded} graded pictures; mean error {fitted.error:.3g}"
        report(TrainingStatus("done", message, 1, 1))
    except (InputError, OSError, MemoryError) as error:
        message = public_message(error, directory) or "there is not enough memory"
        report(replace(status, state="failed", message=message))
    except Exception:
        logging.getLogger(__name__).exception("training failed")
        report(replace(status, state="failed", message="training failed; the log says why"))


def _fit_in_turn(directory: Path, progress: Progress) -> FitReport:
    """Train a collection when no other process writes to it any more."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return Collection(directory).fit(progress=progress)
        except CollectionBusyError:
            if time.monotonic() > deadline:
                raise
            progress("waiting for another process that writes to the collection", 0, 0)
            time.sleep(_INTERVAL)
