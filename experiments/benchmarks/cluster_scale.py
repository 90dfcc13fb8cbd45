"""Cost model of the phases of a fit on a cluster: constants from small fits, predictions for large ones.

Small fits have up to 1,000,000 samples with a linear map, 40,000 with a kernel or a local term; predictions are
compared with measurements of up to 10,000,000 samples in files. Files are read from the page cache, so that storage is
not included. Memory is the peak of the workers, and the growth of the client with the scheduler during the fit. Each
part takes a minute or two, and updates a JSON document.

    python experiments/benchmarks/cluster_scale.py {tasks,small,linear,kernel,"local term"} --out FILE
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from cluster_problem import N_GRADES, SEED, moved, peak_memory, shards_on_disk, two_workers
from distributed import Client, LocalCluster
from ordrank_experiments.machine import describe_machine, print_document
from scipy.optimize import nnls

from ordrank.distributed import DaskOrdinalMetric
from ordrank.distributed.engine import Engine
from ordrank.estimators._defaults import DEFAULTS

BYTES = 4
REPEATS = 3


@dataclass(frozen=True)
class Case:
    """Sizes of a fit; components and neighbours are of the local term."""

    map: str
    rows: int
    features: int
    shards: int
    workers: int = 2
    components: int = 2
    neighbors: int = 5

    def settings(self) -> dict[str, Any]:
        """Return the parameters of the metric; model selection is not part of the cluster's cost."""
        if self.map == "kernel":
            return {"kernel": "rbf", "sharpness": 1.0, "alpha": 1e-3}
        if self.map == "linear":
            return {"kernel": "linear", "alpha": 1e-3}
        sizes = {"n_components": self.components, "n_neighbors": self.neighbors}
        return {"kernel": "linear", "alpha": 1e-3, "mu": 0.3, **sizes}

    def work(self) -> dict[str, dict[str, float]]:
        """Return the amounts of each kind of work in each phase, for one gradient or line search."""
        n, d, S, W = self.rows, self.features, self.shards, self.workers
        s, K, m = self.components, self.neighbors, DEFAULTS.n_landmarks
        once = {"rounds": 1, "tasks": S, "samples": n / W, "numbers": n * d / W}
        if self.map == "linear":
            return {"survey": once, "statistics": once | {"operations": 2 * n * d * d / W}, "sample": once}
        if self.map == "kernel":
            return {"features": {"sums": S * m * m / W, "operations": n * (2 * d * m + 3 * m * m) / W}}
        compared = n * n / N_GRADES / W
        return {
            "neighbours": {"tasks": S * S, "merged": S * n / W, "operations": 2 * d * compared},
            "one gradient": {"rounds": 2, "tasks": 2 * S, "operations": 4 * n * d * s / W, "pairs": n * K * s / W},
        }


def reset_peak() -> None:
    """Reset the peak memory of this process."""
    Path("/proc/self/clear_refs").write_text("5")


def measure(case: Case, repeats: int) -> dict[str, Any]:
    """Fit several times and return the shortest time of each phase."""
    sys.stderr.write(f"{case}\n")
    settings = {"processes": True, "threads_per_worker": 1, "memory_limit": 3 * 10**9}
    with (
        shards_on_disk(case.rows, case.features, case.shards, np.float32) as shards,
        LocalCluster(n_workers=case.workers, dashboard_address="127.0.0.1:0", **settings) as cluster,
        Client(cluster) as client,
    ):
        with shards_on_disk(3000, case.features, case.workers, np.float32) as few:  # warm-up: lazy imports
            DaskOrdinalMetric(**case.settings()).fit(few, client=client)
        found, images = [], moved(client).get("image", 0)
        gc.collect()
        reset_peak()
        before = peak_memory()
        for _ in range(repeats):
            metric = DaskOrdinalMetric(**case.settings()).fit(shards, client=client)
            found.append(metric.seconds_ | {"one gradient": metric.seconds_.get("gradients", 0) / (metric.n_iter_ + 1)})
        seconds = {phase: min(one[phase] for one in found) for phase in case.work()}
        between = (moved(client).get("image", 0) - images) // repeats
        memory = max(client.run(peak_memory).values()), peak_memory() - before
    row = {**asdict(case), "seconds": seconds}
    if case.map == "local term":
        # One gradient more than steps, and two maps per line search: every worker receives the images of the others.
        mapped = (3 * metric.n_iter_ + 1) * case.rows * case.components
        row["image_bytes"] = {"measured": between, "predicted": BYTES * (case.workers - 1) * mapped}
    return row | dict(zip(("worker_memory", "client_growth"), memory, strict=True))


def case_of(row: dict[str, Any]) -> Case:
    """Return the case of a row of the document."""
    return Case(**{field.name: row[field.name] for field in fields(Case)})


def constants(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Fit the time per unit of work in each phase by non-negative least squares of relative errors."""
    found = {}
    for phase in dict.fromkeys(phase for row in rows for phase in row["seconds"]):
        measured = [(case_of(row).work()[phase], row["seconds"][phase]) for row in rows if phase in row["seconds"]]
        kinds = list(measured[0][0])
        A = np.array([[work[kind] / seconds for kind in kinds] for work, seconds in measured])
        sizes = np.abs(A).max(axis=0)
        solution, _ = nnls(A / sizes, np.ones(len(measured)))
        found[phase] = dict(zip(kinds, (solution / sizes).tolist(), strict=True))
    return found


def predicted_over_measured(row: dict[str, Any], rates: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the ratio of predicted to measured time of each phase."""
    return {
        phase: sum(rates[phase][kind] * amount for kind, amount in work.items()) / row["seconds"][phase]
        for phase, work in case_of(row).work().items()
    }


def extrapolated(rates: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Predict the time of a billion samples on 64 machines of 16 cores with storage of 10 GB/s in total.

    Scheduler, workers and storage of a phase overlap. A local term has fewer shards, of a million samples, since each
    pair of shards is a task.
    """
    rows, d, machines, cores, storage = 10**9, 128, 64, 16, 10e9
    seconds: dict[str, dict[str, float]] = {}
    for name, shards in (("linear", 10_000), ("kernel", 10_000), ("local term", 1_000)):
        for phase, work in Case(name, rows, d, shards, machines * cores).work().items():
            parts = {kind: rates[phase][kind] * amount for kind, amount in work.items()}
            # The cost of tasks is not identifiable in phases with much work: at least that of the survey.
            tasks = max(parts.pop("tasks", 0.0), rates["survey"]["tasks"] * work.get("tasks", shards))
            passes = {"one gradient": 0, "neighbours": 2 * shards}.get(phase, 1)
            reading = passes * rows * d * BYTES / storage
            seconds[phase] = {"tasks": tasks, "workers": sum(parts.values()), "storage": reading}
    return {"rows": rows, "features": d, "machines": machines, "cores": cores, "seconds": seconds}


def identity(number: int) -> int:
    """Return the argument: a task without work."""
    return number


def measure_tasks(count: int) -> dict[str, Any]:
    """Time tasks without work, and a fit of a thousand shards of five samples each."""
    with two_workers() as client:
        engine = Engine(client)
        engine.gather(engine.map(identity, range(100)))
        times = []
        for _ in range(REPEATS):
            start, used = time.perf_counter(), time.process_time()
            engine.gather(engine.map(identity, range(count)))
            times.append((time.perf_counter() - start, time.process_time() - used))
        wall, used = (statistics.median(column) / count for column in zip(*times, strict=True))
    tiny = measure(Case("linear", 5000, 8, shards := 1000), 1)
    return {
        "tasks": count,
        "milliseconds_of_a_task": 1e3 * wall,
        "milliseconds_of_scheduler_and_client": 1e3 * used,
        "milliseconds_of_a_tiny_shard": {phase: 1e3 * seconds / shards for phase, seconds in tiny["seconds"].items()},
    }


SMALL = (
    *(Case("linear", 20_000, 16, shards) for shards in (8, 200)),
    Case("linear", 100_000, 64, 4),
    *(Case("linear", 1_000_000, d, 8, W) for d, W in ((16, 2), (64, 1), (64, 2))),
    *(Case("kernel", n, 32, shards) for n, shards in ((5_000, 8), (10_000, 4), (20_000, 8))),
    *(Case("local term", 10_000, 32, shards, W) for shards, W in ((2, 2), (8, 2), (2, 1))),
    *(Case("local term", 20_000, d, 4, 2, s, K) for d, s, K in ((64, 2, 5), (32, 4, 5), (32, 2, 10))),
    *(Case("local term", 40_000, d, shards) for d, shards in ((32, 4), (64, 2))),
)
LARGE = {
    "linear": (Case("linear", 10_000_000, 64, 100), Case("linear", 2_000_000, 200, 40)),
    "kernel": (Case("kernel", 100_000, 64, 8),),
    "local term": (Case("local term", 50_000, 64, 4, 2, 4, 10), Case("local term", 100_000, 64, 4)),
}


def main() -> None:
    """Measure one part, and update the predictions of all parts in the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["tasks", "small", *LARGE])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    document = json.loads(options.out.read_text()) if options.out.exists() else {}
    document |= {"seed": SEED, **describe_machine("distributed")}
    if options.part == "tasks":
        document["tasks"] = measure_tasks(5000)
    elif options.part == "small":
        document["small"] = [measure(case, REPEATS) for case in SMALL]
    else:
        document["large"] = document.get("large", {}) | {
            options.part: [measure(case, 2) for case in LARGE[options.part]]
        }
    if "small" in document:
        rates = constants(document["small"])
        document |= {"seconds_of_a_unit": rates, "billion": extrapolated(rates)}
        for row in (*document["small"], *(row for part in document.get("large", {}).values() for row in part)):
            row["predicted_over_measured"] = predicted_over_measured(row, rates)
    print_document(document, options.out)


if __name__ == "__main__":
    main()
