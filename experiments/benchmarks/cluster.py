"""Fits and queries on a cluster compared with one process: memory, time, transfers, results.

``memory``: peak memory of two workers of 1 GB each that fit 4,000,000 samples of 128 features (2 GB in files).
``spilling``: the same with Dask arrays, which do not fit into the workers' memory. ``overhead``: gradients with a local
term on two single-threaded workers and in one process with two threads, in turn; neighbours are random, so that half of
them are on the other worker. ``same``: difference of the embedding from that of one process. ``phases``: time and
transfers of all phases. ``query``: neighbours of new samples from two single-threaded workers and from one index in one
process with two threads, in turn. Prints one JSON document; ``--out`` updates a file.

    python experiments/benchmarks/cluster.py {memory,spilling,overhead,same,phases,query} [--rows N] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from cluster_problem import LIMIT, N_GRADES, SEED, draw, moved, peak_memory, shards_on_disk, two_workers
from numpy.typing import NDArray
from ordrank_experiments.machine import describe_machine, print_document
from threadpoolctl import threadpool_limits

from ordrank import OrdinalMetric
from ordrank._protocols import FloatArray
from ordrank.backend import backend_of
from ordrank.distributed import DaskOrdinalMetric, DaskRanker, Shards
from ordrank.distributed.engine import Engine
from ordrank.distributed.local_term import CentredFeatures, ShardedObjective, build_terms
from ordrank.distributed.shard_stats import Encoding
from ordrank.distributed.sharded_data import ShardedData
from ordrank.distributed.target_neighbors import NearestSameLabel
from ordrank.estimators._ordinal.design import DesignMatrix
from ordrank.estimators._ordinal.training_data import SelectionSubset
from ordrank.kernel_ridge import GramRidge, LinearMap, moments_of, row_blocks
from ordrank.neighbors.index import ExactIndex
from ordrank.objectives import CMDSObjective
from ordrank.objectives.local import LocalDistanceTerm

N_COMPONENTS, N_NEIGHBORS = 2, 5


def measure_memory(rows: int) -> dict[str, Any]:
    """Fit more samples than a worker can hold."""
    d = 128
    with shards_on_disk(rows, d, max(1, rows // 100_000), np.float32) as shards, two_workers() as client:
        at_rest = list(client.run(peak_memory).values())
        start = time.perf_counter()
        metric = DaskOrdinalMetric(kernel="linear").fit(shards, client=client)
        seconds = time.perf_counter() - start
        peaks = list(client.run(peak_memory).values())
        return {
            "rows": rows,
            "features": d,
            "bytes": rows * d * 4,
            "shards": len(shards),
            "limit_per_worker": LIMIT,
            "peak_of_workers": peaks,
            "peak_at_rest": at_rest,
            "within_limits": max(peaks) < LIMIT,
            "seconds": seconds,
            "seconds_of_phases": metric.seconds_,
            "bytes_between_workers": moved(client),
        }


def draw_block(number: int, rows: int, d: int) -> tuple[NDArray[Any], FloatArray]:
    """Draw a block of samples in single precision, on a worker."""
    return draw(np.random.default_rng([SEED, number]), rows, d, np.float32)


def moved_to_disk(dask_worker: Any) -> float:
    """Return the bytes that a worker spilled to disk."""
    return float(dask_worker.data.cumulative_metrics["disk-write", "bytes"])


def measure_spilling(rows: int) -> dict[str, Any]:
    """Fit Dask arrays larger than the memory of all workers."""
    d, n_blocks = 128, max(1, rows // 20_000)
    lazy = [dask.delayed(draw_block, nout=2)(number, rows // n_blocks, d) for number in range(n_blocks)]
    X = da.concatenate([da.from_delayed(block[0], (rows // n_blocks, d), np.float32) for block in lazy])
    y = da.concatenate([da.from_delayed(block[1], (rows // n_blocks,), np.float64) for block in lazy])
    with two_workers() as client:
        processes = client.run(os.getpid)
        start = time.perf_counter()
        metric = DaskOrdinalMetric(kernel="linear").fit(X, y, client=client)
        seconds = time.perf_counter() - start
        peaks = list(client.run(peak_memory).values())
        return {
            "rows": rows,
            "features": d,
            "bytes": X.nbytes,
            "blocks": n_blocks,
            "limit_per_worker": LIMIT,
            "peak_of_workers": peaks,
            "within_limits": max(peaks) < LIMIT and client.run(os.getpid) == processes,
            "written_to_disk": sum(client.run(moved_to_disk).values()),
            "seconds": seconds,
            "seconds_of_phases": metric.seconds_,
        }


def random_neighbors(n: int, start: int, label: NDArray[Any], seed: int) -> NearestSameLabel:
    """Draw random samples of the same label as neighbours of a shard's samples."""
    rng = np.random.default_rng(seed)
    rows = np.empty((n, N_NEIGHBORS), dtype=np.int64)
    for value in np.unique(label):
        members, own = np.flatnonzero(label == value), np.flatnonzero(label[start : start + n] == value)
        rows[own] = rng.choice(members, (len(own), N_NEIGHBORS))
    return NearestSameLabel(rows, rng.uniform(0.5, 1.5, rows.shape))


def timed(call: Callable[[], Any]) -> float:
    """Return the time of one call, after a pause in which idle BLAS threads stop spinning."""
    time.sleep(0.15)
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure_overhead(rows: int) -> dict[str, Any]:
    """Return the median of five runs, each with new workers: they differ by 10 %."""
    runs = sorted((overhead_once(rows) for _ in range(5)), key=lambda run: float(run["ratio"]))
    return {**runs[2], "ratios": [run["ratio"] for run in runs]}


def overhead_once(rows: int) -> dict[str, Any]:
    """Time gradients on two workers and in one process, in turn."""
    d, n_shards = 200, 2
    with shards_on_disk(rows, d, n_shards, np.float32) as shards, two_workers(4 * LIMIT) as client:
        blocks = [shard.load() for shard in shards.shards]
        X, y = np.concatenate([block[0] for block in blocks]), np.concatenate([block[1] for block in blocks])
        counts = np.array([[len(block[1])] for block in blocks])
        labels, index = np.unique(y, return_inverse=True)
        positions = np.random.default_rng(SEED).standard_normal((len(labels), N_COMPONENTS))
        positions -= np.bincount(index) @ positions / rows
        mean, ones = X.mean(axis=0, dtype=np.float64), np.ones(rows)
        size = float(np.sqrt(np.mean([((X[part] - mean) ** 2).sum(axis=1).mean() for part in row_blocks(*X.shape)])))
        X = ((X - mean) / size).astype(np.float32)
        drawn = np.arange(0, rows, rows // 1500)
        subset = SelectionSubset(X[drawn], positions[index[drawn]], ones[drawn])
        design = DesignMatrix(subset, LinearMap(subset.X))
        moments = moments_of(((X[p], positions[index[p]], ones[p]) for p in row_blocks(*X.shape)), np.zeros(d))
        fit = GramRidge(subset.X.astype(np.float64), subset.Y, subset.weights, moments).at(1e-3)
        found = [
            random_neighbors(len(block[1]), int(start), index, SEED + i)
            for i, (block, start) in enumerate(zip(blocks, np.cumsum(counts) - counts.reshape(-1), strict=True))
        ]
        first, second = np.repeat(np.arange(rows), N_NEIGHBORS), np.concatenate([one.rows.reshape(-1) for one in found])
        squared = np.concatenate([one.distances.reshape(-1) for one in found]) ** 2
        mu = 0.3 / len(first)

        Y = positions[index].astype(np.float32)
        pairs = backend_of(Y).pairs(first, second, rows, Y)
        alpha = fit.alpha * fit.problem.scatter / fit.problem.total
        share = (ones / rows).astype(np.float32)
        features = X - moments.mean.astype(np.float32)
        one = CMDSObjective(
            features, Y, LocalDistanceTerm(pairs, squared, mu), alpha=alpha, free_scale=False, weights=share
        )

        encoding = Encoding(np.dtype(np.float32), labels, positions, np.ones(len(labels)), mean, size)
        engine = Engine(client)
        samples = ShardedData(engine, list(shards.shards), counts, encoding, mean)
        nearest = engine.map(random_neighbors, counts.reshape(-1).tolist(), samples.starts.tolist(),
                              [index] * n_shards, [SEED + i for i in range(n_shards)])  # fmt: skip
        parts = build_terms(samples, nearest, CentredFeatures(design, 0.0, moments.mean, float(rows)), 1.0)
        engine.wait(parts)
        many = ShardedObjective(samples, parts, fit, mu)

        x = np.ascontiguousarray(fit.coefficients().T).reshape(-1)
        x32 = x.astype(np.float32)

        def local() -> Any:
            return one.value_and_gradient(x32, one.image(x32))

        def remote() -> Any:
            return many.value_and_gradient(x, x)

        expected, got = local(), remote()
        away = float(np.linalg.norm(got[1] - expected[1]) / np.linalg.norm(expected[1]))
        times: dict[str, list[float]] = {"one process, two threads": [], "two workers": []}
        before = moved(client)
        repeats = 15
        with threadpool_limits(2):
            for _ in range(repeats):
                times["one process, two threads"].append(timed(local))
                times["two workers"].append(timed(remote))
        after = moved(client)
        medians = {name: statistics.median(values) for name, values in times.items()}
        return {
            "rows": rows,
            "features": d,
            "pairs": len(first),
            "shards": n_shards,
            "seconds": medians,
            "ratio": medians["two workers"] / medians["one process, two threads"],
            "relative_difference_of_gradients": away,
            "bytes_between_workers_per_gradient": {
                name: (size - before.get(name, 0)) / repeats
                for name, size in after.items()
                if size > before.get(name, 0)
            },
            "parts_on_workers": [len(keys) for keys in client.has_what().values()],
        }


def measure_same(rows: int) -> dict[str, Any]:
    """Compare the embedding with that of one process for several numbers of shards."""
    cases = {
        "linear": (N_GRADES, {"kernel": "linear"}),
        "kernel": (N_GRADES, {"kernel": "rbf", "sharpness": 1.0, "alpha": 1e-3}),
        "local term": (100, {"kernel": "linear", "mu": 0.3, "alpha": 1e-3}),
    }
    results: dict[str, Any] = {}
    with two_workers(2 * LIMIT) as client:
        for name, (n_grades, settings) in cases.items():
            X, y = draw(np.random.default_rng(SEED), rows, 32, np.float64, n_grades)
            expected = OrdinalMetric(**settings).fit(X, y)  # type: ignore[arg-type]
            differences = {}
            for n_shards in (1, 2, 5, 16):
                with shards_of(X, y, n_shards) as shards:
                    metric = DaskOrdinalMetric(**settings).fit(shards, client=client)  # type: ignore[arg-type]
                Z, reference = metric.transform(X[:5000]), expected.transform(X[:5000])
                differences[n_shards] = float(np.linalg.norm(Z - reference) / np.linalg.norm(reference))
            results[name] = {"rows": rows, "features": 32, "grades": n_grades, "relative_difference": differences}
    return results


def measure_phases(rows: int) -> list[dict[str, Any]]:
    """Measure time and transfers of every phase, for a number of samples and twice as many."""
    cases: list[tuple[str, int, dict[str, Any]]] = [
        ("linear", 20 * rows, {"kernel": "linear"}),
        ("kernel", rows, {"kernel": "rbf", "sharpness": 1.0, "alpha": 1e-3}),
        ("local term", rows // 2, {"kernel": "linear", "mu": 0.3, "alpha": 1e-3}),
    ]
    found = []
    for name, n, settings in cases:
        for size in (n, 2 * n):
            with shards_on_disk(size, 64, 8, np.float32) as shards, two_workers(2 * LIMIT) as client:
                DaskOrdinalMetric(kernel="linear").fit(shards, client=client)  # warm-up: lazy imports
                before = moved(client)
                metric = DaskOrdinalMetric(**settings).fit(shards, client=client)
                after = moved(client)
            between = {task: amount - before.get(task, 0) for task, amount in after.items()}
            found.append(
                {
                    "case": name,
                    "rows": size,
                    "features": 64,
                    "shards": 8,
                    "iterations": metric.n_iter_,
                    "seconds_of_phases": metric.seconds_,
                    "bytes_between_workers": {task: amount for task, amount in between.items() if amount},
                }
            )
    return found


def measure_query(rows: int) -> dict[str, Any]:
    """Time queries on two workers and in one process."""
    d, n_shards, k, repeats = 61, 8, 10, 15
    with shards_on_disk(rows, d, n_shards, np.float32) as shards, two_workers(4 * LIMIT) as client:
        metric = DaskOrdinalMetric(3, kernel="linear").fit(shards, client=client).to_local()
        start = time.perf_counter()
        ranker = DaskRanker(metric).fit(shards, client=client)
        seconds_to_index = {"two workers": time.perf_counter() - start}
        start = time.perf_counter()
        index = ExactIndex(np.concatenate([metric.transform(shard.load()[0]) for shard in shards.shards]), 3)
        seconds_to_index["one process"] = time.perf_counter() - start
        new, _ = draw(np.random.default_rng(SEED + 1), 100 + repeats, d, np.float32)

        def local(X: NDArray[Any]) -> tuple[NDArray[Any], FloatArray]:
            return index.nearest(metric.transform(X), k)

        def remote(X: NDArray[Any]) -> tuple[NDArray[Any], FloatArray]:
            found = ranker.rank(X, k)
            return found.indices, found.distances

        same = all(np.array_equal(one, other) for one, other in zip(local(new), remote(new), strict=True))
        batches = {"single": [new[i : i + 1] for i in range(repeats)], "batch of 100": [new[:100]] * 5}
        found: dict[str, Any] = {}
        with threadpool_limits(2):
            for name, queries in batches.items():
                times: dict[str, list[float]] = {"one process, two threads": [], "two workers": []}
                for X in queries:
                    times["one process, two threads"].append(timed(partial(local, X)))
                    times["two workers"].append(timed(partial(remote, X)))
                medians = {who: statistics.median(values) for who, values in times.items()}
                found[name] = {
                    "seconds": medians,
                    "ratio": medians["two workers"] / medians["one process, two threads"],
                }
        return {
            "rows": rows,
            "coordinates": metric.transform(new[:1]).shape[1],
            "shards": n_shards,
            "k": k,
            "same_rows_and_distances": same,
            "seconds_to_read_and_index": seconds_to_index,
            **found,
        }


@contextmanager
def shards_of(X: NDArray[Any], y: FloatArray, n_shards: int) -> Iterator[Shards]:
    """Write given samples to files."""
    folder = Path(tempfile.mkdtemp(prefix="ordrank-shards-"))
    try:
        for i, (start, stop) in enumerate(pairwise(np.linspace(0, len(X), n_shards + 1).astype(int))):
            np.save(folder / f"{i:04}.npy", X[start:stop])
            np.save(folder / f"{i:04}.labels.npy", y[start:stop])
        yield Shards.from_npy(folder)
    finally:
        shutil.rmtree(folder)


PARTS: dict[str, tuple[Callable[[int], Any], int]] = {
    "phases": (measure_phases, 20_000),
    "memory": (measure_memory, 4_000_000),
    "spilling": (measure_spilling, 4_000_000),
    "overhead": (measure_overhead, 400_000),
    "same": (measure_same, 200_000),
    "query": (measure_query, 1_000_000),
}


def main() -> None:
    """Measure one part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    measure, default_rows = PARTS[options.part]
    document = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    document |= {"seed": SEED, **describe_machine("distributed"), options.part: measure(options.rows or default_rows)}
    print_document(document, options.out)


if __name__ == "__main__":
    main()
