"""Several processes that serve one address: whichever is idle accepts the next connection.

The supervisor opens the collection, holds the state that the workers share, and replaces workers that end. Workers are
forked: they have the collection in memory without reading it, and share that memory.
"""

from __future__ import annotations

import gc
import logging
import math
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
from typing import Protocol

import uvicorn
from fastapi import FastAPI

from ordrank.collection.collection import Collection
from ordrank.errors import InputError
from ordrank.web.connections import LimitedProtocol
from ordrank.web.shared_state import StateClient, StateServer

BACKLOG = 256
# Seconds to wait for open connections at the end.
_SHUTDOWN_TIMEOUT = 3
# Seconds between two checks whether the supervisor has received a signal.
_SIGNAL_INTERVAL = 0.1
# A worker that ends by itself within these seconds has failed to start; more failures in a row end the server.
_MIN_LIFETIME, _MAX_FAILURES = 2.0, 5
# Seconds until a worker that could not be started is tried again, and for which the collection may be away.
_RETRY_INTERVAL, _PATIENCE = 0.5, 60.0
# Seconds until a message of uvicorn is logged again.
_LOG_INTERVAL = 60.0


class AppFactory(Protocol):
    """Creates the application for an open collection and its shared state."""

    def __call__(self, collection: Collection, *, state: StateClient) -> FastAPI:
        """Create it."""


class OncePerMinute(logging.Filter):
    """Passes each message once per minute: clients must not fill the log."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a message has not been logged for a minute."""
        message, now = str(record.msg), time.monotonic()
        if now - self._logged.get(message, -math.inf) < _LOG_INTERVAL:
            return False
        self._logged[message] = now
        return True


def can_fork() -> bool:
    """Return whether processes can be forked; on macOS that is not safe."""
    return "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"


class _Server(uvicorn.Server):
    """Accepts one connection at a time, so that idle processes get the next one, and ends with its parent."""

    def __init__(self, config: uvicorn.Config, parent: int | None) -> None:
        super().__init__(config)
        self._parent = parent

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(BACKLOG)  # asyncio accepts as many connections at once as its backlog: see run_server

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGINT and self._parent is not None:
            return  # Ctrl-C reaches all processes; the supervisor stops the workers
        if self.should_exit:
            return  # it ends within a timeout; for a second signal, uvicorn would drop requests and print tracebacks
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        self.should_exit |= self._parent not in (None, os.getppid())
        return await super().on_tick(counter)


def run_server(app: FastAPI, listening: socket.socket, parent: int | None = None) -> None:
    """Serve in this process until it is stopped, or until its parent process has ended."""
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        backlog=1,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
    )
    logging.getLogger("uvicorn.error").addFilter(OncePerMinute())
    try:
        _Server(config, parent).run(sockets=[listening])
    finally:
        # Requests in threads may take longer than the timeout. Another Ctrl-C ends them, without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_workers(supervisor: Supervisor, workers: int) -> None:
    """Serve in several processes until Ctrl-C (raises KeyboardInterrupt) or SIGTERM (raises SystemExit)."""
    received: list[int] = []

    # An exception raised at once could leave a request to the shared state half read.
    def receive(number: int, frame: FrameType | None) -> None:
        received.append(number)

    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, receive)
    try:
        for _ in range(workers):
            supervisor.start_worker()
        while not received:
            supervisor.run_once()
    finally:
        supervisor.stop()
    raise KeyboardInterrupt if received[0] == signal.SIGINT else SystemExit(128 + received[0])


@dataclass(frozen=True)
class _Worker:
    process: BaseProcess
    since: float


class Supervisor:
    """Starts, replaces and stops worker processes, and serves their shared state.

    Parameters
    ----------
    directory : Path
        Of the collection.
    create_app : callable
    listening : socket
    """

    def __init__(self, directory: Path, create_app: AppFactory, listening: socket.socket) -> None:
        self._collection, self._create_app, self._listening = Collection(directory), create_app, listening
        self._collection.warm_up()  # fail here if it is damaged
        self._state = StateServer(directory, [listening])
        self._workers: dict[int, _Worker] = {}
        self._process = os.getpid()
        self._failures = 0
        self._missing = 0
        self._away_since: float | None = None
        self._retry_at = 0.0

    def start_worker(self) -> None:
        """Fork a worker."""
        model = self._collection.warm_up()
        self._collection.close()  # connections must not be shared with a forked process
        client = self._state.connect(model)
        gc.collect()
        gc.freeze()  # garbage collection in a worker would copy the memory it shares
        process = multiprocessing.get_context("fork").Process(target=self._work, args=(client,))
        # It inherits the handler of run_workers, which does not end it, until it sets its own.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        client.close()
        self._workers[process.sentinel] = _Worker(process, time.monotonic())

    def run_once(self) -> None:
        """Wait a moment for requests to the shared state and for workers that end, and handle them."""
        for worker in self._handle_requests():
            self._replace(worker)
        self._start_missing()

    def stop(self) -> None:
        """Stop all workers, after a timeout for open connections, whose requests may need the shared state."""
        for worker in self._workers.values():
            worker.process.terminate()
        deadline = time.monotonic() + _SHUTDOWN_TIMEOUT + 2
        while self._workers and time.monotonic() < deadline:
            self._handle_requests()
        for worker in self._workers.values():
            worker.process.kill()
            worker.process.join()
        self._state.close()

    def _handle_requests(self) -> list[_Worker]:
        """Wait a moment for requests to the shared state and handle them; return the workers that have ended."""
        ready = wait([*self._workers, *self._state.connections], _SIGNAL_INTERVAL)
        for connection in ready:
            if isinstance(connection, Connection):
                self._state.handle(connection)
        ended = [self._workers.pop(sentinel) for sentinel in ready if isinstance(sentinel, int)]
        for worker in ended:
            worker.process.join()
        return ended

    def _replace(self, worker: _Worker) -> None:
        by_itself = (worker.process.exitcode or 0) >= 0  # else killed, perhaps for its memory
        failed = by_itself and time.monotonic() - worker.since < _MIN_LIFETIME
        self._failures = self._failures + 1 if failed else 0
        if self._failures > _MAX_FAILURES:
            raise InputError("worker processes end as soon as they start; the lines above say why")
        logging.getLogger(__name__).warning("worker %s has ended and is replaced", worker.process.pid)
        self._missing += 1

    def _start_missing(self) -> None:
        """Start the workers that are to be replaced; where that fails, as for a collection that is away, try later."""
        while self._missing and time.monotonic() >= self._retry_at:
            try:
                self.start_worker()
            except (InputError, OSError) as error:
                self._retry_at = time.monotonic() + _RETRY_INTERVAL
                if self._away_since is None:
                    self._away_since = time.monotonic()
                    logging.getLogger(__name__).warning("no worker can be started, which is tried again: %s", error)
                elif time.monotonic() - self._away_since > _PATIENCE:
                    raise
            else:
                self._missing -= 1
                self._away_since = None

    def _work(self, state: StateClient) -> None:
        """Serve in a worker process, after closing what it inherited."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # until uvicorn handles it, see _Server
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        for other in self._state.connections:
            other.close()
        collection = self._collection.reopened(state.model_loaded, state.write_lock)
        run_server(self._create_app(collection, state=state), self._listening, self._process)
