"""Time of a fit of the default model with samples on a GPU, and its error.

The samples are those of ``gpu.py``. In one run:

* ``fits``: ``OrdinalMetric`` with default parameters and linear, without and with a local term: the whole fit, its
  model selection on the CPU, its exact target neighbours, everything but these, and the k-NN MAE of held-out grades in
  the learned and in the Euclidean distance;
* ``ranker``: fit and predictions of ``OrdinalRanker`` with default parameters;
* ``same_as_cpu``: relative differences of fits of fewer samples with NumPy and on the device, in single and in double
  precision, of the components and of the held-out samples' embedding.

Prints one JSON document; --out and --markdown write it to files.

    python experiments/benchmarks/gpu_default.py [--samples 1000000] [--out FILE.json] [--markdown FILE.md]
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
from gpu_problem import mean_absolute_error, print_results, problem, seconds, wait

from ordrank import OrdinalMetric, OrdinalRanker
from ordrank.backend import backend_of
from ordrank.estimators._ordinal import fit, training_data

MODELS: dict[str, dict[str, Any]] = {
    "default": {},
    "default, local term": {"mu": 0.1},
    "linear": {"kernel": "linear"},
    "linear, local term": {"kernel": "linear", "mu": 0.1},
}
# Parts of a fit that are timed_parts by themselves.
PARTS: dict[str, tuple[Any, str]] = {
    "choice": (fit, "select_hyperparameters"),
    "neighbours": (training_data, "target_neighbors"),
}


@contextmanager
def timed_parts(spent: dict[str, float]) -> Iterator[None]:
    """Add the time of parts of fits to ``spent``."""
    originals = {name: getattr(module, function) for name, (module, function) in PARTS.items()}

    def timed(name: str) -> Callable[..., Any]:
        def part(*arguments: Any, **named: Any) -> Any:
            wait()
            begin = time.perf_counter()
            found = originals[name](*arguments, **named)
            wait()
            spent[name] += time.perf_counter() - begin
            return found

        return part

    for name, (module, function) in PARTS.items():
        setattr(module, function, timed(name))
    try:
        yield
    finally:
        for name, (module, function) in PARTS.items():
            setattr(module, function, originals[name])


def timed_fit(options: argparse.Namespace, parameters: dict[str, Any], X: Any, grade: Any) -> dict[str, Any]:
    """Return the median time of some fits and its parts; the first fit includes compilation."""
    runs = []
    for _ in range(1 + options.repeats):
        metric, spent = OrdinalMetric(**parameters), dict.fromkeys(PARTS, 0.0)
        with timed_parts(spent):
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
    """Time every model with all samples."""
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
    """Time fit and prediction of the default ranker."""
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
    """Compare fits on the device with NumPy."""
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
                    "components": difference(there.components_[:s], here.components_[:s]) if linear else None,
                    "positions": difference(*positions),
                    "numpy_seconds": took,
                }
            )
    return rows


def difference(one: Any, reference: Any) -> float:
    """Return ‖A - B‖ / ‖B‖."""
    return float(np.linalg.norm(backend_of(one).to_numpy(one) - reference) / np.linalg.norm(reference))


def table(document: dict[str, Any]) -> str:
    """Return the document as Markdown."""
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
    print_results("gpu_default", options, found, table)


if __name__ == "__main__":
    main(sys.argv[1:])
