"""What all who answer for one collection share: pictures that were sent, and the training."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import UnknownError
from ordrank.service.retraining import BEGUN, Training, refuse_second, train

# Uploaded pictures that are remembered: about 30 kilobytes each.
MOST_QUERIES = 1000


@dataclass(frozen=True)
class Upload:
    """A picture that was sent; its place is found again for every model."""

    name: str
    sha256: str
    features: NDArray[np.float32]
    thumbnail: bytes


class Desk(Protocol):
    """Where a library leaves what others that answer for the same collection must find."""

    def remember(self, upload: Upload) -> str:
        """Keep a picture for a while; return its token."""

    def recall(self, token: str) -> Upload:
        """Return the picture of a token, which must be known still."""

    def pen(self) -> AbstractContextManager[object]:
        """Return what whoever writes holds: the others wait for it in turn."""

    def start_training(self) -> Training:
        """Begin to train with the grades that are there now; one training at a time."""

    def training(self) -> Training:
        """Say how far the training is; when it is done, every library answers with the new model."""

    def has_seen(self, model: str | None) -> None:
        """Hear that a library answers with this model from now on."""


class Uploads:
    """Pictures that were sent, in memory; the one that was asked for least recently is forgotten first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Upload] = OrderedDict()
        self._lock = Lock()

    def remember(self, upload: Upload) -> str:
        """Keep a picture; return its token."""
        token = secrets.token_urlsafe(16)
        with self._lock:
            self._kept[token] = upload
            while len(self._kept) > MOST_QUERIES:
                self._kept.popitem(last=False)
        return token

    def recall(self, token: str) -> Upload:
        """Return the picture of a token."""
        with self._lock:
            if token not in self._kept:
                raise UnknownError("this query is not known, or not any more; send the picture again")
            self._kept.move_to_end(token)
            return self._kept[token]


class OwnDesk(Uploads):
    """The desk of a library that answers alone; it trains in a thread.

    Parameters
    ----------
    directory : Path
        Of the collection.
    renew : callable
        Called when a new model is there, before anyone is told.
    """

    def __init__(self, directory: Path, renew: Callable[[], None]) -> None:
        super().__init__()
        self._directory, self._renew = directory, renew
        self._pen, self._starting, self._progress = Lock(), Lock(), Training()

    def pen(self) -> AbstractContextManager[object]:
        """Return what whoever writes holds."""
        return self._pen

    def start_training(self) -> Training:
        """Begin to train."""
        with self._starting:
            refuse_second(self._progress)
            self._progress = BEGUN
        # The collection stays whole if the program ends meanwhile: nobody has to wait for this thread.
        Thread(target=train, args=(self._directory, self._hear), name="training", daemon=True).start()
        return BEGUN

    def _hear(self, progress: Training) -> None:
        if progress.state == "done":
            self._renew()
        self._progress = progress

    def training(self) -> Training:
        """Say how far the training is."""
        return self._progress

    def has_seen(self, model: str | None) -> None:
        """Hear what is known here already."""
