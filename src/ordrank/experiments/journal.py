"""Long runs in pieces: what is finished is kept on disk, the rest is done on all cores."""

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
from ordrank.errors import InputError
from ordrank.experiments.machine import describe_machine
from ordrank.pages import write_files

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

U = TypeVar("U", bound="DataclassInstance")  # a frozen dataclass: the piece of work that is done or not done
R = TypeVar("R", bound="DataclassInstance")  # a dataclass: one outcome of a piece

Read = Callable[[Mapping[str, Any]], tuple[U, list[R]]]  # from a record of JSON; a wrong one raises


class Journal(Generic[U, R]):
    """Finished units, one JSON line each; a line that was cut off by an interrupt counts as not written.

    Parameters
    ----------
    file : Path
    identity : mapping
        What must be the same for old results to count: code, data, versions, seed.
    read : callable
        Makes a unit and its outcomes of ``{"unit": ..., "outcomes": [...]}``.

    Attributes
    ----------
    file : Path
    discarded : bool
        Whether there was a file of another identity, which was begun anew.
    """

    def __init__(self, file: Path, identity: Mapping[str, Any], read: Read[U, R]) -> None:
        self.file = file
        self._done: dict[U, list[R]] = {}
        lines = file.read_text(errors="replace").splitlines() if file.exists() else []
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
        """Keep a finished unit, on disk before this returns."""
        record = {"unit": asdict(unit), "outcomes": [asdict(outcome) for outcome in outcomes]}
        with self.file.open("a") as stream:
            # A line that an earlier interrupt cut off must not swallow this one.
            stream.write("\n" * self._ends_mid_line() + json.dumps(record) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        self._done[unit] = outcomes

    def outcomes(self, units: Iterable[U]) -> Iterator[R]:
        """Everything found in the given units."""
        for unit in units:
            yield from self._done[unit]

    def _ends_mid_line(self) -> bool:
        with self.file.open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) != b"\n"


@dataclass(frozen=True)
class Run:
    """How a long experiment is run, and where it is written.

    Finished splits are kept in ``out/splits.jsonl``: an interrupted run goes on where it was, as long as the code,
    the data sets, the versions and the seed are the same. One run at a time may use a folder.

    Attributes
    ----------
    out : Path
        Folder for the report; made if missing.
    data : Path, optional
        Where the data sets are; what ``ORDRANK_DATA`` names by default.
    repeats : int
        Random splits of each cell, at least 2; 50 in the paper.
    n_jobs : int
        Processes; all cores by default.
    tell, tick : callable
        Told what happens next; told how many splits are done, of how many.
    """

    out: Path
    data: Path | None = None
    repeats: int = 50
    n_jobs: int = -1
    tell: Callable[[str], object] = lambda text: None
    tick: Callable[[int, int], object] = lambda done, total: None

    def __post_init__(self) -> None:
        if self.repeats < 2:
            raise InputError(f"repeats must be at least 2, for a mean and a spread, got {self.repeats}")
        if self.n_jobs == 0:
            raise InputError("jobs must be a number of processes, or -1 for all cores, got 0")

    def finish(
        self, units: Sequence[U], work: Callable[[U], list[R]], identity: Mapping[str, Any], read: Read[U, R]
    ) -> tuple[list[R], int]:
        """Do what is not done yet and say so; all outcomes of the units, and how many units were run now."""
        journal = Journal(self.out / "splits.jsonl", identity, read)
        if journal.discarded:
            self.tell(f"beginning anew: {journal.file} was made with other code, data or versions")
        new = sum(unit not in journal for unit in units)
        self.tell(f"running {new} of {len(units)} splits")
        run_all(units, work, journal, n_jobs=self.n_jobs, tick=self.tick)
        return list(journal.outcomes(units)), new

    def write(self, document: Mapping[str, Any], files: Mapping[str, bytes]) -> list[Path]:
        """Write the files of a report, with the document of its results beside them."""
        everything = {**files, "results.json": (json.dumps(document, indent=1) + "\n").encode()}
        write_files(self.out, everything)
        return [self.out / name for name in everything]


def run_all(
    units: Sequence[U],
    work: Callable[[U], list[R]],
    journal: Journal[U, R],
    *,
    n_jobs: int,
    tick: Callable[[int, int], object],
) -> None:
    """Do what is not done yet, on all cores; ``tick(done, all)`` after each unit.

    Each worker keeps to one BLAS thread: the cores are busy with units.
    """
    from joblib import Parallel, delayed

    open_units = [unit for unit in units if unit not in journal]
    finished = len(units) - len(open_units)
    tick(finished, len(units))
    pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    for unit, outcomes in pool(delayed(_single_threaded)(work, unit) for unit in open_units):
        journal.add(unit, outcomes)
        finished += 1
        tick(finished, len(units))


def identify(seed: int, arrays: Iterable[NDArray[Any]]) -> dict[str, Any]:
    """What finished units depend on: results of other code, data or versions do not count as done."""
    code, data = hashlib.sha256(), hashlib.sha256()
    for file in sorted(Path(ordrank.__file__).parent.rglob("*.py")):
        code.update(file.read_bytes())
    for array in arrays:
        data.update(np.ascontiguousarray(array).tobytes())
    versions = describe_machine()["versions"]
    return {"seed": seed, "code": code.hexdigest(), "data": data.hexdigest(), "versions": versions}


def _single_threaded(work: Callable[[U], list[R]], unit: U) -> tuple[U, list[R]]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return unit, work(unit)


def _parse(line: str, read: Read[U, R]) -> tuple[U, list[R]] | None:
    """Read a finished unit back; None for a line that is not one, whole."""
    try:
        return read(json.loads(line))
    except (ValueError, TypeError, KeyError):
        return None
