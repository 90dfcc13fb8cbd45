"""Honest clients beside thousands of connections that never read, and beside hundreds of large uploads at a time.

Ten clients send requests as the page does (see serve.py), first alone, then while another process keeps 2,600
connections open that ask for the map and read nothing, then while 200 uploads of almost 20 million bytes are sent at a
time, again and again. Connections that the server closes are opened again. Prints one JSON document.

    python experiments/benchmarks/hostile_clients.py [--pictures 10000] [--seconds 20] [--work DIR] [--out FILE]
"""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from clients import API, draw_requests, run_clients
from ordrank_experiments.machine import describe_machine, print_document
from serve import MIX, Server, large_collection, options_of

CLIENTS, SILENT, UPLOADS = 10, 2600, 200
UPLOAD_BYTES = 19_900_000
MAX_REQUESTS_PER_SECOND = 2000
POINTS = f"GET {API}/points HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
UPLOAD = (
    f"POST {API}/queries HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\nContent-Type: image/png\r\n"
    f"Content-Length: {UPLOAD_BYTES}\r\n\r\n"
).encode()


def stay_silent(port: int) -> None:
    """Keep connections open that ask and never read; open those again that were closed."""
    opened: list[socket.socket] = []
    while True:
        opened = [one for one in opened if _is_open(one)]
        for _ in range(min(100, SILENT - len(opened))):
            with suppress(OSError):
                one = socket.create_connection(("127.0.0.1", port), timeout=1)
                one.sendall(POINTS)
                one.setblocking(False)
                opened.append(one)
        time.sleep(0.1)


def _is_open(connection: socket.socket) -> bool:
    try:
        if connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
            return True  # an answer waits, and is not read
    except BlockingIOError:
        return True
    except OSError:
        pass
    connection.close()
    return False


def upload(port: int) -> None:
    """Send large bodies at a time, as fast as the server takes them."""
    selector, left = selectors.DefaultSelector(), dict[socket.socket, int]()
    part = bytes(65_536)
    while True:
        while len(left) < UPLOADS:
            with suppress(OSError):
                one = socket.create_connection(("127.0.0.1", port), timeout=1)
                one.sendall(UPLOAD)
                one.setblocking(False)
                selector.register(one, selectors.EVENT_READ | selectors.EVENT_WRITE)
                left[one] = UPLOAD_BYTES
        for key, events in selector.select(0.1):
            ready = key.fileobj
            assert isinstance(ready, socket.socket)
            try:
                answered = bool(events & selectors.EVENT_READ)
                if not answered and left[ready]:
                    left[ready] -= ready.send(part[: left[ready]])
                    if not left[ready]:
                        selector.modify(ready, selectors.EVENT_READ)
            except OSError:
                answered = True
            if answered:
                selector.unregister(ready)
                del left[ready]
                ready.close()


@contextmanager
def beside(attack: Callable[[int], None] | None, port: int) -> Iterator[None]:
    """Run an attack in another process meanwhile, from a few seconds before."""
    if attack is None:
        yield
        return
    process = multiprocessing.get_context("spawn").Process(target=attack, args=(port,), daemon=True)
    process.start()
    time.sleep(5)
    try:
        yield
    finally:
        process.kill()
        process.join()


def measure(server: Server, n: int, seconds: float, attack: Callable[[int], None] | None) -> dict[str, Any]:
    """Run honest clients for some seconds, and measure the memory of the server meanwhile."""
    count = int(MAX_REQUESTS_PER_SECOND * seconds / CLIENTS)
    requests = [draw_requests(MIX, np.arange(1, n + 1), count, i) for i in range(CLIENTS)]
    before = server.memory()
    with beside(attack, server.port):
        responses = run_clients(server.port, requests, seconds)
        memory = server.memory()
    every = 1000 * np.concatenate([np.array(values) for values in responses.seconds.values()])
    return {
        "clients": CLIENTS,
        "requests": len(every),
        "milliseconds": {f"p{q}": round(float(np.percentile(every, q)), 1) for q in (50, 99)},
        "longest_milliseconds": round(float(every.max()), 1),
        "errors": len(responses.errors),
        "first_errors": responses.errors[:3],
        "broken_connections": responses.broken,
        "memory_growth_bytes": memory - before,
    }


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.set_defaults(pictures=10_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        server = Server(large_collection(work, arguments.pictures))
        try:
            measure(server, arguments.pictures, 3.0, None)  # warm-up
            found = {
                name: measure(server, arguments.pictures, arguments.seconds, attack)
                for name, attack in {"alone": None, "silent": stay_silent, "uploads": upload}.items()
            }
            workers = server.workers
        finally:
            server.kill()
    document = {"pictures": arguments.pictures, "workers": workers, "silent": SILENT, "uploads": UPLOADS}
    print_document(document | {"measured": found} | describe_machine(), arguments.out)


if __name__ == "__main__":
    main()
