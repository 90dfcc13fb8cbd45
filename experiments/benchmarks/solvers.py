"""Time of the fast solver to reach the objective of the paper's solver after 1000 iterations.

In one process, on the same data and from the same start:

* ``literal``: the paper's steepest descent with the paper's formulas (pair differences in R^d);
* ``paper``: the same solver on ordrank's objective (``CMDSMetric(solver="paper")``);
* ``fast``: preconditioned L-BFGS with exact steps, including its set-up, until the objective is not above that of
  ``paper``.

Target neighbours are given and not timed. ``gamma`` is the best of several first steps for the paper's solver.
Prints one JSON document.

    python experiments/benchmarks/solvers.py [--samples 2000] [--features 150] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ordrank_experiments.machine import describe_machine, print_document
from ordrank_experiments.reference_formulas import ReferenceObjective

from ordrank.backend import backend_of
from ordrank.geometry import classical_mds, label_distances
from ordrank.neighbors import target_neighbors
from ordrank.objectives import CMDSObjective
from ordrank.objectives.local import LocalDistanceTerm
from ordrank.solvers import SolverResult, lbfgs, steepest_descent

ARMIJO: dict[str, Any] = {"rho": 0.5, "sigma": 0.05, "max_line_search": 20, "tol": 0.0}


def problem(n: int, d: int, s: int, k: int, seed: int) -> dict[str, Any]:
    """Draw graded samples of unit mean square norm with a falling spectrum, as principal components have."""
    rng = np.random.default_rng(seed)
    grade = rng.integers(0, 5, size=n)
    X = rng.normal(size=(n, d)) / np.sqrt(1 + np.arange(d))
    X[:, rng.choice(d, min(d, 10), replace=False)] += 0.05 * grade[:, None]
    X -= X.mean(axis=0)
    X /= np.sqrt((X**2).sum(axis=1).mean())
    D = label_distances(np.arange(5)) ** 2
    Y = classical_mds(D, s, np.bincount(grade)).points[grade]
    return {"X": X, "Y": Y, "neighbors": target_neighbors(X, grade, k)}


def own_objective(data: dict[str, Any], mu: float) -> CMDSObjective:
    """Build ordrank's objective; part of the fast solver's time."""
    X, neighbors = data["X"], data["neighbors"]
    pairs = backend_of(X).pairs(neighbors.first, neighbors.second, len(X), X)
    locality = LocalDistanceTerm(pairs, neighbors.squared_distances, mu)
    return CMDSObjective(X, data["Y"], locality, alpha=0.0, free_scale=False)


def best_gamma(data: dict[str, Any], mu: float, start: np.ndarray) -> float:
    """Return the first step 4^k with the lowest objective of the paper's solver after 100 iterations."""
    objective = own_objective(data, mu)

    def objective_after(gamma: float) -> float:
        return steepest_descent(objective, start, gamma=gamma, max_iter=100, **ARMIJO).value

    return min((4.0**k for k in range(-10, 3)), key=objective_after)


def timed(run: Callable[[], SolverResult], repeats: int) -> tuple[float, SolverResult]:
    """Return the shortest time of a few runs, and the result."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - begin)
    return min(times), result


def fast_until(data: dict[str, Any], mu: float, start: np.ndarray, goal: float) -> int:
    """Return the number of iterations after which the fast solver is not above the goal."""
    result = lbfgs(own_objective(data, mu), start, max_iter=200, tol=0.0)
    below = [i for i, iterate in enumerate(result.history) if iterate.value <= goal]
    if not below:
        raise RuntimeError(f"the fast solver ended at {result.value!r}, above the goal {goal!r}")
    return below[0]


def compare(data: dict[str, Any], start: np.ndarray, mu: float, iterations: int) -> dict[str, Any]:
    """Time the three solvers for one weight of the local term."""
    gamma = best_gamma(data, mu, start)
    steps: dict[str, Any] = {"gamma": gamma, "max_iter": iterations, **ARMIJO}
    literal = ReferenceObjective(data["X"], data["Y"], data["neighbors"], mu=mu, free_scale=False)
    literal_s, by_literal = timed(lambda: steepest_descent(literal, start, **steps), 1)
    paper_s, by_paper = timed(lambda: steepest_descent(own_objective(data, mu), start, **steps), 3)
    needed = fast_until(data, mu, start, by_paper.value)
    fast_s, by_fast = timed(lambda: lbfgs(own_objective(data, mu), start, max_iter=needed, tol=0.0), 10)
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
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--features", type=int, default=150)
    parser.add_argument("--components", type=int, default=3)
    parser.add_argument("--neighbors", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)

    data = problem(options.samples, options.features, options.components, options.neighbors, options.seed)
    start = np.eye(options.components, options.features).reshape(-1)
    rows = [compare(data, start, mu, options.iterations) for mu in (1e-3, 1e-1, 1.0)]
    document = {"benchmark": "solvers", "options": vars(options) | {"out": None}, "rows": rows}
    print_document(document | describe_machine(), options.out)


if __name__ == "__main__":
    main(sys.argv[1:])
