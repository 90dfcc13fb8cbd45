"""The little of Dask that is needed: the same task for every shard, sums as a tree, and what to say when it fails.

All that travels is arguments of tasks and their results. A worker that is lost takes results with it; the scheduler
knows the tasks they came from and runs them again elsewhere, which is why no data is ever placed on a worker by hand.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ordrank.errors import ClusterError, InputError

logger = logging.getLogger(__name__)

# Matrices that are combined in one task, and small results: for those a task costs more than the sum.
FAN_IN = 4
SMALL_FAN_IN = 32


def import_distributed() -> Any:
    """The package, or a hint how to get it."""
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
        How long each phase took.
    """

    def __init__(self, client: Any = None) -> None:
        distributed = import_distributed()
        if client is None:
            try:
                client = distributed.default_client()
            except ValueError as error:
                raise InputError(
                    "there is no Dask client; connect one first with distributed.Client('tcp://HOST:PORT')"
                ) from error
        self.client = client
        self.seconds: dict[str, float] = {}

    def each(self, task: Callable[..., Any], *columns: Sequence[Any], **same: Any) -> list[Any]:
        """Futures of a task for every shard: one argument from each column, keywords the same for all."""
        futures: list[Any] = self.client.map(task, *columns, pure=False, **same)
        return futures

    def once(self, task: Callable[..., Any], *arguments: Any) -> Any:
        """Future of one task."""
        return self.client.submit(task, *arguments, pure=False)

    def total(self, combine: Callable[..., Any], parts: Sequence[Any], fan_in: int = FAN_IN) -> Any:
        """Combined result of futures: a tree, so that nobody holds more than a few parts; its root is the client."""
        level = list(parts)
        while len(level) > fan_in:
            groups = [level[start : start + fan_in] for start in range(0, len(level), fan_in)]
            level = [self.once(combine, *group) if len(group) > 1 else group[0] for group in groups]
        return combine(*self.gather(level))

    def wait(self, futures: Sequence[Any]) -> None:
        """Until all are there, or one has failed."""
        with self.client.as_current():
            import_distributed().wait(list(futures))
        for future in futures:
            if future.status != "finished":
                future.result()

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """All results."""
        results: list[Any] = self.client.gather(list(futures))
        return results

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A named part of a fit."""
        start = time.perf_counter()
        logger.info("%s", name)
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    @contextmanager
    def watched(self, work: str = "fit") -> Iterator[None]:
        """Turn what Dask raises when a cluster fails into one sentence; ``work`` names what it did."""
        distributed = import_distributed()
        from distributed.client import ClosedClientError
        from distributed.comm import CommClosedError

        address = self.client.scheduler.address if self.client.scheduler is not None else "its address"
        try:
            yield
        except distributed.KilledWorker as error:
            raise ClusterError(
                f"workers died again and again at the task {error.task}, probably for want of memory; use smaller "
                "shards or workers with more memory"
            ) from error
        except (distributed.CancelledError, CommClosedError, ClosedClientError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and self.client.status == "running":
                raise
            raise ClusterError(
                f"the scheduler at {address} was lost during the {work}; nothing you had is gone, so start it "
                f"and {work} again"
            ) from error
