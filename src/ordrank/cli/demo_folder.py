"""The folder of the demonstration: pictures and grades as a user has them, and nothing of anybody else's touched."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ordrank.collection.database import DATABASE
from ordrank.collection.writer_lock import LOCK_FILE
from ordrank.datasets import Fruit
from ordrank.errors import InputError
from ordrank.pages import write_files

MARKER = "demo.json"
# Every so manyth picture has no grade. No divisor of the number of grades, so that all grades lack some.
UNGRADED = 6
_QUALITY = 95
# What the demonstration makes and may make anew.
_OWN = {
    "pictures": ("fruit-*.jpg",),
    "collection": (f"{DATABASE}*", LOCK_FILE, "model-*.json", "model-*.safetensors"),
}

# What it writes beside them.
_WRITTEN = ("grades.csv", "answers.html", "report.html", "distances.png", "embedding.png", "ranking.png", MARKER)
_SETTINGS = {"pictures", "size", "seed", "version"}


def check_folder(out: Path) -> None:
    """Refuse a folder with things of the demonstration's names that it did not make."""
    taken = [name for name in (*_OWN, *_WRITTEN) if os.path.lexists(out / name)]
    if taken and not _is_own(out / MARKER):
        raise InputError(
            f"{out / taken[0]} is there and no demonstration made it; name another folder with --out, "
            "nothing was changed"
        )


def _is_own(marker: Path) -> bool:
    """Whether a file is what :func:`fill_folder` writes, not something of the same name."""
    try:
        found = json.loads(marker.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.keys() == _SETTINGS


def fill_folder(out: Path, fruit: Fruit, settings: dict[str, Any]) -> None:
    """Write the pictures and the grades of all but a sixth; what is there of the same settings stays.

    Parameters
    ----------
    out : Path
    fruit : Fruit
    settings : dict
        Everything that the pictures depend on: pictures, size, seed, version.
    """
    marker = json.dumps(settings, sort_keys=True).encode()
    if (out / MARKER).is_file() and (out / MARKER).read_bytes() != marker:
        _clear(out)
    write_files(out, {MARKER: marker})  # first of all, so that the rest is known to be ours
    folder = out / "pictures"
    missing = [i for i in range(len(fruit.grade)) if not (folder / picture_name(i)).exists()]
    write_files(folder, {picture_name(i): _jpeg(fruit.images[i]) for i in missing})
    write_files(out, {"grades.csv": _table(fruit)})


def picture_name(number: int) -> str:
    """Return the name of a picture in the folder."""
    return f"fruit-{number:04d}.jpg"


def three_queries(fruit: Fruit) -> list[int]:
    """Pictures without a grade, of low, middle and high ripeness."""
    ungraded = np.arange(UNGRADED - 1, len(fruit.grade), UNGRADED)
    grades = np.unique(fruit.grade)
    return [int(ungraded[fruit.grade[ungraded] == grades[at]][0]) for at in (0, len(grades) // 2, -1)]


def _clear(out: Path) -> None:
    for name, patterns in _OWN.items():
        folder = out / name
        for file in (file for pattern in patterns for file in folder.glob(pattern)):
            file.unlink()
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _jpeg(values: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, "JPEG", quality=_QUALITY, subsampling=0)
    return stream.getvalue()


def _table(fruit: Fruit) -> bytes:
    stream = io.StringIO(newline="")
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(["file", "grade"])
    table.writerows(
        (picture_name(i), int(grade)) for i, grade in enumerate(fruit.grade) if i % UNGRADED != UNGRADED - 1
    )
    return stream.getvalue().encode()
