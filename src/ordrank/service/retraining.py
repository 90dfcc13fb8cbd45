"""Training a collection while its old model answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ordrank.errors import CollectionBusyError, InputError
from ordrank.service.learning import Watch, fit


@dataclass(frozen=True)
class Training:
    """How far a training is: ``state`` is idle, running, done or failed."""

    state: str = "idle"
    message: str = ""
    done: int = 0
    total: int = 0


BEGUN = Training("running", "starting")


def refuse_second(progress: Training) -> None:
    """Refuse to train while a training runs."""
    if progress.state == "running":
        raise CollectionBusyError("the collection is being trained already; wait until that is done")


def train(directory: Path, tell: Callable[[Training], None]) -> None:
    """Learn from the grades that are there now.

    Parameters
    ----------
    directory : Path
        Of the collection.
    tell : callable
        Told how far it is, and at last that it is done or why it failed.
    """
    progress = BEGUN

    def say(**changes: str | int) -> None:
        nonlocal progress
        progress = replace(progress, **changes)  # type: ignore[arg-type]
        tell(progress)

    watch = Watch(lambda text: say(message=text), lambda done, total: say(done=done, total=total))
    try:
        fitted = fit(None, directory, watch=watch)
        tell(Training("done", f"learned from {fitted.graded} graded pictures; mean error {fitted.error:.3g}", 1, 1))
    except (InputError, OSError, MemoryError) as error:
        say(state="failed", message=str(error) or "there is not enough memory")
    except Exception:
        logging.getLogger(__name__).exception("training failed")
        say(state="failed", message="training failed; the log says why")
