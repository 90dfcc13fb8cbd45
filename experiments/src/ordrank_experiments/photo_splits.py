"""Training and test pictures of the archives of photographs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

from ordrank._protocols import FloatArray, IntArray

SEED = 2031
PEOPLE_FOLDS = 10


class PhotoColumns(Protocol):
    """Grade, person and part of each picture (n,); the last two are empty where not known."""

    @property
    def grade(self) -> FloatArray: ...  # noqa: D102

    @property
    def group(self) -> NDArray[np.str_]: ...  # noqa: D102

    @property
    def part(self) -> NDArray[np.str_]: ...  # noqa: D102


@dataclass(frozen=True)
class PhotoSplit:
    """Positions of training and test pictures; ``groups`` are those of the training pictures if people are held out."""

    train: IntArray
    test: IntArray
    groups: IntArray | None = None


def split_photos(photos: PhotoColumns, rule: str, repeat: int, seed: int = SEED) -> PhotoSplit:
    """Draw the training and test pictures of one repeat.

    Parameters
    ----------
    photos : PhotoColumns
    rule : {"random", "25 a grade", "people", "part", "own parts"}
        A random 60 % for training; 25 pictures of each grade; ten folds of whole people, of which repeat r is tested on
        fold r; a random 80 % of the archive's training part, or all of it, tested on its test part.
    repeat : int
    seed : int
    """
    n, rng = len(photos.grade), np.random.default_rng((seed, repeat))
    everything = np.arange(n)
    if rule == "people":
        people = np.unique(photos.group, return_inverse=True)[1]
        folds = GroupKFold(PEOPLE_FOLDS, shuffle=True, random_state=seed + repeat // PEOPLE_FOLDS)
        train, test = list(folds.split(everything, groups=people))[repeat % PEOPLE_FOLDS]
        return PhotoSplit(train, test, people[train])
    if rule in ("part", "own parts"):
        own, test = (np.flatnonzero(photos.part == name) for name in ("train", "test"))
        return PhotoSplit(own if rule == "own parts" else np.sort(rng.permutation(own)[: len(own) * 4 // 5]), test)
    if rule == "25 a grade":
        of_grades = (np.flatnonzero(photos.grade == grade) for grade in np.unique(photos.grade))
        train = np.sort(np.concatenate([rng.permutation(members)[:25] for members in of_grades]))
    else:
        train = np.sort(rng.permutation(n)[: n * 6 // 10])
    return PhotoSplit(train, np.setdiff1d(everything, train))


def limit_training(split: PhotoSplit, n: int | None, repeat: int, seed: int = SEED) -> PhotoSplit:
    """Return the split with at most n random training pictures; all of them if n is None."""
    if n is None or n >= len(split.train):
        return split
    kept = np.sort(np.random.default_rng((seed, repeat, n)).permutation(len(split.train))[:n])
    return PhotoSplit(split.train[kept], split.test, None if split.groups is None else split.groups[kept])
