"""Several processes that answer at one address: each takes the next connection when it has time.

The first process opens the collection, keeps the desk that the others share, and replaces those that end. The others
begin as copies of it: they have the collection in memory without reading it, and share that memory.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import NoReturn, Protocol

import uvicorn
from fastapi import FastAPI

from ordrank.errors import InputError
from ordrank.service import Library
from ordrank.service.sharing import DeskLine, KeptDesk
from ordrank.service.snapshot import Snapshot, take_snapshot
from ordrank.web.patience import PatientProtocol

BACKLOG = 256
# Connections that are still open when the server ends are waited for so long.
_PATIENCE = 3
# A worker that ends sooner did not work; so many of them in a row are no accident.
_SHORT, _MOST_SHORT = 2.0, 5


class MakeApp(Protocol):
    """Makes the application of an open collection."""

    def __call__(self, *, library: Library) -> FastAPI:
        """Make it."""


def can_share() -> bool:
    """Whether this system lets processes begin as copies of another; on macOS that is not safe."""
    return "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"


class _Server(uvicorn.Server):
    """Takes one connection at a time, so that those who have time get it, and ends with the process that began it."""

    def __init__(self, config: uvicorn.Config, parent: int | None) -> None:
        super().__init__(config)
        self._parent = parent

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(BACKLOG)  # asyncio takes as many connections at once as may wait: see serve_alone

    async def on_tick(self, counter: int) -> bool:
        self.should_exit |= self._parent not in (None, os.getppid())
        return await super().on_tick(counter)


def serve_alone(app: FastAPI, listening: socket.socket, parent: int | None = None) -> None:
    """Answer in this process until it is ended, or the process that began it, ``parent``, has ended."""
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        backlog=1,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_PATIENCE,
    )
    _Server(config, parent).run(sockets=[listening])


def serve_together(staff: Staff, workers: int) -> None:
    """Answer in several processes until this one is ended."""
    signal.signal(signal.SIGTERM, _end)
    try:
        for _ in range(workers):
            staff.hire()
        while True:
            staff.attend()
    finally:
        for ending in (signal.SIGINT, signal.SIGTERM):  # once is enough
            signal.signal(ending, signal.SIG_IGN)
        staff.dismiss()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


@dataclass(frozen=True)
class _Worker:
    process: BaseProcess
    since: float


class Staff:
    """The processes that answer, and the desk that they share.

    Parameters
    ----------
    directory : Path
        Of the collection.
    make_app : callable
        Makes the application; it is given the open collection as ``library``.
    listening : socket
    """

    def __init__(self, directory: Path, make_app: MakeApp, listening: socket.socket) -> None:
        self._directory, self._make_app, self._listening = directory, make_app, listening
        self._snapshot = prepared(take_snapshot(directory))
        self._desk = KeptDesk(directory, [listening])
        self._workers: dict[int, _Worker] = {}
        self._process = os.getpid()
        self._short = 0

    def hire(self) -> None:
        """Begin a process."""
        desk = self._desk.connect(self._snapshot.header.model)
        gc.collect()
        gc.freeze()  # a process that looks for garbage among what it shares would get a copy of it
        process = multiprocessing.get_context("fork").Process(target=self._work, args=(desk,))
        process.start()
        desk.close()
        self._workers[process.sentinel] = _Worker(process, time.monotonic())

    def attend(self) -> None:
        """Wait until something happens, and see to it."""
        for ready in wait([*self._workers, *self._desk.lines]):
            if isinstance(ready, Connection):
                self._desk.hear(ready)
            elif isinstance(ready, int):
                self._replace(ready)

    def dismiss(self) -> None:
        """End all processes; what they are about to answer is waited for a while."""
        for worker in self._workers.values():
            worker.process.terminate()
        deadline = time.monotonic() + _PATIENCE + 2
        for worker in self._workers.values():
            worker.process.join(max(0.0, deadline - time.monotonic()))
            worker.process.kill()
            worker.process.join()
        self._desk.close()

    def _replace(self, sentinel: int) -> None:
        worker = self._workers.pop(sentinel)
        worker.process.join()
        self._short = self._short + 1 if time.monotonic() - worker.since < _SHORT else 0
        if self._short > _MOST_SHORT:
            raise InputError("the processes that answer end as soon as they begin; the lines above say why")
        logging.getLogger(__name__).warning("process %s has ended and is replaced", worker.process.pid)
        self._snapshot = prepared(take_snapshot(self._directory, self._snapshot, noticed=False))
        self.hire()

    def _work(self, desk: DeskLine) -> None:
        """Answer in a process of its own, which lets go of what is not its own."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one ends the others
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for other in self._desk.lines:
            other.close()
        library = Library(self._directory, desk, self._snapshot)
        serve_alone(self._make_app(library=library), self._listening, self._process)


def prepared(state: Snapshot) -> Snapshot:
    """Compute what the first questions would, so that it is in memory once."""
    state.in_order  # noqa: B018
    if state.space is not None:
        state.space.positions  # noqa: B018
    return state
