"""The default model: scores on UMIST, variability across splits, cost of a fit, number of landmarks.

``umist``: on the splits of ``ordrank reproduce``, MAE from labelled pictures alone, with the other pictures unlabelled,
and with half of them unlabelled and the other half as queries; share of the three nearest pictures that show the same
person, inside the true grade and over all grades. ``variability``: MAE from labelled pictures on as many splits of each
of eight seeds, on UMIST and FG-NET; the first seed is that of ``ordrank reproduce``. ``cost``: a default fit, and one
with its selected values given. ``landmarks``: out-of-sample error of the Nyström approximation. Prints one JSON
document; --out keeps the other parts of an existing file.

    python experiments/benchmarks/ordinal_metric.py [--parts umist,variability,cost,landmarks] [--data DIR]
                                                    [--repeats 50] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from ordrank_experiments.datasets import load_umist
from ordrank_experiments.machine import describe_machine, print_document
from ordrank_experiments.protocol import balanced_split
from ordrank_experiments.reproduce import SEED, prepare
from threadpoolctl import threadpool_limits

from ordrank import OrdinalMetric, OrdinalRanker, metrics
from ordrank._protocols import FloatArray, IntArray
from ordrank.estimators._defaults import DEFAULTS, Defaults

LANDMARKS = (100, 250, 500, 1000)
SEEDS = range(SEED, SEED + 8)


def umist_split(X: FloatArray, y: IntArray, subject: Any, n: int, repeat: int) -> dict[str, float]:
    """Score grades and ranking on one split, with and without unlabelled pictures."""
    with threadpool_limits(1):
        train, test = balanced_split(y, n, (SEED, repeat))
        shuffled = np.random.default_rng((SEED, repeat)).permutation(test)
        shown, queries = shuffled[: len(test) // 2], shuffled[len(test) // 2 :]
        rankers = {
            "labelled": OrdinalRanker().fit(X[train], y[train]),
            "unlabelled": OrdinalRanker().fit(X[train], y[train], unlabeled=X[test]),
            "half": OrdinalRanker().fit(X[train], y[train], unlabeled=X[shown]),
            "euclidean": OrdinalRanker("passthrough").fit(X[train], y[train]),
        }

        def error(name: str, test: IntArray) -> float:
            return metrics.mean_absolute_error(y[test], rankers[name].predict(X[test]))

        found = {f"mae_{name}": error(name, test) for name in ("labelled", "unlabelled", "euclidean")}
        found |= {"mae_never_seen_labelled": error("labelled", queries), "mae_never_seen_half": error("half", queries)}
        for name, ranker in rankers.items():
            inside = metrics.inside_grade(ranker.rank(X[test], k=n), y[test], 3)
            found[f"same_person_in_grade_{name}"] = metrics.same_subject_precision(
                inside, subject[train], subject[test]
            )
            found[f"same_person_{name}"] = metrics.same_subject_precision(
                ranker.rank(X[test], k=3), subject[train], subject[test]
            )
        return found


def umist(data: Path | None, repeats: int) -> list[dict[str, Any]]:
    """Return mean and standard deviation over the splits, by training size."""
    prepared, subject = prepare("umist", data), np.asarray(load_umist(data).subject)
    X, rows = prepared.X["aligned"][:, :150], []
    for n in (30, 60, 90):
        found = Parallel(n_jobs=-1)(delayed(umist_split)(X, prepared.y, subject, n, r) for r in range(repeats))
        scores = {name: [one[name] for one in found] for name in found[0]}
        mean = {name: round(float(np.mean(values)), 4) for name, values in scores.items()}
        std = {name: round(float(np.std(values, ddof=1)), 4) for name, values in scores.items()}
        rows.append({"n": n, "repeats": repeats, "mean": mean, "std": std})
    return rows


def split_error(X: FloatArray, y: IntArray, n: int, seed: int, repeat: int) -> float:
    """Return the MAE on one split, from labelled pictures alone."""
    with threadpool_limits(1):
        train, test = balanced_split(y, n, (seed, repeat))
        return metrics.mean_absolute_error(y[test], OrdinalRanker().fit(X[train], y[train]).predict(X[test]))


def variability(data: Path | None, repeats: int) -> list[dict[str, Any]]:
    """Return means over the splits of each seed, and over all of them."""
    rows = []
    conditions = (("umist", 150, (30, 60, 90)), ("fgnet", 80, (40, 50, 75)))
    for dataset, d, sizes in conditions:
        prepared = prepare(dataset, data)
        X, y = prepared.X["aligned"][:, :d], prepared.y
        for n in sizes:
            splits = [(seed, repeat) for seed in SEEDS for repeat in range(repeats)]
            errors = np.array(Parallel(n_jobs=-1)(delayed(split_error)(X, y, n, *split) for split in splits))
            rows.append(
                {
                    "dataset": dataset,
                    "n": n,
                    "repeats": repeats,
                    "seeds": list(SEEDS),
                    "mae_by_seed": errors.reshape(len(SEEDS), -1).mean(axis=1).round(4).tolist(),
                    "mae": round(float(errors.mean()), 4),
                    "standard_error": round(float(errors.std(ddof=1)) / len(errors) ** 0.5, 4),
                }
            )
    return rows


def noisy_grades(n: int, d: int) -> tuple[FloatArray, FloatArray]:
    """Draw samples with features of falling variance and five grades that depend non-linearly on two of them."""
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(n, d)) * np.linspace(3, 0.1, d)
    latent = X[:, 3] + 0.5 * X[:, 10] ** 2 + rng.normal(size=n)
    return X, np.digitize(latent, np.quantile(latent, [0.2, 0.4, 0.6, 0.8])).astype(np.float64)


def best_seconds(work: Callable[[], object]) -> float:
    """Return the shortest of three times."""
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def cost() -> dict[str, Any]:
    """Time a default fit of 1200 × 100, and one with its selected values given."""
    X, y = noisy_grades(1200, 100)
    chosen = OrdinalMetric().fit(X, y)
    given = OrdinalMetric(
        kernel="linear" if chosen.sharpness_ is None else "rbf",
        sharpness=chosen.sharpness_ or "auto",
        alpha=chosen.alpha_,
        locality=chosen.locality_,
    )
    auto, one = best_seconds(lambda: OrdinalMetric().fit(X, y)), best_seconds(lambda: given.fit(X, y))
    ranker = best_seconds(lambda: OrdinalRanker().fit(X, y))
    return {
        "samples": 1200,
        "features": 100,
        "default_fit_seconds": round(auto, 3),
        "ranker_fit_seconds": round(ranker, 3),
        "one_fit_seconds": round(one, 3),
        "default_over_one": round(auto / one, 1),
        "kernel": chosen.kernel_,
    }


def landmarks() -> list[dict[str, Any]]:
    """Compare Nyström with the exact kernel, 2000 training samples and 1000 queries."""
    X, y = noisy_grades(3000, 30)
    metric = OrdinalMetric(kernel="rbf", sharpness=1.0, alpha=1e-3, locality=0.2)
    exact_seconds = best_seconds(lambda: metric.fit(X[:2000], y[:2000]))
    exact = metric.transform(X[2000:])[:, :2]
    rows = []
    for m in LANDMARKS:
        OrdinalMetric._defaults = Defaults(exact_samples=0, n_landmarks=m)
        seconds = best_seconds(lambda: metric.fit(X[:2000], y[:2000]))
        ranker = OrdinalRanker(metric).fit(X[:2000], y[:2000])
        error = np.linalg.norm(metric.transform(X[2000:])[:, :2] - exact) / np.linalg.norm(exact)
        rows.append(
            {
                "landmarks": m,
                "relative_error_of_the_map": round(float(error), 4),
                "mae": round(metrics.mean_absolute_error(y[2000:], ranker.predict(X[2000:])), 4),
                "time_over_exact": round(seconds / exact_seconds, 2),
            }
        )
    OrdinalMetric._defaults = DEFAULTS
    ranker = OrdinalRanker(metric).fit(X[:2000], y[:2000])
    mae = round(metrics.mean_absolute_error(y[2000:], ranker.predict(X[2000:])), 4)
    return [*rows, {"landmarks": 2000, "relative_error_of_the_map": 0.0, "mae": mae, "time_over_exact": 1.0}]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None, help="folder of the data sets; ORDRANK_DATA by default")
    parser.add_argument("--parts", default="umist,variability,cost,landmarks", help="comma-separated parts to measure")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    parts: dict[str, Callable[[], Any]] = {
        "umist": lambda: umist(arguments.data, arguments.repeats),
        "variability": lambda: variability(arguments.data, arguments.repeats),
        "cost": cost,
        "landmarks": landmarks,
    }
    chosen = arguments.parts.split(",")
    if unknown := set(chosen) - set(parts):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    kept = json.loads(arguments.out.read_text()) if arguments.out and arguments.out.exists() else {}
    document = {**kept, "seed": SEED, **{name: parts[name]() for name in chosen}, **describe_machine()}
    print_document(document, arguments.out)


if __name__ == "__main__":
    main()
