"""Tables of ordinal regression: car, tae and winequality-red, in the hold-outs the literature uses.

Gutiérrez et al. (2016). The data are not part of this package.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray
from ordrank.datasets.source import data_directory, read_archive
from ordrank.errors import InputError

TABLES = ("car", "tae", "winequality-red")
_ADVICE = (
    "Put {name}.npz, with arrays train_0, test_0, train_1, ... whose last column is the label, into a folder 'tables' "
    "of that directory."
)


@dataclass(frozen=True)
class Holdout:
    """One division of a table.

    Attributes
    ----------
    X_train, X_test : ndarray of shape (n_train, d) and (n_test, d)
        Columns as they are in the table.
    y_train, y_test : ndarray of shape (n_train,) and (n_test,)
        Labels 1 to m.
    """

    X_train: FloatArray
    y_train: FloatArray
    X_test: FloatArray
    y_test: FloatArray


@dataclass(frozen=True)
class OrdinalTable:
    """A table with all its hold-outs, each of them of the whole table."""

    name: str
    holdouts: tuple[Holdout, ...]


def load_table(name: str, path: str | os.PathLike[str] | None = None) -> OrdinalTable:
    """Read a table of ordinal regression.

    Parameters
    ----------
    name : {"car", "tae", "winequality-red"}
    path : path, optional
        The file, the directory it is in, or a directory that holds that directory under the name ``tables``; by
        default what the environment variable ``ORDRANK_DATA`` names.
    """
    if name not in TABLES:
        raise InputError(f"there is no table {name!r}; there are {', '.join(TABLES)}")
    advice = _ADVICE.format(name=name)
    place = data_directory(path, "tables", advice)
    file = place if place.name == f"{name}.npz" else place / f"{name}.npz"
    if not file.is_file():
        raise InputError(f"no {name}.npz in {place}. {advice}")
    arrays = read_archive(file, "train_0, test_0, ...")
    numbers = sorted(int(match[1]) for key in arrays if (match := re.fullmatch(r"train_(\d+)", key)))
    if not numbers or set(arrays) != {f"{part}_{number}" for part in ("train", "test") for number in numbers}:
        raise InputError(
            f"{file} does not hold pairs of arrays train_0, test_0, train_1, ...: is it complete? {advice}"
        )
    pairs = [(arrays[f"train_{number}"], arrays[f"test_{number}"]) for number in numbers]
    _check(file, [array for pair in pairs for array in pair])
    return OrdinalTable(name, tuple(_holdout(train, test) for train, test in pairs))


def _check(file: Path, arrays: list[NDArray[Any]]) -> None:
    """Refuse what cannot be hold-outs of one table with labels 1 to m in its last column."""
    if any(array.ndim != 2 or array.dtype.kind not in "fiu" or array.shape[1] < 2 for array in arrays):
        raise InputError(f"{file} holds arrays that are not tables of numbers with a label in the last column")
    if len({array.shape[1] for array in arrays}) != 1 or not all(np.isfinite(array).all() for array in arrays):
        raise InputError(f"{file} holds tables of different widths or with gaps: is it complete?")
    if len({len(train) + len(test) for train, test in zip(arrays[::2], arrays[1::2], strict=True)}) != 1:
        raise InputError(f"{file} holds hold-outs of different sizes: is it complete?")
    labels = np.unique(np.concatenate([array[:, -1] for array in arrays]))
    if len(labels) < 2 or not np.array_equal(labels, np.arange(1, len(labels) + 1)):
        raise InputError(f"{file} holds labels {labels[:9].tolist()} in its last columns; 1, 2, ... are meant")


def _holdout(train: NDArray[Any], test: NDArray[Any]) -> Holdout:
    fit, score = train.astype(np.float64), test.astype(np.float64)
    return Holdout(fit[:, :-1], fit[:, -1], score[:, :-1], score[:, -1])
