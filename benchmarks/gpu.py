"""What a fit costs on a GPU, next to what the GPU can do, and what it is worth.

Samples with the falling spectrum of pictures' principal components, a weak grade in ten of the features, all on the
device before the clock starts. In one run:

* ``ceilings``: bandwidth of a copy, and matrix products in half, TF32, single and double precision;
* ``fits``: ``CMDSMetric(solver="fast")`` as a user calls it, for growing numbers of samples: the whole fit, the exact
  neighbours in it, everything else; beside every time the mean absolute error of held-out grades by their nearest
  neighbours, in the learned distance and in the plain one;
* ``neighbours``: the rate of their product, and how long the plain way takes (product, then selection from all);
* ``gradient``: the time of one, and the bandwidth it achieves, counting every input and output once;
* ``same_as_cpu``: components of a fit with NumPy on the same samples, as far as the CPU can do it whole; at full size
  both solve with the neighbours of the device, of which a sample is compared with brute force in double precision.

Prints one JSON document; --out keeps it, --markdown and --plot show it.

    python benchmarks/gpu.py [--samples 1000000] [--out FILE.json] [--markdown FILE.md] [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ordrank import CMDSMetric
from ordrank.backend import backend_of
from ordrank.estimators import cmds_metric
from ordrank.experiments.machine import describe_machine
from ordrank.geometry import classical_mds, label_distances
from ordrank.neighbors import TargetNeighbors, k_nearest, target_neighbors
from ordrank.objectives import CMDSObjective
from ordrank.objectives.locality import LocalityTerm
from ordrank.votes import count_votes

VOTES = 31


def problem(options: argparse.Namespace) -> dict[str, Any]:
    """Graded samples of unit mean square norm, and held-out ones, on the device."""
    generator = torch.Generator(device=options.device).manual_seed(options.seed)
    n, d = options.samples + options.held_out, options.features
    grade = torch.randint(0, options.labels, (n,), device=options.device, generator=generator)
    X = torch.randn(n, d, device=options.device, generator=generator)
    X /= torch.sqrt(1 + torch.arange(d, device=options.device))
    X[:, 20:30] += 0.06 * grade[:, None]
    X -= X.mean(dim=0)
    X /= X.square().sum(dim=1).mean().sqrt()
    train, held = slice(0, options.samples), slice(options.samples, n)
    return {"X": X[train], "grade": grade[train], "queries": X[held], "truth": grade[held]}


def metric(options: argparse.Namespace) -> CMDSMetric:
    """Build the estimator, in the units of the samples."""
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


def wait() -> None:
    """Let the device finish."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(run: Callable[[], object], repeats: int = 5, warm: int = 1) -> float:
    """Median time of a few runs after as many to warm up as are asked for."""
    times = []
    for repeat in range(warm + repeats):
        wait()
        begin = time.perf_counter()
        run()
        wait()
        if repeat >= warm:
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


def ceilings(device: str) -> dict[str, float]:
    """Bytes a second of a copy, and operations a second of products of 8192 × 8192 random matrices."""
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
def neighbours_of_fits(replacement: Callable[..., TargetNeighbors]) -> Iterator[None]:
    """Let fits find their neighbours in another way."""
    cmds_metric.target_neighbors = replacement  # type: ignore[attr-defined]
    try:
        yield
    finally:
        cmds_metric.target_neighbors = target_neighbors  # type: ignore[attr-defined]


def timed_fit(options: argparse.Namespace, X: Any, grade: Any) -> dict[str, Any]:
    """Whole fit, the neighbours in it, and the rest; the first of all fits also pays for what is made once."""
    spent: list[float] = []

    def clocked(*arguments: Any, **named: Any) -> TargetNeighbors:
        wait()
        begin = time.perf_counter()
        found = target_neighbors(*arguments, **named)
        wait()
        spent.append(time.perf_counter() - begin)
        return found

    runs = []
    with neighbours_of_fits(clocked):
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


def mean_absolute_error(points: Any, grade: Any, queries: Any, truth: Any) -> float:
    """Error of the median grade of the nearest neighbours."""
    indices, distances = k_nearest(points, queries, VOTES)
    votes, far, known = (a.cpu().numpy().astype(float) for a in (grade[indices], distances, truth))
    return float(np.abs(count_votes(votes, far, aggregate="median", weights="uniform") - known).mean())


def fits(options: argparse.Namespace, data: dict[str, Any]) -> list[dict[str, Any]]:
    """Fits of growing numbers of samples; the last one is the full one."""
    rows = []
    for n in sorted({max(1000, options.samples // 4**power) for power in range(4)}):
        X, grade = data["X"][:n], data["grade"][:n]
        row = timed_fit(options, X, grade)
        fitted = row.pop("fitted")
        asked = data["queries"], data["truth"]
        learned = mean_absolute_error(fitted.transform(X), grade, fitted.transform(asked[0]), asked[1])
        plain = mean_absolute_error(X, grade, *asked)
        rows.append({"samples": n, **row, "mae_learned": learned, "mae_euclidean": plain})
    return rows


def neighbours(options: argparse.Namespace, data: dict[str, Any], found: float, half: float) -> dict[str, float]:
    """Rate of the products for the neighbours, and the time of the plain way on one label."""
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
    """Time of one gradient from the unknowns: image, value and gradient."""
    X, grade = data["X"], data["grade"]
    counts = torch.bincount(grade).cpu().numpy()
    D = label_distances(np.arange(options.labels)) ** 2
    Y = torch.as_tensor(classical_mds(D, options.components, counts).points, dtype=X.dtype, device=X.device)[grade]
    found = target_neighbors(X, grade, options.neighbors)
    pairs = backend_of(X).pairs(found.first, found.second, len(X), X)
    objective = CMDSObjective(
        X, Y, LocalityTerm(pairs, found.squared_distances, options.mu), alpha=options.alpha, free_scale=False
    )
    x = objective.pack(torch.randn(options.components, options.features, device=X.device), 1.0)
    taken = seconds(lambda: objective.value_and_gradient(x, objective.image(x)), 20, warm=3)
    # Samples are read twice, mapped samples written and read, so is the gradient in them, positions are read, and of
    # every pair its two indices and its distance.
    moved = 2 * X.nbytes + 5 * Y.nbytes + len(found) * 3 * 8
    return {
        "seconds": taken,
        "bytes": float(moved),
        "bytes_per_second": moved / taken,
        "share_of_copy_ceiling": moved / taken / copy,
    }


def same_as_cpu(options: argparse.Namespace, data: dict[str, Any]) -> dict[str, Any]:
    """Relative differences of components, device against NumPy."""
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
    """Solvers with one tolerance and the same neighbours, device against NumPy.

    Flat directions of the objective make components far more sensitive than its value: where the two stop an iteration
    apart, that step is most of the difference. So beside it stand the difference after the same number of iterations,
    that between single and double precision on the device, and that of the values.
    """
    of_device = TargetNeighbors(*(a.cpu().numpy() for a in (pairs.first, pairs.second, pairs.squared_distances)))
    checked = metric(options).set_params(tol=options.check_tol)
    begin = time.perf_counter()
    with neighbours_of_fits(lambda *_, **__: of_device):
        on_cpu = clone(checked).fit(X.cpu().numpy(), grade.cpu().numpy())
    took = time.perf_counter() - begin
    with neighbours_of_fits(lambda *_, **__: pairs):
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
    """Nearest samples of the row's label, by differences in double precision; equal distances by index."""
    members = (grade == grade[row]).nonzero()[:, 0]
    squared = (X[members].double() - X[row].double()).square().sum(dim=1)
    squared[members == row] = torch.inf
    return members[squared.sort(stable=True).indices[:k]].cpu()


def difference(one: CMDSMetric, other: CMDSMetric) -> float:
    """‖L - L′‖ / ‖L′‖."""
    L, reference = (np.asarray(torch.as_tensor(m.components_).cpu(), dtype=np.float64) for m in (one, other))
    return float(np.linalg.norm(L - reference) / np.linalg.norm(reference))


def describe_device(device: str) -> dict[str, Any]:
    """Name of the device, and versions of what drives it."""
    versions = {"torch": torch.__version__}
    if device == "cuda":
        import triton

        versions |= {"triton": triton.__version__, "cuda": torch.version.cuda}
        return {"name": torch.cuda.get_device_name(0), "versions": versions}
    return {"name": "cpu", "versions": versions}


def table(document: dict[str, Any]) -> str:
    """The document as Markdown."""
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
        f"| the plain way to the neighbours, TF32 | {near['plain_tf32_over_ours_one_label']:.1f} times as long | |",
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
    """Times and errors over the number of samples."""
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


def tell(
    name: str, options: argparse.Namespace, found: dict[str, Any], table: Callable[[dict[str, Any]], str]
) -> dict[str, Any]:
    """Print what was found, with what and where it was measured; keep it where the options say."""
    given = {option: value for option, value in vars(options).items() if not isinstance(value, Path)}
    device = describe_device(options.device)
    document = {"benchmark": name, "options": given, "device": device} | found | describe_machine()
    text = json.dumps(document, indent=2)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")
    if options.markdown:
        options.markdown.write_text(table(document) + "\n")
    return document


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
    document = tell("gpu", options, found, table)
    if options.plot:
        plot(document, options.plot)


if __name__ == "__main__":
    main(sys.argv[1:])
