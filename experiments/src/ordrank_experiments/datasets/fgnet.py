"""FG-NET faces: 68 landmarks in 1002 pictures of 82 people aged 0 to 69.

Lanitis (2008). The data are for research and are not part of this package.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray
from ordrank.errors import InputError
from ordrank_experiments.datasets.source import file_in, find_data, read_arrays

_ADVICE = (
    "Get the FG-NET aging database and put its folder 'points' of .pts files (and, for pictures, 'images'), or "
    "fgnet_points.npz, into a folder 'fgnet' of that directory."
)
PAPER_AGES = (1, 5, 9, 15, 19)
_PAPER_COUNTS = (27, 40, 25, 30, 23)
_N_POINTS = 68


@dataclass(frozen=True)
class FGNET:
    """The landmarks.

    Attributes
    ----------
    points : ndarray of shape (n, 68, 2)
        In pixels; pictures differ in size.
    label : ndarray of int64, shape (n,)
        The age, or 1, 2, ... in the order of the requested ages.
    age, subject : ndarray of int64, shape (n,)
    image_file : ndarray of str, shape (n,)
        Path of the picture if it exists, else its file name.
    """

    points: FloatArray
    label: NDArray[np.int64]
    age: NDArray[np.int64]
    subject: NDArray[np.int64]
    image_file: NDArray[np.str_]


def load_fgnet(path: str | os.PathLike[str] | None = None, *, ages: Sequence[int] | None = PAPER_AGES) -> FGNET:
    """Load the FG-NET landmarks.

    Parameters
    ----------
    path : path, optional
        A directory with ``fgnet_points.npz`` or ``.pts`` files (at any depth), that file, or a directory that contains
        such a directory under the name ``fgnet``; the environment variable ``ORDRANK_DATA`` by default.
    ages : sequence of int, optional
        Keep faces of these ages, labelled 1, 2, ... in this order. The paper's five by default; None keeps all 1002,
        labelled by age.
    """
    source = find_data(path, "fgnet", _ADVICE)
    data = _read(source)
    if data.points.shape[1:] != (_N_POINTS, 2) or not np.isfinite(data.points).all():
        raise InputError(f"{source} holds landmarks that are not {_N_POINTS} finite points per face")
    if (np.ptp(data.points, axis=1) == 0).all(axis=1).any():
        raise InputError(f"{source} holds a face whose landmarks all coincide")
    if ages is None:
        return data
    kept = np.isin(data.age, ages)
    label = np.array([list(ages).index(age) + 1 for age in data.age[kept]], dtype=np.int64)
    if tuple(ages) == PAPER_AGES:
        counts = tuple(int((label == value).sum()) for value in range(1, 6))
        if counts != _PAPER_COUNTS:
            raise InputError(
                f"{source} holds {counts} faces of the ages {PAPER_AGES} instead of {_PAPER_COUNTS}: it is not the "
                "complete set"
            )
    return FGNET(data.points[kept], label, data.age[kept], data.subject[kept], data.image_file[kept])


def align_faces(points: FloatArray, *, n_rounds: int = 10) -> FloatArray:
    """Return faces (n, 68, 2) without translation, scale and rotation, by generalised Procrustes analysis (Gower 1975).

    Each face is centred, scaled to unit norm and rotated onto the mean shape, which is recomputed in every round.
    """
    centred = points - points.mean(axis=1, keepdims=True)
    shapes = centred / np.linalg.norm(centred, axis=(1, 2), keepdims=True)
    mean = shapes[0]
    for _ in range(n_rounds):
        u, _, vt = np.linalg.svd(np.einsum("nki,kj->nij", shapes, mean))
        # Proper rotations only, no reflections.
        u[:, :, -1] *= np.sign(np.linalg.det(u @ vt))[:, None]
        shapes = shapes @ (u @ vt)
        mean = shapes.mean(axis=0)
        mean /= np.linalg.norm(mean)
    return np.asarray(shapes)


def _read(source: Path) -> FGNET:
    folder = source if source.is_dir() else source.parent
    pictures = {f.stem.lower(): str(f) for f in folder.rglob("*.[jJ][pP][gG]")}
    if (file := file_in(source, "fgnet_points.npz")).is_file():
        points, age, subject, images = read_arrays(file, ("points", "age", "subject", "image_file"))
        image_file = [pictures.get(Path(name).stem.lower(), name) for name in images.tolist()]
        return FGNET(points, age, age, subject, np.array(image_file))
    files = sorted(source.rglob("*.[pP][tT][sS]"), key=lambda f: f.name.lower()) if source.is_dir() else []
    if not files:
        raise InputError(f"no FG-NET landmarks in {source}. {_ADVICE}")
    names = [_parse_name(file) for file in files]
    age = np.array([age for _, age in names], dtype=np.int64)
    return FGNET(
        points=np.stack([_read_points(file) for file in files]),
        label=age,
        age=age,
        subject=np.array([subject for subject, _ in names], dtype=np.int64),
        image_file=np.array([pictures.get(f.stem.lower(), f"{f.stem.upper()}.JPG") for f in files]),
    )


def _parse_name(file: Path) -> tuple[int, int]:
    """Return subject and age: 001a02.pts is subject 1 at age 2; a letter may follow."""
    match = re.fullmatch(r"(\d{3})a(\d{2})[a-z]?", file.stem.lower())
    if not match:
        raise InputError(f"{file} is not named like 001a02.pts: subject, 'a', age")
    return int(match[1]), int(match[2])


def _read_points(file: Path) -> FloatArray:
    """Return the coordinates (68, 2) between the braces of a .pts file."""
    match = re.search(r"\{(.*)\}", file.read_text(errors="replace"), re.DOTALL)
    try:
        return np.array((match[1] if match else "").split(), dtype=np.float64).reshape(_N_POINTS, 2)
    except ValueError:
        raise InputError(f"{file} does not hold {_N_POINTS} points between braces; is it complete?") from None
