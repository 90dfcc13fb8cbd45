"""Training a collection in the background, while its old model answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock, Thread

from ordrank.errors import CollectionBusyError, InputError
from ordrank.service.learning import Watch, fit


@dataclass(frozen=True)
class Training:
    """How far a training is: ``state`` is idle, running, done or failed."""

    state: str = "idle"
    message: str = ""
    done: int = 0
    total: int = 0


class Retraining:
    """One training at a time.

    Parameters
    ----------
    directory : Path
        Of the collection.
    renew : callable
        Called when a new model is there, before anyone is told.
    """

    def __init__(self, directory: Path, renew: Callable[[], None]) -> None:
        self._directory, self._renew = directory, renew
        self._starting = Lock()
        self.progress = Training()

    def start(self) -> Training:
        """Begin to train with the grades that are there now."""
        with self._starting:
            if self.progress.state == "running":
                raise CollectionBusyError("the collection is being trained already; wait until that is done")
            self.progress = begun = Training("running", "starting")
        # The collection stays whole if the program ends meanwhile: nobody has to wait for this thread.
        Thread(target=self._train, name="training", daemon=True).start()
        return begun

    def _train(self) -> None:
        try:
            fitted = fit(None, self._directory, watch=Watch(self._tell, self._tick))
            self._renew()
        except (InputError, OSError, MemoryError) as error:
            self.progress = replace(self.progress, state="failed", message=str(error) or "there is not enough memory")
        except Exception:
            logging.getLogger(__name__).exception("training failed")
            self.progress = replace(self.progress, state="failed", message="training failed; the log says why")
        else:
            learned = f"learned from {fitted.graded} graded pictures; mean error {fitted.error:.3g}"
            self.progress = Training("done", learned, 1, 1)

    def _tell(self, text: str) -> None:
        self.progress = replace(self.progress, message=text)

    def _tick(self, done: int, total: int) -> None:
        self.progress = replace(self.progress, done=done, total=total)
