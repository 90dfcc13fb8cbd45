"""Predictions of ``OrdinalRanker`` among many training samples, with the index of these and without it.

The default metric with a kernel, on features of which the first vary most. ``batch`` and ``one`` are milliseconds of
``predict`` for all queries, and for one of some that follow each other; medians of rounds in turn. ``same``: whether
the estimates are equal. ``fits`` are seconds of default fits on scikit-learn's digits and on 5,000 samples, ``peers``
those of other learners on the digits: NCA, and an SVC selected from a grid of 5 × 5 values by five folds. Prints one
JSON document.

    python experiments/benchmarks/prediction.py [--samples 100000] [--queries 1000] [--rounds 5] [--out FILE]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ordrank_experiments.machine import describe_machine, print_document
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from ordrank import OrdinalMetric, OrdinalRanker
from ordrank.estimators import ranker

SEED, FEATURES, SMALL, SINGLE = 0, 128, 5000, 20


def peers() -> dict[str, BaseEstimator]:
    """Return other learners by name, for scaled features."""
    grid = {"C": np.logspace(-1, 3, 5), "gamma": np.logspace(-4, 0, 5)}
    learners = {
        "NCA": NeighborhoodComponentsAnalysis(random_state=SEED),
        "SVC, selected": GridSearchCV(SVC(), grid, cv=5, n_jobs=-1),
    }
    return {name: make_pipeline(StandardScaler(), learner) for name, learner in learners.items()}


def draw(n: int, n_grades: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return samples (n, 128) and the grades (n,), which a third of the features determine."""
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(n, FEATURES)) / np.sqrt(1 + np.arange(FEATURES))
    latent = np.tanh(X[:, ::3].sum(axis=1)) + 0.3 * rng.normal(size=n)
    limits = np.quantile(latent, np.arange(1, n_grades) / n_grades)
    return X.astype(np.float32), np.digitize(latent, limits)


def seconds(work: Callable[[], object]) -> float:
    """Return the time that work takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    digits, small = load_digits(return_X_y=True), draw(SMALL, 10)
    OrdinalRanker().fit(digits[0][:200], digits[1][:200])  # imports
    fits: dict[str, list[float]] = {"digits": [], "5000x128": []}
    others: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for name, (X, y) in zip(fits, (digits, small), strict=True):
            fits[name].append(seconds(partial(OrdinalRanker().fit, X, y)))
        for name, learner in peers().items():
            others.setdefault(name, []).append(seconds(partial(learner.fit, *digits)))
    X, y = draw(options.samples + options.queries, 5)
    train, queries = slice(options.samples), X[options.samples :]
    fitted = {}
    for name, limit in {"index": 0, "no_index": options.samples + 1}.items():
        ranker._INDEXED_SAMPLES = limit
        fitted[name] = OrdinalRanker(OrdinalMetric(kernel="rbf")).fit(X[train], y[train])
        fitted[name].predict(queries[:1])
    times: dict[str, dict[str, list[float]]] = {name: {"batch": [], "one": []} for name in fitted}
    for _ in range(options.rounds):
        for name, one in fitted.items():
            times[name]["batch"].append(seconds(partial(one.predict, queries)))
            times[name]["one"] += [seconds(partial(one.predict, row)) for row in queries[:SINGLE, None]]
    estimates = [one.predict(queries) for one in fitted.values()]
    medians = {
        name: {kind: round(1000 * statistics.median(values), 2) for kind, values in kinds.items()}
        for name, kinds in times.items()
    }
    document = {
        "benchmark": "prediction",
        "seed": SEED,
        "samples": options.samples,
        "features": FEATURES,
        "queries": options.queries,
        "rounds": options.rounds,
        "milliseconds": medians,
        "ratio": {kind: round(medians["no_index"][kind] / medians["index"][kind], 2) for kind in ("batch", "one")},
        "same": bool(np.array_equal(*estimates)),
        "peers": {name: round(statistics.median(values), 3) for name, values in others.items()},
        "fits": {name: round(statistics.median(values), 3) for name, values in fits.items()},
    }
    print_document(document | describe_machine(), options.out)


if __name__ == "__main__":
    main()
