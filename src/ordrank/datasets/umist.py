"""UMIST (Sheffield) faces: 575 pictures of 20 people, labelled by relevance to "man with glasses".

Graham and Allinson (1998). The data are for research and are not part of this package.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank.datasets.source import data_directory, read_arrays
from ordrank.errors import InputError

_ADVICE = (
    "Get the cropped UMIST (Sheffield) face database and put its folders 1a ... 1t of PGM files, or "
    "umist_cropped.mat, or umist_112x92.npz, into a folder 'umist' of that directory."
)
# The query is a man with glasses: such men are relevant, women without are not, the others partially.
_RELEVANT = frozenset({"1b", "1d", "1j", "1l", "1p", "1q", "1s"})
_IRRELEVANT = frozenset({"1a", "1g", "1i", "1t"})
_COUNTS = {0: 111, 1: 239, 2: 225}  # as the paper reports them


@dataclass(frozen=True)
class UMIST:
    """The faces.

    Attributes
    ----------
    images : ndarray of uint8, shape (575, 112, 92)
    label : ndarray of int64, shape (575,)
        2 man with glasses, 1 man without or woman with glasses, 0 woman without.
    subject : ndarray of str, shape (575,)
        The person, '1a' to '1t'.
    """

    images: NDArray[np.uint8]
    label: NDArray[np.int64]
    subject: NDArray[np.str_]


def load_umist(path: str | os.PathLike[str] | None = None) -> UMIST:
    """Read the UMIST faces in any of the forms in which they are found.

    Parameters
    ----------
    path : path, optional
        A directory with ``umist_112x92.npz``, ``umist_cropped.mat`` or folders of PGM files, one of those
        files, or a directory that holds such a directory under the name ``umist``; by default what the
        environment variable ``ORDRANK_DATA`` names.
    """
    place = data_directory(path, "umist", _ADVICE)
    images, subject = _read(place)
    if images.dtype != np.uint8 or images.shape[1:] != (112, 92) or images.shape[:1] != subject.shape:
        raise InputError(
            f"{place} holds {images.dtype} pictures of shape {images.shape}; 575 of 112 × 92 bytes are meant"
        )
    label = np.array([2 if s in _RELEVANT else 0 if s in _IRRELEVANT else 1 for s in subject], dtype=np.int64)
    counts = {value: int((label == value).sum()) for value in _COUNTS}
    if counts != _COUNTS:
        raise InputError(f"{place} holds {counts} pictures by label instead of {_COUNTS}: it is not the complete set")
    return UMIST(images, label, subject)


def _read(place: Path) -> tuple[NDArray[np.uint8], NDArray[np.str_]]:
    for name, read in (("umist_112x92.npz", _read_npz), ("umist_cropped.mat", _read_mat)):
        file = place if place.name == name else place / name
        if file.is_file():
            return read(file)
    pictures = list(_find_pgm(place))
    if not pictures:
        raise InputError(f"no UMIST faces in {place}. {_ADVICE}")
    from PIL import Image

    images = []
    for file, _ in pictures:
        try:
            with Image.open(file) as picture:
                images.append(np.asarray(picture.convert("L")))
        except OSError as error:
            raise InputError(f"{file} cannot be read as a picture: {error}") from None
        if images[-1].shape != (112, 92):
            raise InputError(f"{file} has {images[-1].shape} pixels; the cropped faces have 112 × 92")
    return np.stack(images), np.array([subject for _, subject in pictures])


def _read_npz(file: Path) -> tuple[NDArray[np.uint8], NDArray[np.str_]]:
    images, subject = read_arrays(file, ("X", "subject"))
    return images, subject


def _read_mat(file: Path) -> tuple[NDArray[np.uint8], NDArray[np.str_]]:
    """Read a cell of (112, 92, k) blocks, one a person, beside a cell of their names."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        data: dict[str, Any] = loadmat(file)
        blocks = [np.moveaxis(block, 2, 0) for block in data["facedat"].reshape(-1)]
        names = [str(name.item()) for name in data["dirnames"].reshape(-1)]
    except (OSError, ValueError, LookupError, TypeError, NotImplementedError, MatReadError) as error:
        raise InputError(f"{file} cannot be read as the cells facedat and dirnames: {error}") from None
    subject = np.repeat(names, [len(block) for block in blocks])
    return np.ascontiguousarray(np.concatenate(blocks), dtype=np.uint8), subject


def _find_pgm(place: Path) -> Iterator[tuple[Path, str]]:
    """Pictures with their person, who is named by the folder or by the beginning of the file's name."""
    for file in sorted(place.rglob("*.[pP][gG][mM]")) if place.is_dir() else ():
        for part in (*reversed(file.relative_to(place).parts[:-1]), place.name, file.name):
            person = re.match(r"1[a-t](?![a-z])", part)
            if person:
                yield file, person.group()
                break
