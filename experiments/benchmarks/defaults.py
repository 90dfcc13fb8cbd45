"""Ablation of constants of the default model: error and changed predictions without each of them.

On the conditions of ``discriminant.py``; with ``--unlabeled`` half of the test samples are unlabelled samples of the
fit and the other half is predicted. Prints one JSON document; --out keeps the other rows of an existing file.

    python experiments/benchmarks/defaults.py [--unlabeled] [--only umist] [--data DIR] [--repeats 10] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from discriminant import SEED, Split, conditions
from joblib import Parallel, delayed
from ordrank_experiments.machine import describe_machine, print_document
from threadpoolctl import threadpool_limits

from ordrank import OrdinalMetric, OrdinalRanker, metrics
from ordrank._protocols import FloatArray

# Values with which a constant has no effect.
NEUTRAL: dict[str, Any] = {
    "max_sharpness": 8.0,
    "max_locality": 1.0,
    "locality_tolerance": 0.0,
    "linear_weight": 0.0,
    "max_loo_distance": np.inf,
    "min_weight": 0.0,
    "few_samples": 0,
    "min_unlabeled": 0.0,
    "kernels_with_graph": 1000,
}


def predict(split: Split, *, unlabeled: bool, **constants: Any) -> FloatArray:
    """Return predictions for the test samples."""
    X, y, X_test, _ = split
    with patch.object(OrdinalMetric, "_defaults", replace(OrdinalMetric._defaults, **constants)):
        ranker = OrdinalRanker().fit(X, y, unlabeled=X_test[1::2] if unlabeled else None)
        predicted: FloatArray = ranker.predict(X_test[::2] if unlabeled else X_test)
        return predicted


def compare(split: Callable[[int], Split], repeat: int, *, unlabeled: bool) -> list[tuple[float, float]]:
    """Return MAE and fraction of changed predictions, with all constants and then without each."""
    data = split(repeat)
    truth = data[3][::2] if unlabeled else data[3]
    with threadpool_limits(1):
        found = [predict(data, unlabeled=unlabeled)]
        found += [predict(data, unlabeled=unlabeled, **{name: value}) for name, value in NEUTRAL.items()]
    return [
        (metrics.mean_absolute_error(truth, predicted), float(np.mean(predicted != found[0]))) for predicted in found
    ]


def summarize(name: str, n: int, unlabeled: bool, results: FloatArray) -> list[dict[str, Any]]:
    """Return a row per constant from results (repeats, 1 + constants, 2)."""
    errors, changed = np.moveaxis(results, 2, 0)
    changes = (errors[:, 1:] - errors[:, :1]) / max(float(errors[:, 0].mean()), 1e-12)
    return [
        {
            "data": name,
            "n": n,
            "unlabeled": unlabeled,
            "repeats": len(results),
            "without": constant,
            "mae": round(float(errors[:, 0].mean()), 4),
            "change": round(float(changes[:, column].mean()), 4),
            "standard_error": round(float(changes[:, column].std(ddof=1)) / len(changes) ** 0.5, 4),
            "changed_predictions": round(float(changed[:, 1 + column].mean()), 4),
        }
        for column, constant in enumerate(NEUTRAL)
    ]


def merge(rows: list[dict[str, Any]], file: Path | None) -> list[dict[str, Any]]:
    """Add the rows of an existing file that were not measured again."""
    measured = {(row["data"], row["unlabeled"]) for row in rows}
    old = json.loads(file.read_text())["rows"] if file and file.exists() else []
    return [row for row in old if (row["data"], row["unlabeled"]) not in measured] + rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unlabeled", action="store_true", help="fit with unlabelled samples")
    parser.add_argument("--only", default="", help="data sets whose name contains this")
    parser.add_argument("--data", type=Path, default=None, help="folder of the data sets; ORDRANK_DATA by default")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, n, split in conditions(arguments.data):
        if arguments.only not in name:
            continue
        jobs = (delayed(compare)(split, repeat, unlabeled=arguments.unlabeled) for repeat in range(arguments.repeats))
        rows += summarize(name, n, arguments.unlabeled, np.array(Parallel(n_jobs=-1)(jobs)))
        sys.stderr.write(f"{name}, {n} samples\n")
    print_document({"seed": SEED, "rows": merge(rows, arguments.out), **describe_machine()}, arguments.out)


if __name__ == "__main__":
    main()
