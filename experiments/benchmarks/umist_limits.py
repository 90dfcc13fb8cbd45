"""Limits of the paper's methods on UMIST, over the same splits as ``ordrank reproduce``.

Ridges: test error of every ridge of a wide grid; the lowest on each split bounds every rule that selects a ridge of
the grid and k. Gains: the literal algorithm from gain·[I 0] instead of L⁰ = [I 0], and the largest change of its c.
Rounding: literal LDMLR on the pictures, and on the pictures with a relative perturbation of 10⁻¹³. Prints one JSON
document.

    python experiments/benchmarks/umist_limits.py [--data DIR] [--repeats 50] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from ordrank_experiments.machine import describe_machine, print_document
from ordrank_experiments.paper import Cell
from ordrank_experiments.paper_methods import unit_cmds
from ordrank_experiments.protocol import balanced_split, errors_by_votes
from ordrank_experiments.reproduce import SEED, prepare
from threadpoolctl import threadpool_limits

from ordrank import LDMLR, CMDSMetric
from ordrank._protocols import FloatArray, IntArray

RIDGES = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0)
GAINS = (1.0, 0.1, 0.01, 0.001, 0.0)
VOTES = (1, 3, 5)


def errors(X: FloatArray, y: IntArray, n: int, repeats: int) -> dict[str, Any]:
    """Return mean test errors for k = 1, 3, 5 by ridge and by gain, and of the Euclidean distance."""
    cell = Cell("umist", n, 150, 5, 3)
    models = {f"ridge {ridge:g}": unit_cmds(ridge, n, cell) for ridge in RIDGES}
    models |= {"LDMLR": LDMLR(tol=0.0)}
    models |= {f"gain {gain:g}": CMDSMetric(3, init=gain * np.eye(3, 150)) for gain in GAINS}
    found: dict[str, list[FloatArray]] = {
        name: [] for name in (*models, "Euclidean", "LDMLR, pictures changed by 1e-13")
    }
    scales, sizes = [], []
    changed = X * (1 + 1e-13 * np.random.default_rng(SEED).standard_normal(X.shape))
    for repeat in range(repeats):
        train, test = balanced_split(y, n, (SEED, repeat))
        mapped = {name: model.fit(X[train], y[train]).transform(X) for name, model in models.items()}
        scales.append(abs(models["gain 1"].scale_ - 1))
        sizes.append(float(np.log10(np.linalg.norm(models["LDMLR"].get_mahalanobis_matrix()))))
        mapped["LDMLR, pictures changed by 1e-13"] = LDMLR(tol=0.0).fit(changed[train], y[train]).transform(changed)
        for name, Z in (mapped | {"Euclidean": X}).items():
            found[name].append(errors_by_votes(Z[train], y[train], Z[test], y[test])[np.array(VOTES) - 1])
    mean = {name: np.mean(rows, axis=0).round(4).tolist() for name, rows in found.items()}
    ridges = np.array([rows for name, rows in found.items() if name.startswith("ridge")])  # ridge, split, votes
    rounding = np.array(found["LDMLR"])[:, 0] - np.array(found["LDMLR, pictures changed by 1e-13"])[:, 0]
    return {
        "n": n,
        "votes": VOTES,
        "mae": mean,
        "largest_change_of_c_in_1000_iterations": float(max(scales)),
        "ldmlr_median_log10_norm_of_A": round(float(np.median(sizes)), 1),
        "ldmlr_largest_change_by_rounding": round(float(np.abs(rounding).max()), 4),
        "ldmlr_splits_changed_by_a_hundredth": int((np.abs(rounding) > 0.01).sum()),
        "smallest_by_ridge": round(float(ridges.mean(axis=1).min()), 4),
        "smallest_by_split": round(float(ridges.min(axis=(0, 2)).mean()), 4),
    }


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    prepared = prepare("umist", options.data)
    with threadpool_limits(1):
        rows = [errors(prepared.X["raw"][:, :150], prepared.y, n, options.repeats) for n in (30, 60, 90)]
    document = {"benchmark": "umist_limits", "seed": SEED, "repeats": options.repeats, "rows": rows}
    print_document(document | describe_machine(), options.out)


if __name__ == "__main__":
    main(sys.argv[1:])
