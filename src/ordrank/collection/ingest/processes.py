"""Call a function in subprocesses, each with its share of the work, and stream the results through pipes.

A full pipe blocks its process, so a slow caller bounds the memory of unread results. Pickled data travel between this
process and its own children only.

:mod:`multiprocessing` takes twice as long to start: each of its processes imports the caller's script again, which
fails without a ``__main__`` guard, and cannot have its own environment variables.
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

_PIPE_BYTES = 2**20  # a few batches, so that no process waits while the caller handles one
_ENVIRONMENT = {
    # glibc keeps freed memory for the next picture: requesting it anew from the system takes 10 % of the time.
    "MALLOC_TRIM_THRESHOLD_": str(2**26),
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    # With one process per core, more threads of BLAS only double the start-up time, and those of PyTorch wait.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
# With sys.path of this process, so that the same modules can be imported.
_COMMAND = "import sys; sys.path[:] = sys.argv[1:]; from ordrank.collection.ingest.processes import serve; serve()"
_KILLED = (
    "a process that reads pictures was killed by the system, most likely because memory ran out; run the same command "
    "again to continue: it needs less memory with fewer processes"
)
_NOT_IMPORTABLE = (
    "the processes that read pictures cannot import the feature extractor; define it in a module that can be "
    "imported, or read with one process"
)


def call_in_processes(
    function: Callable[..., Any], parts: Sequence[Any], *arguments: Any, n_processes: int
) -> Generator[Any]:
    """Yield ``function(part, *arguments)`` for each part, in order.

    Parameters
    ----------
    function : callable
        Importable from a module. Its exceptions are raised here.
    parts : sequence
        Process i gets parts i, i + n_processes, i + 2 n_processes, ….
    arguments
        The same for all parts.
    n_processes : int
    """
    with _start_processes(n_processes) as processes:
        for start, process in enumerate(processes):
            _send(process, (function, parts[start::n_processes], arguments))
        for index in range(len(parts)):
            yield _receive(processes[index % n_processes])


def serve() -> None:
    """Run the work read from standard input, and write the results to standard output."""
    results = os.dup(1)
    os.dup2(2, 1)  # other output goes to standard error
    with suppress(BrokenPipeError, EOFError):  # the caller has ended
        try:
            # Of the process that started this one: nothing from a file or from elsewhere is unpickled.
            function, parts, arguments = pickle.load(sys.stdin.buffer)
        except (AttributeError, ImportError) as error:
            _write(results, InputError(f"{_NOT_IMPORTABLE} ({error})"))
            return
        for part in parts:
            try:
                result = function(part, *arguments)
            except Exception as error:  # noqa: BLE001 - raised in the caller
                result = error
            _write(results, result)


def _write(pipe: int, result: Any) -> None:
    remaining = memoryview(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
    while remaining:
        remaining = remaining[os.write(pipe, remaining) :]


@contextmanager
def _start_processes(n_processes: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes, command, pipe = [], [sys.executable, "-c", _COMMAND, *sys.path], subprocess.PIPE
    environment = {**_ENVIRONMENT, **os.environ}
    with ExitStack() as stack:
        with _children_ignore_interrupt():
            for _ in range(n_processes):
                process = subprocess.Popen(command, _PIPE_BYTES, stdin=pipe, stdout=pipe, env=environment)
                processes.append(stack.enter_context(process))
                stack.callback(process.kill)
        yield processes


@contextmanager
def _children_ignore_interrupt() -> Iterator[None]:
    """Let processes started here ignore Ctrl-C and print no traceback: this process kills them."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread can set signal handlers
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
    if sys.platform == "linux":
        from fcntl import F_SETPIPE_SZ, fcntl

        with suppress(OSError):  # above the limit of this user
            fcntl(process.stdout.fileno(), F_SETPIPE_SZ, _PIPE_BYTES)
    with suppress(BrokenPipeError), process.stdin:  # a process that has ended is reported by _receive
        pickle.dump(work, process.stdin)


def _receive(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    try:
        result = pickle.load(process.stdout)
    except (EOFError, pickle.UnpicklingError) as error:
        raise InputError(_KILLED) from error
    if isinstance(result, Exception):
        raise result
    return result
