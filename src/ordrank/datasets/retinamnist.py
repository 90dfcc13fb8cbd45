"""RetinaMNIST: 1600 small fundus pictures with five grades of diabetic retinopathy, in their official parts.

Yang et al. (2023), MedMNIST v2, CC BY 4.0. The data are not part of this package.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ordrank._types import IntArray
from ordrank.datasets.source import data_directory, read_arrays
from ordrank.errors import InputError

_FILE = "retinamnist.npz"
_ADVICE = f"Get {_FILE} (28 × 28 pixels) of MedMNIST v2 and put it into a folder 'retinamnist' of that directory."
_COUNTS = {"train": 1080, "val": 120, "test": 400}
_SHAPE = (28, 28, 3)
_GRADES = 5


@dataclass(frozen=True)
class RetinaMNIST:
    """The pictures.

    Attributes
    ----------
    images : ndarray of uint8, shape (1600, 28, 28, 3)
    label : ndarray of int64, shape (1600,)
        Severity, 0 to 4.
    part : ndarray of str, shape (1600,)
        The official part: 'train' (1080), 'val' (120) or 'test' (400).
    """

    images: NDArray[np.uint8]
    label: IntArray
    part: NDArray[np.str_]


def load_retinamnist(path: str | os.PathLike[str] | None = None) -> RetinaMNIST:
    """Read RetinaMNIST.

    Parameters
    ----------
    path : path, optional
        ``retinamnist.npz``, the directory it is in, or a directory that holds that directory under the name
        ``retinamnist``; by default what the environment variable ``ORDRANK_DATA`` names.
    """
    place = data_directory(path, "retinamnist", _ADVICE)
    file = place if place.name == _FILE else place / _FILE
    if not file.is_file():
        raise InputError(f"no {_FILE} in {place}. {_ADVICE}")
    parts = {part: read_arrays(file, (f"{part}_images", f"{part}_labels")) for part in _COUNTS}
    for part, (images, labels) in parts.items():
        if images.dtype != np.uint8 or images.shape != (_COUNTS[part], *_SHAPE):
            raise InputError(
                f"{file} holds {images.dtype} {part} pictures of shape {images.shape}; {_COUNTS[part]} of 28 × 28 × 3 "
                f"bytes are meant. {_ADVICE}"
            )
        if labels.size != len(labels) or not np.isin(labels, range(_GRADES)).all():
            raise InputError(f"{file} holds {part} labels that are not one of 0 to {_GRADES - 1} a picture. {_ADVICE}")
    return RetinaMNIST(
        images=np.concatenate([images for images, _ in parts.values()]),
        label=np.concatenate([labels.reshape(-1) for _, labels in parts.values()]).astype(np.int64),
        part=np.repeat(list(parts), list(_COUNTS.values())),
    )
