"""One desk for several processes: the first one keeps it, the others ask it over pipes.

The keeper has one thread and no locks: whatever happens to a process that asks, what is kept stays whole.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from signal import SIG_IGN, SIGINT, signal
from socket import socket
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any

from ordrank.collection.store import read_store
from ordrank.errors import InputError
from ordrank.service.desk import Upload, Uploads
from ordrank.service.retraining import BEGUN, Training, refuse_second, train


class KeptDesk(Uploads):
    """The desk itself; it trains in a process of its own.

    Parameters
    ----------
    directory : Path
        Of the collection.
    sockets : sequence of socket
        What a process that trains must not hold open.
    """

    def __init__(self, directory: Path, sockets: Sequence[socket]) -> None:
        super().__init__()
        self._directory, self._sockets = directory, sockets
        self._pen = TemporaryFile()  # noqa: SIM115 - held as long as this desk
        self._models: dict[Connection, str | None] = {}
        self._outdated: set[Connection] = set()
        self._progress = Training()
        self._trainer: tuple[BaseProcess, Connection] | None = None

    def connect(self, model: str | None) -> DeskLine:
        """Return a new line for a library that answers with a model."""
        own, other = multiprocessing.Pipe()
        self._models[own] = model
        return DeskLine(other, self._pen)

    @property
    def lines(self) -> list[Connection]:
        """What to wait for: whoever is ready is to be heard."""
        return [*self._models, *([self._trainer[1]] if self._trainer else [])]

    def hear(self, line: Connection) -> None:
        """Answer one question, or hear how far the training is."""
        try:
            said = line.recv()
            if self._trainer is not None and line is self._trainer[1]:
                self._hear_trainer(said)
            else:
                line.send(self._answer(line, *said))
        except (EOFError, OSError):  # it has ended
            self._hang_up(line)

    def close(self) -> None:
        """Hang up, and end a training: the collection stays whole."""
        self._pen.close()
        for line in self.lines:
            line.close()
        if self._trainer is not None:
            self._trainer[0].kill()
            self._trainer[0].join()

    def start_training(self) -> Training:
        """Begin to train."""
        refuse_second(self._progress)
        own, other = multiprocessing.Pipe()
        held = [own, *self.lines, *self._sockets]
        process = multiprocessing.get_context("fork").Process(target=_train, args=(self._directory, other, held))
        process.start()
        other.close()
        self._trainer, self._progress = (process, own), BEGUN
        return BEGUN

    def training(self) -> Training:
        """Say how far the training is: done when all libraries answer with the new model."""
        if self._progress.state == "done" and self._outdated:
            return Training("running", "opening the new model")
        return self._progress

    def _answer(self, line: Connection, name: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        """Return whether a question has an answer, and that, or the error."""
        if name == "has_seen":
            self._models[line] = arguments[0]
            self._outdated.discard(line)
            return True, None
        try:
            return True, getattr(self, name)(*arguments)
        except InputError as error:
            return False, error

    def _hear_trainer(self, progress: Training) -> None:
        if progress.state == "done":
            with suppress(InputError), read_store(self._directory) as store:
                self._outdated = {line for line, model in self._models.items() if model != store.header.model}
        self._progress = progress

    def _hang_up(self, line: Connection) -> None:
        line.close()
        if line in self._models:
            del self._models[line]
            self._outdated.discard(line)
        elif self._trainer is not None:
            self._trainer[0].join()
            self._trainer = None
            if self._progress.state == "running":
                self._progress = Training("failed", "the training was ended from outside; start it again")


def _train(directory: Path, line: Connection, held: Sequence[Connection | socket]) -> None:
    """Train in this process, which lets go of what the others hold."""
    signal(SIGINT, SIG_IGN)  # who is interrupted is the process that waits for this one
    for other in held:
        other.close()
    train(directory, line.send)


class DeskLine:
    """The desk as another process sees it.

    Parameters
    ----------
    line : Connection
        To the process that keeps it.
    pen : file
        Whose lock is held by whoever writes.
    """

    def __init__(self, line: Connection, pen: IO[bytes]) -> None:
        self._line, self._asking = line, Lock()
        self._pen, self._writing = pen, Lock()

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    @contextmanager
    def pen(self) -> Iterator[None]:
        """Hold what whoever writes holds: one thread of one process, and the system takes it from one that ends."""
        import fcntl  # not on every system

        with self._writing:
            fcntl.lockf(self._pen, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._pen, fcntl.LOCK_UN)

    def _ask(self, name: str, *arguments: Any) -> Any:
        with self._asking:
            self._line.send((name, arguments))
            answered, found = self._line.recv()
        if not answered:
            raise found
        return found

    def remember(self, upload: Upload) -> str:
        """Keep a picture; return its token."""
        token: str = self._ask("remember", upload)
        return token

    def recall(self, token: str) -> Upload:
        """Return the picture of a token."""
        upload: Upload = self._ask("recall", token)
        return upload

    def start_training(self) -> Training:
        """Begin to train."""
        begun: Training = self._ask("start_training")
        return begun

    def training(self) -> Training:
        """Say how far the training is."""
        progress: Training = self._ask("training")
        return progress

    def has_seen(self, model: str | None) -> None:
        """Tell which model a library answers with."""
        self._ask("has_seen", model)
