"""What a fit of the default model costs with samples on a GPU, and what it is worth.

The samples are those of ``gpu.py``, on the device before the clock starts. In one run:

* ``fits``: ``OrdinalMetric`` as it comes and linear, without and with a local term: the whole fit, the choice of a
  recipe in it, which is the CPU's, the exact target neighbours, everything without those; beside every time the mean
  absolute error of held-out grades by their nearest neighbours, in the learned distance and in the plain one;
* ``ranker``: ``OrdinalRanker`` as it comes: its fit, which also maps all samples and chooses how they vote, and the
  grades of the held-out samples;
* ``same_as_cpu``: the same fits of fewer samples with NumPy and on the device, in single and in double precision: how
  far apart the maps are, relative, as components and as positions of the held-out samples.

Prints one JSON document; --out keeps it, --markdown shows it.

    python benchmarks/gpu_default.py [--samples 1000000] [--out FILE.json] [--markdown FILE.md]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu import mean_absolute_error, problem, seconds, tell, wait

from ordrank import OrdinalMetric, OrdinalRanker
from ordrank.backend import backend_of
from ordrank.estimators import order_fit

MODELS: dict[str, dict[str, Any]] = {
    "default": {},
    "default, local term": {"mu": 0.1},
    "linear": {"kernel": "linear"},
    "linear, local term": {"kernel": "linear", "mu": 0.1},
}
# Parts of a fit that are clocked by themselves.
PARTS = {"choice": "choose_recipes", "neighbours": "target_neighbors"}


@contextmanager
def clocked(spent: dict[str, float]) -> Iterator[None]:
    """Add the seconds that parts of fits take to ``spent``."""
    originals = {name: getattr(order_fit, function) for name, function in PARTS.items()}

    def watched(name: str) -> Callable[..., Any]:
        def part(*arguments: Any, **named: Any) -> Any:
            wait()
            begin = time.perf_counter()
            found = originals[name](*arguments, **named)
            wait()
            spent[name] += time.perf_counter() - begin
            return found

        return part

    for name, function in PARTS.items():
        setattr(order_fit, function, watched(name))
    try:
        yield
    finally:
        for name, function in PARTS.items():
            setattr(order_fit, function, originals[name])


def timed_fit(options: argparse.Namespace, parameters: dict[str, Any], X: Any, grade: Any) -> dict[str, Any]:
    """The median of some fits, and of the same fit its parts; the first of all also pays for what is made once."""
    runs = []
    for _ in range(1 + options.repeats):
        metric, spent = OrdinalMetric(**parameters), dict.fromkeys(PARTS, 0.0)
        with clocked(spent):
            whole = seconds(lambda metric=metric: metric.fit(X, grade), 1, warm=0)  # type: ignore[misc]
        runs.append((whole, spent))
    whole, spent = sorted(runs[1:], key=lambda run: run[0])[options.repeats // 2]
    return {
        "fitted": metric,
        "first_fit_seconds": runs[0][0],
        "fit_seconds": whole,
        "choice_seconds": spent["choice"],
        "neighbours_seconds": spent["neighbours"],
        "rest_seconds": whole - spent["neighbours"],
        "kernel": metric.kernel_,
        "locality": metric.locality_,
        "iterations": metric.n_iter_,
    }


def fits(options: argparse.Namespace, data: dict[str, Any]) -> list[dict[str, Any]]:
    """Every model with all samples."""
    X, grade, queries, truth = (data[name] for name in ("X", "grade", "queries", "truth"))
    plain = mean_absolute_error(X, grade, queries, truth)
    rows = []
    for name, parameters in MODELS.items():
        row = timed_fit(options, parameters, X, grade)
        fitted = row.pop("fitted")
        learned = mean_absolute_error(fitted.transform(X), grade, fitted.transform(queries), truth)
        rows.append({"model": name, "samples": len(X), **row, "mae_learned": learned, "mae_euclidean": plain})
    return rows


def ranker(data: dict[str, Any]) -> dict[str, Any]:
    """Grades by the ranker as it comes."""
    fitted = OrdinalRanker()
    fit_seconds = seconds(lambda: fitted.fit(data["X"], data["grade"]), 1)
    predict_seconds = seconds(lambda: fitted.predict(data["queries"]), 1)
    error = float((fitted.predict(data["queries"]) - data["truth"]).abs().mean())
    return {
        "fit_seconds": fit_seconds,
        "queries": len(data["queries"]),
        "predict_seconds": predict_seconds,
        "votes": fitted.n_neighbors_,
        "mae": error,
    }


def same_as_cpu(options: argparse.Namespace, data: dict[str, Any]) -> list[dict[str, Any]]:
    """Maps of the device against NumPy's."""
    n = min(options.check_samples, options.samples)
    rows = []
    for name, parameters in MODELS.items():
        for precision in (torch.float32, torch.float64):
            X, queries = (data[part].to(precision) for part in ("X", "queries"))
            there = OrdinalMetric(**parameters).fit(X[:n], data["grade"][:n])
            begin = time.perf_counter()
            here = OrdinalMetric(**parameters).fit(X[:n].cpu().numpy(), data["grade"][:n].cpu().numpy())
            took = time.perf_counter() - begin
            s, linear = here.n_components_, here.kernel_ == "linear"
            positions = (metric.transform(q)[:, :s] for metric, q in ((there, queries), (here, queries.cpu().numpy())))
            rows.append(
                {
                    "model": name,
                    "samples": n,
                    "precision": str(precision).removeprefix("torch."),
                    "kernels": [there.kernel_, here.kernel_],
                    "iterations": [there.n_iter_, here.n_iter_],
                    "components": difference(there.order_components_, here.order_components_) if linear else None,
                    "positions": difference(*positions),
                    "numpy_seconds": took,
                }
            )
    return rows


def difference(one: Any, reference: Any) -> float:
    """‖A - B‖ / ‖B‖."""
    return float(np.linalg.norm(backend_of(one).to_numpy(one) - reference) / np.linalg.norm(reference))


def table(document: dict[str, Any]) -> str:
    """The document as Markdown."""
    lines = [
        "| model | map | whole fit | choice on the CPU | neighbours | without neighbours | MAE learned | MAE plain |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in document["fits"]:
        times = " | ".join(f"{row[f'{name}_seconds']:.3f} s" for name in ("fit", "choice", "neighbours", "rest"))
        errors = f"{row['mae_learned']:.3f} | {row['mae_euclidean']:.3f}"
        lines.append(f"| {row['model']} | {row['kernel']} | {times} | {errors} |")
    lines += ["", "| difference from NumPy, relative | components | positions |", "|---|---|---|"]
    for row in document["same_as_cpu"]:
        components = "" if row["components"] is None else f"{row['components']:.0e}"
        lines.append(f"| {row['model']}, {row['precision']} | {components} | {row['positions']:.0e} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("samples", 1_000_000), ("features", 512), ("labels", 10), ("held-out", 10_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, default in (("repeats", 2), ("seed", 0), ("check-samples", 20_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    for name in ("out", "markdown"):
        parser.add_argument(f"--{name}", type=Path)
    options = parser.parse_args(arguments)

    data = problem(options)
    found = {"fits": fits(options, data), "ranker": ranker(data), "same_as_cpu": same_as_cpu(options, data)}
    tell("gpu_default", options, found, table)


if __name__ == "__main__":
    main(sys.argv[1:])
