"""Share of pictures of another kind, and of the same kind, that a collection calls novel.

Collections of drawn fruit are fitted with pixels and ranked for other fruit of the same plants, for photographs of
faces and of leaves, and for noise. ``below`` is the share of the queries whose p-value is below .01, .1 and .5: ideally
these numbers themselves for new fruit, and 1 for anything else; ``lowest`` and ``highest`` are over the repeats. Prints
one JSON document.

    python experiments/benchmarks/novelty.py [--data DIR] [--repeats 3] [--out FILE]
"""

from __future__ import annotations

import argparse
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ordrank_experiments.datasets import load_umist
from ordrank_experiments.datasets.photos import load_photos
from ordrank_experiments.machine import describe_machine, print_document
from PIL import Image

from ordrank import Collection
from ordrank.datasets import make_fruit

SEED = 1201  # of drawn fruit; nothing was tuned on it
SIZES = (120, 600, 2000)
SIDE = 64
QUERIES = 200
LEVELS = (0.01, 0.1, 0.5)


def main() -> None:
    """Run the benchmark and print its document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the data sets; ORDRANK_DATA by default")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="file to write the document to")
    options = parser.parse_args()
    foreign = dict(foreign_pictures(options.data))
    rows = [row for n in SIZES for row in measure(n, options.repeats, foreign)]
    document = {"seed": SEED, "repeats": options.repeats, "levels": LEVELS, "rows": rows, **describe_machine()}
    print_document(document, options.out)


def foreign_pictures(data: Path | None) -> Iterator[tuple[str, list[Image.Image]]]:
    """Yield pictures that are no fruit, by kind."""
    yield "UMIST faces", _evenly(load_umist(data).images)
    for name, archive in (("FG-NET faces", "fgnet-faces"), ("UTKFace", "utkface"), ("coffee leaves", "coffee-leaf")):
        yield name, _evenly(load_photos(archive, data, size=SIDE).images)
    noise = np.random.default_rng(SEED).integers(0, 256, (QUERIES, SIDE, SIDE, 3), dtype=np.uint8)
    yield "noise", _evenly(noise)


def _evenly(images: NDArray[np.uint8]) -> list[Image.Image]:
    """Return at most ``QUERIES`` pictures, from all parts of a data set."""
    return [Image.fromarray(image).convert("RGB") for image in images[:: -(-len(images) // QUERIES)]]


def measure(n: int, repeats: int, foreign: dict[str, list[Image.Image]]) -> Iterator[dict[str, Any]]:
    """Yield the shares of small p-values for collections of n fruits, by kind of query."""
    found: dict[str, list[NDArray[np.float64]]] = {}
    for repeat in range(repeats):
        fruit = make_fruit(n + QUERIES, size=SIDE, random_state=SEED + repeat)
        order = np.random.default_rng((SEED, repeat)).permutation(n + QUERIES)  # plants have consecutive pictures
        pictures, grades = [Image.fromarray(fruit.images[i]) for i in order], fruit.grade[order].tolist()
        with tempfile.TemporaryDirectory() as folder:
            collection = _fit(Path(folder), pictures[:n], grades[:n])
            for kind, queries in {"new fruit": pictures[n:], **foreign}.items():
                found.setdefault(kind, []).append(_p_values(collection, queries))
    for kind, values in found.items():
        shares = np.array([[(p < level).mean() for level in LEVELS] for p in values])
        yield {
            "pictures": n,
            "queries": kind,
            "below": shares.mean(axis=0).round(4).tolist(),
            "lowest": shares.min(axis=0).round(4).tolist(),
            "highest": shares.max(axis=0).round(4).tolist(),
        }


def _fit(folder: Path, pictures: list[Image.Image], grades: list[int]) -> Collection:
    (folder / "pictures").mkdir()
    names = [f"{number:05d}.png" for number in range(len(pictures))]
    for name, picture in zip(names, pictures, strict=True):
        picture.save(folder / "pictures" / name)
    labels = dict(zip(names, map(float, grades), strict=True))
    return Collection.create(folder / "collection", folder / "pictures", labels, features="pixels")


def _p_values(collection: Collection, queries: list[Image.Image]) -> NDArray[np.float64]:
    read = []
    for number, picture in enumerate(queries):
        stream = io.BytesIO()
        picture.save(stream, "PNG")
        read.append(collection.read_query(stream.getvalue(), f"query {number}"))
    return np.array([result.novelty for result in collection.rank_all(read)], dtype=np.float64)


if __name__ == "__main__":
    main()
