"""What a fit on a cluster costs beside one machine: memory, time of a gradient, bytes between workers, equal answers.

``memory`` fits 4,000,000 samples of 128 features (2 GB in files) on two workers of 1 GB each and reads the largest
memory that each ever had; ``spilling`` does so with the same samples as arrays of Dask, which the workers must hold and
for which they have no room. ``overhead`` times gradients of the objective with a local term on two workers of one
thread, and in one process with two threads, in turn; neighbours are drawn at random, so that half of them are in the
other worker. ``same`` compares the map with that of one machine, ``phases`` times all phases and counts
what moves. ``query`` asks samples in shards on two workers of one thread, and one index of all in one process with two
threads, in turn, for neighbours of the same new samples, and compares the answers. Prints one JSON document; ``--out``
adds to a file.

    python benchmarks/cluster.py {memory,spilling,overhead,same,phases,query} [--rows N] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.utils import key_split
from distributed import Client, LocalCluster
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ordrank import OrdinalMetric
from ordrank._types import FloatArray
from ordrank.backend import backend_of
from ordrank.collection.index import ExactIndex
from ordrank.distributed import DaskOrdinalMetric, DaskRanker, Shards
from ordrank.distributed.engine import Engine
from ordrank.distributed.local_term import Features, ShardedObjective, prepared_parts
from ordrank.distributed.sharded_samples import ShardedSamples
from ordrank.distributed.sums import Frame
from ordrank.distributed.target_neighbors import Nearest
from ordrank.estimators.order_map import Design, Pictures, feature_map
from ordrank.experiments.machine import describe_machine
from ordrank.objectives import CMDSObjective
from ordrank.objectives.locality import LocalityTerm
from ordrank.smoothing import SummedRegression, moments_of, row_blocks

SEED = 11
LIMIT = 10**9
N_GRADES, N_COMPONENTS, N_NEIGHBORS = 5, 2, 5


def draw(
    rng: np.random.Generator, rows: int, d: int, dtype: Any, n_grades: int = N_GRADES
) -> tuple[NDArray[Any], FloatArray]:
    """Samples of features of falling size, away from the origin, and grades that follow some of them."""
    X = rng.standard_normal((rows, d), dtype=np.float32).astype(dtype) / np.sqrt(1 + np.arange(d)).astype(dtype)
    latent = X[:, ::3].sum(axis=1) + 0.3 * rng.standard_normal(rows)
    return X + dtype(20), np.digitize(latent, np.linspace(-1.5, 1.5, n_grades - 1)).astype(np.float64)


@contextmanager
def shards_on_disk(rows: int, d: int, n_shards: int, dtype: Any) -> Iterator[Shards]:
    """So many samples in files, drawn a shard at a time."""
    folder = Path(tempfile.mkdtemp(prefix="ordrank-shards-"))
    try:
        rng = np.random.default_rng(SEED)
        for place, (start, stop) in enumerate(pairwise(np.linspace(0, rows, n_shards + 1).astype(int))):
            X, y = draw(rng, stop - start, d, dtype)
            np.save(folder / f"{place:04}.npy", X)
            np.save(folder / f"{place:04}.labels.npy", y)
        yield Shards.from_npy(folder)
    finally:
        shutil.rmtree(folder)


@contextmanager
def two_workers(limit: int = LIMIT) -> Iterator[Client]:
    """Processes of one thread each."""
    settings = {"processes": True, "threads_per_worker": 1, "memory_limit": limit, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=2, **settings) as cluster, Client(cluster) as client:
        yield client


def peak_memory() -> int:
    """Largest resident memory of this process so far, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def received(dask_worker: Any) -> dict[str, int]:
    """Bytes that a worker got from others, by task."""
    by_task: Counter[str] = Counter()
    for transfer in dask_worker.transfer_incoming_log:
        for key, size in transfer["keys"].items():
            by_task[key_split(key)] += size
    return dict(by_task)


def moved(client: Client) -> dict[str, int]:
    """Bytes between workers since they started, by task."""
    total: Counter[str] = Counter()
    for one in client.run(received).values():
        total.update(one)
    return dict(total)


def measure_memory(rows: int) -> dict[str, Any]:
    """Fit more samples than a worker may hold."""
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


def draw_block(place: int, rows: int, d: int) -> tuple[NDArray[Any], FloatArray]:
    """A block of samples in single precision, drawn by a worker."""
    return draw(np.random.default_rng([SEED, place]), rows, d, np.float32)


def moved_to_disk(dask_worker: Any) -> float:
    """Bytes that a worker wrote because it had no room for them."""
    return float(dask_worker.data.cumulative_metrics["disk-write", "bytes"])


def measure_spilling(rows: int) -> dict[str, Any]:
    """Fit arrays of Dask that are larger than all workers together."""
    d, n_blocks = 128, max(1, rows // 20_000)
    lazy = [dask.delayed(draw_block, nout=2)(place, rows // n_blocks, d) for place in range(n_blocks)]
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


def random_neighbors(n: int, start: int, label: NDArray[Any], seed: int) -> Nearest:
    """Samples of the same label, drawn at random, as neighbours of a shard's samples."""
    rng = np.random.default_rng(seed)
    rows = np.empty((n, N_NEIGHBORS), dtype=np.int64)
    for value in np.unique(label):
        members, own = np.flatnonzero(label == value), np.flatnonzero(label[start : start + n] == value)
        rows[own] = rng.choice(members, (len(own), N_NEIGHBORS))
    return Nearest(rows, rng.uniform(0.5, 1.5, rows.shape))


def timed(call: Callable[[], Any]) -> float:
    """Seconds of one call, after a pause: threads of a BLAS spin for a while when their work is done, on both cores."""
    time.sleep(0.15)
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure_overhead(rows: int) -> dict[str, Any]:
    """The middle one of five runs, each with workers and memory of its own: they differ by a tenth."""
    runs = sorted((overhead_once(rows) for _ in range(5)), key=lambda run: float(run["ratio"]))
    return {**runs[2], "ratios": [run["ratio"] for run in runs]}


def overhead_once(rows: int) -> dict[str, Any]:
    """Time gradients on two workers and in one process, in turn."""
    d, n_shards = 200, 2
    with shards_on_disk(rows, d, n_shards, np.float32) as shards, two_workers(4 * LIMIT) as client:
        blocks = [shard.whole() for shard in shards.shards]
        X, y = np.concatenate([block[0] for block in blocks]), np.concatenate([block[1] for block in blocks])
        counts = np.array([[len(block[1])] for block in blocks])
        labels, index = np.unique(y, return_inverse=True)
        positions = np.random.default_rng(SEED).standard_normal((len(labels), N_COMPONENTS))
        positions -= np.bincount(index) @ positions / rows
        mean, ones = X.mean(axis=0, dtype=np.float64), np.ones(rows)
        size = float(np.sqrt(np.mean([((X[part] - mean) ** 2).sum(axis=1).mean() for part in row_blocks(*X.shape)])))
        X = ((X - mean) / size).astype(np.float32)
        drawn = np.arange(0, rows, rows // 1500)
        pictures = Pictures(X[drawn], positions[index[drawn]], ones[drawn])
        design = Design(pictures, feature_map(pictures.X, pictures.X, None))
        moments = moments_of(((X[p], positions[index[p]], ones[p]) for p in row_blocks(*X.shape)), np.zeros(d))
        fit = SummedRegression(pictures.X.astype(np.float64), pictures.Y, pictures.weights, moments).at(1e-3)
        found = [
            random_neighbors(len(block[1]), int(start), index, SEED + place)
            for place, (block, start) in enumerate(zip(blocks, np.cumsum(counts) - counts.reshape(-1), strict=True))
        ]
        first, second = np.repeat(np.arange(rows), N_NEIGHBORS), np.concatenate([one.rows.reshape(-1) for one in found])
        squared = np.concatenate([one.distances.reshape(-1) for one in found]) ** 2
        mu = 0.3 / len(first)

        Y = positions[index].astype(np.float32)
        pairs = backend_of(Y).pairs(first, second, rows, Y)
        alpha = fit.alpha * fit.path.scatter / fit.path.total
        share = (ones / rows).astype(np.float32)
        features = X - moments.mean.astype(np.float32)
        one = CMDSObjective(features, Y, LocalityTerm(pairs, squared, mu), alpha=alpha, free_scale=False, weights=share)

        frame = Frame(np.dtype(np.float32), labels, positions, np.ones(len(labels)), mean, size)
        engine = Engine(client)
        samples = ShardedSamples(engine, list(shards.shards), counts, frame, mean)
        nearest = engine.each(random_neighbors, counts.reshape(-1).tolist(), samples.starts.tolist(),
                              [index] * n_shards, [SEED + place for place in range(n_shards)])  # fmt: skip
        parts = prepared_parts(samples, nearest, Features(design, 0.0, moments.mean, float(rows)), 1.0)
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
    """Compare the map with that of one machine for several numbers of shards."""
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
                Z, wanted = metric.transform(X[:5000]), expected.transform(X[:5000])
                differences[n_shards] = float(np.linalg.norm(Z - wanted) / np.linalg.norm(wanted))
            results[name] = {"rows": rows, "features": 32, "grades": n_grades, "relative_difference": differences}
    return results


def measure_phases(rows: int) -> list[dict[str, Any]]:
    """Time every phase, and count what moves in it, for a number of samples and twice as many."""
    cases: list[tuple[str, int, dict[str, Any]]] = [
        ("linear", 20 * rows, {"kernel": "linear"}),
        ("kernel", rows, {"kernel": "rbf", "sharpness": 1.0, "alpha": 1e-3}),
        ("local term", rows // 2, {"kernel": "linear", "mu": 0.3, "alpha": 1e-3}),
    ]
    found = []
    for name, n, settings in cases:
        for size in (n, 2 * n):
            with shards_on_disk(size, 64, 8, np.float32) as shards, two_workers(2 * LIMIT) as client:
                DaskOrdinalMetric(kernel="linear").fit(shards, client=client)  # what is imported late is there then
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
    """Find neighbours on two workers and in one process."""
    d, n_shards, k, repeats = 61, 8, 10, 15
    with shards_on_disk(rows, d, n_shards, np.float32) as shards, two_workers(4 * LIMIT) as client:
        metric = DaskOrdinalMetric(3, kernel="linear").fit(shards, client=client).to_local()
        start = time.perf_counter()
        ranker = DaskRanker(metric).fit(shards, client=client)
        seconds_to_index = {"two workers": time.perf_counter() - start}
        start = time.perf_counter()
        index = ExactIndex(np.concatenate([metric.transform(shard.whole()[0]) for shard in shards.shards]), 3)
        seconds_to_index["one process"] = time.perf_counter() - start
        new, _ = draw(np.random.default_rng(SEED + 1), 100 + repeats, d, np.float32)

        def local(X: NDArray[Any]) -> tuple[NDArray[Any], FloatArray]:
            return index.nearest(metric.transform(X), k)

        def remote(X: NDArray[Any]) -> tuple[NDArray[Any], FloatArray]:
            found = ranker.rank(X, k)
            return found.indices, found.distances

        same = all(np.array_equal(one, other) for one, other in zip(local(new), remote(new), strict=True))
        questions = {"single": [new[place : place + 1] for place in range(repeats)], "batch of 100": [new[:100]] * 5}
        found: dict[str, Any] = {}
        with threadpool_limits(2):
            for name, asked in questions.items():
                times: dict[str, list[float]] = {"one process, two threads": [], "two workers": []}
                for X in asked:
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
    """Given samples in files."""
    folder = Path(tempfile.mkdtemp(prefix="ordrank-shards-"))
    try:
        for place, (start, stop) in enumerate(pairwise(np.linspace(0, len(X), n_shards + 1).astype(int))):
            np.save(folder / f"{place:04}.npy", X[start:stop])
            np.save(folder / f"{place:04}.labels.npy", y[start:stop])
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
    measure, usual = PARTS[options.part]
    document = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    document |= {"seed": SEED, **describe_machine(), options.part: measure(options.rows or usual)}
    document["versions"]["distributed"] = version("distributed")
    text = json.dumps(document, indent=1)
    if options.out:
        options.out.write_text(text + "\n")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
