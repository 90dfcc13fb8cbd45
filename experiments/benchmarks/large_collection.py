"""Growth of a collection from 10,000 to 1,000,000 pictures: time and memory of what its users do.

Pictures are synthetic: features of 507 numbers between those of drawn fruit, with noise, and one thumbnail for all.
At most 20,000 have grades. In processes of their own: ``fit`` trains; ``add`` reads, embeds and estimates 10,000 drawn
JPEGs of 64 × 64; ``info`` and ``rank`` are commands; ``open`` is everything before the first query in Python, and
``query`` ranks the collection for a new picture, once all is in memory; ``first_page`` is the page's first list of
pictures after ``serve`` has started. Exponents are log-log slopes between the smallest and the largest collection.
Prints one JSON document.

    python experiments/benchmarks/large_collection.py [--sizes 10000 100000 1000000] [--work DIR] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from collection import ordrank
from numpy.typing import NDArray
from ordrank_experiments.commands import run_measured
from ordrank_experiments.machine import describe_machine, print_document
from PIL import Image
from serve import Server

from ordrank import Collection
from ordrank.collection.access import write_store
from ordrank.collection.ingest.reading import ReadPicture
from ordrank.collection.ingest.rows import add_rows
from ordrank.collection.types import QueryPicture
from ordrank.datasets import make_fruit

FEATURES, SIZE = "pixels:13", 64
DRAWN, ADDED, GRADES = 2000, 10_000, 20_000
BATCH, QUERIES = 5000, 200
WARM_UP_QUERIES = 5


class Mixtures:
    """Features between those of two drawn pictures, and grades between theirs, both with noise."""

    def __init__(self, features: NDArray[np.float32], grades: NDArray[np.float64]) -> None:
        self._features, self._grades = features, grades

    def draw(self, n: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Draw features (n, d) and grades (n,)."""
        rng = np.random.default_rng(seed)
        first, second, share = *rng.integers(len(self._features), size=(2, n)), rng.random(n)
        features = share[:, None] * self._features[first] + (1 - share[:, None]) * self._features[second]
        features += rng.normal(scale=8, size=features.shape)
        grades = share * self._grades[first] + (1 - share) * self._grades[second]
        return np.clip(np.rint(features), 0, 255).astype(np.float32), np.rint(grades)


def draw_folder(folder: Path, n: int, seed: int) -> NDArray[np.float64]:
    """Draw n pictures of fruit into a folder, and return their grades."""
    folder.mkdir(parents=True)
    fruit = make_fruit(n, size=SIZE, random_state=seed)
    for i, image in enumerate(fruit.images):
        Image.fromarray(image).save(folder / f"{seed}-{i:05d}.jpg")
    return np.asarray(fruit.grade, dtype=np.float64)


def create(directory: Path, drawn: Path, grades: NDArray[np.float64], n: int) -> Mixtures:
    """Create an untrained collection of n pictures, without those that ``mixtures`` are drawn from."""
    Collection.create_ungraded(directory, drawn, features=FEATURES)
    with write_store(directory) as store:
        mixtures, thumbnail = Mixtures(np.vstack(list(store.features())), grades), store.thumbnails([1])[0]
        store.remove([row.name for row in store.rows()])
        for start in range(0, n, BATCH):
            features, values = mixtures.draw(min(BATCH, n - start), seed=start + 1)
            pictures = [
                ReadPicture(f"{start + i:07d}.jpg", f"{start + i:064x}", 0, 0, SIZE, SIZE, row, thumbnail)
                for i, row in enumerate(features)
            ]
            graded = range(0, len(pictures), max(1, n // GRADES))
            given = {pictures[i].name: float(values[i]) for i in graded}
            add_rows(store, pictures, {picture.name: Path(picture.name) for picture in pictures}, given)
    return mixtures


def measured(*arguments: object) -> dict[str, Any]:
    """Return the time and the memory of a command."""
    found = run_measured(ordrank(*arguments))
    return {"seconds": round(found.seconds, 2), "peak_bytes": found.peak_bytes}


def query(directory: Path, features: Path) -> dict[str, Any]:
    """Open a collection and rank it for new pictures, one at a time; in this process."""
    begin = time.perf_counter()
    collection = Collection.open(directory)
    collection.warm_up()
    opened, times = time.perf_counter() - begin, []
    for i, row in enumerate(np.load(features)):
        begin = time.perf_counter()
        collection.rank(QueryPicture(f"query-{i}", f"{i:064x}", row, b""))
        times.append(time.perf_counter() - begin)
    p50, p99 = np.percentile(times[WARM_UP_QUERIES:], [50, 99])
    found = {"first": times[0], "p50": p50, "p99": p99}
    return {"open": {"seconds": opened}, "query": {name: 1000 * float(value) for name, value in found.items()}}


def serve(directory: Path) -> dict[str, Any]:
    """Start the server, and time the first list of the page and the first ranking."""
    server = Server(directory)
    try:
        times = {}
        for name, path in (("first_page", "pictures?limit=48"), ("first_ranking", f"rank?picture={DRAWN + 5}")):
            begin = time.perf_counter()
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/api/v1/{path}") as response:
                json.load(response)
            times[name] = {"seconds": round(time.perf_counter() - begin, 4)}
        return {"serve": {"seconds": round(server.seconds_to_start, 2), "bytes": server.memory()}, **times}
    finally:
        server.kill()


def measure(work: Path, drawn: Path, added: Path, grades: NDArray[np.float64], n: int) -> dict[str, Any]:
    """Measure everything on a collection of n pictures."""
    directory, begin = work / f"collection-{n}", time.perf_counter()
    mixtures = create(directory, drawn, grades, n)
    created = time.perf_counter() - begin
    features = work / f"queries-{n}.npy"
    np.save(features, mixtures.draw(QUERIES, seed=0)[0])
    found: dict[str, Any] = {
        "pictures": n,
        "graded": len(range(0, n, max(1, n // GRADES))),
        "rows": {"seconds": round(created, 1)},
        "fit": measured("fit", "--out", directory, "--json"),
        "add": measured("add", directory, added, "--json"),
        "info": measured("info", directory, "--json"),
        "rank": measured("rank", directory, next(drawn.iterdir()), "--json"),
    }
    python = run_measured([sys.executable, __file__, "--query", str(directory), str(features)])
    found |= json.loads(python.stdout)
    found["open"]["peak_bytes"] = python.peak_bytes
    found |= serve(directory)
    return found | {"database_bytes": (directory / "collection.sqlite").stat().st_size}


def exponents(rows: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yield log-log slopes of times and memory between the first and the last row."""
    first, last = rows[0], rows[-1]
    span = math.log(last["pictures"] / first["pictures"])
    for name, values in first.items():
        for unit in values if isinstance(values, dict) else ():
            yield f"{name}.{unit}", round(math.log(last[name][unit] / values[unit]) / span, 2)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--work", type=Path, help="folder for the collections; temporary by default")
    parser.add_argument("--out", type=Path, help="file to write the document to")
    parser.add_argument("--query", type=Path, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.query:
        print(json.dumps(query(*arguments.query)))
        return
    with tempfile.TemporaryDirectory(dir=arguments.work) as temporary:
        work, rows = Path(temporary), []
        grades = draw_folder(work / "drawn", DRAWN, seed=0)
        draw_folder(work / "added", ADDED, seed=1)
        for n in arguments.sizes:
            rows.append(measure(work, work / "drawn", work / "added", grades, n))
            print(rows[-1], file=sys.stderr, flush=True)
    print_document({"rows": rows, "exponents": dict(exponents(rows))} | describe_machine(), arguments.out)


if __name__ == "__main__":
    main()
