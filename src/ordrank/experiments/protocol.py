"""The paper's Section 5: random balanced training sets, k-NN regression, repeats; in parallel and resumable."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.experiments.paper import Cell
from ordrank.neighbors import k_nearest

MOST_VOTES = 9


@dataclass(frozen=True)
class Learned:
    """What a method made of one training set.

    Attributes
    ----------
    embed : callable
        Samples to the space in which the learned distance is Euclidean.
    fit_seconds : float
        Time of one fit with the parameters in use.
    choice_seconds : float
        Time spent on choosing them.
    votes : int
        Number of voting neighbours.
    chosen : dict
        Everything else it chose.
    """

    embed: Callable[[FloatArray], FloatArray]
    fit_seconds: float
    choice_seconds: float
    votes: int
    chosen: dict[str, Any]


@dataclass(frozen=True)
class Method:
    """A row of a table: how a distance is learned in a cell, and from which preparation of the features."""

    name: str
    learn: Callable[[FloatArray, IntArray, Cell], Learned]
    preparation: str
    depends_on: str  # the sizes of a cell, of "Ks", that change what is learned
    only: str | None = None  # the data set it is for, if not all


@dataclass(frozen=True)
class Outcome:
    """One method on one split of one cell; ``mae_by_votes[k-1]`` is the error with k uniform mean votes."""

    cell: Cell
    method: str
    repeat: int
    fit_seconds: float
    choice_seconds: float
    votes: int
    mae_by_votes: tuple[float, ...]
    chosen: dict[str, Any]

    @property
    def mae(self) -> float:
        """Error with the method's own number of voting neighbours."""
        return self.mae_by_votes[self.votes - 1]


@dataclass(frozen=True, order=True)
class Unit:
    """One split of one training size and dimension: the piece of work that is done or not done."""

    dataset: str
    n: int
    d: int
    repeat: int


def balanced_split(y: NDArray[Any], n: int, seed: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Draw n / m training samples from each of the m labels; the rest are for testing."""
    rng = np.random.default_rng(seed)
    labels = np.unique(y)
    each = n // len(labels)
    train = np.sort(np.concatenate([rng.permutation(np.flatnonzero(y == label))[:each] for label in labels]))
    return train, np.setdiff1d(np.arange(len(y)), train)


def errors_by_votes(
    Z_train: NDArray[np.floating], y_train: IntArray, Z_test: NDArray[np.floating], y_test: IntArray
) -> FloatArray:
    """MAE of k-NN regression with uniform votes for k = 1, 2, ...; shape (MOST_VOTES,)."""
    nearest, _ = k_nearest(Z_train, Z_test, MOST_VOTES)
    means = np.cumsum(y_train[nearest], axis=1) / np.arange(1, MOST_VOTES + 1)
    return np.asarray(np.abs(means - y_test[:, None]).mean(axis=0))


def run_unit(
    unit: Unit,
    X: Mapping[str, FloatArray],
    y: IntArray,
    cells: Sequence[Cell],
    methods: Sequence[Method],
    seed: int,
) -> list[Outcome]:
    """Run every method on every cell of a unit, all on the same split."""
    train, test = balanced_split(y, unit.n, (seed, unit.repeat))
    outcomes = []
    learned: dict[tuple[Any, ...], tuple[Learned, FloatArray]] = {}
    for cell in cells:
        for method in methods:
            if method.only not in (None, cell.dataset):
                continue
            features = X[method.preparation][:, : cell.d]
            key = (method.name, *(getattr(cell, size) for size in method.depends_on))
            if key not in learned:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # early stops are part of the published algorithms
                    result = method.learn(features[train], y[train], cell)
                embedded = result.embed(features)
                learned[key] = result, errors_by_votes(embedded[train], y[train], embedded[test], y[test])
            result, errors = learned[key]
            outcomes.append(
                Outcome(
                    cell=cell,
                    method=method.name,
                    repeat=unit.repeat,
                    fit_seconds=result.fit_seconds,
                    choice_seconds=result.choice_seconds,
                    votes=result.votes,
                    mae_by_votes=tuple(errors.tolist()),
                    chosen=result.chosen,
                )
            )
    return outcomes


class Journal:
    """Finished units, one JSON line each; a line that was cut off by an interrupt counts as not written.

    Parameters
    ----------
    file : Path
    identity : dict
        What must be the same for old results to count: code, data, versions, seed.

    Attributes
    ----------
    discarded : bool
        Whether there was a file of another identity, which was begun anew.
    """

    def __init__(self, file: Path, identity: Mapping[str, Any]) -> None:
        self._file = file
        self._done: dict[Unit, list[Outcome]] = {}
        lines = file.read_text(errors="replace").splitlines() if file.exists() else []
        same = bool(lines) and lines[0] == json.dumps({"identity": identity})
        self.discarded = bool(lines) and not same
        if same:
            self._done = dict(record for line in lines[1:] if (record := _parse(line)) is not None)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"identity": identity}) + "\n")

    def __contains__(self, unit: Unit) -> bool:
        return unit in self._done

    def add(self, unit: Unit, outcomes: list[Outcome]) -> None:
        """Keep a finished unit, on disk before this returns."""
        record = {"unit": asdict(unit), "outcomes": [asdict(outcome) for outcome in outcomes]}
        with self._file.open("a") as stream:
            # A line that an earlier interrupt cut off must not swallow this one.
            stream.write("\n" * self._ends_mid_line() + json.dumps(record) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        self._done[unit] = outcomes

    def outcomes(self, units: Iterable[Unit]) -> Iterator[Outcome]:
        """Everything found in the given units."""
        for unit in units:
            yield from self._done[unit]

    def _ends_mid_line(self) -> bool:
        with self._file.open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) != b"\n"


def run_all(
    units: Sequence[Unit],
    work: Callable[[Unit], list[Outcome]],
    journal: Journal,
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


def _single_threaded(work: Callable[[Unit], list[Outcome]], unit: Unit) -> tuple[Unit, list[Outcome]]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return unit, work(unit)


def _parse(line: str) -> tuple[Unit, list[Outcome]] | None:
    """Read a finished unit back; None for a line that is not one, whole."""
    try:
        record = json.loads(line)
        outcomes = [_outcome(fields) for fields in record["outcomes"]]
        return Unit(**record["unit"]), outcomes
    except (ValueError, TypeError, KeyError):
        return None


def _outcome(fields: dict[str, Any]) -> Outcome:
    own = {"cell": Cell(**fields["cell"]), "mae_by_votes": tuple(fields["mae_by_votes"])}
    return Outcome(**(fields | own))
