"""Commands in processes of their own: their time, and the memory of all their processes."""

from __future__ import annotations

import resource
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

_INTERVAL = 0.05  # seconds between two looks at the memory


@dataclass(frozen=True)
class MeasuredCommand:
    """What a command printed and took: seconds, those of processors, and peak memory of all its processes in bytes."""

    stdout: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def run_measured(command: Sequence[str], env: Mapping[str, str] | None = None) -> MeasuredCommand:
    """Run a command that must succeed; resident memory of it and its descendants, shared pages counted once."""
    before, begin = _cpu_seconds(), time.perf_counter()
    with TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, env=env)
        peak, done = 0, threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.wait(_INTERVAL):
                peak = max(peak, sum(map(_proportional_memory, _process_tree(process.pid))))

        watcher = threading.Thread(target=watch)
        watcher.start()
        code = process.wait()
        seconds = time.perf_counter() - begin
        done.set()
        watcher.join()
        if code:
            raise SystemExit(f"{' '.join(command)} ended with {code}")
        output.seek(0)
        return MeasuredCommand(output.read(), seconds, _cpu_seconds() - before, peak)


def _cpu_seconds() -> float:
    """Return the processor time of all processes that this one has waited for, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _process_tree(pid: int) -> list[int]:
    """Return a process and its descendants."""
    found, new = [pid], [pid]
    while new:
        children: list[int] = []
        for parent in new:
            for task in Path(f"/proc/{parent}/task").glob("*/children"):
                try:
                    children += map(int, task.read_text().split())
                except OSError:
                    continue  # the process has ended
        found += children
        new = children
    return found


def _proportional_memory(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # the process has ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
