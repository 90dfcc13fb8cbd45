"""What the page of a large collection costs: many clients at once beside one.

`ordrank serve` shows a collection of 100,000 pictures in a process of its own. A client asks one question after
another, as the page does: mostly rankings and thumbnails, some pages of the list, now and then a correction. First one
client asks alone, then 50 at the same time. Prints one JSON document: errors, requests a second and their ratio, times
of answers, growth of the server's memory. The clients share the machine with the server.

    python benchmarks/serve.py [--pictures 100000] [--clients 50] [--seconds 30] [--work DIR] [--out FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from collection import draw_photographs, fit_command, grow, run

from ordrank.collection.store import write_store
from ordrank.experiments.machine import describe_machine

API = "/api/v1"
DRAWN = 1000
# How often each is asked: a page of the browser is one ranking, some thumbnails, now and then another list.
KINDS = {"rank": 0.45, "thumbnail": 0.4, "browse": 0.1, "picture": 0.04, "grade": 0.01}


def large_collection(work: Path, n: int) -> Path:
    """Make a collection of n pictures unless it is there."""
    collection, folder = work / f"collection-{n}", work / f"photographs-{DRAWN}"
    if not collection.exists():
        draw_photographs(folder, DRAWN)
        run(fit_command(folder, collection))
        with write_store(collection) as store:
            grow(store, n)
    return collection


class Server:
    """`ordrank serve` in a process of its own."""

    def __init__(self, collection: Path) -> None:
        command = [sys.executable, "-m", "ordrank", "serve", str(collection), "--port", "0"]
        begin = time.perf_counter()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        found = re.search(r"http://\S+:(\d+)", self._process.stdout.readline())
        if found is None:
            raise SystemExit("the server does not start")
        self.port = int(found[1])
        self.seconds_to_start = time.perf_counter() - begin

    def memory(self) -> int:
        """Resident bytes."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        return int(found[1]) * 1024 if found else 0

    def cpu_seconds(self) -> float:
        """Time of all cores so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def end(self) -> None:
        """Stop it."""
        self._process.kill()
        self._process.wait()


def _request(kind: str, number: int) -> bytes:
    path = {
        "rank": f"rank?picture={number}&limit=30",
        "thumbnail": f"pictures/{number}/thumbnail",
        "browse": f"pictures?offset={number % 1000}&limit=60",
        "picture": f"pictures/{number}",
        "grade": f"pictures/{number}/grade",
    }[kind]
    body = json.dumps({"grade": str(1 + number % 5)}) if kind == "grade" else ""
    head = f"{'PUT' if body else 'GET'} {API}/{path} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n"
    content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{head}{content}\r\n{body}".encode()


async def _client(port: int, seed: int, n: int, until: float, times: dict[str, list[float]], errors: list[str]) -> None:
    """Ask over one connection; a library for HTTP would take more of the machine than the server."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(list(KINDS), p=list(KINDS.values()), size=100_000).tolist()
    numbers = rng.integers(1, n + 1, size=len(kinds)).tolist()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for kind, number in zip(kinds, numbers, strict=True):
        begin = time.perf_counter()
        if begin > until:
            break
        writer.write(_request(kind, number))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        body = await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
        times[kind].append(time.perf_counter() - begin)
        if not head.startswith(b"http/1.1 200"):
            errors.append(f"{kind}: {head[:20]!r} {body[:100]!r}")
    writer.close()


async def _clients(
    port: int, clients: int, n: int, seconds: float, first: int
) -> tuple[dict[str, list[float]], list[str]]:
    times: dict[str, list[float]] = defaultdict(list)
    errors: list[str] = []
    until = time.perf_counter() + seconds
    await asyncio.gather(*(_client(port, first + i, n, until, times, errors) for i in range(clients)))
    return times, errors


def _load(arguments: tuple[int, int, int, float, int]) -> tuple[dict[str, list[float]], list[str]]:
    return asyncio.run(_clients(*arguments))


def measure(server: Server, clients: int, n: int, seconds: float) -> dict[str, Any]:
    """Let clients ask for a while."""
    before, used = server.memory(), server.cpu_seconds()
    times, errors = _load((server.port, clients, n, seconds, 1000 * clients))
    every = np.concatenate([np.array(values) for values in times.values()])
    return {
        "clients": clients,
        "seconds": seconds,
        "requests": len(every),
        "requests_per_second": round(len(every) / seconds, 1),
        "errors": len(errors),
        "first_errors": errors[:3],
        "server_cores_used": round((server.cpu_seconds() - used) / seconds, 2),
        "milliseconds": {"all": _quantiles(every)}
        | {kind: _quantiles(np.array(times[kind])) for kind in sorted(times)},
        "memorygrowth_bytes": server.memory() - before,
    }


def _quantiles(seconds: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    return {f"p{q}": round(1000 * float(np.percentile(seconds, q)), 1) for q in (50, 99)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--work", type=Path, help="where to make the collection; a temporary folder by default")
    parser.add_argument("--out", type=Path, help="also write the document there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        server = Server(large_collection(work, arguments.pictures))
        try:
            measure(server, 1, arguments.pictures, 3.0)  # what is loaded on first use is loaded
            alone = measure(server, 1, arguments.pictures, arguments.seconds)
            together = measure(server, arguments.clients, arguments.pictures, arguments.seconds)
            again = measure(server, arguments.clients, arguments.pictures, arguments.seconds)
        finally:
            server.end()
    found = {
        "pictures": arguments.pictures,
        "seconds_to_start": round(server.seconds_to_start, 1),
        "one": alone,
        "many": together,
        "many_again": again,
        "throughput_ratio": round(together["requests_per_second"] / alone["requests_per_second"], 2),
    }
    text = json.dumps(found | describe_machine(), indent=1)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
