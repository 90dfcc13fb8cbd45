"""The folder of the demonstration: pictures and a CSV file of grades, as a user has them."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ordrank._io import write_files
from ordrank.datasets import Fruit
from ordrank.errors import InputError

MARKER = "demo.json"
# Every sixth picture has no grade; 6 does not divide the number of grades, so that each grade has ungraded pictures.
UNGRADED = 6
_QUALITY = 95
_WRITTEN = (
    "pictures", "collection", "grades.csv", "results.html", "report.html", "distances.png", "embedding.png",
    "ranking.png", MARKER,
)  # fmt: skip
_SETTINGS = {"pictures", "size", "seed"}


def check_folder(out: Path, n_pictures: int) -> None:
    """Raise InputError if the folder holds other files of these names, or a demonstration of more pictures."""
    taken = [name for name in _WRITTEN if os.path.lexists(out / name)]
    settings = _settings(out / MARKER)
    if taken and settings is None:
        raise InputError(
            f"{out / taken[0]} exists but is not of a demonstration; name another folder with --out, "
            "nothing was changed"
        )
    if settings and settings["pictures"] > n_pictures:
        raise InputError(
            f"{out} holds a demonstration of {settings['pictures']} pictures; delete it, or name another folder with "
            "--out"
        )


def _settings(marker: Path) -> dict[str, Any] | None:
    """Read the file that :func:`fill_folder` writes; None if it is missing or something else."""
    try:
        found = json.loads(marker.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.keys() >= _SETTINGS else None


def fill_folder(out: Path, fruit: Fruit, settings: dict[str, int]) -> None:
    """Write the pictures that are missing or different, and the grades of five sixths of them."""
    write_files(out, {MARKER: json.dumps(settings, sort_keys=True).encode()})  # first: it marks the other files
    folder = out / "pictures"
    for number, image in enumerate(fruit.images):
        file, content = folder / picture_name(number), _jpeg(image)
        if not file.is_file() or file.read_bytes() != content:
            write_files(folder, {file.name: content})
    write_files(out, {"grades.csv": _table(fruit)})


def picture_name(number: int) -> str:
    """Return the file name of a picture."""
    return f"fruit-{number:04d}.jpg"


def three_queries(fruit: Fruit) -> list[int]:
    """Return ungraded pictures of low, middle and high ripeness."""
    ungraded = np.arange(UNGRADED - 1, len(fruit.grade), UNGRADED)
    grades = np.unique(fruit.grade)
    return [int(ungraded[fruit.grade[ungraded] == grades[at]][0]) for at in (0, len(grades) // 2, -1)]


def _jpeg(image: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=_QUALITY, subsampling=0)
    return stream.getvalue()


def _table(fruit: Fruit) -> bytes:
    stream = io.StringIO(newline="")
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(["file", "grade"])
    table.writerows(
        (picture_name(i), int(grade)) for i, grade in enumerate(fruit.grade) if i % UNGRADED != UNGRADED - 1
    )
    return stream.getvalue().encode()
