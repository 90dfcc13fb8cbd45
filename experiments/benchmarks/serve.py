"""Load test of `ordrank serve` on a large collection: throughput, latency, memory, and grades lost when it is killed.

A client sends one request after another, as the page does: mostly rankings and thumbnails, some pages of the list, few
new grades. First one client, then 50 at the same time; clients share the machine with the server (see clients.py).
Then all server processes are killed and restarted under load from 50 clients, and acknowledged grades are looked up in
the collection. Prints one JSON document.

    python experiments/benchmarks/serve.py [--pictures 100000] [--clients 50] [--seconds 30] [--workers N]
                                           [--work DIR] [--out FILE]
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from clients import Responses, draw_requests, run_clients
from collection import draw_photographs, fit_command, grow, run
from ordrank_experiments.machine import describe_machine, print_document

from ordrank.collection.access import read_store, write_store

DRAWN = 1000
# Probabilities of requests: the page loads a ranking and its thumbnails, sometimes another list.
MIX = {"rank": 0.45, "thumbnail": 0.4, "browse": 0.1, "picture": 0.04, "grade": 0.01}
# While the server is killed, many grades must be in transit.
GRADING_MIX = {"rank": 0.3, "thumbnail": 0.2, "grade": 0.5}
MAX_REQUESTS_PER_SECOND = 4000


def large_collection(work: Path, n: int) -> Path:
    """Create a collection of n pictures unless it exists."""
    collection, folder = work / f"collection-{n}", work / f"photographs-{DRAWN}"
    if not collection.exists():
        draw_photographs(folder, DRAWN)
        run(fit_command(folder, collection))
        with write_store(collection) as store:
            grow(store, n)
    return collection


class Server:
    """`ordrank serve` in its own process group."""

    def __init__(self, collection: Path, workers: int | None = None, port: int = 0) -> None:
        options = ["--no-token", *([] if workers is None else ["--workers", str(workers)])]
        command = [sys.executable, "-m", "ordrank", "serve", str(collection), "--port", str(port), *options]
        begin = time.perf_counter()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert self._process.stdout is not None
        found = re.search(r"http://\S+:(\d+)", self._process.stdout.readline())
        if found is None:
            raise SystemExit("the server does not start")
        self.port = int(found[1])
        self.seconds_to_start = time.perf_counter() - begin

    def _all(self) -> list[int]:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return [self._process.pid, *map(int, children)]

    @property
    def workers(self) -> int:
        """Number of worker processes."""
        return max(1, len(self._all()) - 1)

    def memory(self) -> int:
        """Return the memory of all processes in bytes, shared pages counted once."""
        found = (re.search(r"Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text()) for pid in self._all())
        return 1024 * sum(int(one[1]) for one in found if one)

    def cpu_seconds(self) -> float:
        """Return the CPU time of all processes so far."""
        fields = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self._all())
        return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """Kill all processes at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def measure(server: Server, clients: int, n: int, seconds: float) -> dict[str, Any]:
    """Run clients for some seconds."""
    count = int(MAX_REQUESTS_PER_SECOND * seconds / clients) + 100
    requests = [draw_requests(MIX, np.arange(1, n + 1), count, 1000 * clients + i) for i in range(clients)]
    before, used, own = server.memory(), server.cpu_seconds(), time.process_time()
    responses = run_clients(server.port, requests, seconds)
    own, used = time.process_time() - own, server.cpu_seconds() - used
    every = np.concatenate([np.array(values) for values in responses.seconds.values()])
    errors = [*responses.errors, *["a connection broke"] * responses.broken]
    return {
        "clients": clients,
        "seconds": seconds,
        "requests": len(every),
        "requests_per_second": round(len(every) / seconds, 1),
        "errors": len(errors),
        "first_errors": errors[:3],
        "server_cores_used": round(used / seconds, 2),
        "clients_cores_used": round(own / seconds, 2),
        "milliseconds": {"all": _quantiles(every)}
        | {kind: _quantiles(np.array(responses.seconds[kind])) for kind in sorted(responses.seconds)},
        "memory_bytes": server.memory(),
        "memory_growth_bytes": server.memory() - before,
    }


def _quantiles(seconds: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    return {f"p{q}": round(1000 * float(np.percentile(seconds, q)), 1) for q in (50, 99)}


def kill_under_load(collection: Path, workers: int | None, clients: int, n: int, seconds: float) -> dict[str, Any]:
    """Kill the server twice while clients set grades, and count acknowledged grades that are lost."""
    servers = [Server(collection, workers)]
    port = servers[0].port

    def kill_and_restart() -> None:
        for _ in range(2):
            time.sleep(seconds / 3)
            servers[-1].kill()
            servers.append(Server(collection, workers, port))

    killer = threading.Thread(target=kill_and_restart)
    # Each client has its own pictures: their last acknowledged grade must be in the collection.
    own = [np.arange(1 + client, n + 1, clients) for client in range(clients)]
    count = int(MAX_REQUESTS_PER_SECOND * seconds / clients) + 100
    requests = [draw_requests(GRADING_MIX, numbers, count, client) for client, numbers in enumerate(own)]
    killer.start()
    responses = run_clients(port, requests, seconds)
    killer.join()
    servers[-1].kill()
    return {
        "seconds": seconds,
        "kills": len(servers) - 1,
        "acknowledged_pictures": len(responses.acknowledged),
        "broken_connections": responses.broken,
        "errors": len(responses.errors),
        "first_errors": responses.errors[:3],
        "lost_grades": len(_lost(collection, responses)),
    }


def _lost(collection: Path, responses: Responses) -> list[int]:
    """Return pictures that have neither the last acknowledged grade nor one sent after it."""
    with read_store(collection) as store:
        stored = {row.id: store.header.format_grade(row.grade) for row in store.rows() if row.grade is not None}
    return [
        number
        for number, grade in responses.acknowledged.items()
        if stored.get(number) != grade and stored.get(number) not in responses.pending.get(number, ())
    ]


def options_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the options common to benchmarks of the server."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--work", type=Path, help="folder for the collection; temporary by default")
    parser.add_argument("--out", type=Path, help="file to write the document to")
    return parser


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--workers", type=int, help="processes of the server; its own choice by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        collection = large_collection(work, arguments.pictures)
        server = Server(collection, arguments.workers)
        try:
            measure(server, arguments.clients, arguments.pictures, 3.0)  # warm-up
            alone = measure(server, 1, arguments.pictures, arguments.seconds)
            together = measure(server, arguments.clients, arguments.pictures, arguments.seconds)
            again = measure(server, arguments.clients, arguments.pictures, arguments.seconds)
            workers = server.workers
        finally:
            server.kill()
        killed = kill_under_load(
            collection, arguments.workers, arguments.clients, arguments.pictures, min(20.0, arguments.seconds)
        )
    found = {
        "pictures": arguments.pictures,
        "workers": workers,
        "seconds_to_start": round(server.seconds_to_start, 1),
        "one": alone,
        "many": together,
        "many_again": again,
        "throughput_ratio": round(together["requests_per_second"] / alone["requests_per_second"], 2),
        "p99_over_p50": round(together["milliseconds"]["all"]["p99"] / together["milliseconds"]["all"]["p50"], 2),
        "killed": killed,
    }
    print_document(found | describe_machine(), arguments.out)


if __name__ == "__main__":
    main()
