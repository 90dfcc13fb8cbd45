"""Error and intervals of fine-tuned networks, by the outputs that the ranker is fitted to.

Three archives of ``ORDRANK_DATA``/photos, without the test part of UTKFace: 500 random training pictures, 600 others to
test on; on FG-NET a random quarter of the people is held out.

``frozen``: ``OrdinalRanker()`` on the features of the network before training. The others have outputs of a network
that was trained on all training pictures beside these; the ranker is fitted to the outputs that this network has for
the training pictures (``seen``), or that each of them has in a network that was trained without it (``held-out``), as
``OrdinalNetwork`` does it.

For each the mean absolute error on the test pictures (``mae``) and leave-one-out on the training pictures
(``loo_mae``), and the coverage and mean width of the 90 % intervals; ``seconds``: of training the networks. Prints one
JSON document.

    python experiments/benchmarks/cross_fitting.py [--data DIR] [--repeats 1] [--image-size 128]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ordrank_experiments.datasets import PhotoFiles, extract_photos
from ordrank_experiments.machine import describe_machine, print_document
from ordrank_experiments.photo_splits import PhotoSplit

from ordrank import OrdinalRanker
from ordrank._protocols import FloatArray
from ordrank.collection.projection import fit_projection
from ordrank.deep import OrdinalNetwork

SEED = 777
DATA = ("coffee-leaf", "fgnet-faces", "utkface")
N_TRAIN, N_TEST = 500, 600
SCORES = ("mae", "loo_mae", "coverage", "width")


def split(photos: PhotoFiles, repeat: int) -> PhotoSplit:
    """Draw training and test pictures."""
    rng = np.random.default_rng((SEED, repeat))
    usable = rng.permutation(np.flatnonzero(photos.part != "test"))
    if not photos.group[0]:
        return PhotoSplit(usable[:N_TRAIN], usable[N_TRAIN:][:N_TEST])
    names, person = np.unique(photos.group, return_inverse=True)
    held_out = np.isin(person, rng.permutation(len(names))[: len(names) // 4])
    train = usable[~held_out[usable]][:N_TRAIN]
    return PhotoSplit(train, np.flatnonzero(held_out)[:N_TEST], person[train])


def scores(
    features: NDArray[np.float32], queries: NDArray[np.float32], grade: FloatArray, drawn: PhotoSplit
) -> dict[str, float]:
    """Return the scores of a ranker fitted to principal components of features, as in a collection."""
    project = fit_projection([features])
    y, true = grade[drawn.train], grade[drawn.test]
    ranker = OrdinalRanker().fit(project(features), y, groups=drawn.groups)
    lowest, highest = ranker.predict_interval(project(queries), 0.9).T
    estimates = ranker.grade_distribution_.median(ranker.loo_proba_)
    values = (
        np.abs(ranker.predict(project(queries)) - true).mean(),
        np.abs(estimates - y).mean(),
        ((lowest <= true) & (true <= highest)).mean(),
        (highest - lowest).mean(),
    )
    return dict(zip(SCORES, map(float, values), strict=True))


def measure(photos: PhotoFiles, repeat: int, options: Any) -> tuple[dict[str, dict[str, float]], float]:
    """Return the scores by the features that the ranker is fitted to, and the seconds of training."""
    drawn = split(photos, repeat)
    train, test = ([photos.files[i] for i in rows] for rows in (drawn.train, drawn.test))
    y = photos.grade[drawn.train]

    network = OrdinalNetwork(
        image_size=options.image_size, steps=options.steps, device=options.device, random_state=repeat
    )
    begin = time.perf_counter()
    network.fit_networks(train, y, drawn.groups)
    seconds = time.perf_counter() - begin
    s, queries = network.outputs_.shape[1], network.transform(test)
    fitted_to = {"seen": network.transform(train), "held-out": network.features_}
    rows = {"frozen": scores(network.features_[:, s:], queries[:, s:], photos.grade, drawn)}
    rows |= {name: scores(features, queries, photos.grade, drawn) for name, features in fitted_to.items()}
    return rows, seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None, help="folder of the data sets; ORDRANK_DATA by default")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--image-size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # grades of few samples
    rows = []
    for name in DATA:
        with tempfile.TemporaryDirectory() as folder:
            photos = extract_photos(name, Path(folder), options.data)
            measured = [measure(photos, repeat, options) for repeat in range(options.repeats)]
        found, times = [scores for scores, _ in measured], [round(seconds, 1) for _, seconds in measured]
        for method in found[0]:
            splits = {key: [one[method][key] for one in found] for key in SCORES}
            means = {key: float(np.mean(values)) for key, values in splits.items()}
            row = {"data": name, "features": method, "repeats": len(found), **means, "splits": splits}
            rows.append(row | {"seconds": times})
            sys.stderr.write(f"{name} {method} {means}\n")
    document = {
        "benchmark": "cross_fitting",
        "seed": SEED,
        "train": N_TRAIN,
        "image_size": options.image_size,
        "steps": options.steps,
        "device": options.device,
        "rows": rows,
    }
    print_document(document | describe_machine("torch"), options.out)


if __name__ == "__main__":
    main()
