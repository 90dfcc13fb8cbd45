"""Workers that die in the middle of a task, for real."""

import importlib
import os
import signal
from pathlib import Path


def mortal(task, flags):
    """The task, but whoever is first to find one of the flags lowered raises it and dies."""

    def run(*arguments, **keywords):
        for flag in flags:
            try:
                os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
        return task(*arguments, **keywords)

    return run


def make_mortal(module, name, flags):
    """Replace a task in this worker; a worker that comes after it has the plain one."""
    home = importlib.import_module(module)
    task = getattr(home, name)
    setattr(home, name, mortal(task, flags))


def make_deadly(module, name, pid):
    """Replace a task in this worker by one at which another process dies."""
    home = importlib.import_module(module)
    task = getattr(home, name)

    def run(*arguments, **keywords):
        os.kill(pid, signal.SIGKILL)
        return task(*arguments, **keywords)

    setattr(home, name, run)


def die(X):
    """A step that no process survives."""
    os.kill(os.getpid(), signal.SIGKILL)
    return X


class KillScheduler:
    """A step that samples go through, at which the scheduler dies when a file says so."""

    def __init__(self, pid: int, when: Path) -> None:
        self.pid, self.when = pid, when

    def __call__(self, X):
        if self.when.exists():
            os.kill(self.pid, signal.SIGKILL)
        return X
