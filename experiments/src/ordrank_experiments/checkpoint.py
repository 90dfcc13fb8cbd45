"""Resumable experiments: finished units of work are kept on disk, the others run on all cores."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

import ordrank
from ordrank._io import write_files
from ordrank.errors import InputError
from ordrank_experiments.machine import describe_machine

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

U = TypeVar("U", bound="DataclassInstance")  # a frozen dataclass: a unit of work
T = TypeVar("T")
R = TypeVar("R", bound="DataclassInstance")  # a dataclass: one outcome of a unit

Read = Callable[[Mapping[str, Any]], tuple[U, list[R]]]  # from a JSON record; raises if it is malformed

_SPLITS = "splits.jsonl"


class Checkpoint(Generic[U, R]):
    """Finished units as JSON lines; a line truncated by an interrupt counts as not written.

    Parameters
    ----------
    file : Path
    identity : mapping
        Code, data, versions and seed; results of another identity are discarded. Those of other ``options``, if these
        are part of it, raise InputError.
    read : callable
        Converts ``{"unit": ..., "outcomes": [...]}`` to a unit and its outcomes.

    Attributes
    ----------
    file : Path
    discarded : bool
        Whether the file held results of another identity.
    """

    def __init__(self, file: Path, identity: Mapping[str, Any], read: Read[U, R]) -> None:
        self.file = file
        self._done: dict[U, list[R]] = {}
        lines = file.read_text(errors="replace").splitlines() if file.exists() else []
        if lines:
            stored = _parse(lines[0], lambda record: dict(record["identity"]))
            if stored is None:
                raise InputError(f"{file} exists but was not written by a run; name another folder with --out")
            if stored.get("options") != identity.get("options"):
                raise InputError(f"{file} is of a run with other options; name another folder with --out")
        same = bool(lines) and lines[0] == json.dumps({"identity": identity})
        self.discarded = bool(lines) and not same
        if same:
            self._done = dict(record for line in lines[1:] if (record := _parse(line, read)) is not None)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"identity": identity}) + "\n")

    def __contains__(self, unit: U) -> bool:
        return unit in self._done

    def add(self, unit: U, outcomes: list[R]) -> None:
        """Store a finished unit; it is on disk when this returns."""
        record = {"unit": asdict(unit), "outcomes": [asdict(outcome) for outcome in outcomes]}
        with self.file.open("a") as stream:
            # Start a new line after a truncated one.
            stream.write("\n" * self._ends_mid_line() + json.dumps(record) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        self._done[unit] = outcomes

    def outcomes(self, units: Iterable[U]) -> Iterator[R]:
        """Yield the outcomes of the given units."""
        for unit in units:
            yield from self._done[unit]

    def _ends_mid_line(self) -> bool:
        with self.file.open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) != b"\n"


@dataclass(frozen=True)
class Run:
    """Options of a long experiment.

    Finished splits are kept in ``out/splits.jsonl``: an interrupted run resumes if code, data sets, versions and seed
    are the same. Only one run at a time may use a folder.

    Attributes
    ----------
    out : Path
        Folder for the report; created if missing.
    data : Path, optional
        Folder of the data sets; ``ORDRANK_DATA`` by default.
    repeats : int
        Random splits of each condition, at least 2; 50 in the paper.
    n_jobs : int
        Processes; all cores by default.
    progress : callable
        Called with ``(stage, 0, 0)`` before each stage, and with ``("splits", done, total)`` after each split.
    """

    out: Path
    data: Path | None = None
    repeats: int = 50
    n_jobs: int = -1
    progress: Callable[[str, int, int], object] = lambda stage, done, total: None

    def __post_init__(self) -> None:
        if self.repeats < 2:
            raise InputError(f"repeats must be at least 2, for a mean and a standard deviation, got {self.repeats}")
        if self.n_jobs == 0:
            raise InputError("jobs must be a number of processes, or -1 for all cores, got 0")

    def report(self, stage: str) -> None:
        """Report the next stage."""
        self.progress(stage, 0, 0)

    def open_checkpoint(self, identity: Mapping[str, Any], read: Read[U, R]) -> Checkpoint[U, R]:
        """Return the finished units in ``out``, which is created if missing."""
        if self.out.is_dir() and any(self.out.iterdir()) and not (self.out / _SPLITS).exists():
            raise InputError(f"{self.out} is not empty and holds no run; name a new or empty folder with --out")
        checkpoint = Checkpoint(self.out / _SPLITS, identity, read)
        if checkpoint.discarded:
            self.report(f"starting over: {checkpoint.file} was made with other code, data or versions")
        return checkpoint

    def finish(
        self, units: Sequence[U], work: Callable[[U], list[R]], identity: Mapping[str, Any], read: Read[U, R]
    ) -> tuple[list[R], int]:
        """Run unfinished units; return the outcomes of all units and the number of units run."""
        checkpoint = self.open_checkpoint(identity, read)
        new = sum(unit not in checkpoint for unit in units)
        self.report(f"running {new} of {len(units)} splits")
        run_all(units, work, checkpoint, n_jobs=self.n_jobs, progress=self.progress)
        return list(checkpoint.outcomes(units)), new

    def write(self, document: Mapping[str, Any], files: Mapping[str, bytes]) -> list[Path]:
        """Write the files of a report and ``results.json``."""
        everything = {**files, "results.json": (json.dumps(document, indent=1) + "\n").encode()}
        write_files(self.out, everything)
        return [self.out / name for name in everything]


def run_all(
    units: Sequence[U],
    work: Callable[[U], list[R]],
    checkpoint: Checkpoint[U, R],
    *,
    n_jobs: int,
    progress: Callable[[str, int, int], object],
) -> None:
    """Run unfinished units in parallel, with one BLAS thread per process, and report progress after each."""
    from joblib import Parallel, delayed

    open_units = [unit for unit in units if unit not in checkpoint]
    finished = len(units) - len(open_units)
    progress("splits", finished, len(units))
    pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    for unit, outcomes in pool(delayed(_single_threaded)(work, unit) for unit in open_units):
        checkpoint.add(unit, outcomes)
        finished += 1
        progress("splits", finished, len(units))


def identify(seed: int, arrays: Iterable[NDArray[Any]]) -> dict[str, Any]:
    """Return what results depend on: seed, and hashes of code and data, and versions."""
    code, data = hashlib.sha256(), hashlib.sha256()
    for package in (ordrank.__file__, __file__):
        for file in sorted(Path(package).parent.rglob("*.py")):
            code.update(file.read_bytes())
    for array in arrays:
        data.update(np.ascontiguousarray(array).tobytes())
    versions = describe_machine()["versions"]
    return {"seed": seed, "code": code.hexdigest(), "data": data.hexdigest(), "versions": versions}


def _single_threaded(work: Callable[[U], list[R]], unit: U) -> tuple[U, list[R]]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return unit, work(unit)


def _parse(line: str, read: Callable[[Mapping[str, Any]], T]) -> T | None:
    """Parse a line; None if it is not a complete record."""
    try:
        return read(json.loads(line))
    except (ValueError, TypeError, KeyError):
        return None
