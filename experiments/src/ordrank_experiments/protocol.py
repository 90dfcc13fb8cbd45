"""The protocol of the paper's Section 5: random balanced training sets, k-NN regression, repeats."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.neighbors import k_nearest
from ordrank_experiments.paper import Cell

MAX_VOTES = 9


@dataclass(frozen=True)
class Learned:
    """A distance learned from one training set.

    Attributes
    ----------
    embed : callable
        Maps samples to the space in which the distance is Euclidean.
    fit_seconds : float
        Time of one fit with the selected hyperparameters.
    choice_seconds : float
        Time of model selection.
    votes : int
        Number of neighbours k.
    chosen : dict
        The other selected hyperparameters.
    estimate : callable, optional
        Predicts grades; by default, the mean grade of k neighbours.
    """

    embed: Callable[[FloatArray], FloatArray]
    fit_seconds: float
    choice_seconds: float
    votes: int
    chosen: dict[str, Any]
    estimate: Callable[[FloatArray], FloatArray] | None = None


@dataclass(frozen=True)
class PaperMethod:
    """A row of a table: how a distance is learned in a cell, and from which features."""

    name: str
    learn: Callable[..., Learned]  # samples, labels, cell, and the test samples if ``transductive``
    preparation: str
    depends_on: str  # the sizes of a cell, among "Ks", that change what is learned
    only: str | None = None  # its data set, if not all
    transductive: bool = False  # whether it is fitted with the unlabelled test samples
    own_reduction: bool = False  # whether it gets all features, and reduces them to d dimensions itself
    even_subjects: bool = False  # whether its training samples are drawn evenly from the subjects of a label
    score_all: bool = False  # whether its error is that of all samples, including those of training


@dataclass(frozen=True)
class Outcome:
    """One method on one split of one cell.

    ``mae_by_votes[k-1]`` is the error of uniform k-NN regression, ``own_mae`` that of ``Learned.estimate``.
    """

    cell: Cell
    method: str
    repeat: int
    fit_seconds: float
    choice_seconds: float
    votes: int
    mae_by_votes: tuple[float, ...]
    chosen: dict[str, Any]
    own_mae: float | None = None

    @property
    def mae(self) -> float:
        """MAE of the method's own prediction, or with its own k."""
        return self.mae_by_votes[self.votes - 1] if self.own_mae is None else self.own_mae


@dataclass(frozen=True, order=True)
class Unit:
    """One split of one training size and dimension: the unit of work."""

    dataset: str
    n: int
    d: int
    repeat: int


def balanced_split(y: NDArray[Any], n: int, seed: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Draw n / m training samples of each of the m labels; test on the rest."""
    rng = np.random.default_rng(seed)
    labels = np.unique(y)
    each = n // len(labels)
    train = np.sort(np.concatenate([rng.permutation(np.flatnonzero(y == label))[:each] for label in labels]))
    return train, np.setdiff1d(np.arange(len(y)), train)


def even_split(y: NDArray[Any], subject: NDArray[Any], n: int, seed: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Draw n / m training samples of each of the m labels, one of each subject in turn; test on the rest.

    Both the subjects of a label and the samples of a subject are in random order.
    """
    rng = np.random.default_rng(seed)
    labels = np.unique(y)
    train: list[int] = []
    for label in labels:
        subjects = rng.permutation(np.unique(subject[y == label]))
        samples = [rng.permutation(np.flatnonzero((y == label) & (subject == one))) for one in subjects]
        rank = np.concatenate([np.arange(len(own)) for own in samples])
        in_turn = np.concatenate(samples)[np.argsort(rank, kind="stable")]
        train.extend(in_turn[: n // len(labels)].tolist())
    chosen = np.sort(train)
    return chosen, np.setdiff1d(np.arange(len(y)), chosen)


def errors_by_votes(
    Z_train: NDArray[np.floating], y_train: IntArray, Z_test: NDArray[np.floating], y_test: IntArray
) -> FloatArray:
    """Return the MAE of uniform k-NN regression for k = 1, 2, ...; shape (MAX_VOTES,)."""
    nearest, _ = k_nearest(Z_train, Z_test, MAX_VOTES)
    means = np.cumsum(y_train[nearest], axis=1) / np.arange(1, MAX_VOTES + 1)
    return np.asarray(np.abs(means - y_test[:, None]).mean(axis=0))


def run_unit(
    unit: Unit,
    X: Mapping[str, FloatArray],
    y: IntArray,
    cells: Sequence[Cell],
    methods: Sequence[PaperMethod],
    seed: int,
    subject: NDArray[Any] | None = None,
) -> list[Outcome]:
    """Run every method on every cell of a unit, on the same split; ``subject`` (n,) is for methods that draw evenly."""
    split = balanced_split(y, unit.n, (seed, unit.repeat))
    outcomes = []
    learned: dict[tuple[Any, ...], tuple[Learned, FloatArray, float | None]] = {}
    for cell in cells:
        for method in methods:
            if method.only not in (None, cell.dataset):
                continue
            features = X[method.preparation]
            if not method.own_reduction:
                features = features[:, : cell.d]
            key = (method.name, *(getattr(cell, size) for size in method.depends_on))
            if key not in learned:
                if method.even_subjects:
                    assert subject is not None
                    train, test = even_split(y, subject, unit.n, (seed, unit.repeat))
                else:
                    train, test = split
                learned[key] = _learn_and_score(method, cell, features, y, train, test)
            result, errors, own = learned[key]
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
                    own_mae=own,
                )
            )
    return outcomes


def _learn_and_score(
    method: PaperMethod, cell: Cell, X: FloatArray, y: IntArray, train: IntArray, test: IntArray
) -> tuple[Learned, FloatArray, float | None]:
    """Learn from the training part; return test errors of uniform k-NN and of the method's own prediction."""
    others = (X[test],) if method.transductive else ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # early stops are part of the published algorithms
        result = method.learn(X[train], y[train], cell, *others)
    embedded = result.embed(X)
    scored = slice(None) if method.score_all else test
    errors = errors_by_votes(embedded[train], y[train], embedded[scored], y[scored])
    own = None if result.estimate is None else float(np.abs(result.estimate(X[test]) - y[test]).mean())
    return result, errors, own


def read_outcomes(record: Mapping[str, Any]) -> tuple[Unit, list[Outcome]]:
    """Convert a record of the checkpoint file to a unit and its outcomes."""
    return Unit(**record["unit"]), [_outcome(fields) for fields in record["outcomes"]]


def _outcome(fields: dict[str, Any]) -> Outcome:
    own = {"cell": Cell(**fields["cell"]), "mae_by_votes": tuple(fields["mae_by_votes"])}
    return Outcome(**(fields | own))
