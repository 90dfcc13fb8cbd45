"""Error of the default model with and without discriminant rescaling, on the same splits.

UMIST and FG-NET: random balanced splits of a seed used nowhere else. Tables: training and test samples are both drawn
from the training part of a hold-out. Digits of scikit-learn: random splits. Prints one JSON document.

    python experiments/benchmarks/discriminant.py [--data DIR] [--repeats 50] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from ordrank_experiments.datasets import load_table
from ordrank_experiments.machine import describe_machine, print_document
from ordrank_experiments.paper import Dataset
from ordrank_experiments.protocol import balanced_split
from ordrank_experiments.reproduce import prepare
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from ordrank import OrdinalMetric, OrdinalRanker, metrics
from ordrank._protocols import FloatArray, IntArray

SEED = 918
FACES: tuple[tuple[Dataset, int, tuple[int, ...]], ...] = (("umist", 150, (30, 60, 90)), ("fgnet", 80, (40, 50, 75)))
TABLES: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("car", (100, 250, 900)),
    ("tae", (85,)),
    ("winequality-red", (100, 250, 900)),
)
DIGITS = (200, 600)

Split = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


def split_of_faces(X: FloatArray, y: IntArray, n: int, repeat: int) -> Split:
    """Draw a random balanced split."""
    train, test = balanced_split(y, n, (SEED, repeat))
    return X[train], y[train].astype(float), X[test], y[test].astype(float)


def split_at_random(X: FloatArray, y: FloatArray, n: int, repeat: int) -> Split:
    """Draw n samples for training, test on the others."""
    order = np.random.default_rng((SEED, repeat)).permutation(len(X))
    return X[order[:n]], y[order[:n]], X[order[n:]], y[order[n:]]


def split_of_table(holdouts: Any, n: int, repeat: int) -> Split:
    """Split the training part of a hold-out, and standardise columns on the new training part."""
    holdout = holdouts[repeat % len(holdouts)]
    X, y, X_test, y_test = split_at_random(holdout.X_train, holdout.y_train, n, repeat)
    scale = StandardScaler().fit(X)
    return scale.transform(X), y, scale.transform(X_test), y_test


def errors(split: Callable[[int], Split], repeat: int) -> tuple[float, float]:
    """Return the MAE without and with discriminant rescaling."""
    X, y, X_test, y_test = split(repeat)
    with threadpool_limits(1):
        rankers = (OrdinalRanker(OrdinalMetric(discriminant=flag)).fit(X, y) for flag in (False, True))
        without, rescaled = (metrics.mean_absolute_error(y_test, ranker.predict(X_test)) for ranker in rankers)
    return without, rescaled


def conditions(data: Path | None) -> list[tuple[str, int, Callable[[int], Split]]]:
    """Return name, number of training samples, and split by repeat of each condition."""
    found: list[tuple[str, int, Callable[[int], Split]]] = []
    for name, d, sizes in FACES:
        faces = prepare(name, data)
        X = faces.X["aligned"][:, :d]
        found += [(name, n, partial(split_of_faces, X, faces.y, n)) for n in sizes]
    for table, sizes in TABLES:
        holdouts = load_table(table, data).holdouts
        found += [(table, n, partial(split_of_table, holdouts, n)) for n in sizes]
    X, y = load_digits(return_X_y=True)
    found += [("digits", n, partial(split_at_random, X, y.astype(float), n)) for n in DIGITS]
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None, help="folder of the data sets; ORDRANK_DATA by default")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    rows = []
    for name, n, split in conditions(arguments.data):
        found = np.array(Parallel(n_jobs=-1)(delayed(errors)(split, repeat) for repeat in range(arguments.repeats)))
        without, rescaled = found.mean(axis=0)
        change = (found[:, 1] - found[:, 0]) / without
        rows.append(
            {
                "data": name,
                "n": n,
                "mae_without": round(float(without), 4),
                "mae": round(float(rescaled), 4),
                "change": round(float(change.mean()), 4),
                "standard_error": round(float(change.std(ddof=1)) / len(change) ** 0.5, 4),
            }
        )
        sys.stderr.write(f"{rows[-1]}\n")
    print_document({"seed": SEED, "repeats": arguments.repeats, "rows": rows, **describe_machine()}, arguments.out)


if __name__ == "__main__":
    main()
