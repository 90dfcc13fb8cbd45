"""Rate of reading photographs with a pretrained network, compared with that of the network alone.

``read``: pictures a second from JPEG files to features, on all cores, with decoding, checksums and thumbnails and with
the start of the processes. ``threads``: onnxruntime on prepared tensors, one session with a thread per core.
``processes``: the same with a process per core. Medians over rounds in turn. Prints one JSON document.

    python experiments/benchmarks/networks.py [--pictures 2000] [--rounds 3] [--out FILE]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from collection import draw_photographs
from joblib import Parallel, delayed
from numpy.typing import NDArray
from ordrank_experiments.machine import describe_machine, print_document
from PIL import Image

from ordrank.collection.ingest.reading import ReadPicture, read_pictures
from ordrank.features import find_extractor
from ordrank.features.cache import cache_directory
from ordrank.features.pretrained import PRETRAINED


def main() -> None:
    """Run the benchmark and print its document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="file to write the document to")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        draw_photographs(Path(folder) / "pictures", options.pictures)
        files = sorted((path.name, path) for path in Path(folder).rglob("*.jpg"))
        rows = [measure(name, files, options.rounds) for name in PRETRAINED]
    document = {"pictures": options.pictures, "rounds": options.rounds, "rows": rows, **describe_machine("onnxruntime")}
    print_document(document, options.out)


def measure(name: str, files: list[tuple[str, Path]], rounds: int) -> dict[str, Any]:
    """Return the rates of one network, pictures a second."""
    extractor, n = find_extractor(name), len(files)
    network = str(next(cache_directory().glob(f"{name}-*.onnx")))
    with Image.open(files[0][1]) as picture:
        tensor = PRETRAINED[name].network.preprocessing.apply(picture.convert("RGB"))
    cores = os.cpu_count() or 1

    def read() -> None:
        outcomes = list(read_pictures(files, extractor))
        assert all(isinstance(outcome, ReadPicture) for outcome in outcomes)

    def in_processes() -> None:
        Parallel(cores)(delayed(run_network)(network, tensor, n // cores, 1) for _ in range(cores))

    ways: dict[str, Callable[[], None]] = {
        "read": read,
        "threads": lambda: run_network(network, tensor, n, cores),
        "processes": in_processes,
    }
    in_processes()  # starts the processes
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, run in ways.items():
            begin = time.perf_counter()
            run()
            rates[way].append(n / (time.perf_counter() - begin))
    found = {way: round(statistics.median(values), 1) for way, values in rates.items()}
    shares = {f"read_over_{way}": round(found["read"] / found[way], 3) for way in ("threads", "processes")}
    return {"network": name, **found, **shares}


def run_network(network: str, tensor: NDArray[np.float32], n: int, threads: int) -> None:
    """Run a network n times on a prepared picture."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    for _ in range(n):
        session.run(None, {name: tensor})


if __name__ == "__main__":
    main()
