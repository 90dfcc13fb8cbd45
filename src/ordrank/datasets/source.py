"""Where real data sets are looked for, and what is said when they are not there."""

from __future__ import annotations

import os
from pathlib import Path

from ordrank.errors import InputError

ENVIRONMENT_VARIABLE = "ORDRANK_DATA"


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
