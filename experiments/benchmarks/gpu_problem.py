"""Samples, timing and output of the GPU benchmarks."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ordrank_experiments.machine import describe_machine, print_document

from ordrank.neighbors import k_nearest
from ordrank.neighbors.voting import median_vote

VOTES = 31


def problem(options: argparse.Namespace) -> dict[str, Any]:
    """Draw graded samples of unit mean square norm, and held-out ones, on the device.

    The spectrum falls as that of principal components; ten features carry a weak grade.
    """
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


def wait() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(run: Callable[[], object], repeats: int = 5, warm: int = 1) -> float:
    """Return the median time of some runs after ``warm`` warm-up runs."""
    times = []
    for repeat in range(warm + repeats):
        wait()
        begin = time.perf_counter()
        run()
        wait()
        if repeat >= warm:
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


def mean_absolute_error(points: Any, grade: Any, queries: Any, truth: Any) -> float:
    """Return the MAE of the median grade of the nearest neighbours."""
    indices, distances = k_nearest(points, queries, VOTES)
    votes, far, known = (a.cpu().numpy().astype(float) for a in (grade[indices], distances, truth))
    return float(np.abs(median_vote(votes, far, "uniform") - known).mean())


def describe_device(device: str) -> dict[str, Any]:
    """Return the name of the device and the versions of its software."""
    versions: dict[str, str | None] = {"torch": str(torch.__version__)}
    if device == "cuda":
        import triton

        versions |= {"triton": triton.__version__, "cuda": torch.version.cuda}
        return {"name": torch.cuda.get_device_name(0), "versions": versions}
    return {"name": "cpu", "versions": versions}


def print_results(
    name: str, options: argparse.Namespace, results: dict[str, Any], table: Callable[[dict[str, Any]], str]
) -> dict[str, Any]:
    """Print results with options, versions and device; write them where the options say."""
    given = {option: value for option, value in vars(options).items() if not isinstance(value, Path)}
    device = describe_device(options.device)
    document = {"benchmark": name, "options": given, "device": device} | results | describe_machine()
    print_document(document, options.out)
    if options.markdown:
        options.markdown.write_text(table(document) + "\n")
    return document
