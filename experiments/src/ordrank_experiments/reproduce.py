"""The paper re-run: features, splits, tables and figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.decomposition import PCA

from ordrank._protocols import FloatArray, IntArray
from ordrank_experiments import paper_figures
from ordrank_experiments.checkpoint import Run, identify
from ordrank_experiments.complexity import measure_exponents
from ordrank_experiments.datasets import FGNET, UMIST, align_faces, load_fgnet, load_umist
from ordrank_experiments.machine import describe_machine
from ordrank_experiments.paper import Cell, cells
from ordrank_experiments.paper_methods import all_methods
from ordrank_experiments.paper_report import compose
from ordrank_experiments.protocol import Outcome, PaperMethod, Unit, read_outcomes, run_unit
from ordrank_experiments.tables import Row, make_rows, summarise

Name = Literal["umist", "fgnet", "all"]
SEED = 2015


@dataclass(frozen=True)
class Prepared:
    """A data set and its features, by preparation: principal components of all pictures, and their pixels."""

    source: UMIST | FGNET
    X: dict[str, FloatArray]
    y: IntArray


@dataclass(frozen=True)
class Reproduction:
    """Results, and the files they were written to."""

    rows: list[Row]
    document: dict[str, Any]
    files: list[Path]


def reproduce(dataset: Name, run: Run) -> Reproduction:
    """Run every table and figure of the paper on a data set and write the report.

    Parameters
    ----------
    dataset : {"umist", "fgnet", "all"}
    run : Run
    """
    begin = time.perf_counter()
    run.report("reading and reducing the pictures")
    names = ("umist", "fgnet") if dataset == "all" else (dataset,)
    prepared = {name: prepare(name, run.data) for name in names}
    methods, conditions = all_methods(), cells(dataset)
    units = _units(conditions, run.repeats)
    identity = identify(SEED, [array for one in prepared.values() for array in (*one.X.values(), one.y)])
    work = partial(_run, prepared=prepared, conditions=conditions, methods=methods)
    outcomes, new = run.finish(units, work, identity, read_outcomes)
    rows = make_rows(dataset, outcomes)
    run.report("measuring the complexity table")
    exponents = measure_exponents()
    run.report("drawing figures")
    figures = paper_figures.draw_all(prepared)
    document = {
        "dataset": dataset,
        "seed": SEED,
        "repeats": run.repeats,
        "rows": [asdict(row) for row in rows],
        "summary": summarise(rows, outcomes),
        "complexity": exponents,
        "seconds": {"this_run": round(time.perf_counter() - begin, 1), "splits_run": new, "splits": len(units)},
        **describe_machine(),
    }
    return Reproduction(rows, document, run.write(document, compose(rows, document, figures)))


def prepare(name: str, data: Path | None) -> Prepared:
    """Load a data set and reduce it by PCA of all pictures, centred, not scaled."""
    if name == "umist":
        umist = load_umist(data)
        X = principal_components(umist.images, 250)
        pixels = np.asarray(umist.images, dtype=np.float64).reshape(len(X), -1)
        return Prepared(umist, {"raw": X, "aligned": X, "pixels": pixels}, umist.label)
    fgnet = load_fgnet(data)
    forms = {"raw": fgnet.points, "aligned": align_faces(fgnet.points), "scaled": unit_coordinates(fgnet.points)}
    return Prepared(fgnet, {form: principal_components(points, 80) for form, points in forms.items()}, fgnet.label)


def unit_coordinates(points: FloatArray) -> FloatArray:
    """Return faces (n, 68, 2), centred and divided by the root mean square deviation of a coordinate from its mean."""
    centred = points - points.mean(axis=0)
    return np.asarray(centred / np.sqrt(np.mean(centred**2)))


def principal_components(X: Any, n_components: int) -> FloatArray:
    """Return the first principal components of samples (n, ...), centred, not scaled."""
    return np.asarray(
        PCA(n_components, svd_solver="full").fit_transform(np.asarray(X, dtype=np.float64).reshape(len(X), -1))
    )


def _units(conditions: Sequence[Cell], repeats: int) -> list[Unit]:
    """Return all splits, the first repeat of every condition first."""
    sizes = sorted({(cell.dataset, cell.n, cell.d) for cell in conditions}, reverse=True)
    return [Unit(dataset, n, d, repeat) for repeat in range(repeats) for dataset, n, d in sizes]


def _run(
    unit: Unit, *, prepared: dict[str, Prepared], conditions: Sequence[Cell], methods: Sequence[PaperMethod]
) -> list[Outcome]:
    mine = [cell for cell in conditions if (cell.dataset, cell.n, cell.d) == (unit.dataset, unit.n, unit.d)]
    one = prepared[unit.dataset]
    return run_unit(unit, one.X, one.y, mine, methods, SEED, one.source.subject)
