"""Locating and reading files of real data sets."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import InputError

ENVIRONMENT_VARIABLE = "ORDRANK_DATA"


def read_archive(file: Path, expected: str, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """Return the named arrays (all by default) of an .npz file; ``expected`` describes them in the InputError."""
    try:
        with np.load(file, allow_pickle=False) as data:
            return {name: np.asarray(data[name]) for name in (data.files if names is None else names)}
    # TypeError: a single array instead of an archive. The others are damage anywhere in the file.
    except (OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, BadZipFile, zlib.error) as error:
        raise InputError(f"{file} cannot be read as the arrays {expected}: {error}") from None


def read_arrays(file: Path, names: Sequence[str]) -> list[NDArray[Any]]:
    """Return arrays of the same length from an .npz file."""
    arrays = list(read_archive(file, ", ".join(names), names).values())
    if len({len(array) if array.ndim else -1 for array in arrays}) != 1:
        raise InputError(f"{file} holds arrays of different lengths: is it complete?")
    return arrays


def find_data(path: str | os.PathLike[str] | None, folder: str, advice: str) -> Path:
    """Return the directory or file of a data set: ``folder`` in ``path`` if it is there, else ``path`` itself.

    The default is the environment variable ``ORDRANK_DATA``; ``advice`` in the InputError says what to get.
    """
    root = path if path is not None else os.environ.get(ENVIRONMENT_VARIABLE)
    if not root:
        raise InputError(f"no data directory: set {ENVIRONMENT_VARIABLE} or pass a path. {advice}")
    if not Path(root).exists():
        raise InputError(f"{root} does not exist. {advice}")
    inside = Path(root) / folder
    return inside if inside.is_dir() else Path(root)


def file_in(source: Path, name: str) -> Path:
    """Return ``source`` if it is the file of that name, else the file in that directory, which need not exist."""
    return source if source.name == name else source / name
