"""Growth of time and memory: one gradient with n, d, s and K, whole fits with n and d.

Pairs of a gradient are random, the worst case for the cache; for n also those of target neighbours in three
dimensions. Every fit runs in a fresh process, whose peak memory is counted beyond imports and data. Exponents are
log-log slopes. Prints one JSON document and plots it.

    python experiments/benchmarks/scaling.py [--runner "taskset -c 0,1"] [--out FILE] [--plot FILE]
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from learner import WARM_UP, memory, reset_peak
from numpy.typing import NDArray
from ordrank_experiments.machine import describe_machine, print_document
from scipy.spatial import cKDTree

from ordrank import OrdinalMetric
from ordrank._protocols import FloatArray, IntArray
from ordrank.backend import backend_of
from ordrank.objectives import CMDSObjective
from ordrank.objectives.local import LocalDistanceTerm

SEED = 0
GRADIENT = {"n": 100_000, "d": 512, "s": 16, "K": 5}  # as on a GPU
GRADIENT_SIZES = {
    "n": (50_000, 100_000, 200_000, 400_000),
    "n, target neighbours": (50_000, 100_000, 200_000, 400_000),
    "d": (64, 128, 256, 512),
    "s": (8, 16, 32, 64),
    "K": (5, 10, 20, 40),
}
FITS: dict[str, dict[str, Any]] = {
    "linear": {"parameters": {"kernel": "linear"}, "sizes": (2000, 10_000, 50_000, 250_000, 1_000_000), "features": 64},
    "default": {"parameters": {}, "sizes": (2000, 4000, 8000, 16_000, 32_000), "features": 64},
}
WIDE_SAMPLES, WIDTHS = 100_000, (32, 64, 128, 256, 512)


def graded(n: int, d: int, seed: int, dtype: Any = np.float64) -> tuple[NDArray[Any], FloatArray]:
    """Draw samples with features of falling variance and five noisy grades that depend on a seventh of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d), dtype=dtype)
    X /= np.sqrt(1 + np.arange(d)).astype(dtype)
    latent = X[:, ::7].sum(axis=1, dtype=np.float64) + 0.5 * rng.standard_normal(n)
    return X, np.digitize(latent, np.quantile(latent, [0.2, 0.4, 0.6, 0.8])).astype(np.float64)


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the log-log slope."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def fastest(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the shortest of a few times."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def nearest_of_the_grade(n: int, K: int, rng: np.random.Generator) -> IntArray:
    """Return target neighbours (n, K) of samples in three dimensions with five grades."""
    X = rng.standard_normal((n, 3))
    grades = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.2, 0.4, 0.6, 0.8]))
    nearest = np.empty((n, K), dtype=np.int64)
    for grade in range(5):
        members = np.flatnonzero(grades == grade)
        found = np.asarray(cKDTree(X[members]).query(X[members], K + 1)[1])
        nearest[members] = members[found[:, 1:]]
    return nearest


def gradient(n: int, d: int, s: int, K: int, neighbors: bool = False) -> Callable[[], object]:
    """Prepare one value and gradient of the objective with K pairs per sample, random or of neighbours."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, d), dtype=np.float32)
    Y, L = (rng.standard_normal(shape, dtype=np.float32) for shape in ((n, s), (s * d,)))
    first = np.repeat(np.arange(n), K)
    second = nearest_of_the_grade(n, K, rng).reshape(-1) if neighbors else rng.integers(0, n, size=n * K)
    pairs = backend_of(X).pairs(first, second, n, X)
    objective = CMDSObjective(X, Y, LocalDistanceTerm(pairs, np.ones(n * K), 1.0), alpha=0.0, free_scale=False)
    return lambda: objective.value_and_gradient(L, objective.image(L))


def gradients() -> dict[str, Any]:
    """Time a gradient over a series of each size."""
    found = {}
    for name, sizes in GRADIENT_SIZES.items():
        size, _, of_neighbors = name.partition(", ")
        work = [gradient(**GRADIENT | {size: value}, neighbors=bool(of_neighbors)) for value in sizes]
        # In turns, so that a short disturbance affects all sizes.
        seconds = np.min([[fastest(run, 3) for run in work] for _ in range(5)], axis=0).tolist()
        found[name] = {"sizes": sizes, "seconds": seconds, "exponent": exponent(sizes, seconds)}
    return found


def fit_figures(n: int, d: int, parameters: dict[str, Any]) -> dict[str, float]:
    """Return time and peak memory of a fit in this process."""
    X, y = graded(n, d, SEED, np.float32)
    # A small warm-up fit: a large one would leave memory allocated.
    OrdinalMetric(**parameters).fit(X[:WARM_UP], y[:WARM_UP])
    reset_peak()
    before = memory("VmRSS")
    OrdinalMetric(**parameters).fit(X, y)
    peak = memory("VmHWM") - before
    return {"seconds": fastest(lambda: OrdinalMetric(**parameters).fit(X, y), 5), "peak_megabytes": peak}


def fits(runner: str) -> dict[str, Any]:
    """Time whole fits over a series of sizes, each in its own process."""
    found = {}
    for name, case in FITS.items():
        sizes = case["sizes"]
        rows = [_in_process(runner, n, case["features"], case["parameters"]) for n in sizes]
        found[f"{name}, n"] = _series(sizes, rows) | {"features": case["features"]}
    rows = [_in_process(runner, WIDE_SAMPLES, d, FITS["linear"]["parameters"]) for d in WIDTHS]
    found["linear, d"] = _series(WIDTHS, rows) | {"samples": WIDE_SAMPLES}
    return found


def _series(sizes: Sequence[int], rows: list[dict[str, float]]) -> dict[str, Any]:
    seconds, megabytes = ([row[key] for row in rows] for key in ("seconds", "peak_megabytes"))
    return {"sizes": sizes, "seconds": seconds, "peak_megabytes": megabytes, "exponent": exponent(sizes, seconds)}


def _in_process(runner: str, *case: Any) -> Any:
    command = [*shlex.split(runner), sys.executable, __file__, "--case", json.dumps(case)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def draw(document: dict[str, Any], plot: Path) -> None:
    """Plot time and memory over the number of samples, and a gradient over all sizes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (times, space, slopes) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for name, marker in (("linear", "o"), ("default", "s")):
        row = document["fits"][f"{name}, n"]
        label = f"{name}: seconds ∝ n^{row['exponent']:.2f}"
        times.loglog(row["sizes"], row["seconds"], marker=marker, label=label)
        space.loglog(row["sizes"], row["peak_megabytes"], marker=marker, label=name)
    sizes = document["fits"]["linear, n"]["sizes"]
    space.loglog(sizes, [n * 64 * 4 / 2**20 for n in sizes], ":", color="grey", label="the samples themselves")
    for name, row in document["gradients"].items():
        relative = np.array(row["sizes"]) / row["sizes"][0]
        slopes.loglog(
            relative, np.array(row["seconds"]) / row["seconds"][0], marker="o", label=f"{name}^{row['exponent']:.2f}"
        )
    slopes.loglog([1, 8], [1, 8], ":", color="grey", label="proportional")
    times.set(title="one fit, 64 features", xlabel="samples", ylabel="seconds")
    space.set(title="its peak memory, beyond the samples", xlabel="samples", ylabel="MB")
    slopes.set(title="one gradient", xlabel="size, smallest = 1", ylabel="time, smallest = 1")
    for axes in (times, space, slopes):
        axes.legend(frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(plot, dpi=110)


def main(arguments: list[str]) -> None:
    """Measure, print and plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runner", default="", help="command prefix of every measured process")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args(arguments)
    if options.case:
        case = json.loads(options.case)
        print(json.dumps(gradients() if case == ["gradients"] else fit_figures(*case)))
        return
    document = {
        "benchmark": "scaling",
        "seed": SEED,
        "gradient_sizes": GRADIENT,
        "gradients": _in_process(options.runner, "gradients"),
        "fits": fits(options.runner),
    } | describe_machine()
    print_document(document, options.out)
    if options.plot:
        draw(document, options.plot)


if __name__ == "__main__":
    main(sys.argv[1:])
