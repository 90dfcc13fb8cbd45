"""Exact search compared with a brute-force matrix product, on favourable and unfavourable data.

Vectors of 3 + 150 coordinates in single precision; single queries with index and brute force in turn, then one batch.
Brute force has the squared norms precomputed, evaluates ``norms - 2 * (X @ q)`` and sorts the k best, subject to
rounding. Results of the index are verified with differences in double precision. Prints one JSON document.

    python experiments/benchmarks/search.py [--rows 1000000] [--queries 31] [--batch 1000] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ordrank_experiments.machine import describe_machine, print_document

from ordrank._protocols import FloatArray, IntArray
from ordrank.neighbors.index import ExactIndex

SEED = 20
N_ORDER, N_APPEARANCE = 3, 150
# Root mean square distance from the mean in the appearance part; grades are one apart.
APPEARANCE = 0.2
CHECKED = 5

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Case:
    """A kind of data, and the parameters of its queries."""

    name: str
    draw: Callable[[np.random.Generator, int], Vectors]
    k: int = 10
    allowed: float | None = None


def normal(rng: np.random.Generator, rows: int, width: int) -> Vectors:
    """Draw standard normal numbers."""
    return rng.standard_normal((rows, width), dtype=np.float32)


def appearance(rng: np.random.Generator, rows: int) -> Vectors:
    """Draw coordinates of falling variance, as principal components have."""
    size = 1 / np.sqrt(1 + np.arange(N_APPEARANCE))
    return normal(rng, rows, N_APPEARANCE) * (APPEARANCE * size / np.linalg.norm(size)).astype(np.float32)


def grades(rng: np.random.Generator, rows: int, noise: float = 0.1) -> Vectors:
    """Draw five grades on an arc of the order part, one apart."""
    angle = np.pi / 5 * rng.integers(0, 5, size=rows)
    centre = np.stack([1.6 * np.cos(angle), 1.6 * np.sin(angle), np.zeros(rows)], axis=1).astype(np.float32)
    return np.hstack([centre + np.float32(noise) * normal(rng, rows, N_ORDER), appearance(rng, rows)])


def order_uninformative(rng: np.random.Generator, rows: int) -> Vectors:
    """Draw a small order part without grades."""
    return np.hstack([np.float32(0.02) * normal(rng, rows, N_ORDER), appearance(rng, rows)])


def order_constant(rng: np.random.Generator, rows: int) -> Vectors:
    """Draw a constant order part."""
    return np.hstack([np.ones((rows, N_ORDER), dtype=np.float32), appearance(rng, rows)])


def isotropic_appearance(rng: np.random.Generator, rows: int) -> Vectors:
    """Draw five grades, and an isotropic appearance as large as their distance."""
    vectors = grades(rng, rows)
    vectors[:, N_ORDER:] = normal(rng, rows, N_APPEARANCE)
    return vectors


def one_cluster(rng: np.random.Generator, rows: int) -> Vectors:
    """Draw isotropic vectors."""
    return normal(rng, rows, N_ORDER + N_APPEARANCE)


def all_equal(rng: np.random.Generator, rows: int) -> Vectors:
    """Repeat one vector."""
    return np.tile(normal(rng, 1, N_ORDER + N_APPEARANCE), (rows, 1))


def shifted(draw: Callable[[np.random.Generator, int], Vectors], offset: float) -> Callable[..., Vectors]:
    """Add a constant to all coordinates."""
    return lambda rng, rows: draw(rng, rows) + np.float32(offset)


def order_alone(rng: np.random.Generator, rows: int) -> Vectors:
    """Draw five grades without an appearance part."""
    return np.ascontiguousarray(grades(rng, rows)[:, :N_ORDER])


CASES = (
    Case("grades separated", grades),
    Case("grades overlapping", lambda rng, rows: grades(rng, rows, noise=0.5)),
    Case("order alone, no appearance", order_alone),
    Case("order uninformative", order_uninformative),
    Case("order constant", order_constant),
    Case("appearance isotropic", isotropic_appearance),
    Case("one cluster", one_cluster),
    Case("all equal", all_equal),
    Case("grades separated, offset 10000", shifted(grades, 1e4)),
    Case("one cluster, offset 1000", shifted(one_cluster, 1e3)),
    Case("grades separated, k = 100", grades, k=100),
    Case("one cluster, k = 100", one_cluster, k=100),
    Case("one cluster, k = 1000", one_cluster, k=1000),
    Case("grades separated, half allowed", grades, allowed=0.5),
    Case("one cluster, half allowed", one_cluster, allowed=0.5),
    Case("one cluster, 2 % allowed", one_cluster, allowed=0.02),
    Case("one cluster, 0.01 % allowed", one_cluster, allowed=1e-4),
)


def seconds(work: Callable[[], object]) -> float:
    """Return the time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def plain_search(
    vectors: Vectors, norms: Vectors, query: Vectors, k: int, allowed: NDArray[np.bool_] | None
) -> NDArray[np.intp]:
    """Return the k nearest rows, up to single-precision rounding."""
    values = norms - 2 * (vectors @ query)
    if allowed is not None:
        values[~allowed] = np.inf
    nearest = np.argpartition(values, k - 1)[:k]
    return nearest[np.argsort(values[nearest])]


def direct_search(vectors: Vectors, query: Vectors, k: int, allowed: NDArray[np.bool_] | None) -> IntArray:
    """Return the k nearest rows by direct differences in double precision, ties by row number."""
    squared: FloatArray = np.empty(len(vectors))
    for start in range(0, len(vectors), 20_000):
        difference = vectors[start : start + 20_000].astype(np.float64) - query
        squared[start : start + 20_000] = np.einsum("ij,ij->i", difference, difference)
    if allowed is not None:
        squared[~allowed] = np.inf
    return np.argsort(squared, kind="stable")[:k]


def measure(case: Case, rows: int, n_queries: int, n_batch: int) -> dict[str, Any]:
    """Time one kind of data; queries are drawn from the same distribution."""
    rng = np.random.default_rng(SEED)
    drawn = case.draw(rng, rows + n_batch)
    vectors, queries = drawn[:rows], drawn[rows:]
    allowed = None if case.allowed is None else rng.random(rows) < case.allowed
    norms = np.einsum("ij,ij->i", vectors, vectors)
    begin = time.perf_counter()
    index = ExactIndex(vectors, N_ORDER)
    build = time.perf_counter() - begin
    search_batch = partial(index.nearest, queries, case.k, allowed=allowed)
    batch = [seconds(search_batch)]
    times: dict[str, list[float]] = {"plain": [], "index": []}
    for query in queries[:n_queries]:
        times["plain"].append(seconds(partial(plain_search, vectors, norms, query, case.k, allowed)))
        times["index"].append(seconds(partial(index.nearest, query[None], case.k, allowed=allowed)))
    batch.append(seconds(search_batch))
    found, _ = index.nearest(queries[:CHECKED], case.k, allowed=allowed)
    one_by_one = [index.nearest(query[None], case.k, allowed=allowed)[0][0] for query in queries[:CHECKED]]
    expected = [direct_search(vectors, query, case.k, allowed) for query in queries[:CHECKED]]
    plain, single = float(np.median(times["plain"])), float(np.median(times["index"]))
    each = min(batch) / n_batch
    return {
        "data": case.name,
        "rows": rows,
        "width": vectors.shape[1],
        "k": case.k,
        "build_seconds": round(build, 3),
        "plain_milliseconds": round(1e3 * plain, 3),
        "index_milliseconds": round(1e3 * single, 3),
        "batch_milliseconds_per_query": round(1e3 * each, 4),
        "index_times_as_fast_as_plain": round(plain / single, 2),
        # Queries differ in cost: a batch is compared with the mean of single queries.
        "batch_times_as_fast_as_single": round(float(np.mean(times["index"])) / each, 2),
        "exact": bool(np.array_equal(found, expected) and np.array_equal(one_by_one, expected)),
        "checked_queries": CHECKED,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=31, help="number of single queries")
    parser.add_argument("--batch", type=int, default=1000, help="queries of the batch")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    results = []
    for case in CASES:
        if arguments.only in case.name:
            results.append(measure(case, arguments.rows, arguments.queries, arguments.batch))
            sys.stderr.write(json.dumps(results[-1]) + "\n")
    print_document({"seed": SEED, "search": results, **describe_machine()}, arguments.out)


if __name__ == "__main__":
    main()
