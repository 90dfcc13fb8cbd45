"""Fits and queries beside those of other metric learners: same data, same run, a fresh process for each.

Data: scikit-learn's digits, 70 % of them to learn from, as they are and scaled, and 10,000 drawn samples with 64
features. Each learner has its own defaults. Seconds of the fit, of grading queries (transform, and the votes of
neighbours), peak memory of the fit beyond imports and data, and the mean absolute error, with one rule of votes for
all. Then the time of a linear fit of a million samples as a multiple of one product ``X.T @ X`` in the same process,
what exact target neighbours cost, and what most of them do. LMNN and MLKR need the environment of ``make peers``.
Prints one JSON document.

    python benchmarks/speed.py [--parts digits,raw-digits,ten-thousand,million,neighbors,recall] [--limit 900]
                               [--runner "taskset -c 0,1"] [--out FILE]
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
from contender import MEGABYTE, WARM_UP, forget_peak, memory
from numpy.typing import NDArray
from scaling import exponent, graded
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from ordrank import OrdinalMetric, OrdinalRanker
from ordrank.experiments.machine import describe_machine
from ordrank.experiments.peer_environment import DEFAULT_INTERPRETER, INTERPRETER, versions_elsewhere
from ordrank.metrics import mean_absolute_error
from ordrank.neighbors import target_neighbors

SEED = 0
STOPPED = 124  # what timeout answers
OURS = "OrdinalMetric, linear"
HERE = (
    OURS,
    "OrdinalMetric",
    "Euclidean",
    "cMDS-DML, paper's solver",
    "LDMLR",
    "NCA (scikit-learn), 5 iterations",
    "NCA (scikit-learn)",
)
ELSEWHERE = ("LMNN (metric-learn)", "MLKR (metric-learn)")
NEIGHBOR_SIZES = (12_500, 25_000, 50_000, 100_000)
MILLION, FEATURES, QUERIES = 1_000_000, 128, 500
CROWD = 200_000


def raw_digits() -> dict[str, Any]:
    """Scikit-learn's digits, pixels of 0 to 16, graded by what they mean."""
    X, y = load_digits(return_X_y=True)
    train, test, grade, truth = train_test_split(X, y.astype(np.float64), train_size=0.7, random_state=SEED, stratify=y)
    return {"X": train, "y": grade, "queries": test, "truth": truth}


def digits() -> dict[str, Any]:
    """The same of unit mean square."""
    data = raw_digits()
    mean = data["X"].mean(axis=0)
    size = np.sqrt(np.mean(np.sum((data["X"] - mean) ** 2, axis=1)))
    return data | {name: (data[name] - mean) / size for name in ("X", "queries")}


def ten_thousand() -> dict[str, Any]:
    """10,000 drawn samples, and 2000 queries."""
    X, y = graded(12_000, 64, SEED)
    return {"X": X[:10_000], "y": y[:10_000], "queries": X[10_000:], "truth": y[10_000:]}


CONTESTS = {
    "digits": (digits, HERE + ELSEWHERE),
    "raw-digits": (raw_digits, HERE + ELSEWHERE),
    "ten-thousand": (ten_thousand, HERE),
}


def contest(data: dict[str, Any], names: tuple[str, ...], options: argparse.Namespace) -> dict[str, Any]:
    """Every learner in a process of its own, and how well its neighbours grade."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="ordrank-speed-") as folder:
        given = Path(folder) / "data.npz"
        np.savez(given, **{name: data[name] for name in ("X", "y", "queries")})
        for name in names:
            rows.append({"name": name} | one(name, data, given, Path(folder) / "answer.npz", options))
            print(json.dumps(rows[-1]), file=sys.stderr)
    ours = rows[0]
    for row in rows:
        for key in ("fit_seconds", "peak_megabytes"):
            if key in row:
                row[f"{key}_over_ours"] = row[key] / ours[key]
    return {"samples": len(data["X"]), "features": data["X"].shape[1], "queries": len(data["truth"]), "rows": rows}


def one(name: str, data: dict[str, Any], given: Path, answer: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Figures of one learner, or why there are none."""
    interpreter = sys.executable
    if name in ELSEWHERE:
        interpreter = os.environ.get(INTERPRETER, str(DEFAULT_INTERPRETER))
        if not Path(interpreter).exists():
            return {"not_run": "metric-learn needs an environment of its own: make peers"}
    script = Path(__file__).with_name("contender.py")
    # The limit is that of the work, not of a runner that waits for its turn.
    limited = ["timeout", f"{options.limit:g}", interpreter]
    command = [*shlex.split(options.runner), *limited, str(script), name, str(given), str(answer)]
    environment = dict(os.environ)
    if name in ELSEWHERE:
        environment.pop("PYTHONPATH", None)
    try:
        subprocess.run(command, check=True, env=environment, stdout=sys.stderr)
    except subprocess.CalledProcessError as error:
        stopped = error.returncode == STOPPED
        return {"not_run": f"stopped after {options.limit:g} s" if stopped else f"ended with status {error.returncode}"}
    with np.load(answer) as found:
        figures: dict[str, Any] = json.loads(str(found["figures"]))
        ranker = OrdinalRanker("passthrough").fit(found["samples"], data["y"])
        queries = found["queries"]
    answer.unlink()
    begin = time.perf_counter()
    grades = ranker.predict(queries)
    asking = time.perf_counter() - begin + figures.pop("transform_seconds")
    return figures | {
        "query_milliseconds": 1000 * asking / len(queries),
        "mae": mean_absolute_error(data["truth"], grades),
        "votes": ranker.n_neighbors_,
    }


def million() -> dict[str, Any]:
    """A linear fit of a million samples beside one product, medians of several, in turns."""
    X, y = graded(MILLION + QUERIES, FEATURES, SEED, np.float32)
    X, y, queries, truth = X[:MILLION], y[:MILLION], X[MILLION:].copy(), y[MILLION:]
    metric = OrdinalMetric(kernel="linear").fit(X[:WARM_UP], y[:WARM_UP])
    forget_peak()
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
        "mae": _graded_by(metric.transform(X), metric.transform(queries), y, truth),
        "mae_euclidean": _graded_by(X, queries, y, truth),
    }


def _graded_by(samples: NDArray[Any], queries: NDArray[Any], y: Any, truth: Any) -> float:
    ranker = OrdinalRanker("passthrough", n_neighbors=101, weights="distance").fit(samples, y)
    return mean_absolute_error(truth, ranker.predict(queries))


def neighbors() -> dict[str, Any]:
    """A linear fit with the local term: exact neighbours apart from the rest, and what a million would take."""
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
    """Nine of ten target neighbours, beside all: two grades, samples that fill few of their dimensions."""
    rows = []
    for dimensions in (4, 8):
        rng = np.random.default_rng(SEED)
        Z, W, noise = (
            rng.standard_normal(shape, np.float32) for shape in ((CROWD, dimensions), (dimensions, 64), (CROWD, 64))
        )
        X = np.tanh(Z @ W / np.float32(dimensions**0.5)) + np.float32(0.05) * noise
        grade = (Z[:, 0] > 0).astype(np.int64)
        begin = time.perf_counter()
        most = target_neighbors(X, grade, 5, recall=0.9)
        middle = time.perf_counter()
        everyone = target_neighbors(X, grade, 5)
        exact, found = (pairs.second.reshape(CROWD, 5) for pairs in (everyone, most))
        rows.append(
            {
                "samples": CROWD,
                "dimensions": dimensions,
                "most_seconds": middle - begin,
                "exact_seconds": time.perf_counter() - middle,
                "recall_told": most.recall,
                "recall_found": float(np.mean([np.isin(*pair).mean() for pair in zip(exact, found, strict=True)])),
            }
        )
        print(json.dumps(rows[-1]), file=sys.stderr)
    return {"features": 64, "labels": 2, "wanted": 0.9, "rows": rows}


def elsewhere(part: str, options: argparse.Namespace) -> Any:
    """A part in a process of its own, with the runner in front."""
    command = [*shlex.split(options.runner), sys.executable, __file__, "--part", part]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


OTHERS = {"million": million, "neighbors": neighbors, "recall": recall}


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join([*CONTESTS, *OTHERS]), help="what to measure")
    parser.add_argument("--limit", type=float, default=900, help="seconds after which a learner is stopped")
    parser.add_argument("--runner", default="", help="a command in front of every measured process")
    parser.add_argument("--part", choices=list(OTHERS), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="file to write; parts that are not measured are kept in it")
    options = parser.parse_args(arguments)
    if options.part:
        print(json.dumps(OTHERS[options.part]()))
        return
    document: dict[str, Any] = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    document |= {"benchmark": "speed", "seed": SEED} | describe_machine()
    document["versions"] |= versions_elsewhere()
    for part in options.parts.split(","):
        if part in CONTESTS:
            draw, names = CONTESTS[part]
            document[part] = contest(draw(), names, options)
        else:
            document[part] = elsewhere(part, options)
        text = json.dumps(document, indent=1) + "\n"
        if options.out:
            options.out.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main(sys.argv[1:])
