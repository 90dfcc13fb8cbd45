"""How much sooner the fast solver gets where the paper's solver gets in 1000 iterations.

One process, one run, the same data and the same start for all:

* ``literal``: the paper's steepest descent with the paper's own formulas (pair differences in R^d);
* ``paper``: the same solver on our algebra (``CMDSMetric(solver="paper")``);
* ``fast``: preconditioned L-BFGS with exact steps, stopped at the first iterate that is not above the
  paper solver's last value; its set-up is part of its time.

Target neighbours are given and not timed. ``gamma`` is the best of a few first steps for the paper's solver, so
that it is not handicapped by its units. Prints one JSON document.

    python benchmarks/solvers.py [--samples 2000] [--features 150] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ordrank._types import SolverResult
from ordrank.backend import backend_of
from ordrank.experiments.literal import LiteralObjective
from ordrank.experiments.machine import describe_machine
from ordrank.geometry import classical_mds, label_distances
from ordrank.neighbors import target_neighbors
from ordrank.objectives import CMDSObjective
from ordrank.objectives.locality import LocalityTerm
from ordrank.solvers import lbfgs, steepest_descent

ARMIJO: dict[str, Any] = {"rho": 0.5, "sigma": 0.05, "max_line_search": 20, "tol": 0.0}


def problem(n: int, d: int, s: int, k: int, seed: int) -> dict[str, Any]:
    """Graded samples with the falling spectrum of pictures' principal components, unit mean square norm."""
    rng = np.random.default_rng(seed)
    grade = rng.integers(0, 5, size=n)
    X = rng.normal(size=(n, d)) / np.sqrt(1 + np.arange(d))
    X[:, rng.choice(d, min(d, 10), replace=False)] += 0.05 * grade[:, None]
    X -= X.mean(axis=0)
    X /= np.sqrt((X**2).sum(axis=1).mean())
    D = label_distances(np.arange(5)) ** 2
    Y = classical_mds(D, s, np.bincount(grade)).points[grade]
    return {"X": X, "Y": Y, "neighbors": target_neighbors(X, grade, k)}


def our_objective(data: dict[str, Any], mu: float) -> CMDSObjective:
    """Build the objective on our algebra; part of the fast solver's time."""
    X, neighbors = data["X"], data["neighbors"]
    pairs = backend_of(X).pairs(neighbors.first, neighbors.second, len(X), X)
    locality = LocalityTerm(pairs, neighbors.squared_distances, mu)
    return CMDSObjective(X, data["Y"], locality, alpha=0.0, free_scale=False)


def best_gamma(data: dict[str, Any], mu: float, start: np.ndarray) -> float:
    """Of first steps 4^k, the one with which the paper's solver gets furthest in 100 iterations."""
    objective = our_objective(data, mu)

    def reached(gamma: float) -> float:
        return steepest_descent(objective, start, gamma=gamma, max_iter=100, **ARMIJO).value

    return min((4.0**k for k in range(-10, 3)), key=reached)


def timed(run: Callable[[], SolverResult], repeats: int) -> tuple[float, SolverResult]:
    """Fastest of a few runs, and its result."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - begin)
    return min(times), result


def fast_until(data: dict[str, Any], mu: float, start: np.ndarray, goal: float) -> int:
    """Iterations after which the fast solver is not above the goal."""
    result = lbfgs(our_objective(data, mu), start, max_iter=200, tol=0.0)
    below = [i for i, iterate in enumerate(result.history) if iterate.value <= goal]
    if not below:
        raise RuntimeError(f"the fast solver ended at {result.value!r}, above the goal {goal!r}")
    return below[0]


def compare(data: dict[str, Any], start: np.ndarray, mu: float, iterations: int) -> dict[str, Any]:
    """Time the three on one weight of the local term."""
    gamma = best_gamma(data, mu, start)
    steps: dict[str, Any] = {"gamma": gamma, "max_iter": iterations, **ARMIJO}
    literal = LiteralObjective(data["X"], data["Y"], data["neighbors"], mu=mu, free_scale=False)
    literal_s, by_literal = timed(lambda: steepest_descent(literal, start, **steps), 1)
    paper_s, by_paper = timed(lambda: steepest_descent(our_objective(data, mu), start, **steps), 3)
    needed = fast_until(data, mu, start, by_paper.value)
    fast_s, by_fast = timed(lambda: lbfgs(our_objective(data, mu), start, max_iter=needed, tol=0.0), 10)
    return {
        "mu": mu,
        "gamma": gamma,
        "paper_iterations": by_paper.n_iter,
        "paper_objective": by_paper.value,
        "literal_objective": by_literal.value,
        "fast_iterations": needed,
        "fast_objective": by_fast.value,
        "seconds": {"literal": literal_s, "paper": paper_s, "fast": fast_s},
        "literal_over_fast": literal_s / fast_s,
        "paper_over_fast": paper_s / fast_s,
    }


def main(arguments: list[str]) -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--features", type=int, default=150)
    parser.add_argument("--components", type=int, default=3)
    parser.add_argument("--neighbors", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)

    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    data = problem(options.samples, options.features, options.components, options.neighbors, options.seed)
    start = np.eye(options.components, options.features).reshape(-1)
    rows = [compare(data, start, mu, options.iterations) for mu in (1e-3, 1e-1, 1.0)]
    document = {
        "benchmark": "solvers",
        "options": vars(options) | {"out": None},
        "rows": rows,
    } | describe_machine()
    text = json.dumps(document, indent=2)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
