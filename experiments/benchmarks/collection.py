"""Cost of a collection: reading pictures, memory, and one query from the shell.

``reading``: `ordrank fit` on noisy drawn JPEGs of 256 × 256, relative to decoding and resizing them with Pillow on all
cores, in turns. ``memory``: peak resident memory of all processes of `ordrank fit`, on the pictures and on four times
as many. ``query``: `ordrank rank` with a new picture on a collection of 100,000, and the time of starting Python with
the imports it needs. ``start``: commands on a small collection, beside Python and NumPy alone; the shortest of several
alternating rounds. The package is compiled to byte code first, as installers do. Prints one JSON document.

    python experiments/benchmarks/collection.py [--pictures 10000] [--only reading memory query start] [--work DIR]
                                                [--out FILE]
"""

from __future__ import annotations

import argparse
import compileall
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from ordrank_experiments.commands import run_measured
from ordrank_experiments.machine import describe_machine, print_document
from PIL import Image

import ordrank as package
from ordrank.collection.access import write_store
from ordrank.collection.ingest.reading import ReadPicture
from ordrank.collection.ingest.rows import add_rows
from ordrank.collection.store import Store
from ordrank.collection.train import picture_embedder
from ordrank.datasets import make_fruit

SIZE, NOISE, QUALITY = 256, 6.0, 90
BATCH = 125
ROUNDS = 7
QUERY_PICTURES = 100_000
START_PICTURES, START_ROUNDS, NETWORK = 625, 20, "efficientnet-lite0"

PILLOW_ALONE = """
import os, sys
from multiprocessing import Pool
from PIL import Image

def read(path):
    with Image.open(path) as picture:
        return picture.convert("RGB").resize((24, 24)).tobytes()

if __name__ == "__main__":
    folder = sys.argv[1]
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    with Pool() as pool:
        for _ in pool.imap(read, paths, chunksize=32):
            pass
"""
IMPORTS = "import rich.table, ordrank.cli.tables, ordrank.collection.queries, ordrank.features.pixels"


def draw_photographs(folder: Path, n: int) -> Path:
    """Draw n pictures unless they exist, and a CSV file of their grades next to the folder."""
    grades = folder.with_suffix(".csv")
    if not grades.exists():
        folder.mkdir(parents=True, exist_ok=True)
        parts = Parallel(n_jobs=-1)(delayed(_draw_part)(folder, part) for part in range(n // BATCH))
        grades.write_text("file,grade\n" + "".join(line for lines in parts for line in lines))
    return grades


def _draw_part(folder: Path, part: int) -> list[str]:
    fruit, rng, lines = make_fruit(BATCH, size=SIZE, random_state=part), np.random.default_rng(part), []
    for i, (image, grade) in enumerate(zip(fruit.images, fruit.grade, strict=True)):
        noisy = np.clip(image + rng.normal(scale=NOISE, size=image.shape), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(folder / f"{part:04d}-{i:03d}.jpg", quality=QUALITY)
        lines.append(f"{part:04d}-{i:03d}.jpg,{grade}\n")
    return lines


def seconds(work: Callable[[], object]) -> float:
    """Return the time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def undisturbed_seconds(command: Sequence[str]) -> float:
    """Return the time of a command, after pending writes are flushed to disk."""
    os.sync()
    return seconds(lambda: run(command))


def ordrank(*arguments: object) -> list[str]:
    """Return a command line."""
    return [sys.executable, "-m", "ordrank", *map(str, arguments)]


def run(command: Sequence[str]) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True, capture_output=True)


def fit_command(folder: Path, collection: Path, grades: Path | None = None) -> list[str]:
    """Return the command line of a fit; grades are next to the folder by default."""
    return ordrank("fit", folder, "--labels", grades or folder.with_suffix(".csv"), "--out", collection, "--json")


def few_grades(folder: Path) -> Path:
    """Write the grades of a ninth of the pictures."""
    few = folder.with_suffix(".few.csv")
    head, *lines = folder.with_suffix(".csv").read_text().splitlines(keepends=True)
    few.write_text(head + "".join(lines[::9]))
    return few


def reading(work: Path, n: int) -> dict[str, Any]:
    """Time fits and Pillow alone, in turns."""
    folder = work / f"photographs-{n}"
    draw_photographs(folder, n)
    script = work / "pillow_alone.py"
    script.write_text(PILLOW_ALONE)
    pillow: list[float] = []
    fit: list[float] = []
    ninth: list[float] = []
    few = few_grades(folder)
    run([sys.executable, str(script), str(folder)])  # warm the file cache
    for _ in range(ROUNDS):
        pillow.append(undisturbed_seconds([sys.executable, str(script), str(folder)]))
        for times, grades in ((fit, None), (ninth, few)):
            with tempfile.TemporaryDirectory(dir=work) as out:
                times.append(undisturbed_seconds(fit_command(folder, Path(out) / "collection", grades)))
    return {
        "pictures": n,
        "bytes_per_picture": round(sum(file.stat().st_size for file in folder.iterdir()) / n),
        "rounds": ROUNDS,
        "fit_over_pillow": round(float(np.median(fit) / np.median(pillow)), 2),
        "fit_with_a_ninth_graded_over_pillow": round(float(np.median(ninth) / np.median(pillow)), 2),
        "ratios": [round(one / other, 2) for one, other in zip(fit, pillow, strict=True)],
    }


def memory(work: Path, n: int) -> dict[str, Any]:
    """Return the peak memory of a fit of n pictures, and of four times as many."""
    small, large = work / f"photographs-{n}", work / f"photographs-{4 * n}-copies"
    draw_photographs(small, n)
    _copy_four_times(small, large)
    rows = []
    for folder, count in ((small, n), (large, 4 * n)):
        peak = run_measured(fit_command(folder, work / f"memory-{time.time_ns()}")).peak_bytes
        features = count * 150 * 4
        rows.append({"pictures": count, "peak_bytes": peak, "feature_matrix_bytes": features})
    beyond = [row["peak_bytes"] - row["feature_matrix_bytes"] for row in rows]
    return {"rows": rows, "growth_beyond_the_feature_matrix": round(beyond[1] / beyond[0] - 1, 3)}


def _copy_four_times(small: Path, large: Path) -> None:
    """Write four files of each, which differ in a trailing byte."""
    if large.with_suffix(".csv").exists():
        return
    large.mkdir(parents=True, exist_ok=True)
    grades = ["file,grade\n"]
    for line in small.with_suffix(".csv").read_text().splitlines()[1:]:
        name, grade = line.split(",")
        content = (small / name).read_bytes()
        for copy in range(4):
            (large / f"{copy}-{name}").write_bytes(content + bytes([copy]))
            grades.append(f"{copy}-{name},{grade}\n")
    large.with_suffix(".csv").write_text("".join(grades))


def query(work: Path, n: int) -> dict[str, Any]:
    """Time one query on a collection of 100,000 pictures, most of them variations of drawn ones."""
    folder, collection = work / "photographs-2000", work / f"query-{time.time_ns()}"
    draw_photographs(folder, 2000)
    run(fit_command(folder, collection))
    with write_store(collection) as store:
        grow(store, n)
    command = ordrank("rank", collection, draw_query(work), "--json")
    run(command)
    queries, imports = [], []
    for _ in range(5):
        queries.append(seconds(lambda: run(command)))
        imports.append(seconds(lambda: run([sys.executable, "-c", IMPORTS])))
    return {
        "pictures": n,
        "seconds_beyond_start_and_imports": round(float(np.median(queries) - np.median(imports)), 2),
        "seconds": round(float(np.median(queries)), 2),
    }


def start(work: Path, n: int) -> dict[str, Any]:
    """Time commands on a small collection, most of whose time is Python's start and imports."""
    folder, picture = work / f"photographs-{n}", draw_query(work)
    draw_photographs(folder, n)
    pixels, network = (work / f"start-{features}-{time.time_ns()}" for features in ("pixels", NETWORK))
    run([*fit_command(folder, pixels), "--features", "pixels"])
    run([*fit_command(folder, network), "--features", NETWORK])
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "import numpy": [sys.executable, "-c", "import numpy"],
        "import ordrank": [sys.executable, "-c", "import ordrank"],
        "ordrank --help": ordrank("--help"),
        "ordrank info": ordrank("info", pixels),
        "ordrank rank": ordrank("rank", pixels, picture),
        f"ordrank rank, {NETWORK}": ordrank("rank", network, picture),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(START_ROUNDS):
        for name, command in commands.items():
            times[name].append(seconds(partial(run, command)))
    shortest = {name: round(min(rounds), 2) for name, rounds in times.items()}
    return {"pictures": n, "rounds": START_ROUNDS, "seconds": shortest}


def draw_query(work: Path) -> Path:
    """Draw a picture that is in no collection."""
    picture = work / "query.jpg"
    Image.fromarray(make_fruit(1, size=SIZE, random_state=12345).images[0]).save(picture)
    return picture


def grow(store: Store, n: int) -> None:
    """Add variations of the pictures of a collection up to n pictures; half of them are graded."""
    embed, rng = picture_embedder(store), np.random.default_rng(0)
    originals, grades, thumbnails = np.vstack(list(store.features())), store.grades(), store.thumbnails([1])
    for start in range(len(originals), n, 2000):
        chosen = rng.integers(len(originals), size=min(2000, n - start))
        noisy = np.clip(np.rint(originals[chosen] + rng.normal(scale=8, size=originals[chosen].shape)), 0, 255)
        pictures = [
            ReadPicture(
                name=f"variation-{start + i}",
                sha256=f"{start + i:064x}",
                size=0,
                mtime_ns=0,
                width=SIZE,
                height=SIZE,
                features=row.astype(np.float32),
                thumbnail=thumbnails[0],
            )
            for i, row in enumerate(noisy)
        ]
        given = {picture.name: float(grades[row]) for picture, row in zip(pictures, chosen, strict=True) if row % 2}
        paths = {picture.name: Path(picture.name) for picture in pictures}
        add_rows(store, pictures, paths, given, embed(pictures, given))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=10_000, help="for reading and memory; a multiple of 125")
    parser.add_argument("--only", nargs="*", choices=("reading", "memory", "query", "start"), help="parts to measure")
    parser.add_argument("--work", type=Path, help="folder for pictures; temporary by default")
    parser.add_argument("--out", type=Path, help="file to write the document to")
    arguments = parser.parse_args()
    compileall.compile_dir(Path(package.__file__).parent, quiet=1)
    parts: dict[str, Callable[[Path], dict[str, Any]]] = {
        "reading": lambda work: reading(work, arguments.pictures),
        "memory": lambda work: memory(work, arguments.pictures),
        "query": lambda work: query(work, QUERY_PICTURES),
        "start": lambda work: start(work, START_PICTURES),
    }
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        found = {name: part(work) for name, part in parts.items() if not arguments.only or name in arguments.only}
    print_document(found | describe_machine(), arguments.out)


if __name__ == "__main__":
    main()
