"""Where real data sets are looked for, and what is said when they are not there."""

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


def read_archive(file: Path, meant: str, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """Arrays of an .npz file by name, or a sentence that says why not.

    Parameters
    ----------
    file : Path
    meant : str
        What should be in it, for the error.
    names : sequence of str, optional
        Arrays to read; all by default.
    """
    try:
        with np.load(file, allow_pickle=False) as data:
            return {name: np.asarray(data[name]) for name in (data.files if names is None else names)}
    # One bare array is opened as that, which is no archive: TypeError. The others are damage, wherever it is.
    except (OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, BadZipFile, zlib.error) as error:
        raise InputError(f"{file} cannot be read as the arrays {meant}: {error}") from None


def read_arrays(file: Path, names: Sequence[str]) -> list[NDArray[Any]]:
    """Arrays of an .npz file, of one length, or a sentence that says why not."""
    arrays = list(read_archive(file, ", ".join(names), names).values())
    if len({len(array) if array.ndim else -1 for array in arrays}) != 1:
        raise InputError(f"{file} holds arrays of different lengths: is it complete?")
    return arrays


def data_directory(given: str | os.PathLike[str] | None, folder: str, advice: str) -> Path:
    """Find the directory (or file) of a data set.

    Parameters
    ----------
    given : path, optional
        The data set itself, or a directory that holds ``folder``; by default the directory that the
        environment variable ``ORDRANK_DATA`` names.
    folder : str
        Name of the data set's own folder.
    advice : str
        What to get and where to put it, for the error.
    """
    named = given if given is not None else os.environ.get(ENVIRONMENT_VARIABLE)
    if not named:
        raise InputError(f"no data directory: set {ENVIRONMENT_VARIABLE} or pass a path. {advice}")
    path = Path(named)
    if not path.exists():
        raise InputError(f"{path} does not exist. {advice}")
    inside = path / folder
    return inside if inside.is_dir() else path
