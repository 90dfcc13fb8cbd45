"""Fit one metric learner on one data set: time, peak memory, and the embedded samples.

Run by ``speed.py``, also under the interpreter of another environment, which metric-learn needs: imports only NumPy
before the learner is known.

    python experiments/benchmarks/learner.py NAME DATA.npz RESULT.npz
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MEGABYTE = 2**20
WARM_UP = 60


def learner(name: str) -> Any:
    """Return an unfitted transformer by name."""
    if name.startswith(("LMNN", "MLKR")):
        import metric_learn

        return metric_learn.LMNN() if name.startswith("LMNN") else metric_learn.MLKR()
    if name.startswith("NCA"):
        from sklearn.neighbors import NeighborhoodComponentsAnalysis

        given = {"max_iter": 5} if "5 iterations" in name else {}
        return NeighborhoodComponentsAnalysis(random_state=0, **given)
    if name == "Euclidean":
        from sklearn.preprocessing import FunctionTransformer

        return FunctionTransformer()
    from ordrank import LDMLR, CMDSMetric, OrdinalMetric

    makers: dict[str, Callable[[], Any]] = {
        "OrdinalMetric, linear": lambda: OrdinalMetric(kernel="linear"),
        "OrdinalMetric": OrdinalMetric,
        "cMDS-DML, paper's solver": lambda: CMDSMetric(solver="paper"),
        "LDMLR": LDMLR,
    }
    return makers[name]()


def memory(field: str) -> float:
    """Return megabytes of this process: ``VmRSS`` now, ``VmHWM`` at its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024 / MEGABYTE
    raise RuntimeError(f"/proc/self/status has no {field}")


def reset_peak() -> None:
    """Reset the peak memory of this process."""
    Path("/proc/self/clear_refs").write_text("5")


def timed_fit(name: str, X: Any, y: Any) -> tuple[Any, float, float]:
    """Return a fitted learner, and the wall and CPU time of its fit."""
    model = learner(name)
    begin, processor = time.perf_counter(), time.process_time()
    model.fit(X, y)
    return model, time.perf_counter() - begin, time.process_time() - processor


def measure(name: str, X: Any, y: Any, queries: Any) -> dict[str, Any]:
    """Fit after a warm-up, and embed samples and queries; a fit below 2 s is repeated, its time the median of five."""
    warm_up = learner(name)
    warm_up.fit(X[:WARM_UP], y[:WARM_UP])
    warm_up.transform(X[:WARM_UP])
    reset_peak()
    before = memory("VmRSS")
    model, seconds, processor = timed_fit(name, X, y)
    peak = memory("VmHWM") - before
    times = [(seconds, processor)]
    while len(times) < 5 and seconds < 2:
        times.append(timed_fit(name, X, y)[1:])
    embedded = model.transform(X)
    begin = time.perf_counter()
    embedded_queries = model.transform(queries)
    transform_seconds = time.perf_counter() - begin
    figures = {
        "fit_seconds": float(np.median([wall for wall, _ in times])),
        "fit_processor_seconds": float(np.median([busy for _, busy in times])),
        "transform_seconds": transform_seconds,
        "peak_megabytes": peak,
        "iterations": int(np.max(getattr(model, "n_iter_", 0))),
    }
    return {"figures": json.dumps(figures), "samples": embedded, "queries": embedded_queries}


def main(name: str, data: str, result: str) -> None:
    """Measure and write the result."""
    warnings.simplefilter("ignore")  # the number of iterations is in the results
    with np.load(data) as found:
        X, y, queries = found["X"], found["y"], found["queries"]
    np.savez(result, **measure(name, X, y, queries))


if __name__ == "__main__":
    main(*sys.argv[1:])
