"""Readings of what the paper leaves open, over the splits of ``ordrank reproduce``.

Landmarks: the literal algorithm with γ = 10 on FG-NET's raw landmarks times one constant, by mean ‖x‖², number of
iterations and k. Seeds: the literal algorithm from L⁰ = 0 on UMIST, with training pictures drawn evenly from the
subjects of a label and MAE over all pictures, for several seeds. Prints one JSON document.

    python experiments/benchmarks/paper_readings.py [--data DIR] [--repeats 50] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from ordrank_experiments.machine import describe_machine, print_document
from ordrank_experiments.paper_methods import FGNET_GAMMA, LITERAL_ITERATIONS
from ordrank_experiments.protocol import balanced_split, errors_by_votes, even_split
from ordrank_experiments.reproduce import SEED, Prepared, prepare
from threadpoolctl import threadpool_limits

from ordrank import CMDSMetric

VOTES = (1, 3, 5)
SQUARED_NORMS = (10, 50, 136)
ITERATIONS = (50, 100, 200, 1000)
SEEDS = (SEED, 1, 2, 3, 4)


def landmarks(faces: Prepared, repeats: int) -> list[dict[str, Any]]:
    """Return mean test errors for n = 40, 50, 75 by scale of the landmarks, iterations and k."""
    raw, y = faces.X["raw"], faces.y
    splits = {n: [balanced_split(y, n, (SEED, repeat)) for repeat in range(repeats)] for n in (40, 50, 75)}
    rows = []
    for squared_norm in SQUARED_NORMS:
        X = raw * np.sqrt(squared_norm / (raw**2).sum(axis=1).mean())
        for iterations in ITERATIONS:
            found = []
            for n, own in splits.items():
                errors = []
                for train, test in own:
                    Z = CMDSMetric(gamma=FGNET_GAMMA, max_iter=iterations).fit(X[train], y[train]).transform(X)
                    errors.append(errors_by_votes(Z[train], y[train], Z[test], y[test])[np.array(VOTES) - 1])
                found.append({"n": n, "mae": np.mean(errors, axis=0).round(4).tolist()})
            rows.append({"squared_norm": squared_norm, "iterations": iterations, "sizes": found})
    return rows


def seeds(faces: Prepared, repeats: int) -> list[dict[str, Any]]:
    """Return errors over all pictures for n = 30, 60, 90 by seed: k = 5 as in the literal algorithm, and other k."""
    X, y, subject = faces.X["raw"][:, :150], faces.y, faces.source.subject
    metric = CMDSMetric(init=np.zeros((3, 150)), max_iter=LITERAL_ITERATIONS)
    rows = []
    for seed in SEEDS:
        found = []
        for n in (30, 60, 90):
            errors = []
            for repeat in range(repeats):
                train, _ = even_split(y, subject, n, (seed, repeat))
                Z = metric.fit(X[train], y[train]).transform(X)
                errors.append(errors_by_votes(Z[train], y[train], Z, y)[np.array(VOTES) - 1])
            mean, std = np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1)
            found.append({"n": n, "mae": mean.round(4).tolist(), "std": std.round(4).tolist()})
        rows.append({"seed": seed, "sizes": found})
    return rows


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    document: dict[str, Any] = {"benchmark": "paper_readings", "seed": SEED, "repeats": options.repeats, "votes": VOTES}
    with threadpool_limits(1):
        document["landmarks"] = landmarks(prepare("fgnet", options.data), options.repeats)
        document["seeds"] = seeds(prepare("umist", options.data), options.repeats)
    print_document(document | describe_machine(), options.out)


if __name__ == "__main__":
    main(sys.argv[1:])
