"""The data sets of the comparison, and how each is divided into training and test samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.datasets import TABLES, align_faces, load_fgnet, load_retinamnist, load_table
from ordrank.experiments.paper import Dataset
from ordrank.experiments.protocol import balanced_split
from ordrank.experiments.reproduce import Prepared, prepare, principal_components

SEED = 2016  # the peers' grids were tried out on the splits of 2015
MOST_DISJOINT, MOST_AGES = 20, 10  # repeats, so that everything takes three quarters of an hour on two cores
AGES_SUBJECTS = 0.7  # share of the people whose faces teach

Parts: TypeAlias = tuple[IntArray, IntArray]


@dataclass(frozen=True, order=True)
class Match:
    """One split of one contest: the piece of work that is done or not done."""

    contest: str
    rule: str
    n: int
    repeat: int


@dataclass(frozen=True)
class Rule:
    """A way to divide a data set.

    Attributes
    ----------
    name : {"random", "subject-disjoint", "hold-out", "official"}
    text : str
        The same in a sentence.
    sizes : tuple of int
        Numbers of training samples it is used with.
    most : int or None
        Repeats there are, or are affordable; None for any number.
    draw : callable
        Number of training samples and number of the repeat to the indices of training and test samples.
    """

    name: str
    text: str
    sizes: tuple[int, ...]
    most: int | None
    draw: Callable[[int, int], Parts]


@dataclass(frozen=True)
class Contest:
    """A data set and its rules.

    Attributes
    ----------
    name, title : str
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
        Labels, whole numbers.
    subject : ndarray of shape (n,), or None
        Who is on the picture.
    rules : tuple of Rule
    standardise : bool
        Whether columns have units of their own and are divided by their spread in the training part.
    like : {"umist", "fgnet"}
        The data set of the paper whose settings its methods are run with.
    """

    name: str
    title: str
    X: FloatArray
    y: FloatArray
    subject: NDArray[Any] | None
    rules: tuple[Rule, ...]
    standardise: bool = False
    like: Dataset = "fgnet"


@dataclass(frozen=True)
class Split:
    """Both parts of one split.

    Where some people are in both parts, ``subject_train`` and ``subject_test`` tell who; where nobody is, ``groups``
    are those of the training part.
    """

    X_train: FloatArray
    y_train: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    subject_train: NDArray[Any] | None
    subject_test: NDArray[Any] | None
    groups: NDArray[Any] | None = None


def load_contests(dataset: str, data: Path | None) -> list[Contest]:
    """Contests of a data set: "umist", "fgnet" (five ages, all ages), "retinamnist", "tables" or "all"."""
    loaders: dict[str, Callable[[Path | None], list[Contest]]] = {
        "umist": lambda path: [_umist(path)],
        "fgnet": lambda path: [_five_ages(path), _all_ages(path)],
        "retinamnist": lambda path: [_retinamnist(path)],
        "tables": lambda path: [_table(name, path) for name in TABLES],
    }
    names = list(loaders) if dataset == "all" else [dataset]
    return [contest for name in names for contest in loaders[name](data)]


def matches(contests: Sequence[Contest], repeats: int) -> list[Match]:
    """All splits, the first of every condition first, so that an early look shows all tables."""
    found = [
        Match(contest.name, rule.name, n, repeat)
        for contest in contests
        for rule in contest.rules
        for n in rule.sizes
        for repeat in range(repeats if rule.most is None else min(repeats, rule.most))
    ]
    return sorted(found, key=lambda match: match.repeat)


def split_of(contest: Contest, match: Match) -> Split:
    """Divide a contest as a match says."""
    (rule,) = (rule for rule in contest.rules if rule.name == match.rule)
    train, test = rule.draw(match.n, match.repeat)
    X_train, X_test = contest.X[train], contest.X[test]
    if contest.standardise:
        mean, spread = X_train.mean(axis=0), X_train.std(axis=0)
        spread[spread == 0] = 1.0  # a column that is constant here teaches nothing
        X_train, X_test = (X_train - mean) / spread, (X_test - mean) / spread
    parts = X_train, contest.y[train], X_test, contest.y[test]
    if contest.subject is None:
        return Split(*parts, None, None)
    teachers, tested = contest.subject[train], contest.subject[test]
    if np.isin(tested, teachers).any():
        return Split(*parts, teachers, tested)
    return Split(*parts, None, None, groups=teachers)


def draw_balanced(n: int, repeat: int, *, y: NDArray[Any]) -> Parts:
    """The paper's rule: n / m samples of each of the m labels at random."""
    return balanced_split(y, n, (SEED, repeat))


def draw_share(n: int, repeat: int, *, size: int) -> Parts:
    """Any n of ``size`` samples."""
    order = np.random.default_rng((SEED, repeat)).permutation(size)
    return np.sort(order[:n]), np.sort(order[n:])


def draw_people(n: int, repeat: int, *, y: NDArray[Any], subject: NDArray[Any]) -> Parts:
    """Half of the people; of their pictures up to n / m of each label teach, those of all others are for testing.

    Where the label follows from the person, people are halved label by label, so that no label is missing.
    """
    rng = np.random.default_rng((SEED, repeat))
    teaching = np.isin(subject, list(_half_of_the_people(y, subject, rng)))
    labels = np.unique(y)
    drawn = [rng.permutation(np.flatnonzero(teaching & (y == label)))[: n // len(labels)] for label in labels]
    return np.sort(np.concatenate(drawn)), np.flatnonzero(~teaching)


def _half_of_the_people(y: NDArray[Any], subject: NDArray[Any], rng: np.random.Generator) -> Iterator[Any]:
    people = np.unique(subject)
    one_label = all(len(np.unique(y[subject == person])) == 1 for person in people)
    groups = [np.unique(subject[y == label]) for label in np.unique(y)] if one_label else [people]
    for group in groups:
        yield from rng.permutation(group)[: (len(group) + 1) // 2]


def draw_share_of_people(n: int, repeat: int, *, subject: NDArray[Any]) -> Parts:
    """Seven in ten people teach with all their pictures, however many; ``n`` is about how many that is."""
    people = np.random.default_rng((SEED, repeat)).permutation(np.unique(subject))
    teaching = np.isin(subject, people[: round(AGES_SUBJECTS * len(people))])
    return np.flatnonzero(teaching), np.flatnonzero(~teaching)


def draw_given(n: int, repeat: int, *, size: int) -> Parts:
    """Hold-outs of ``size`` samples that stand one after the other, the n training samples of each first."""
    rows = repeat * size + np.arange(size)
    return rows[:n], rows[n:]


def _umist(data: Path | None) -> Contest:
    return _faces("umist", "UMIST, 150 principal components", prepare("umist", data), (30, 60, 90), 150)


def _five_ages(data: Path | None) -> Contest:
    title = "FG-NET, five ages, aligned landmarks, 80 principal components"
    return _faces("fgnet", title, prepare("fgnet", data), (40, 50, 75), 80)


def _faces(name: Dataset, title: str, prepared: Prepared, sizes: tuple[int, ...], d: int) -> Contest:
    """The paper's data sets, with its own rule and with nobody in both parts."""
    y, subject = prepared.y.astype(np.float64), prepared.source.subject
    rules = (
        Rule(
            "random",
            "as in the paper: n/m pictures of each of the m labels at random teach, all others are for testing",
            sizes,
            None,
            partial(draw_balanced, y=y),
        ),
        Rule(
            "subject-disjoint",
            "half of the people (label by label where the label follows from the person): up to n/m of their pictures "
            "of each label teach; all pictures of the other people are for testing. Whoever searches leaves out people",
            sizes,
            MOST_DISJOINT,
            partial(draw_people, y=y, subject=subject),
        ),
    )
    return Contest(name, title, prepared.X["aligned"][:, :d], y, subject, rules, like=name)


def _all_ages(data: Path | None) -> Contest:
    faces = load_fgnet(data, ages=None)
    X, n = principal_components(align_faces(faces.points), 80), len(faces.points)
    halves = Rule("random", "one half at random teaches", (n // 2,), MOST_AGES, partial(draw_share, size=n))
    people = Rule(
        "subject-disjoint",
        f"{AGES_SUBJECTS:.0%} of the people teach with all their pictures, those of the others are for testing. "
        "Whoever searches leaves out people",
        (round(AGES_SUBJECTS * n),),
        MOST_AGES,
        partial(draw_share_of_people, subject=faces.subject),
    )
    title = "FG-NET, all faces with their ages, aligned landmarks, 80 principal components"
    return Contest("fgnet-ages", title, X, faces.age.astype(np.float64), faces.subject, (halves, people))


def _retinamnist(data: Path | None) -> Contest:
    pictures = load_retinamnist(data)
    teaching = int((pictures.part != "test").sum())
    draw = partial(draw_given, size=len(pictures.part))  # the test part stands last
    rule = Rule("official", "the official training and validation parts teach, one split", (teaching,), 1, draw)
    X = principal_components(pictures.images, 100)
    title = "RetinaMNIST, 100 principal components"
    return Contest("retinamnist", title, X, pictures.label.astype(np.float64), None, (rule,))


def _table(name: str, data: Path | None) -> Contest:
    holdouts = load_table(name, data).holdouts
    X = np.concatenate([part for one in holdouts for part in (one.X_train, one.X_test)])
    y = np.concatenate([part for one in holdouts for part in (one.y_train, one.y_test)])
    draw = partial(draw_given, size=len(X) // len(holdouts))
    rule = Rule(
        "hold-out",
        "the hold-outs that come with the table, columns standardised on the training part",
        (len(holdouts[0].X_train),),
        len(holdouts),
        draw,
    )
    return Contest(name, f"{name}, a table", X, y, None, (rule,), standardise=True)
