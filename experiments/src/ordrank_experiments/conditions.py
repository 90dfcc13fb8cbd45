"""The data sets of the comparison and the rules that split them into training and test samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank_experiments.datasets import TABLES, align_faces, load_fgnet, load_retinamnist, load_table
from ordrank_experiments.drawn_tables import (
    DRAWN_REPEATS,
    DRAWN_SAMPLES,
    DRAWN_SIZES,
    DRAWN_TABLES,
    DRAWN_TRAINING,
    DrawnTable,
    draw_tables,
)
from ordrank_experiments.paper import Dataset
from ordrank_experiments.protocol import balanced_split
from ordrank_experiments.reproduce import Prepared, prepare, principal_components

SEED = 2026  # of splits and drawn tables; nothing was tuned on it
MAX_DISJOINT_REPEATS, MAX_AGES_REPEATS = 20, 10  # so that everything takes hours, not days
INDEPENDENT_RULES = ("drawn",)  # whose splits share no samples
SMALL_SIZES = (24, 50)  # training samples of small tables
TRAINING_SUBJECTS = 0.7  # share of the subjects whose pictures are for training (FG-NET, all ages)

Indices: TypeAlias = tuple[IntArray, IntArray]  # of training and of test samples


@dataclass(frozen=True, order=True)
class Split:
    """One split of one benchmark: the unit of work."""

    benchmark: str
    rule: str
    n: int
    repeat: int


@dataclass(frozen=True)
class SplitRule:
    """A way to split a data set.

    Attributes
    ----------
    name : {"random", "subject-disjoint", "hold-out", "part of a hold-out", "official", "drawn"}
    text : str
        Description, for the report.
    sizes : tuple of int
        Numbers of training samples.
    max_repeats : int or None
        Number of splits that exist or are affordable; None for any number.
    draw : callable
        Maps a number of training samples and a repeat to the indices of training and test samples.
    """

    name: str
    text: str
    sizes: tuple[int, ...]
    max_repeats: int | None
    draw: Callable[[int, int], Indices]


@dataclass(frozen=True)
class Benchmark:
    """A data set and its split rules.

    Attributes
    ----------
    name, title : str
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
        Labels, integers.
    subject : ndarray of shape (n,), or None
        Person on each picture.
    rules : tuple of SplitRule
    standardise : bool
        Whether to standardise the columns on the training part.
    settings_of : {"umist", "fgnet"}
        Data set of the paper whose settings the paper's methods use.
    """

    name: str
    title: str
    X: FloatArray
    y: FloatArray
    subject: NDArray[Any] | None
    rules: tuple[SplitRule, ...]
    standardise: bool = False
    settings_of: Dataset = "fgnet"

    def rule(self, name: str) -> SplitRule:
        """Return the split rule of this name."""
        return next(rule for rule in self.rules if rule.name == name)


@dataclass(frozen=True)
class SplitData:
    """Training and test samples of one split.

    ``subject_train`` and ``subject_test`` are given if some subjects are in both parts; ``groups``, the subjects of
    the training samples, if none is.
    """

    X_train: FloatArray
    y_train: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    subject_train: NDArray[Any] | None
    subject_test: NDArray[Any] | None
    groups: NDArray[Any] | None = None


def load_benchmarks(dataset: str, data: Path | None) -> list[Benchmark]:
    """Load "umist", "fgnet" (five ages, and all ages), "retinamnist", "tables", "small-tables", "drawn" or "all"."""
    loaders: dict[str, Callable[[Path | None], list[Benchmark]]] = {
        "umist": lambda path: [_umist(path)],
        "fgnet": lambda path: [_five_ages(path), _all_ages(path)],
        "retinamnist": lambda path: [_retinamnist(path)],
        "tables": lambda path: [_table(name, path) for name in TABLES],
        "small-tables": lambda path: [_small_table(name, path) for name in TABLES],
        "drawn": lambda path: [_drawn_table(kind) for kind in DRAWN_TABLES],
    }
    names = list(loaders) if dataset == "all" else [dataset]
    return [benchmark for name in names for benchmark in loaders[name](data)]


def list_splits(benchmarks: Sequence[Benchmark], repeats: int) -> list[Split]:
    """Return all splits, the first repeat of every condition first."""
    splits = [
        Split(benchmark.name, rule.name, n, repeat)
        for benchmark in benchmarks
        for rule in benchmark.rules
        for n in rule.sizes
        for repeat in range(repeats if rule.max_repeats is None else min(repeats, rule.max_repeats))
    ]
    return sorted(splits, key=lambda split: split.repeat)


def split_data(benchmark: Benchmark, split: Split) -> SplitData:
    """Return the samples of a split."""
    train, test = benchmark.rule(split.rule).draw(split.n, split.repeat)
    X_train, X_test = benchmark.X[train], benchmark.X[test]
    if benchmark.standardise:
        mean, std = X_train.mean(axis=0), X_train.std(axis=0)
        std[std == 0] = 1.0
        X_train, X_test = (X_train - mean) / std, (X_test - mean) / std
    parts = X_train, benchmark.y[train], X_test, benchmark.y[test]
    if benchmark.subject is None:
        return SplitData(*parts, None, None)
    subject_train, subject_test = benchmark.subject[train], benchmark.subject[test]
    if np.isin(subject_test, subject_train).any():
        return SplitData(*parts, subject_train, subject_test)
    return SplitData(*parts, None, None, groups=subject_train)


def draw_balanced(n: int, repeat: int, *, y: NDArray[Any]) -> Indices:
    """Draw n / m training samples of each of the m labels, as in the paper."""
    return balanced_split(y, n, (SEED, repeat))


def draw_random(n: int, repeat: int, *, size: int) -> Indices:
    """Draw n of ``size`` samples for training."""
    order = np.random.default_rng((SEED, repeat)).permutation(size)
    return np.sort(order[:n]), np.sort(order[n:])


def draw_half_of_subjects(n: int, repeat: int, *, y: NDArray[Any], subject: NDArray[Any]) -> Indices:
    """Draw half of the subjects and up to n / m of their samples of each label; test on the other subjects.

    If every subject has a single label, subjects are halved label by label, so that no label is missing.
    """
    rng = np.random.default_rng((SEED, repeat))
    training = np.isin(subject, list(_half_of_subjects(y, subject, rng)))
    labels = np.unique(y)
    drawn = [rng.permutation(np.flatnonzero(training & (y == label)))[: n // len(labels)] for label in labels]
    return np.sort(np.concatenate(drawn)), np.flatnonzero(~training)


def _half_of_subjects(y: NDArray[Any], subject: NDArray[Any], rng: np.random.Generator) -> Iterator[Any]:
    subjects = np.unique(subject)
    one_label = all(len(np.unique(y[subject == person])) == 1 for person in subjects)
    strata = [np.unique(subject[y == label]) for label in np.unique(y)] if one_label else [subjects]
    for stratum in strata:
        yield from rng.permutation(stratum)[: (len(stratum) + 1) // 2]


def draw_subjects(n: int, repeat: int, *, subject: NDArray[Any]) -> Indices:
    """Draw 70 % of the subjects with all their samples, about ``n``, for training."""
    subjects = np.random.default_rng((SEED, repeat)).permutation(np.unique(subject))
    training = np.isin(subject, subjects[: round(TRAINING_SUBJECTS * len(subjects))])
    return np.flatnonzero(training), np.flatnonzero(~training)


def take_holdout(n: int, repeat: int, *, size: int) -> Indices:
    """Return a given hold-out: ``size`` consecutive samples each, the n training samples first."""
    rows = repeat * size + np.arange(size)
    return rows[:n], rows[n:]


def draw_from_holdout(n: int, repeat: int, *, size: int, n_train: int) -> Indices:
    """Draw n of the ``n_train`` training samples of a given hold-out; test on its whole test part."""
    train, test = take_holdout(n_train, repeat, size=size)
    return np.sort(np.random.default_rng((SEED, repeat)).permutation(train)[:n]), test


def take_drawn_table(n: int, repeat: int) -> Indices:
    """Return the first n training samples and the test samples of a drawn table; the sizes share test samples."""
    rows = repeat * DRAWN_SAMPLES + np.arange(DRAWN_SAMPLES)
    return rows[:n], rows[DRAWN_TRAINING:]


def _umist(data: Path | None) -> Benchmark:
    return _faces("umist", "UMIST, 150 principal components", prepare("umist", data), (30, 60, 90), 150)


def _five_ages(data: Path | None) -> Benchmark:
    title = "FG-NET, five ages, aligned landmarks, 80 principal components"
    return _faces("fgnet", title, prepare("fgnet", data), (40, 50, 75), 80)


def _faces(name: Dataset, title: str, prepared: Prepared, sizes: tuple[int, ...], d: int) -> Benchmark:
    """Split a data set of the paper by its own rule, and with disjoint subjects."""
    y, subject = prepared.y.astype(np.float64), prepared.source.subject
    random = SplitRule(
        "random",
        "as in the paper: n/m random pictures of each of the m labels for training, all others for testing",
        sizes,
        None,
        partial(draw_balanced, y=y),
    )
    disjoint = SplitRule(
        "subject-disjoint",
        "half of the people (label by label where each person has one label): up to n/m of their pictures of each "
        "label for training, all pictures of the other people for testing; model selection leaves out whole people",
        sizes,
        MAX_DISJOINT_REPEATS,
        partial(draw_half_of_subjects, y=y, subject=subject),
    )
    return Benchmark(name, title, prepared.X["aligned"][:, :d], y, subject, (random, disjoint), settings_of=name)


def _all_ages(data: Path | None) -> Benchmark:
    faces = load_fgnet(data, ages=None)
    X, n = principal_components(align_faces(faces.points), 80), len(faces.points)
    random = SplitRule(
        "random", "a random half for training", (n // 2,), MAX_AGES_REPEATS, partial(draw_random, size=n)
    )
    disjoint = SplitRule(
        "subject-disjoint",
        f"all pictures of {TRAINING_SUBJECTS:.0%} of the people for training, of the others for testing; model "
        "selection leaves out whole people",
        (round(TRAINING_SUBJECTS * n),),
        MAX_AGES_REPEATS,
        partial(draw_subjects, subject=faces.subject),
    )
    title = "FG-NET, all ages, aligned landmarks, 80 principal components"
    return Benchmark("fgnet-ages", title, X, faces.age.astype(np.float64), faces.subject, (random, disjoint))


def _retinamnist(data: Path | None) -> Benchmark:
    pictures = load_retinamnist(data)
    n_train = int((pictures.part != "test").sum())
    draw = partial(take_holdout, size=len(pictures.part))  # the test part is last
    rule = SplitRule("official", "one split: official training and validation parts for training", (n_train,), 1, draw)
    X = principal_components(pictures.images, 100)
    title = "RetinaMNIST, 100 principal components"
    return Benchmark("retinamnist", title, X, pictures.label.astype(np.float64), None, (rule,))


def _table(name: str, data: Path | None) -> Benchmark:
    X, y, n_train, count = _holdouts(name, data)
    text = "the hold-outs published with the table, columns standardised on the training part"
    draw = partial(take_holdout, size=len(X) // count)
    return _standardised(name, f"{name}, a table", X, y, SplitRule("hold-out", text, (n_train,), count, draw))


def _small_table(name: str, data: Path | None) -> Benchmark:
    X, y, n_train, count = _holdouts(name, data)
    text = (
        "n random samples of the training part of a published hold-out, tested on its whole test part; columns "
        "standardised on the n samples"
    )
    draw = partial(draw_from_holdout, size=len(X) // count, n_train=n_train)
    rule = SplitRule("part of a hold-out", text, SMALL_SIZES, count, draw)
    return _standardised(f"{name}-small", f"{name}, few samples of the table", X, y, rule)


def _holdouts(name: str, data: Path | None) -> tuple[FloatArray, FloatArray, int, int]:
    """Return samples and labels of all hold-outs one after the other, training samples first, and n_train and count."""
    holdouts = load_table(name, data).holdouts
    X = np.concatenate([part for one in holdouts for part in (one.X_train, one.X_test)])
    y = np.concatenate([part for one in holdouts for part in (one.y_train, one.y_test)])
    return X, y, len(holdouts[0].X_train), len(holdouts)


def _drawn_table(kind: DrawnTable) -> Benchmark:
    X, y = draw_tables(kind, SEED)
    text = f"a new table for every split, {DRAWN_SAMPLES - DRAWN_TRAINING} test samples; columns standardised"
    rule = SplitRule("drawn", text, DRAWN_SIZES, DRAWN_REPEATS, take_drawn_table)
    return _standardised(f"drawn-{kind.name}", f"Drawn tables, {kind.text}", X, y, rule)


def _standardised(name: str, title: str, X: FloatArray, y: FloatArray, rule: SplitRule) -> Benchmark:
    return Benchmark(name, title, X, y, None, (rule,), standardise=True)
