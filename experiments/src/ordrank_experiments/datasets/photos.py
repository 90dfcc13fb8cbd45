"""Photographs with grades: a zip archive with ``grades.csv``, whose columns ``file`` and ``grade`` name its pictures.

The data are not part of this package.
"""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ordrank._protocols import FloatArray
from ordrank.errors import InputError
from ordrank_experiments.datasets.source import file_in, find_data


@dataclass(frozen=True)
class Photos:
    """Pictures (n, size, size, 3) and their grades (n,)."""

    images: NDArray[np.uint8]
    grade: FloatArray


def load_photos(name: str, path: str | os.PathLike[str] | None = None, *, size: int = 32) -> Photos:
    """Load ``NAME.zip`` with all pictures resized to squares.

    Parameters
    ----------
    name : str
        For example "coffee-leaf".
    path : path, optional
        The file, its directory, or a directory that contains that directory under the name ``photos``; the
        environment variable ``ORDRANK_DATA`` by default.
    size : int, default=32
        Height and width in pixels.
    """
    advice = f"Put {name}.zip, with pictures and a file grades.csv (columns file, grade), into a folder 'photos' of it."
    file = file_in(find_data(path, "photos", advice), f"{name}.zip")
    if not file.is_file():
        raise InputError(f"no {name}.zip in {file.parent}. {advice}")
    try:
        with ZipFile(file) as archive:
            rows = list(csv.DictReader(io.StringIO(archive.read("grades.csv").decode())))
            images = np.stack([_read(archive, row["file"], size) for row in rows])
        return Photos(images, np.array([float(row["grade"]) for row in rows]))
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise InputError(f"{file} cannot be read as pictures with grades: {error}") from None


def _read(archive: ZipFile, name: str, size: int) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(archive.read(name))) as picture:
        return np.asarray(picture.convert("RGB").resize((size, size), Image.Resampling.BOX))
