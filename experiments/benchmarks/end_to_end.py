"""A collection of photographs by the command line alone, in a fresh environment with only the extra ``photos``.

The 2,000 training faces of UTKFace are fitted with the features that a new collection chooses, cross-validated, and
scored on the 800 test faces, which are then ranked in one command; then they are fitted with each network alone. For
every command: seconds, seconds of processors, and the peak memory of all its processes, shared pages counted once.
``per_second`` is pictures a second, and for the fits ``over_network`` is that rate relative to onnxruntime on prepared
tensors, a process for each core, measured just before: a fit also reads files, stores them, and learns.

``torch`` cannot be imported by the commands: they would fail. Prints one JSON document.

    python experiments/benchmarks/end_to_end.py [--data DIR] [--limit N] [--out FILE]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from networks import run_network
from ordrank_experiments.commands import run_measured
from ordrank_experiments.datasets import PhotoFiles, extract_photos
from ordrank_experiments.machine import describe_machine, print_document
from PIL import Image

from ordrank.features import find_extractor
from ordrank.features.cache import cache_directory
from ordrank.features.pretrained import PRETRAINED

PROJECT = Path(__file__).parents[2]
FAILING = 'raise RuntimeError("torch was imported")\n'


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None, help="folder of the data sets; ORDRANK_DATA by default")
    parser.add_argument("--limit", type=int, default=None, help="use that many pictures of each part")
    parser.add_argument("--out", type=Path, help="file to write the document to")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        photos = extract_photos("utkface", work / "all", options.data)
        train, test = (write_part(photos, part, work, options.limit) for part in ("train", "test"))
        program, installed = make_environment(work)
        rows = measure(program, train, test, work)
    document = {"benchmark": "end_to_end", "train": len(train), "test": len(test), "installed": installed, "rows": rows}
    print_document(document | describe_machine("onnxruntime"), options.out)


def write_part(photos: PhotoFiles, part: str, work: Path, limit: int | None) -> list[Path]:
    """Move the pictures of a part to a folder of their own, with a table of their grades beside it; return them."""
    rows = [i for i in range(len(photos.files)) if photos.part[i] == part][:limit]
    (work / part).mkdir()
    with open(work / f"{part}.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file", "grade"])
        table.writerows([photos.files[i].name, f"{photos.grade[i]:g}"] for i in rows)
    return [photos.files[i].rename(work / part / photos.files[i].name) for i in rows]


def make_environment(work: Path) -> tuple[list[str], list[str]]:
    """Install the package with the extra ``photos`` alone; return how it is called, and what is installed."""
    python = work / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", work / "environment"], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", f"{PROJECT}[photos]"], check=True)
    listed = subprocess.run([*pip, "list", "--format", "json"], check=True, capture_output=True, text=True).stdout
    forbidden = work / "forbidden" / "torch"
    forbidden.mkdir(parents=True)
    (forbidden / "__init__.py").write_text(FAILING)
    program = ["env", f"PYTHONPATH={forbidden.parent}", str(python), "-m", "ordrank"]
    return program, sorted(package["name"] for package in json.loads(listed))


def measure(program: Sequence[str], train: Sequence[Path], test: Sequence[Path], work: Path) -> list[dict[str, Any]]:
    """Return a row for every command."""
    folder, labels, collection = work / "train", work / "train.csv", work / "auto"
    outside = ["--pictures", work / "test", "--labels", work / "test.csv"]
    fit = ["fit", folder, "--labels", labels, "--out"]
    rows = [
        run("fit", [*program, *fit, collection], len(train)),
        run("evaluate", [*program, "evaluate", collection], len(train)),
        run("evaluate --pictures", [*program, "evaluate", collection, *outside], len(test)),
        run("rank", [*program, "rank", collection, *test], len(test)),
    ]
    for name in PRETRAINED:
        rate = network_rate(name, train[0], len(train))
        row = run(f"fit --features {name}", [*program, *fit, work / name, "--features", name], len(train))
        rows.append(row | {"network": round(rate, 1), "over_network": round(row["per_second"] / rate, 3)})
    return rows


def run(name: str, command: Sequence[object], pictures: int) -> dict[str, Any]:
    """Run a command and return its row, with errors and features where it prints some."""
    done = run_measured([*map(str, command), "--json"])
    printed = json.loads(done.stdout)
    found = {key: printed[key] for key in ("mae", "error", "features") if isinstance(printed, dict) and key in printed}
    return {
        "command": name,
        "pictures": pictures,
        "seconds": round(done.seconds, 1),
        "cpu_seconds": round(done.cpu_seconds, 1),
        "peak_megabytes": round(done.peak_bytes / 1e6),
        "per_second": round(pictures / done.seconds, 1),
        "printed": found,
    }


def network_rate(name: str, picture: Path, n: int) -> float:
    """Return the pictures a second of a network alone, on a prepared picture, with a process for each core."""
    find_extractor(name).extract([Image.new("RGB", (8, 8))])  # the network is in the cache then
    network = str(next(cache_directory().glob(f"{name}-*.onnx")))
    with Image.open(picture) as opened:
        tensor = np.asarray(PRETRAINED[name].network.preprocessing.apply(opened.convert("RGB")))
    cores = os.cpu_count() or 1
    rates = []
    for count in (cores, n):  # the first starts the processes
        begin = time.perf_counter()
        Parallel(cores)(delayed(run_network)(network, tensor, count // cores, 1) for _ in range(cores))
        rates.append(count / (time.perf_counter() - begin))
    return rates[-1]


if __name__ == "__main__":
    main()
