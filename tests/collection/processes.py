"""Real processes that work on a collection and can be killed at any moment.

They are forked from a server that has imported everything once and done nothing else.
"""

import multiprocessing
import os
import resource
import signal
import sys
import time
from contextlib import contextmanager

from PIL import Image

from ordrank.errors import InputError
from tests.collection import commands

Image.init()

# Modules that are otherwise imported on first use, which would take the time in which a process is to be killed.
_LATE = ("ordrank.collection.train", "ordrank.collection.fit", "ordrank.collection.export", "pyarrow.parquet")
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["pytest", "tests.collection.processes", *_LATE])
_TIMEOUT = 60
NOBODY = 65534
# Calls that change files: SQLite statements, and what pathlib calls.
_WRITES = ("execute", "executemany", "close", "mkdir", "open", "write", "replace", "rename", "unlink", "rmdir")


class Child:
    """A process that calls a function and sends messages through a pipe."""

    def __init__(self, function, *arguments, **options):
        self._pipe, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=_serve, args=(theirs, function, arguments, options))
        self._process.start()
        theirs.close()
        assert self.receive() == "ready"

    @property
    def pid(self):
        return self._process.pid

    @property
    def was_killed(self):
        """Whether it ended by SIGKILL; waits for its end."""
        self._process.join()
        return self._process.exitcode == -signal.SIGKILL

    def send(self, message):
        self._pipe.send(message)

    def receive(self):
        assert self._pipe.poll(_TIMEOUT), "the process sends nothing"
        return self._pipe.recv()

    def kill(self):
        """Kill it as a power cut would; return the messages it had sent."""
        self._process.kill()
        self._process.join()
        messages = []
        try:
            while self._pipe.poll():
                messages.append(self._pipe.recv())
        except (EOFError, OSError):
            pass
        return messages

    def end(self):
        """Wait for its end; return ("done", result) or ("failed", type of error, message)."""
        while True:
            message = self.receive()
            if isinstance(message, tuple):
                self._process.join()
                return message


def _serve(pipe, function, arguments, options):
    pipe.send("ready")
    try:
        outcome = ("done", function(pipe, *arguments, **options))
    except (InputError, OSError) as error:
        outcome = ("failed", type(error).__name__, str(error))
    pipe.send(outcome)


def call(pipe, name, *arguments, **options):
    """Call an operation on a collection; the number of stored pictures is sent on the way."""
    progress = {"progress": lambda stage, done, total: total and pipe.send(done)} if name in ("fit", "add") else {}
    getattr(commands, name)(*arguments, **options, **progress)


def call_and_die(pipe, moment, name, *arguments, **options):
    """Do as :func:`call`, but be killed right before the write of that number; return their number otherwise."""
    count = 0

    def look(frame, event, function):
        nonlocal count
        if event == "c_call" and getattr(function, "__name__", "") in _WRITES:
            count += 1
            if count == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(look)
    call(pipe, name, *arguments, **options)
    sys.setprofile(None)
    return count


def call_and_die_at_tick(pipe, name, *arguments, **options):
    """Call an operation and be killed as soon as it reports stored pictures."""

    def progress(stage, done, total):
        if total:
            os.kill(os.getpid(), signal.SIGKILL)

    getattr(commands, name)(*arguments, **options, progress=progress)


def duration_of(function, *arguments, **options):
    """Seconds that an undisturbed process takes, which must succeed."""
    child = Child(function, *arguments, **options)
    start = time.perf_counter()
    ended = child.end()
    assert ended[0] == "done", ended
    return time.perf_counter() - start


def without_rights(pipe, *calls):
    """Call operations as a user without rights; return how each of them ended."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    return [_outcome(pipe, *each) for each in calls]


def with_largest_file(pipe, size, name, *arguments, **options):
    """Call an operation where no file can grow beyond a size."""
    limit_files(size)
    call(pipe, name, *arguments, **options)


def limit_files(size):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _outcome(pipe, name, *arguments):
    try:
        return getattr(commands, name)(*arguments)
    except (InputError, OSError) as error:
        return f"{type(error).__name__}: {error}"


@contextmanager
def alive(function, *arguments, **options):
    """A process that is killed in the end."""
    child = Child(function, *arguments, **options)
    try:
        yield child
    finally:
        if child._process.is_alive():
            child.kill()
