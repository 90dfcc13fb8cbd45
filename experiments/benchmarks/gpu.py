"""Time of a fit on a GPU, relative to the limits of the device, and its error.

All samples are on the device before timing starts (see gpu_problem.py). In one run:

* ``ceilings``: bandwidth of a copy, and matrix products in half, TF32, single and double precision;
* ``fits``: ``CMDSMetric(solver="fast")`` for growing numbers of samples: the whole fit, its exact neighbours,
  everything else, and the k-NN MAE of held-out grades in the learned and in the Euclidean distance;
* ``neighbours``: the rate of their product, and the time of brute force (product, then selection);
* ``gradient``: the time of one, and its bandwidth, counting every input and output once;
* ``same_as_cpu``: components of a fit with NumPy on fewer samples; at full size both solve with the neighbours of the
  device, a subset of which is compared with brute force in double precision.

Prints one JSON document; --out, --markdown and --plot write it to files.

    python experiments/benchmarks/gpu.py [--samples 1000000] [--out FILE.json] [--markdown FILE.md] [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_problem import mean_absolute_error, print_results, problem, seconds, wait
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ordrank import CMDSMetric
from ordrank.backend import backend_of
from ordrank.estimators import cmds_metric
from ordrank.geometry import classical_mds, label_distances
from ordrank.neighbors import TargetNeighbors, k_nearest, target_neighbors
from ordrank.objectives import CMDSObjective
from ordrank.objectives.local import LocalDistanceTerm


def metric(options: argparse.Namespace) -> CMDSMetric:
    """Return the estimator with the options."""
    return CMDSMetric(
        options.components,
        n_neighbors=options.neighbors,
        solver="fast",
        scale="fixed",
        init="lstsq",
        mu=options.mu,
        alpha=options.alpha,
        tol=options.tol,
    )


def ceilings(device: str) -> dict[str, float]:
    """Return bytes per second of a copy, and FLOP/s of products of 8192 × 8192 random matrices."""
    source = torch.randn(2**29 if device == "cuda" else 2**24, device=device)
    target = torch.empty_like(source)
    copy = 2 * source.nbytes / seconds(lambda: target.copy_(source), 10)
    size = 8192 if device == "cuda" else 1024
    single = torch.randn(size, size, device=device)
    found = {"copy_bytes_per_second": copy}
    for name, matrix, tf32 in (
        ("half", single.half(), False),
        ("tf32", single, True),
        ("single", single, False),
        ("double", single.double(), False),
    ):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        time_of_one = seconds(lambda matrix=matrix: matrix @ matrix, 5)  # type: ignore[misc]
        found[f"{name}_flop_per_second"] = 2 * size**3 / time_of_one
    torch.backends.cuda.matmul.allow_tf32 = False
    return found


@contextmanager
def replaced_target_neighbors(replacement: Callable[..., TargetNeighbors]) -> Iterator[None]:
    """Replace the neighbour search of fits."""
    cmds_metric.target_neighbors = replacement  # type: ignore[attr-defined]
    try:
        yield
    finally:
        cmds_metric.target_neighbors = target_neighbors  # type: ignore[attr-defined]


def timed_fit(options: argparse.Namespace, X: Any, grade: Any) -> dict[str, Any]:
    """Time whole fits, their neighbour search, and the rest; the first fit includes compilation."""
    spent: list[float] = []

    def timed(*arguments: Any, **named: Any) -> TargetNeighbors:
        wait()
        begin = time.perf_counter()
        found = target_neighbors(*arguments, **named)
        wait()
        spent.append(time.perf_counter() - begin)
        return found

    runs = []
    with replaced_target_neighbors(timed):
        for _ in range(1 + options.repeats):
            fitted = metric(options)
            whole = seconds(lambda fitted=fitted: fitted.fit(X, grade), 1, warm=0)  # type: ignore[misc]
            runs.append((whole, spent[-1]))
    whole, neighbours = sorted(runs[1:])[len(runs[1:]) // 2]
    return {
        "fitted": fitted,
        "first_fit_seconds": runs[0][0],
        "fit_seconds": whole,
        "slowest_fit_seconds": max(runs[1:])[0],
        "neighbours_seconds": neighbours,
        "rest_seconds": whole - neighbours,
        "iterations": fitted.n_iter_,
        "stop_reason": fitted.stop_reason_,
    }


def fits(options: argparse.Namespace, data: dict[str, Any]) -> list[dict[str, Any]]:
    """Time fits of growing numbers of samples, up to all."""
    rows = []
    for n in sorted({max(1000, options.samples // 4**power) for power in range(4)}):
        X, grade = data["X"][:n], data["grade"][:n]
        row = timed_fit(options, X, grade)
        fitted = row.pop("fitted")
        queries, truth = data["queries"], data["truth"]
        learned = mean_absolute_error(fitted.transform(X), grade, fitted.transform(queries), truth)
        plain = mean_absolute_error(X, grade, queries, truth)
        rows.append({"samples": n, **row, "mae_learned": learned, "mae_euclidean": plain})
    return rows


def neighbours(options: argparse.Namespace, data: dict[str, Any], found: float, half: float) -> dict[str, float]:
    """Return the rate of the neighbour search, and the time of brute force on one label."""
    counts = torch.bincount(data["grade"]).double()
    operations = 2 * float((counts**2).sum()) * options.features
    points = data["X"][data["grade"] == 0]

    def plain() -> None:
        norms = points.square().sum(dim=1)
        for start in range(0, len(points), 4096):
            part = points[start : start + 4096]
            (norms - 2 * (part @ points.T)).topk(options.neighbors + 1, dim=1, largest=False)

    def ours() -> None:
        k_nearest(points, points, options.neighbors, exclude_self=True)

    torch.backends.cuda.matmul.allow_tf32 = True
    plain_seconds = seconds(plain, 3)
    torch.backends.cuda.matmul.allow_tf32 = False
    return {
        "flop_per_second": operations / found,
        "share_of_half_ceiling": operations / found / half,
        "plain_tf32_over_ours_one_label": plain_seconds / seconds(ours, 3),
    }


def gradient(options: argparse.Namespace, data: dict[str, Any], copy: float) -> dict[str, float]:
    """Time image, value and gradient of the objective."""
    X, grade = data["X"], data["grade"]
    counts = torch.bincount(grade).cpu().numpy()
    D = label_distances(np.arange(options.labels)) ** 2
    Y = torch.as_tensor(classical_mds(D, options.components, counts).points, dtype=X.dtype, device=X.device)[grade]
    found = target_neighbors(X, grade, options.neighbors)
    pairs = backend_of(X).pairs(found.first, found.second, len(X), X)
    objective = CMDSObjective(
        X, Y, LocalDistanceTerm(pairs, found.squared_distances, options.mu), alpha=options.alpha, free_scale=False
    )
    x = objective.pack(torch.randn(options.components, options.features, device=X.device), 1.0)
    taken = seconds(lambda: objective.value_and_gradient(x, objective.image(x)), 20, warm=3)
    # Read samples twice; write and read mapped samples and their gradient; read positions, and two indices and a
    # distance per pair.
    moved = 2 * X.nbytes + 5 * Y.nbytes + len(found) * 3 * 8
    return {
        "seconds": taken,
        "bytes": float(moved),
        "bytes_per_second": moved / taken,
        "share_of_copy_ceiling": moved / taken / copy,
    }


def same_as_cpu(options: argparse.Namespace, data: dict[str, Any]) -> dict[str, Any]:
    """Return relative differences of components between device and NumPy."""
    X, grade = data["X"], data["grade"]
    n = min(options.check_samples, options.samples)
    small = metric(options).fit(X[:n], grade[:n])
    begin = time.perf_counter()
    on_cpu = metric(options).fit(X[:n].cpu().numpy(), grade[:n].cpu().numpy())
    took = time.perf_counter() - begin
    checked = {"whole_fit": {"samples": n, "difference": difference(small, on_cpu), "numpy_seconds": took}}

    pairs = target_neighbors(X - X.mean(dim=0), grade, options.neighbors)
    checked["solver_at_full_size"] = same_solver(options, X, grade, pairs)

    rows = torch.randperm(len(X), generator=torch.Generator().manual_seed(options.seed))[: options.check_rows]
    chosen = pairs.second.reshape(len(X), -1)[rows.to(X.device)].cpu()
    wrong = sum(
        not torch.equal(brute_force(X, grade, int(row), options.neighbors), near)
        for row, near in zip(rows, chosen, strict=True)
    )
    checked["neighbours_at_full_size"] = {"rows": len(rows), "rows_that_differ_from_brute_force": wrong}
    return checked


def same_solver(options: argparse.Namespace, X: Any, grade: Any, pairs: TargetNeighbors) -> dict[str, Any]:
    """Compare solvers with the same tolerance and neighbours, device against NumPy.

    Flat directions of the objective make components far more sensitive than its value: if the two stop an iteration
    apart, that step is most of the difference. Hence also the difference after the same number of iterations, between
    single and double precision on the device, and of the objective.
    """
    of_device = TargetNeighbors(*(a.cpu().numpy() for a in (pairs.first, pairs.second, pairs.squared_distances)))
    checked = metric(options).set_params(tol=options.check_tol)
    begin = time.perf_counter()
    with replaced_target_neighbors(lambda *_, **__: of_device):
        on_cpu = clone(checked).fit(X.cpu().numpy(), grade.cpu().numpy())
    took = time.perf_counter() - begin
    with replaced_target_neighbors(lambda *_, **__: pairs):
        there = clone(checked).fit(X, grade)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            as_far = clone(checked).set_params(tol=0.0, max_iter=on_cpu.n_iter_).fit(X, grade)
        double = clone(checked).fit(X.double(), grade)
    return {
        "samples": len(X),
        "tol": options.check_tol,
        "iterations": {"device": there.n_iter_, "numpy": on_cpu.n_iter_, "device_double": double.n_iter_},
        "difference": difference(there, on_cpu),
        "difference_of_objective": abs(there.objective_ / on_cpu.objective_ - 1),
        "after_the_same_iterations": {"device": as_far.n_iter_, "difference": difference(as_far, on_cpu)},
        "double_on_the_device": {
            "difference_from_single": difference(there, double),
            "difference_from_numpy": difference(double, on_cpu),
        },
        "numpy_seconds": took,
    }


def brute_force(X: Any, grade: Any, row: int, k: int) -> Any:
    """Return the nearest samples of the row's label in double precision; ties by index."""
    members = (grade == grade[row]).nonzero()[:, 0]
    squared = (X[members].double() - X[row].double()).square().sum(dim=1)
    squared[members == row] = torch.inf
    return members[squared.sort(stable=True).indices[:k]].cpu()


def difference(one: CMDSMetric, other: CMDSMetric) -> float:
    """Return ‖L - L′‖ / ‖L′‖."""
    L, reference = (np.asarray(torch.as_tensor(m.components_).cpu(), dtype=np.float64) for m in (one, other))
    return float(np.linalg.norm(L - reference) / np.linalg.norm(reference))


def table(document: dict[str, Any]) -> str:
    """Return the document as Markdown."""
    lines = [
        "| samples | whole fit | neighbours | everything else | MAE learned | MAE plain |",
        "|---|---|---|---|---|---|",
    ]
    for row in document["fits"]:
        times = " | ".join(f"{row[f'{name}_seconds']:.3f} s" for name in ("fit", "neighbours", "rest"))
        lines.append(f"| {row['samples']:,} | {times} | {row['mae_learned']:.3f} | {row['mae_euclidean']:.3f} |")
    found, ceiling, checks = document["gradient"], document["ceilings"], document["same_as_cpu"]
    near, solver = document["neighbours"], checks["solver_at_full_size"]
    lines += [
        "",
        "| | measured | of the ceiling |",
        "|---|---|---|",
        f"| copy of a large array | {ceiling['copy_bytes_per_second'] / 1e12:.2f} TB/s | |",
        f"| one gradient | {1e3 * found['seconds']:.2f} ms, {found['bytes_per_second'] / 1e12:.2f} TB/s "
        f"| {found['share_of_copy_ceiling']:.0%} |",
        f"| product in half precision | {ceiling['half_flop_per_second'] / 1e12:.0f} TFLOP/s | |",
        f"| neighbours, selection included | {near['flop_per_second'] / 1e12:.0f} TFLOP/s "
        f"| {near['share_of_half_ceiling']:.0%} |",
        f"| one product and topk, TF32 | {near['plain_tf32_over_ours_one_label']:.1f} times as long | |",
        "",
        "| components, difference from NumPy | relative |",
        "|---|---|",
        f"| whole fit of {checks['whole_fit']['samples']:,} samples | {checks['whole_fit']['difference']:.0e} |",
        f"| solver on {solver['samples']:,} samples | {solver['difference']:.0e} |",
        f"| the same, value of the objective | {solver['difference_of_objective']:.0e} |",
        f"| after the same number of iterations | {solver['after_the_same_iterations']['difference']:.0e} |",
    ]
    return "\n".join(lines)


def plot(document: dict[str, Any], file: Path) -> None:
    """Plot times and errors over the number of samples."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = document["fits"]
    samples = [row["samples"] for row in rows]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name, label in (("fit", "whole fit"), ("neighbours", "neighbours"), ("rest", "everything else")):
        left.loglog(samples, [row[f"{name}_seconds"] for row in rows], "o-", label=label)
    left.set(
        xlabel="samples", ylabel="seconds", title=f"{document['device']['name']}, d = {document['options']['features']}"
    )
    for name, label in (("mae_learned", "learned distance"), ("mae_euclidean", "plain distance")):
        right.semilogx(samples, [row[name] for row in rows], "o-", label=label)
    right.set(xlabel="samples", ylabel="mean absolute error", title="held-out grades", ylim=(0, None))
    for axes in (left, right):
        axes.legend(frameon=False)
        axes.grid(alpha=0.3)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("samples", 1_000_000), ("features", 512), ("components", 16), ("neighbors", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, default in (("labels", 10), ("held-out", 2000), ("repeats", 5), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--check-samples", type=int, default=50_000)
    parser.add_argument("--check-rows", type=int, default=200)
    parser.add_argument("--mu", type=float, default=0.1)
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--check-tol", type=float, default=1e-9)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    for name in ("out", "markdown", "plot"):
        parser.add_argument(f"--{name}", type=Path)
    options = parser.parse_args(arguments)

    data = problem(options)
    ceiling = ceilings(options.device)
    rows = fits(options, data)
    found = {
        "ceilings": ceiling,
        "fits": rows,
        "neighbours": neighbours(options, data, rows[-1]["neighbours_seconds"], ceiling["half_flop_per_second"]),
        "gradient": gradient(options, data, ceiling["copy_bytes_per_second"]),
        "same_as_cpu": same_as_cpu(options, data),
    }
    document = print_results("gpu", options, found, table)
    if options.plot:
        plot(document, options.plot)


if __name__ == "__main__":
    main(sys.argv[1:])
