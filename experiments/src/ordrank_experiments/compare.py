"""The default model, the paper's methods and other packages on the same splits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ordrank_experiments.baseline_environment import environment_versions, installed_versions
from ordrank_experiments.baselines import PACKAGES, baselines
from ordrank_experiments.checkpoint import Run, identify
from ordrank_experiments.compare_report import compose
from ordrank_experiments.conditions import SEED, Benchmark, Split, list_splits, load_benchmarks
from ordrank_experiments.machine import describe_machine
from ordrank_experiments.method import Method
from ordrank_experiments.own_methods import own_methods
from ordrank_experiments.paper import Dataset
from ordrank_experiments.scores import Score, read_scores, run_split
from ordrank_experiments.significance import make_rows, paired_tests, summarise

Name = Literal["umist", "fgnet", "retinamnist", "tables", "small-tables", "drawn", "all"]


@dataclass(frozen=True)
class Comparison:
    """Results, and the files they were written to."""

    document: dict[str, Any]
    files: list[Path]


def all_methods(settings_of: Dataset) -> list[Method]:
    """Return all methods; the paper's with their settings for the data set ``settings_of``."""
    return [*own_methods(settings_of), *baselines()]


def compare(dataset: Name, run: Run) -> Comparison:
    """Run every method on every split of a data set and write the report.

    Parameters
    ----------
    dataset : {"umist", "fgnet", "retinamnist", "tables", "small-tables", "drawn", "all"}
    run : Run
        Costly conditions have fewer repeats. Installing a baseline invalidates finished splits.
    """
    begin = time.perf_counter()
    run.report("reading and reducing the data")
    benchmarks = {benchmark.name: benchmark for benchmark in load_benchmarks(dataset, run.data)}
    machine, units = _describe(), list_splits(list(benchmarks.values()), run.repeats)
    identity = identify(SEED, [array for benchmark in benchmarks.values() for array in (benchmark.X, benchmark.y)])
    identity["versions"] = machine["versions"]
    scores, new = run.finish(units, partial(_run, benchmarks=benchmarks), identity, read_scores)
    methods = all_methods("fgnet")
    rows, tests = make_rows(scores, methods), paired_tests(scores, methods)
    seconds = {"this_run": round(time.perf_counter() - begin, 1), "splits_run": new, "splits": len(units)}
    document = {
        "dataset": dataset,
        "seed": SEED,
        "repeats": run.repeats,
        "benchmarks": [_describe_benchmark(benchmark) for benchmark in benchmarks.values()],
        "rows": [asdict(row) for row in rows],
        "tests": [asdict(test) for test in tests],
        "summary": summarise(rows, tests),
        "choices": {method.name: method.choices for method in methods},
        "seconds": seconds | {"of_methods": _seconds(scores)},
        **machine,
    }
    run.report("writing the report")
    return Comparison(document, run.write(document, compose(rows, tests, document)))


def _run(split: Split, *, benchmarks: Mapping[str, Benchmark]) -> list[Score]:
    benchmark = benchmarks[split.benchmark]
    return run_split(split, benchmark, all_methods(benchmark.settings_of))


def _describe() -> dict[str, Any]:
    """Describe the machine, with the versions of the installed baselines."""
    machine = describe_machine()
    return machine | {"versions": machine["versions"] | installed_versions(PACKAGES) | environment_versions()}


def _describe_benchmark(benchmark: Benchmark) -> dict[str, Any]:
    rules = [{"name": rule.name, "text": rule.text, "max_repeats": rule.max_repeats} for rule in benchmark.rules]
    copies = (benchmark.rules[0].max_repeats or 1) if benchmark.standardise else 1  # hold-outs repeat the table
    return {"name": benchmark.name, "title": benchmark.title, "samples": len(benchmark.y) // copies, "rules": rules}


def _seconds(scores: Sequence[Score]) -> dict[str, float]:
    """Return the total time of each method, over all runs."""
    total: dict[str, float] = {}
    for score in scores:
        spent = (score.search_seconds or 0.0) + (score.fit_seconds or 0.0) + (score.predict_seconds or 0.0)
        total[score.method] = round(total.get(score.method, 0.0) + spent, 2)
    return total
