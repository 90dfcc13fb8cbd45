"""Photographs with grades: a zip archive with ``grades.csv``, whose columns ``file`` and ``grade`` name its pictures.

The data are not part of this package.
"""

from __future__ import annotations

import csv
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
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


@dataclass(frozen=True)
class PhotoFiles:
    """Files of n pictures, grades (n,), and the person and the part (n,) of each picture, empty where not known."""

    files: tuple[Path, ...]
    grade: FloatArray
    group: NDArray[np.str_]
    part: NDArray[np.str_]


def find_photos(name: str, path: str | os.PathLike[str] | None = None) -> Path:
    """Return the file ``NAME.zip``; for ``path`` see :func:`load_photos`."""
    advice = f"Put {name}.zip, with pictures and a file grades.csv (columns file, grade), into a folder 'photos' of it."
    file = file_in(find_data(path, "photos", advice), f"{name}.zip")
    if not file.is_file():
        raise InputError(f"no {name}.zip in {file.parent}. {advice}")
    return file


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
    with _opened(find_photos(name, path)) as (archive, rows):
        images = np.stack([_read(archive, row["file"], size) for row in rows])
        return Photos(images, _grades(rows))


def extract_photos(name: str, folder: Path, path: str | os.PathLike[str] | None = None) -> PhotoFiles:
    """Extract the pictures of ``NAME.zip`` to a folder; for ``path`` see :func:`load_photos`."""
    with _opened(find_photos(name, path)) as (archive, rows):
        files = tuple(Path(archive.extract(row["file"], folder)) for row in rows)
        group, part = (np.array([row.get(column, "") for row in rows], dtype=np.str_) for column in ("group", "part"))
        return PhotoFiles(files, _grades(rows), group, part)


@contextmanager
def _opened(file: Path) -> Iterator[tuple[ZipFile, list[dict[str, str]]]]:
    """Yield an archive and the rows of its table; raise InputError for damage anywhere in it."""
    try:
        with ZipFile(file) as archive:
            rows = list(csv.DictReader(io.StringIO(archive.read("grades.csv").decode())))
            if not rows:
                raise ValueError("grades.csv has no rows")
            yield archive, rows
    except (OSError, ValueError, KeyError, BadZipFile, zlib.error) as error:
        raise InputError(f"{file} cannot be read as pictures with grades: {error}") from None


def _grades(rows: list[dict[str, str]]) -> FloatArray:
    return np.array([float(row["grade"]) for row in rows])


def _read(archive: ZipFile, name: str, size: int) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(archive.read(name))) as picture:
        return np.asarray(picture.convert("RGB").resize((size, size), Image.Resampling.BOX))
