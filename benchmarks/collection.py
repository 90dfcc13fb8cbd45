"""What a collection costs: reading pictures, memory, and one question from the shell.

Reading: `ordrank fit` on drawn photographs of 256 × 256 (JPEG, with the noise of a camera) beside a command that only
decodes and resizes them with Pillow on all cores; both timed from the shell, in turns. Memory: the largest resident
memory of `ordrank fit`, all its processes together, on the pictures and on four times as many. Question: `ordrank rank`
with a new picture on a collection of 100,000, beside a command that only starts Python and imports what it needs.
The package is compiled to byte code beforehand, as installers do with Pillow and with it. Prints one JSON document.

    python benchmarks/collection.py [--pictures 10000] [--only reading memory question] [--work DIR] [--out FILE]
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from PIL import Image

import ordrank as package
from ordrank.collection.records import Placed
from ordrank.collection.store import Store, write_store
from ordrank.collection.training import place_pictures
from ordrank.datasets import make_fruit
from ordrank.experiments.machine import describe_machine
from ordrank.features.reading import ReadPicture

SIZE, NOISE, QUALITY = 256, 6.0, 90
DRAWN_TOGETHER = 125
ROUNDS = 7
QUESTION_PICTURES = 100_000

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
IMPORTS = "import rich.table, ordrank.cli.collection, ordrank.sheet, ordrank.service.asking, ordrank.features.pixels"


def draw_photographs(folder: Path, n: int) -> Path:
    """Draw n pictures unless they are there, and a CSV file of their grades beside the folder."""
    grades = folder.with_suffix(".csv")
    if not grades.exists():
        folder.mkdir(parents=True, exist_ok=True)
        parts = Parallel(n_jobs=-1)(delayed(_draw_part)(folder, part) for part in range(n // DRAWN_TOGETHER))
        grades.write_text("file,grade\n" + "".join(line for lines in parts for line in lines))
    return grades


def _draw_part(folder: Path, part: int) -> list[str]:
    fruit, rng, lines = make_fruit(DRAWN_TOGETHER, size=SIZE, random_state=part), np.random.default_rng(part), []
    for i, (image, grade) in enumerate(zip(fruit.images, fruit.grade, strict=True)):
        noisy = np.clip(image + rng.normal(scale=NOISE, size=image.shape), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(folder / f"{part:04d}-{i:03d}.jpg", quality=QUALITY)
        lines.append(f"{part:04d}-{i:03d}.jpg,{grade}\n")
    return lines


def seconds(work: Callable[[], object]) -> float:
    """Time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def undisturbed_seconds(command: Sequence[str]) -> float:
    """Time of a command that begins when what others have written is on the disk."""
    os.sync()
    return seconds(lambda: run(command))


def ordrank(*arguments: object) -> list[str]:
    """Return a command line."""
    return [sys.executable, "-m", "ordrank", *map(str, arguments)]


def run(command: Sequence[str]) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True, capture_output=True)


def fit_command(folder: Path, collection: Path, grades: Path | None = None) -> list[str]:
    """Return the command line of a fit, with the grades beside the folder or others."""
    return ordrank("fit", folder, "--labels", grades or folder.with_suffix(".csv"), "--out", collection, "--json")


def few_grades(folder: Path) -> Path:
    """Write the grades of a ninth of the pictures; their number is no multiple of that of the grades."""
    few = folder.with_suffix(".few.csv")
    head, *lines = folder.with_suffix(".csv").read_text().splitlines(keepends=True)
    few.write_text(head + "".join(lines[::9]))
    return few


def reading(work: Path, n: int) -> dict[str, Any]:
    """Fit beside Pillow, in turns."""
    folder = work / f"photographs-{n}"
    draw_photographs(folder, n)
    script = work / "pillow_alone.py"
    script.write_text(PILLOW_ALONE)
    pillow: list[float] = []
    fit: list[float] = []
    ninth: list[float] = []
    few = few_grades(folder)
    run([sys.executable, str(script), str(folder)])  # the files are in memory for both
    for _ in range(ROUNDS):
        pillow.append(undisturbed_seconds([sys.executable, str(script), str(folder)]))
        for times, grades in ((fit, None), (ninth, few)):
            with tempfile.TemporaryDirectory(dir=work) as room:
                times.append(undisturbed_seconds(fit_command(folder, Path(room) / "collection", grades)))
    return {
        "pictures": n,
        "bytes_per_picture": round(sum(file.stat().st_size for file in folder.iterdir()) / n),
        "rounds": ROUNDS,
        "fit_over_pillow": round(float(np.median(fit) / np.median(pillow)), 2),
        "fit_with_a_ninth_graded_over_pillow": round(float(np.median(ninth) / np.median(pillow)), 2),
        "ratios": [round(ours / theirs, 2) for ours, theirs in zip(fit, pillow, strict=True)],
    }


def memory(work: Path, n: int) -> dict[str, Any]:
    """Largest memory of a fit of n pictures, and of four times as many."""
    small, large = work / f"photographs-{n}", work / f"photographs-{4 * n}-copies"
    draw_photographs(small, n)
    _copy_four_times(small, large)
    rows = []
    for folder, count in ((small, n), (large, 4 * n)):
        peak = _peak_memory(fit_command(folder, work / f"memory-{time.time_ns()}"))
        features = count * 150 * 4
        rows.append({"pictures": count, "peak_bytes": peak, "feature_matrix_bytes": features})
    beyond = [row["peak_bytes"] - row["feature_matrix_bytes"] for row in rows]
    return {"rows": rows, "growth_beyond_the_feature_matrix": round(beyond[1] / beyond[0] - 1, 3)}


def _copy_four_times(small: Path, large: Path) -> None:
    """Make four files of each, which differ in a byte after their end."""
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


def _peak_memory(command: Sequence[str]) -> int:
    """Largest sum of the resident memory of a command and its descendants, shared pages counted once."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak, done = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.05):
            peak = max(peak, sum(map(_proportional_memory, _family(process.pid))))

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    done.set()
    watcher.join()
    if code:
        raise SystemExit(f"{' '.join(command)} ended with {code}")
    return peak


def _family(pid: int) -> list[int]:
    """A process and its descendants."""
    found, new = [pid], [pid]
    while new:
        children: list[int] = []
        for parent in new:
            for task in Path(f"/proc/{parent}/task").glob("*/children"):
                try:
                    children += map(int, task.read_text().split())
                except OSError:
                    continue  # it has just ended
        found += children
        new = children
    return found


def _proportional_memory(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has just ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def question(work: Path, n: int) -> dict[str, Any]:
    """One question to a collection of 100,000 pictures, most of them variations of drawn ones."""
    folder, collection = work / "photographs-2000", work / f"question-{time.time_ns()}"
    draw_photographs(folder, 2000)
    run(fit_command(folder, collection))
    with write_store(collection) as store:
        grow(store, n)
    query = work / "query.jpg"
    Image.fromarray(make_fruit(1, size=SIZE, random_state=12345).images[0]).save(query)
    command = ordrank("rank", collection, query, "--json")
    run(command)
    asked, imported = [], []
    for _ in range(5):
        asked.append(seconds(lambda: run(command)))
        imported.append(seconds(lambda: run([sys.executable, "-c", IMPORTS])))
    return {
        "pictures": n,
        "seconds_beyond_start_and_imports": round(float(np.median(asked) - np.median(imported)), 2),
        "seconds": round(float(np.median(asked)), 2),
    }


def grow(store: Store, n: int) -> None:
    """Add variations of the pictures of a collection until it has n; half of them are graded."""
    placing, rng = place_pictures(store), np.random.default_rng(0)
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
        placed: Placed = placing(pictures, given)
        store.add(pictures, {picture.name: Path(picture.name) for picture in pictures}, given, placed)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=10_000, help="for reading and memory; a multiple of 125")
    parser.add_argument("--only", nargs="*", choices=("reading", "memory", "question"), help="some of the parts")
    parser.add_argument("--work", type=Path, help="where to draw pictures; a temporary folder by default")
    parser.add_argument("--out", type=Path, help="also write the document there")
    arguments = parser.parse_args()
    compileall.compile_dir(Path(package.__file__).parent, quiet=1)
    parts: dict[str, Callable[[Path], dict[str, Any]]] = {
        "reading": lambda work: reading(work, arguments.pictures),
        "memory": lambda work: memory(work, arguments.pictures),
        "question": lambda work: question(work, QUESTION_PICTURES),
    }
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        found = {name: part(work) for name, part in parts.items() if not arguments.only or name in arguments.only}
    text = json.dumps(found | describe_machine(), indent=1)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
