"""Run tasks on a Dask cluster: map over shards, reduce as a tree, translate errors.

Only arguments and results of tasks move. A lost worker takes results with it; the scheduler runs the tasks again that
made them. So data is never scattered to workers by hand: scattered data would be lost for good.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ordrank.errors import ClusterError, InputError

logger = logging.getLogger(__name__)

# Results combined in one task: matrices, and small results, for which a task costs more than the sum.
FAN_IN = 4
SMALL_FAN_IN = 32
# Tasks in flight: bounds the results that a slow caller leaves in memory.
MAX_PENDING = 128


def import_distributed() -> Any:
    """Return the package ``distributed``; raise InputError with the command that installs it."""
    try:
        import distributed
    except ImportError as error:
        raise InputError("work on a cluster needs Dask; install it with pip install 'ordrank[dask]'") from error
    return distributed


class Engine:
    """A client of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the one that was connected last.

    Attributes
    ----------
    seconds : dict of str to float
        Duration of each phase.
    """

    def __init__(self, client: Any = None) -> None:
        distributed = import_distributed()
        try:
            self.client = distributed.default_client() if client is None else client
        except ValueError as error:
            raise InputError(
                "there is no Dask client; connect one first with distributed.Client('tcp://HOST:PORT')"
            ) from error
        self.seconds: dict[str, float] = {}

    def map(self, task: Callable[..., Any], *iterables: Sequence[Any], **common: Any) -> list[Any]:
        """Submit a task for each tuple of arguments from the iterables; return the futures."""
        futures: list[Any] = self.client.map(task, *iterables, pure=False, **common)
        return futures

    def submit(self, task: Callable[..., Any], *arguments: Any) -> Any:
        """Submit one task; return its future."""
        return self.client.submit(task, *arguments, pure=False)

    def broadcast(self, value: Any) -> Any:
        """Return a future of a value that passes the scheduler once; workers copy it from each other."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)  # this is how to send it only once
            return self.submit(identity, value)

    def map_in_order(self, task: Callable[..., Any], blocks: Iterable[Any], *common: Any) -> Iterator[Any]:
        """Yield ``task(block, *common)`` for each block, in order; blocks are taken as results are.

        What the tasks have in common is broadcast. Errors of Dask are translated.
        """
        with self.translate_errors():
            shared, pending = [self.broadcast(value) for value in common], deque[Any]()
            for block in blocks:
                pending.append(self.submit(task, block, *shared))
                if len(pending) >= MAX_PENDING:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()

    def tree_reduce(self, combine: Callable[..., Any], futures: Sequence[Any], fan_in: int = FAN_IN) -> Any:
        """Return ``combine(*results)`` by a tree of tasks, which bounds memory; the client computes the root."""
        level = list(futures)
        while len(level) > fan_in:
            groups = [level[start : start + fan_in] for start in range(0, len(level), fan_in)]
            level = [self.submit(combine, *group) if len(group) > 1 else group[0] for group in groups]
        return combine(*self.gather(level))

    def wait(self, futures: Sequence[Any]) -> None:
        """Wait for all futures; raise the error of one that failed."""
        with self.client.as_current():
            import_distributed().wait(list(futures))
        for future in futures:
            if future.status != "finished":
                future.result()

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Return all results."""
        results: list[Any] = self.client.gather(list(futures))
        return results

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a named phase of a fit."""
        start = time.perf_counter()
        logger.info("%s", name)
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    @contextmanager
    def translate_errors(self, work: str = "fit") -> Iterator[None]:
        """Raise ClusterError for Dask's errors about lost workers and schedulers; ``work`` names what to repeat."""
        distributed = import_distributed()
        from distributed.client import ClosedClientError
        from distributed.comm import CommClosedError

        address = self.client.scheduler.address if self.client.scheduler is not None else "its address"
        try:
            yield
        except distributed.KilledWorker as error:
            raise ClusterError(
                f"workers died repeatedly at the task {error.task}, probably for lack of memory; use smaller shards "
                "or workers with more memory"
            ) from error
        except (distributed.CancelledError, CommClosedError, ClosedClientError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and self.client.status == "running":
                raise
            raise ClusterError(
                f"the scheduler at {address} was lost during the {work}; no data was lost, so restart it and {work} "
                "again"
            ) from error


def identity(value: Any) -> Any:
    """Return the argument; the task of :meth:`Engine.broadcast`."""
    return value
