"""The data sets of the benchmarks of wrong grades and of intervals, as features and grades."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray
from ordrank.datasets import make_fruit
from ordrank_experiments.datasets import align_faces, load_fgnet, load_photos, load_retinamnist, load_table
from ordrank_experiments.reproduce import prepare, principal_components


@dataclass(frozen=True)
class GradedData:
    """Samples (n, d), grades (n,), and the person or plant of each sample where it is known."""

    X: FloatArray
    y: FloatArray
    groups: NDArray[Any] | None = None


def load_graded(name: str, data: Path | None) -> GradedData:
    """Load one of ``GRADED``; ``data`` is the folder of the data sets, ``ORDRANK_DATA`` by default."""
    return GRADED[name](data)


def _umist(data: Path | None) -> GradedData:
    faces = prepare("umist", data)
    return GradedData(faces.X["aligned"][:, :150], faces.y.astype(np.float64), np.asarray(faces.source.subject))


def _five_ages(data: Path | None) -> GradedData:
    faces = prepare("fgnet", data)
    return GradedData(faces.X["aligned"], faces.y.astype(np.float64), np.asarray(faces.source.subject))


def _all_ages(data: Path | None) -> GradedData:
    faces = load_fgnet(data, ages=None)
    return GradedData(principal_components(align_faces(faces.points), 80), faces.age.astype(np.float64), faces.subject)


def _retinamnist(data: Path | None) -> GradedData:
    pictures = load_retinamnist(data)
    return GradedData(principal_components(pictures.images, 100), pictures.label.astype(np.float64))


def _fruit(data: Path | None) -> GradedData:
    fruit = make_fruit(600, size=32)
    return GradedData(principal_components(fruit.images, 100), fruit.grade.astype(np.float64), fruit.plant)


def _wine(data: Path | None) -> GradedData:
    """Return the whole table, columns standardised."""
    holdout = load_table("winequality-red", data).holdouts[0]
    X, y = np.concatenate([holdout.X_train, holdout.X_test]), np.concatenate([holdout.y_train, holdout.y_test])
    return GradedData((X - X.mean(axis=0)) / X.std(axis=0), y)


def _coffee_leaf(data: Path | None) -> GradedData:
    photos = load_photos("coffee-leaf", data, size=32)
    return GradedData(principal_components(photos.images, 100), photos.grade)


GRADED: dict[str, Callable[[Path | None], GradedData]] = {
    "umist": _umist,
    "fgnet": _five_ages,
    "fgnet-ages": _all_ages,
    "retinamnist": _retinamnist,
    "fruit": _fruit,
    "winequality-red": _wine,
    "coffee-leaf": _coffee_leaf,
}
