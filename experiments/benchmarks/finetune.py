"""Error of grades of photographs by a network before and after fine-tuning on 500 of them.

Three archives of ``ORDRANK_DATA``/photos. Training: 500 random pictures, of UTKFace those of its training part. Test:
all others, for UTKFace its test part; on FG-NET whole people, a quarter of all, are held out.

``frozen``: ``OrdinalRanker()`` on the features of efficientnet-lite0. ``tuned``: ``OrdinalNetwork().predict``, the
ranker on the features after training. ``outputs``: the network's own outputs. ``seconds``: the whole fit. Prints one
JSON document.

    python experiments/benchmarks/finetune.py [--data DIR] [--repeats 2] [--image-size 160] [--device cpu] [--out FILE]
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from ordrank_experiments.datasets.source import file_in, find_data
from ordrank_experiments.machine import describe_machine, print_document
from photos import mean_and_std

from ordrank import OrdinalRanker
from ordrank._protocols import FloatArray, IntArray
from ordrank.deep import OrdinalNetwork
from ordrank.deep.images import read_chunks
from ordrank.features import find_extractor
from ordrank.metrics import mean_absolute_error

SEED = 2041
DATA = ("coffee-leaf", "fgnet-faces", "utkface")
N_TRAIN = 500
BACKBONE = "efficientnet-lite0"
MEASURES = ("frozen", "tuned", "outputs", "seconds")


def draw(rows: list[dict[str, str]], repeat: int) -> tuple[IntArray, IntArray]:
    """Return the positions of training and test pictures."""
    rng = np.random.default_rng((SEED, repeat))
    if "part" in rows[0]:
        part = np.array([row["part"] for row in rows])
        return rng.permutation(np.flatnonzero(part == "train"))[:N_TRAIN], np.flatnonzero(part == "test")
    if "group" in rows[0]:
        people, group = np.unique([row["group"] for row in rows], return_inverse=True)
        held_out = np.isin(group, rng.permutation(len(people))[: len(people) // 4])
        return rng.permutation(np.flatnonzero(~held_out))[:N_TRAIN], np.flatnonzero(held_out)
    order = rng.permutation(len(rows))
    return order[:N_TRAIN], order[N_TRAIN:]


def measure(files: list[Path], grade: FloatArray, train: IntArray, test: IntArray, options: Any) -> dict[str, float]:
    """Return the errors on one split, and the time of the fit."""
    train_files, test_files = [files[i] for i in train], [files[i] for i in test]
    frozen = OrdinalRanker().fit(extract(train_files), grade[train]).predict(extract(test_files))
    network = OrdinalNetwork(BACKBONE, image_size=options.image_size, device=options.device)
    begin = time.perf_counter()
    network.fit(train_files, grade[train])
    seconds = time.perf_counter() - begin
    estimates = {
        "frozen": frozen,
        "tuned": network.predict(test_files),
        "outputs": network.predict_from_outputs(test_files),
    }
    errors = {name: mean_absolute_error(grade[test], np.asarray(found)) for name, found in estimates.items()}
    return errors | {"seconds": seconds}


def extract(files: list[Path]) -> NDArray[np.float32]:
    """Return the features (n, dim) before training."""
    extractor = find_extractor(BACKBONE)
    return np.concatenate([extractor.extract(chunk) for chunk in read_chunks(files, extractor.side)])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None, help="folder of the data sets; ORDRANK_DATA by default")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--image-size", type=int, default=160)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # grades of few samples
    rows = []
    for name in DATA:
        folder = find_data(options.data, "photos", f"Put {name}.zip into a folder 'photos' of it.")
        with ZipFile(file_in(folder, f"{name}.zip")) as archive, tempfile.TemporaryDirectory() as unpacked:
            table = list(csv.DictReader(io.StringIO(archive.read("grades.csv").decode())))
            files = [Path(archive.extract(row["file"], unpacked)) for row in table]
            grade = np.array([float(row["grade"]) for row in table])
            found = []
            for repeat in range(options.repeats):
                found.append(measure(files, grade, *draw(table, repeat), options))
                sys.stderr.write(f"{name} {repeat} {found[-1]}\n")
        for key in MEASURES:
            rows.append({"data": name, "measure": key} | mean_and_std([one[key] for one in found], "value"))
    document = {
        "benchmark": "finetune",
        "seed": SEED,
        "train": N_TRAIN,
        "image_size": options.image_size,
        "device": options.device,
        "rows": rows,
    }
    print_document(document | describe_machine("torch", "onnxruntime"), options.out)


if __name__ == "__main__":
    main()
