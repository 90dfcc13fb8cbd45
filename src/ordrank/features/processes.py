"""Processes that read pictures. Each has its share of the files, and puts what it has read into a pipe.

A pipe holds what it holds: what a slow caller leaves waiting stays bounded. What is unpickled here comes from these
processes alone, and what they unpickle from this one.

They are not those of :mod:`multiprocessing`, which take twice as long to start: each would run the script of the
caller once more, which fails where that has no guard, and could not have an environment of its own.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from ordrank.errors import InputError

# What a pipe holds where the system allows: a few batches, so that nobody waits while the caller keeps some.
_PIPE_BYTES = 2**20
_ENVIRONMENT = {
    # Memory that decoded pictures leave serves the next ones: to get it from the system anew takes a tenth of the time.
    "MALLOC_TRIM_THRESHOLD_": str(2**26),
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    # There are as many processes as cores: in each, more threads of a BLAS would only make its start twice as long.
    "OPENBLAS_NUM_THREADS": "1",
}
# The paths are those of this process: what it can import, others must find.
_COMMAND = "import sys; sys.path[:] = sys.argv[1:]; from ordrank.features.processes import serve; serve()"
_DIED = (
    "a process that read pictures was ended by the system, most likely for want of memory; "
    "the same command goes on where it was, and needs less memory with fewer processes"
)
_NOT_FOUND = (
    "the processes that read pictures do not find what makes features of them; put it into a module that can be "
    "imported, or read with one process"
)


def call_in_processes(
    function: Callable[..., Any], parts: Sequence[Any], *arguments: Any, n_processes: int
) -> Generator[Any]:
    """Results of ``function(part, *arguments)`` for each part, in their order.

    Parameters
    ----------
    function : callable
        Of a module; what it raises is raised here.
    parts : sequence
        Dealt out in turn.
    arguments
        The same for all parts.
    n_processes : int
    """
    shares = [parts[start::n_processes] for start in range(n_processes)]
    with _started(n_processes) as processes:
        for process, share in zip(processes, shares, strict=True):
            _send(process, (function, share, arguments))
        for turn in range(len(parts)):
            yield _receive(processes[turn % n_processes])


def serve() -> None:
    """Do what standard input asks for; the results go to what was standard output."""
    results = os.dup(1)
    os.dup2(2, 1)  # what others print shall not get between them
    with suppress(BrokenPipeError, EOFError):  # who asked is gone
        try:
            function, share, arguments = pickle.load(sys.stdin.buffer)
        except (AttributeError, ImportError) as error:
            _write(results, InputError(f"{_NOT_FOUND} ({error})"))
            return
        for part in share:
            try:
                result = function(part, *arguments)
            except Exception as error:  # noqa: BLE001 - it is raised where the work was asked for
                result = error
            _write(results, result)


def _write(pipe: int, result: Any) -> None:
    left = memoryview(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
    while left:
        left = left[os.write(pipe, left) :]


@contextmanager
def _started(n_processes: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes, command, pipe = [], [sys.executable, "-c", _COMMAND, *sys.path], subprocess.PIPE
    environment = {**_ENVIRONMENT, **os.environ}
    with ExitStack() as stack:
        with _deaf_children():
            for _ in range(n_processes):
                process = subprocess.Popen(command, _PIPE_BYTES, stdin=pipe, stdout=pipe, env=environment)
                processes.append(stack.enter_context(process))
                stack.callback(process.kill)
        yield processes


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Let processes that start here ignore Ctrl-C: this one stops them, without a word of theirs."""
    if threading.current_thread() is not threading.main_thread():  # others may not touch signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _send(process: subprocess.Popen[bytes], work: Any) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    _widen(process.stdout.fileno())
    with suppress(BrokenPipeError), process.stdin:  # that it has ended is noticed when its results are wanted
        pickle.dump(work, process.stdin)


def _widen(pipe: int) -> None:
    """Let a pipe hold more, where the system can and allows it."""
    if sys.platform == "linux":
        from fcntl import F_SETPIPE_SZ, fcntl

        with suppress(OSError):
            fcntl(pipe, F_SETPIPE_SZ, _PIPE_BYTES)


def _receive(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    try:
        result = pickle.load(process.stdout)
    except (EOFError, pickle.UnpicklingError) as error:
        raise InputError(_DIED) from error
    if isinstance(result, Exception):
        raise result
    return result
