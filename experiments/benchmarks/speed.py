"""Time, memory and error of fits and queries, compared with other metric learners with their default parameters.

Data: digits of scikit-learn, raw and scaled, 70 % for training, and 10,000 drawn samples with 64 features; one process
per learner. Time of the fit and of predicting queries (transform and k-NN), peak memory of the fit beyond imports and
data, MAE with the same k-NN rule for all. ``million``: a linear fit of a million samples relative to one product
``X.T @ X``. ``neighbors``: exact target neighbours. ``recall``: approximate ones. LMNN and MLKR need ``make
baselines``. Prints one JSON document.

    python experiments/benchmarks/speed.py [--parts digits,raw-digits,ten-thousand,million,neighbors,recall]
                                           [--limit 900] [--runner "taskset -c 0,1"] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from learner import MEGABYTE, WARM_UP, memory, reset_peak
from numpy.typing import NDArray
from ordrank_experiments.baseline_environment import DEFAULT_INTERPRETER, INTERPRETER, environment_versions
from ordrank_experiments.machine import describe_machine
from scaling import exponent, graded
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from ordrank import OrdinalMetric, OrdinalRanker
from ordrank.metrics import mean_absolute_error
from ordrank.neighbors import target_neighbors

SEED = 0
STOPPED = 124  # exit status of timeout
OURS = "OrdinalMetric, linear"
LEARNERS = (
    OURS,
    "OrdinalMetric",
    "Euclidean",
    "cMDS-DML, paper's solver",
    "LDMLR",
    "NCA (scikit-learn), 5 iterations",
    "NCA (scikit-learn)",
)
METRIC_LEARN = ("LMNN (metric-learn)", "MLKR (metric-learn)")
NEIGHBOR_SIZES = (12_500, 25_000, 50_000, 100_000)
MILLION, FEATURES, QUERIES = 1_000_000, 128, 500
SAMPLES = 200_000


def raw_digits() -> dict[str, Any]:
    """Load scikit-learn's digits, pixels of 0 to 16, with their values as grades."""
    X, y = load_digits(return_X_y=True)
    train, test, grade, truth = train_test_split(X, y.astype(np.float64), train_size=0.7, random_state=SEED, stratify=y)
    return {"X": train, "y": grade, "queries": test, "truth": truth}


def digits() -> dict[str, Any]:
    """Load the digits, centred and of unit mean square norm."""
    data = raw_digits()
    mean = data["X"].mean(axis=0)
    size = np.sqrt(np.mean(np.sum((data["X"] - mean) ** 2, axis=1)))
    return data | {name: (data[name] - mean) / size for name in ("X", "queries")}


def ten_thousand() -> dict[str, Any]:
    """Draw 10,000 samples and 2000 queries."""
    X, y = graded(12_000, 64, SEED)
    return {"X": X[:10_000], "y": y[:10_000], "queries": X[10_000:], "truth": y[10_000:]}


DATASETS = {
    "digits": (digits, LEARNERS + METRIC_LEARN),
    "raw-digits": (raw_digits, LEARNERS + METRIC_LEARN),
    "ten-thousand": (ten_thousand, LEARNERS),
}


def compare(data: dict[str, Any], names: tuple[str, ...], options: argparse.Namespace) -> dict[str, Any]:
    """Measure every learner in its own process."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="ordrank-speed-") as folder:
        file = Path(folder) / "data.npz"
        np.savez(file, **{name: data[name] for name in ("X", "y", "queries")})
        for name in names:
            rows.append({"name": name} | measure(name, data, file, Path(folder) / "result.npz", options))
            print(json.dumps(rows[-1]), file=sys.stderr)
    ours = rows[0]
    for row in rows:
        for key in ("fit_seconds", "peak_megabytes"):
            if key in row:
                row[f"{key}_over_ours"] = row[key] / ours[key]
    return {"samples": len(data["X"]), "features": data["X"].shape[1], "queries": len(data["truth"]), "rows": rows}


def measure(name: str, data: dict[str, Any], file: Path, result: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the measurements of one learner, or why there are none."""
    interpreter = sys.executable
    if name in METRIC_LEARN:
        interpreter = os.environ.get(INTERPRETER, str(DEFAULT_INTERPRETER))
        if not Path(interpreter).exists():
            return {"not_run": "metric-learn needs its own environment: make baselines"}
    script = Path(__file__).with_name("learner.py")
    # The limit does not include the waiting time of a runner.
    limited = ["timeout", f"{options.limit:g}", interpreter]
    command = [*shlex.split(options.runner), *limited, str(script), name, str(file), str(result)]
    environment = dict(os.environ)
    if name in METRIC_LEARN:
        environment.pop("PYTHONPATH", None)
    try:
        subprocess.run(command, check=True, env=environment, stdout=sys.stderr)
    except subprocess.CalledProcessError as error:
        stopped = error.returncode == STOPPED
        return {"not_run": f"stopped after {options.limit:g} s" if stopped else f"ended with status {error.returncode}"}
    with np.load(result) as found:
        figures: dict[str, Any] = json.loads(str(found["figures"]))
        ranker = OrdinalRanker("passthrough").fit(found["samples"], data["y"])
        queries = found["queries"]
    result.unlink()
    begin = time.perf_counter()
    grades = ranker.predict(queries)
    query_seconds = time.perf_counter() - begin + figures.pop("transform_seconds")
    return figures | {
        "query_milliseconds": 1000 * query_seconds / len(queries),
        "mae": mean_absolute_error(data["truth"], grades),
        "votes": ranker.n_neighbors_,
    }


def million() -> dict[str, Any]:
    """Time a linear fit of a million samples and one product, in turns, and return medians."""
    X, y = graded(MILLION + QUERIES, FEATURES, SEED, np.float32)
    X, y, queries, truth = X[:MILLION], y[:MILLION], X[MILLION:].copy(), y[MILLION:]
    metric = OrdinalMetric(kernel="linear").fit(X[:WARM_UP], y[:WARM_UP])
    reset_peak()
    before = memory("VmRSS")
    metric.fit(X, y)
    beyond = memory("VmHWM") - before
    products, fits = [], []
    for _ in range(7):
        begin = time.perf_counter()
        X.T @ X
        middle = time.perf_counter()
        metric.fit(X, y)
        products.append(middle - begin)
        fits.append(time.perf_counter() - middle)
    product, fit = float(np.median(products)), float(np.median(fits))
    return {
        "samples": MILLION,
        "features": FEATURES,
        "type": "float32",
        "product_seconds": product,
        "fit_seconds": fit,
        "fit_over_product": fit / product,
        "samples_megabytes": X.nbytes / MEGABYTE,
        "peak_megabytes_beyond_samples": beyond,
        "alpha": metric.alpha_,
        "locality": metric.locality_,
        "queries": QUERIES,
        "mae": _knn_error(metric.transform(X), metric.transform(queries), y, truth),
        "mae_euclidean": _knn_error(X, queries, y, truth),
    }


def _knn_error(samples: NDArray[Any], queries: NDArray[Any], y: Any, truth: Any) -> float:
    ranker = OrdinalRanker("passthrough", n_neighbors=101, weights="distance").fit(samples, y)
    return mean_absolute_error(truth, ranker.predict(queries))


def neighbors() -> dict[str, Any]:
    """Time a linear fit with the local term, its exact neighbours apart, and extrapolate to a million samples."""
    rows = []
    for n in NEIGHBOR_SIZES:
        X, y = graded(n, FEATURES, SEED, np.float32)
        begin = time.perf_counter()
        target_neighbors(X, y.astype(np.int64), 5)
        middle = time.perf_counter()
        metric = OrdinalMetric(kernel="linear", mu=0.1).fit(X, y)
        fit = time.perf_counter() - middle
        rows.append(
            {
                "samples": n,
                "neighbor_seconds": middle - begin,
                "fit_seconds": fit,
                "iterations": metric.n_iter_,
                "rest_seconds": fit - (middle - begin),
            }
        )
        print(json.dumps(rows[-1]), file=sys.stderr)
    growth = exponent(NEIGHBOR_SIZES, [row["neighbor_seconds"] for row in rows])
    factor = MILLION / NEIGHBOR_SIZES[-1]
    return {
        "features": FEATURES,
        "labels": 5,
        "mu": 0.1,
        "rows": rows,
        "neighbor_exponent": growth,
        "extrapolated_hours_of_a_million": (
            rows[-1]["neighbor_seconds"] * factor**2 + rows[-1]["rest_seconds"] * factor
        )
        / 3600,
    }


def recall() -> dict[str, Any]:
    """Compare approximate target neighbours (recall 0.9) with exact ones, on low-dimensional data of two grades."""
    rows = []
    for dimensions in (4, 8):
        rng = np.random.default_rng(SEED)
        Z, W, noise = (
            rng.standard_normal(shape, np.float32) for shape in ((SAMPLES, dimensions), (dimensions, 64), (SAMPLES, 64))
        )
        X = np.tanh(Z @ W / np.float32(dimensions**0.5)) + np.float32(0.05) * noise
        grade = (Z[:, 0] > 0).astype(np.int64)
        begin = time.perf_counter()
        approximate = target_neighbors(X, grade, 5, recall=0.9)
        middle = time.perf_counter()
        all_neighbors = target_neighbors(X, grade, 5)
        exact, found = (pairs.second.reshape(SAMPLES, 5) for pairs in (all_neighbors, approximate))
        rows.append(
            {
                "samples": SAMPLES,
                "dimensions": dimensions,
                "most_seconds": middle - begin,
                "exact_seconds": time.perf_counter() - middle,
                "recall_reported": approximate.recall,
                "recall_measured": float(np.mean([np.isin(*pair).mean() for pair in zip(exact, found, strict=True)])),
            }
        )
        print(json.dumps(rows[-1]), file=sys.stderr)
    return {"features": 64, "labels": 2, "required": 0.9, "rows": rows}


def in_process(part: str, options: argparse.Namespace) -> Any:
    """Measure a part in its own process."""
    command = [*shlex.split(options.runner), sys.executable, __file__, "--part", part]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


OTHERS = {"million": million, "neighbors": neighbors, "recall": recall}


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join([*DATASETS, *OTHERS]), help="comma-separated parts to measure")
    parser.add_argument("--limit", type=float, default=900, help="seconds after which a learner is stopped")
    parser.add_argument("--runner", default="", help="command prefix of every measured process")
    parser.add_argument("--part", choices=list(OTHERS), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="file to write; parts that are not measured are kept")
    options = parser.parse_args(arguments)
    if options.part:
        print(json.dumps(OTHERS[options.part]()))
        return
    document: dict[str, Any] = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    document |= {"benchmark": "speed", "seed": SEED} | describe_machine()
    document["versions"] |= environment_versions()
    for part in options.parts.split(","):
        if part in DATASETS:
            draw, names = DATASETS[part]
            document[part] = compare(draw(), names, options)
        else:
            document[part] = in_process(part, options)
        text = json.dumps(document, indent=1) + "\n"
        if options.out:
            options.out.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main(sys.argv[1:])
