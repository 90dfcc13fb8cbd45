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

from ordrank.errors import InputError
from ordrank_experiments.datasets.source import file_in, find_data, read_arrays

_ADVICE = (
    "Get the cropped UMIST (Sheffield) face database and put its folders 1a ... 1t of PGM files, or "
    "umist_cropped.mat, or umist_112x92.npz, into a folder 'umist' of that directory."
)
# Relevance to the query "man with glasses": relevant, irrelevant (women without), others partially relevant.
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
        '1a' to '1t'.
    """

    images: NDArray[np.uint8]
    label: NDArray[np.int64]
    subject: NDArray[np.str_]


def load_umist(path: str | os.PathLike[str] | None = None) -> UMIST:
    """Load the UMIST faces.

    Parameters
    ----------
    path : path, optional
        A directory with ``umist_112x92.npz``, ``umist_cropped.mat`` or folders of PGM files, one of those files, or
        a directory that contains such a directory under the name ``umist``; the environment variable
        ``ORDRANK_DATA`` by default.
    """
    source = find_data(path, "umist", _ADVICE)
    images, subject = _read(source)
    if images.dtype != np.uint8 or images.shape[1:] != (112, 92) or images.shape[:1] != subject.shape:
        raise InputError(
            f"{source} holds {images.dtype} pictures of shape {images.shape}; expected 575 of 112 × 92 bytes"
        )
    label = np.array([2 if s in _RELEVANT else 0 if s in _IRRELEVANT else 1 for s in subject], dtype=np.int64)
    counts = {value: int((label == value).sum()) for value in _COUNTS}
    if counts != _COUNTS:
        raise InputError(f"{source} holds {counts} pictures by label instead of {_COUNTS}: it is not the complete set")
    return UMIST(images, label, subject)


def _read(source: Path) -> tuple[NDArray[np.uint8], NDArray[np.str_]]:
    if (file := file_in(source, "umist_112x92.npz")).is_file():
        stored, subject = read_arrays(file, ("X", "subject"))
        return stored, subject
    if (file := file_in(source, "umist_cropped.mat")).is_file():
        return _read_mat(file)
    pictures = list(_find_pgm(source))
    if not pictures:
        raise InputError(f"no UMIST faces in {source}. {_ADVICE}")
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


def _read_mat(file: Path) -> tuple[NDArray[np.uint8], NDArray[np.str_]]:
    """Read a cell array of (112, 92, k) blocks, one per subject, and a cell array of their names."""
    from scipy.io import loadmat

    try:
        data: dict[str, Any] = loadmat(file)
        blocks = [np.moveaxis(block, 2, 0) for block in data["facedat"].reshape(-1)]
        names = [str(name.item()) for name in data["dirnames"].reshape(-1)]
    except Exception as error:  # noqa: BLE001 - SciPy names none: damage raises zlib.error, TypeError and others
        raise InputError(f"{file} cannot be read as the cells facedat and dirnames: {error}") from None
    subject = np.repeat(names, [len(block) for block in blocks])
    return np.ascontiguousarray(np.concatenate(blocks), dtype=np.uint8), subject


def _find_pgm(source: Path) -> Iterator[tuple[Path, str]]:
    """Yield pictures with their subject, named by a folder or by the beginning of the file name."""
    for file in sorted(source.rglob("*.[pP][gG][mM]")) if source.is_dir() else ():
        for part in (*reversed(file.relative_to(source).parts[:-1]), source.name, file.name):
            if subject := re.match(r"1[a-t](?![a-z])", part):
                yield file, subject.group()
                break
