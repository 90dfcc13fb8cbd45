"""RetinaMNIST: 1600 small fundus pictures with five grades of diabetic retinopathy, with the official splits.

Yang et al. (2023), MedMNIST v2, CC BY 4.0. The data are not part of this package.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import IntArray
from ordrank.errors import InputError
from ordrank_experiments.datasets.source import file_in, find_data, read_arrays

_FILE = "retinamnist.npz"
_ADVICE = f"Get {_FILE} (28 × 28 pixels) of MedMNIST v2 and put it into a folder 'retinamnist' of that directory."
_COUNTS = {"train": 1080, "val": 120, "test": 400}
_SHAPE = (28, 28, 3)
_GRADES = 5


@dataclass(frozen=True)
class RetinaMNIST:
    """Images (1600, 28, 28, 3), severity labels 0 to 4, and parts 'train' (1080), 'val' (120) and 'test' (400)."""

    images: NDArray[np.uint8]
    label: IntArray
    part: NDArray[np.str_]


def load_retinamnist(path: str | os.PathLike[str] | None = None) -> RetinaMNIST:
    """Load RetinaMNIST.

    Parameters
    ----------
    path : path, optional
        ``retinamnist.npz``, its directory, or a directory that contains that directory under the name
        ``retinamnist``; the environment variable ``ORDRANK_DATA`` by default.
    """
    source = find_data(path, "retinamnist", _ADVICE)
    file = file_in(source, _FILE)
    if not file.is_file():
        raise InputError(f"no {_FILE} in {source}. {_ADVICE}")
    parts = {part: read_arrays(file, (f"{part}_images", f"{part}_labels")) for part in _COUNTS}
    for part, (images, labels) in parts.items():
        if images.dtype != np.uint8 or images.shape != (_COUNTS[part], *_SHAPE):
            raise InputError(
                f"{file} holds {images.dtype} {part} pictures of shape {images.shape}; expected {_COUNTS[part]} of "
                f"28 × 28 × 3 bytes. {_ADVICE}"
            )
        if labels.size != len(labels) or not np.isin(labels, range(_GRADES)).all():
            raise InputError(f"{file} holds {part} labels other than one of 0 to {_GRADES - 1} per picture. {_ADVICE}")
    return RetinaMNIST(
        images=np.concatenate([images for images, _ in parts.values()]),
        label=np.concatenate([labels.reshape(-1) for _, labels in parts.values()]).astype(np.int64),
        part=np.repeat(list(parts), list(_COUNTS.values())),
    )
