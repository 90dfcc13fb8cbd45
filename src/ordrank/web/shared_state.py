"""State that all processes serving one collection share: uploaded queries, the write lock, the training.

With several processes, the supervisor holds the state in one thread and without locks, and the workers are its clients
over pipes: whatever happens to a worker, the state stays consistent.
"""

from __future__ import annotations

import multiprocessing
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from signal import SIG_DFL, SIG_IGN, SIGINT, SIGTERM, signal
from socket import socket
from tempfile import TemporaryFile
from threading import Lock, Thread
from typing import IO, Any, Protocol

from ordrank.collection.collection import Collection
from ordrank.collection.types import QueryPicture
from ordrank.errors import CollectionError, InputError, UnknownError
from ordrank.web.errors import ENDING, ApiError
from ordrank.web.training_job import STARTED, TrainingStatus, check_not_running, run_training

# Uploaded queries that are kept, of all clients and of one: about 30 kilobytes each.
MAX_QUERIES, MAX_CLIENT_QUERIES = 1000, 200
# Seconds in which a training process ends after it has reported its end.
_TRAINER_TIMEOUT = 10


class SharedState(Protocol):
    """What a server process needs of the shared state."""

    def put_query(self, query: QueryPicture, client: str) -> str:
        """Keep an uploaded query for a while and return its token."""
        ...

    def get_query(self, token: str) -> QueryPicture:
        """Return the query of a token. Raise UnknownError if it is not kept any more."""
        ...

    def large_picture_lock(self) -> AbstractContextManager[object]:
        """Return the lock of large pictures: one at a time is decoded, so that workers do not add up their memory."""
        ...

    def start_training(self) -> TrainingStatus:
        """Start to train with the current grades. Raise CollectionBusyError while a training runs."""
        ...

    def training(self) -> TrainingStatus:
        """Return the progress of the training: done once every process serves the new model."""
        ...


class QueryCache:
    """Uploaded queries in memory; the least recently used one is dropped first, and that of a client with many."""

    def __init__(self) -> None:
        self._queries: OrderedDict[str, tuple[str, QueryPicture]] = OrderedDict()
        self._lock = Lock()

    def put_query(self, query: QueryPicture, client: str) -> str:
        """Keep a query of a client and return its token."""
        token = secrets.token_urlsafe(16)
        with self._lock:
            self._queries[token] = client, query
            own = [token for token, (by, _) in self._queries.items() if by == client]
            if len(own) > MAX_CLIENT_QUERIES:
                del self._queries[own[0]]
            elif len(self._queries) > MAX_QUERIES:
                self._queries.popitem(last=False)
        return token

    def get_query(self, token: str) -> QueryPicture:
        """Return the query of a token."""
        with self._lock:
            if token not in self._queries:
                raise UnknownError("this query is not known, or not any more; send the picture again")
            self._queries.move_to_end(token)
            return self._queries[token][1]


class LocalState(QueryCache):
    """State of a single server process; it trains in a thread."""

    def __init__(self, collection: Collection) -> None:
        super().__init__()
        self._collection = collection
        self._starting, self._status = Lock(), TrainingStatus()
        self._decoding = Lock()

    def large_picture_lock(self) -> AbstractContextManager[object]:
        """Return the lock of large pictures."""
        return self._decoding

    def start_training(self) -> TrainingStatus:
        """Start to train."""
        with self._starting:
            check_not_running(self._status)
            self._status = STARTED
        # A daemon: the collection stays consistent if the program ends before the training.
        arguments = (self._collection.directory, self._update)
        Thread(target=run_training, args=arguments, name="training", daemon=True).start()
        return STARTED

    def training(self) -> TrainingStatus:
        """Return the progress of the training."""
        return self._status

    def _update(self, status: TrainingStatus) -> None:
        if status.state == "done":
            self._collection.refresh()
        self._status = status


class StateServer(QueryCache):
    """State of several server processes, held by their supervisor; it trains in a process of its own.

    Parameters
    ----------
    directory : Path
        Of the collection.
    sockets : sequence of socket
        Closed in the training process.
    """

    def __init__(self, directory: Path, sockets: Sequence[socket]) -> None:
        super().__init__()
        self._directory, self._sockets = directory, sockets
        # Open as long as this object.
        self._write_file, self._large_picture_file = TemporaryFile(), TemporaryFile()  # noqa: SIM115
        self._models: dict[Connection, str | None] = {}
        self._outdated: set[Connection] = set()
        self._status = TrainingStatus()
        self._trainer: tuple[BaseProcess, Connection] | None = None

    def connect(self, model: str | None) -> StateClient:
        """Return a new client for a process that serves a model."""
        own, other = multiprocessing.Pipe()
        self._models[own] = model
        return StateClient(other, ProcessLock(self._write_file), ProcessLock(self._large_picture_file))

    @property
    def connections(self) -> list[Connection]:
        """Connections to wait for; whichever is ready is to be passed to :meth:`handle`."""
        return [*self._models, *([self._trainer[1]] if self._trainer else [])]

    def handle(self, connection: Connection) -> None:
        """Handle one request of a client, or receive the progress of the training."""
        try:
            message = connection.recv()
        except (EOFError, OSError):  # the process has ended
            self._disconnect(connection)
            return
        if self._is_trainer(connection):
            self._update(message)
            return
        response = self._call(connection, *message)
        try:
            connection.send(response)
        except OSError:
            self._disconnect(connection)

    def close(self) -> None:
        """Close all connections and kill a training that runs: the collection stays consistent."""
        self._write_file.close()
        self._large_picture_file.close()
        while self._trainer is not None and self._trainer[1].poll():  # it may have reported its end
            self.handle(self._trainer[1])
        if self._trainer is not None and self._status.state == "running":
            self._trainer[0].kill()
        self._join_trainer()
        for connection in self.connections:
            connection.close()

    def start_training(self) -> TrainingStatus:
        """Start to train."""
        check_not_running(self._status)
        self._join_trainer()  # it has reported its end, and may not have ended yet
        try:
            self._trainer = self._start_trainer()
        except OSError as error:  # too many processes or open files
            reason = error.strerror or str(error)
            raise CollectionError(f"the training process does not start: {reason}; try again later") from None
        self._status = STARTED
        return STARTED

    def training(self) -> TrainingStatus:
        """Return the progress of the training."""
        if self._status.state == "done" and self._outdated:
            return TrainingStatus("running", "opening the new model")
        return self._status

    def _call(self, connection: Connection, name: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        """Return whether a request succeeded, and its result or error."""
        if name == "model_loaded":
            self._models[connection] = arguments[0]
            self._outdated.discard(connection)
            return True, None
        try:
            return True, getattr(self, name)(*arguments)
        except InputError as error:
            return False, error

    def _start_trainer(self) -> tuple[BaseProcess, Connection]:
        own, other = multiprocessing.Pipe()
        inherited = [own, *self.connections, *self._sockets]
        arguments = (self._directory, other, inherited)
        process = multiprocessing.get_context("fork").Process(target=_train, args=arguments)
        process.start()
        other.close()
        return process, own

    def _is_trainer(self, connection: Connection) -> bool:
        return self._trainer is not None and self._trainer[1] is connection

    def _join_trainer(self) -> None:
        if self._trainer is not None:
            process, connection = self._trainer
            connection.close()
            process.join(_TRAINER_TIMEOUT)
            process.kill()  # no effect on one that has ended
            process.join()
            self._trainer = None

    def _update(self, status: TrainingStatus) -> None:
        if status.state == "done":
            with suppress(InputError, OSError):
                current = Collection(self._directory).model_name
                self._outdated = {client for client, model in self._models.items() if model != current}
        self._status = status

    def _disconnect(self, connection: Connection) -> None:
        connection.close()
        if connection in self._models:
            del self._models[connection]
            self._outdated.discard(connection)
        elif self._is_trainer(connection):
            self._join_trainer()
            if self._status.state == "running":
                self._status = TrainingStatus("failed", "the training process was killed; start it again")


def _train(directory: Path, connection: Connection, inherited: Sequence[Connection | socket]) -> None:
    """Train in this process, after closing what it inherited."""
    signal(SIGINT, SIG_IGN)  # Ctrl-C is for the supervisor
    signal(SIGTERM, SIG_DFL)
    for other in inherited:
        other.close()
    with suppress(ConnectionError):  # the supervisor was killed, and nobody serves a new model
        run_training(directory, connection.send)


class ProcessLock:
    """A lock of one thread of one process; the system releases it when that ends.

    Parameters
    ----------
    file : file
        Opened again, because forked processes have the lock of an open file in common. Locks of ranges of bytes would
        belong to a process, and two of them held by different threads would count as a deadlock.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._thread_lock = open(f"/dev/fd/{file.fileno()}", "rb"), Lock()  # noqa: SIM115

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock."""
        import fcntl  # not on every system

        with self._thread_lock:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)


class StateClient:
    """The shared state as a worker process sees it.

    Parameters
    ----------
    connection : Connection
        To the :class:`StateServer`.
    write_lock, large_picture_lock : ProcessLock
        Held to change something, and while a large picture is decoded.
    """

    def __init__(self, connection: Connection, write_lock: ProcessLock, large_picture_lock: ProcessLock) -> None:
        self._connection, self._calling = connection, Lock()
        self._write_lock, self._large_picture_lock = write_lock, large_picture_lock

    def close(self) -> None:
        """Close the connection and the files of the locks."""
        self._connection.close()
        self._write_lock.close()
        self._large_picture_lock.close()

    def write_lock(self) -> AbstractContextManager[object]:
        """Return the write lock."""
        return self._write_lock.held()

    def large_picture_lock(self) -> AbstractContextManager[object]:
        """Return the lock of large pictures."""
        return self._large_picture_lock.held()

    def put_query(self, query: QueryPicture, client: str) -> str:
        """Keep a query of a client and return its token."""
        token: str = self._call("put_query", query, client)
        return token

    def get_query(self, token: str) -> QueryPicture:
        """Return the query of a token."""
        query: QueryPicture = self._call("get_query", token)
        return query

    def start_training(self) -> TrainingStatus:
        """Start to train."""
        status: TrainingStatus = self._call("start_training")
        return status

    def training(self) -> TrainingStatus:
        """Return the progress of the training."""
        status: TrainingStatus = self._call("training")
        return status

    def model_loaded(self, model: str | None) -> None:
        """Notify that this worker serves a model from now on."""
        self._call("model_loaded", model)

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            with self._calling:
                self._connection.send((name, arguments))
                succeeded, result = self._connection.recv()
        except (EOFError, OSError):  # the supervisor was killed, and this process ends in a moment
            raise ApiError(503, ENDING) from None
        if not succeeded:
            raise result
        return result
