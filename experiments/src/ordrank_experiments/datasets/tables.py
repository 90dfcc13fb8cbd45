"""Tabular ordinal regression: car, tae and winequality-red, with the hold-outs of the literature.

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

from ordrank._protocols import FloatArray
from ordrank.errors import InputError
from ordrank_experiments.datasets.source import file_in, find_data, read_archive

TABLES = ("car", "tae", "winequality-red")
_ADVICE = (
    "Put {name}.npz, with arrays train_0, test_0, train_1, ... whose last column is the label, into a folder 'tables' "
    "of that directory."
)


@dataclass(frozen=True)
class Holdout:
    """One split of a table: features (n, d), not scaled, and labels (n,) from 1 to m."""

    X_train: FloatArray
    y_train: FloatArray
    X_test: FloatArray
    y_test: FloatArray


@dataclass(frozen=True)
class OrdinalTable:
    """A table with all its hold-outs, each a split of the whole table."""

    name: str
    holdouts: tuple[Holdout, ...]


def load_table(name: str, path: str | os.PathLike[str] | None = None) -> OrdinalTable:
    """Load a table.

    Parameters
    ----------
    name : {"car", "tae", "winequality-red"}
    path : path, optional
        The file, its directory, or a directory that contains that directory under the name ``tables``; the
        environment variable ``ORDRANK_DATA`` by default.
    """
    if name not in TABLES:
        raise InputError(f"there is no table {name!r}; there are {', '.join(TABLES)}")
    advice = _ADVICE.format(name=name)
    source = find_data(path, "tables", advice)
    file = file_in(source, f"{name}.npz")
    if not file.is_file():
        raise InputError(f"no {name}.npz in {source}. {advice}")
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
    """Raise InputError unless the arrays are hold-outs of one table with labels 1 to m in the last column."""
    if any(array.ndim != 2 or array.dtype.kind not in "fiu" or array.shape[1] < 2 for array in arrays):
        raise InputError(f"{file} holds arrays that are not tables of numbers with a label in the last column")
    if len({array.shape[1] for array in arrays}) != 1 or not all(np.isfinite(array).all() for array in arrays):
        raise InputError(f"{file} holds tables of different widths or with gaps: is it complete?")
    if len({len(train) + len(test) for train, test in zip(arrays[::2], arrays[1::2], strict=True)}) != 1:
        raise InputError(f"{file} holds hold-outs of different sizes: is it complete?")
    labels = np.unique(np.concatenate([array[:, -1] for array in arrays]))
    if len(labels) < 2 or not np.array_equal(labels, np.arange(1, len(labels) + 1)):
        raise InputError(f"{file} holds labels {labels[:9].tolist()} in its last columns; expected 1, 2, ...")


def _holdout(train: NDArray[Any], test: NDArray[Any]) -> Holdout:
    train, test = train.astype(np.float64), test.astype(np.float64)
    return Holdout(train[:, :-1], train[:, -1], test[:, :-1], test[:, -1])
