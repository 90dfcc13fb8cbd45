"""Real processes that work on a collection, and that can be ended at any moment.

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

from ordrank import service
from ordrank.errors import InputError

Image.init()

# What is imported on first use otherwise: it would take the time in which a process shall be killed.
_LATE = (
    "ordrank.collection.training",
    "ordrank.service.asking",
    "ordrank.service.describing",
    "ordrank.service.exporting",
    "pyarrow.parquet",
)
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["pytest", "tests.service.processes", *_LATE])
_PATIENCE = 60
NOBODY = 65534
# What changes files: statements of SQLite, and what pathlib calls.
_DEEDS = ("execute", "executemany", "close", "mkdir", "open", "write", "replace", "rename", "unlink", "rmdir")


class Child:
    """A process that calls a function; what it tells comes through a pipe."""

    def __init__(self, function, *arguments, **options):
        self._pipe, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=_serve, args=(theirs, function, arguments, options))
        self._process.start()
        theirs.close()
        assert self.hear() == "ready"

    @property
    def pid(self):
        return self._process.pid

    @property
    def was_killed(self):
        """Whether it ended by SIGKILL; waits for its end."""
        self._process.join()
        return self._process.exitcode == -signal.SIGKILL

    def say(self, word):
        self._pipe.send(word)

    def hear(self):
        assert self._pipe.poll(_PATIENCE), "the process says nothing"
        return self._pipe.recv()

    def kill(self):
        """End it as a power cut would; return what it had told before."""
        self._process.kill()
        self._process.join()
        told = []
        try:
            while self._pipe.poll():
                told.append(self._pipe.recv())
        except (EOFError, OSError):
            pass
        return told

    def end(self):
        """Wait for its end; return ("done", what the function returned) or ("refused", kind, sentence)."""
        while True:
            heard = self.hear()
            if isinstance(heard, tuple):
                self._process.join()
                return heard


def _serve(pipe, function, arguments, options):
    pipe.send("ready")
    try:
        outcome = ("done", function(pipe, *arguments, **options))
    except (InputError, OSError) as error:
        outcome = ("refused", type(error).__name__, str(error))
    pipe.send(outcome)


def call(pipe, name, *arguments, **options):
    """A function of the service; how many pictures are kept is told on the way."""
    watch = {"watch": service.Watch(tick=lambda done, total: pipe.send(done))} if name in ("fit", "add") else {}
    getattr(service, name)(*arguments, **options, **watch)


def call_and_die(pipe, moment, name, *arguments, **options):
    """Do as :func:`call`, but be killed right before the deed of that number; how many there were, if it lives."""
    count = 0

    def look(frame, event, function):
        nonlocal count
        if event == "c_call" and getattr(function, "__name__", "") in _DEEDS:
            count += 1
            if count == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(look)
    call(pipe, name, *arguments, **options)
    sys.setprofile(None)
    return count


def call_and_die_at_tick(pipe, name, *arguments, **options):
    """Call a function of the service and be killed as soon as it says that pictures are kept."""
    watch = service.Watch(tick=lambda done, total: os.kill(os.getpid(), signal.SIGKILL))
    getattr(service, name)(*arguments, **options, watch=watch)


def duration_of(function, *arguments, **options):
    """Seconds that an undisturbed process takes, which must succeed."""
    child = Child(function, *arguments, **options)
    start = time.perf_counter()
    ended = child.end()
    assert ended[0] == "done", ended
    return time.perf_counter() - start


def without_rights(pipe, *calls):
    """Calls of the service by a user who owns nothing; how each of them ended."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    return [_outcome(pipe, *each) for each in calls]


def with_largest_file(pipe, size, name, *arguments, **options):
    """A function of the service where no file can grow beyond a size."""
    limit_files(size)
    call(pipe, name, *arguments, **options)


def limit_files(size):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _outcome(pipe, name, *arguments):
    try:
        return getattr(service, name)(*arguments)
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
