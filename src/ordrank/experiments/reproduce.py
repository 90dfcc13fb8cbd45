"""The paper re-run: features, splits, tables, figures and the folder they are written to."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.decomposition import PCA

import ordrank
from ordrank._types import FloatArray, IntArray
from ordrank.datasets import FGNET, UMIST, align_faces, load_fgnet, load_umist
from ordrank.errors import InputError
from ordrank.experiments import paper_figures
from ordrank.experiments.complexity import measure_exponents
from ordrank.experiments.machine import describe_machine
from ordrank.experiments.methods import all_methods
from ordrank.experiments.paper import Cell, cells
from ordrank.experiments.paper_report import compose
from ordrank.experiments.protocol import Journal, Method, Outcome, Unit, run_all, run_unit
from ordrank.experiments.report import write_files
from ordrank.experiments.tables import Row, make_rows, summarise

Name = Literal["umist", "fgnet", "all"]
SEED = 2015


@dataclass(frozen=True)
class Prepared:
    """A data set as the protocol uses it: principal components of all pictures, by preparation."""

    source: UMIST | FGNET
    X: dict[str, FloatArray]
    y: IntArray


@dataclass(frozen=True)
class Reproduction:
    """Everything that was found; the files are written already."""

    rows: list[Row]
    document: dict[str, Any]
    files: list[Path]


def reproduce(
    dataset: Name,
    *,
    data: Path | None = None,
    repeats: int = 50,
    out: Path,
    n_jobs: int = -1,
    tell: Callable[[str], object] = lambda text: None,
    tick: Callable[[int, int], object] = lambda done, total: None,
) -> Reproduction:
    """Run every table and figure of the paper on a data set and write the report.

    Finished splits are kept in ``out/splits.jsonl``: an interrupted run goes on where it was, as long as the
    code, the data sets, the versions and the seed are the same. One run at a time may use a folder.

    Parameters
    ----------
    dataset : {"umist", "fgnet", "all"}
    data : Path, optional
        Where the data sets are; what ``ORDRANK_DATA`` names by default.
    repeats : int
        Random splits of each cell; 50 in the paper.
    out : Path
        Folder for the report; made if missing.
    n_jobs : int
        Processes; all cores by default.
    tell, tick : callable
        Told what happens next; told how many units are done, of how many.
    """
    begin = time.perf_counter()
    if repeats < 2:
        raise InputError(f"repeats must be at least 2, for a mean and a spread, got {repeats}")
    if n_jobs == 0:
        raise InputError("jobs must be a number of processes, or -1 for all cores, got 0")
    tell("reading and reducing the pictures")
    names = ("umist", "fgnet") if dataset == "all" else (dataset,)
    prepared = {name: prepare(name, data) for name in names}
    methods, conditions = all_methods(), cells(dataset)
    units = _units(conditions, repeats)
    journal = Journal(out / "splits.jsonl", _identity(prepared))
    if journal.discarded:
        tell(f"beginning anew: {out / 'splits.jsonl'} was made with other code, data or versions")
    new = sum(unit not in journal for unit in units)
    tell(f"running {new} of {len(units)} splits")
    work = partial(_run, prepared=prepared, conditions=conditions, methods=methods)
    run_all(units, work, journal, n_jobs=n_jobs, tick=tick)
    outcomes = list(journal.outcomes(units))
    rows = make_rows(dataset, outcomes)
    tell("measuring the complexity table")
    exponents = measure_exponents()
    tell("drawing figures")
    figures = paper_figures.draw_all(prepared)
    document = {
        "dataset": dataset,
        "seed": SEED,
        "repeats": repeats,
        "rows": [asdict(row) for row in rows],
        "summary": summarise(rows, outcomes),
        "complexity": exponents,
        "seconds": {"this_run": round(time.perf_counter() - begin, 1), "splits_run": new, "splits": len(units)},
        **describe_machine(),
    }
    files = compose(rows, document, figures)
    files["results.json"] = (json.dumps(document, indent=1) + "\n").encode()
    write_files(out, files)
    return Reproduction(rows, document, [out / name for name in files])


def prepare(name: str, data: Path | None) -> Prepared:
    """Read a data set and reduce it: PCA on all pictures, centred, not scaled."""
    if name == "umist":
        umist = load_umist(data)
        X = _components(umist.images.reshape(len(umist.images), -1), 250)
        return Prepared(umist, {"raw": X, "aligned": X}, umist.label)
    fgnet = load_fgnet(data)
    aligned = align_faces(fgnet.points)
    forms = {"raw": fgnet.points, "aligned": aligned}
    return Prepared(
        fgnet, {form: _components(points.reshape(len(points), -1), 80) for form, points in forms.items()}, fgnet.label
    )


def _components(X: Any, n_components: int) -> FloatArray:
    return np.asarray(PCA(n_components, svd_solver="full").fit_transform(np.asarray(X, dtype=np.float64)))


def _units(conditions: Sequence[Cell], repeats: int) -> list[Unit]:
    """All splits, the first of every condition first, so that an early look shows all tables."""
    sizes = sorted({(cell.dataset, cell.n, cell.d) for cell in conditions}, reverse=True)
    return [Unit(dataset, n, d, repeat) for repeat in range(repeats) for dataset, n, d in sizes]


def _run(
    unit: Unit, *, prepared: dict[str, Prepared], conditions: Sequence[Cell], methods: Sequence[Method]
) -> list[Outcome]:
    mine = [cell for cell in conditions if (cell.dataset, cell.n, cell.d) == (unit.dataset, unit.n, unit.d)]
    one = prepared[unit.dataset]
    return run_unit(unit, one.X, one.y, mine, methods, SEED)


def _identity(prepared: Mapping[str, Prepared]) -> dict[str, Any]:
    """What finished splits depend on: results of other code, data or versions do not count as done."""
    code, data = hashlib.sha256(), hashlib.sha256()
    for file in sorted(Path(ordrank.__file__).parent.rglob("*.py")):
        code.update(file.read_bytes())
    for one in prepared.values():
        for array in (*one.X.values(), one.y):
            data.update(np.ascontiguousarray(array).tobytes())
    versions = describe_machine()["versions"]
    return {"seed": SEED, "code": code.hexdigest(), "data": data.hexdigest(), "versions": versions}
