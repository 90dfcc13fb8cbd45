"""Preprocessing of pictures for a network, read from the JSON file next to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

_MAX_SIZE = 4096
_MAX_NUMBER = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Preprocessing:
    """Resize a picture and normalise it, ``(values / scale - mean) / std``."""

    size: int  # input height and width of the network
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    scale: float = 255.0  # divisor of the values 0 to 255
    layout: str = "NCHW"  # or "NHWC"
    resize: str = "crop"  # the centre square, or "stretch" without keeping the aspect ratio
    output: str | None = None  # output of the network; the first by default

    def apply(self, picture: Image) -> NDArray[np.float32]:
        """Return an RGB picture as a batch of one, (1, 3, size, size) or (1, size, size, 3)."""
        from PIL.Image import Resampling

        square = picture.resize((self.size, self.size), Resampling.BILINEAR, box=self._box(picture))
        mean, std = np.array([self.mean, self.std], dtype=np.float32)
        values = (np.asarray(square, dtype=np.float32) / np.float32(self.scale) - mean) / std
        if self.layout == "NCHW":
            values = np.moveaxis(values, 2, 0)
        return np.ascontiguousarray(values[None], dtype=np.float32)

    def _box(self, picture: Image) -> tuple[float, float, float, float]:
        width, height = picture.size
        if self.resize == "stretch":
            return (0, 0, width, height)
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        return (left, top, left + side, top + side)


def read_preprocessing(file: Path) -> Preprocessing:
    """Read the JSON file of a network; raise InputError naming the invalid key."""
    try:
        given = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{file} is missing: it specifies the preprocessing of the network, such as "
            '{"size": 224, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "scale": 255, '
            '"layout": "NCHW", "resize": "crop"}'
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file} cannot be read as JSON: {error}") from None
    return _checked(file, given)


def _checked(file: Path, given: Any) -> Preprocessing:
    if not isinstance(given, dict):
        raise InputError(f"{file} must hold one JSON object with the keys size, mean and std")
    known = [field.name for field in fields(Preprocessing)]
    unknown = [key for key in given if key not in known]
    if unknown:
        raise InputError(f"{file}: the key {unknown[0]!r} is unknown; there are {', '.join(known)}")
    for key in known:
        if key not in given and key in ("size", "mean", "std"):
            raise InputError(f"{file}: the key '{key}' is missing")
        if key in given and not _VALID[key][0](given[key]):
            raise InputError(f"{file}: '{key}' must be {_VALID[key][1]}, not {given[key]!r}")
    checked: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    return Preprocessing(**checked)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MAX_NUMBER


def _are_three_numbers(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_number, value))


_VALID: dict[str, tuple[Callable[[Any], bool], str]] = {
    "size": (lambda value: type(value) is int and 1 <= value <= _MAX_SIZE, f"an integer from 1 to {_MAX_SIZE}"),
    "mean": (_are_three_numbers, "a list of three numbers"),
    "std": (lambda value: _are_three_numbers(value) and min(value) > 0, "a list of three positive numbers"),
    "scale": (lambda value: _is_number(value) and value > 0, "a positive number"),
    "layout": (lambda value: value in ("NCHW", "NHWC"), "NCHW or NHWC"),
    "resize": (lambda value: value in ("crop", "stretch"), "crop or stretch"),
    "output": (lambda value: isinstance(value, str), "the name of an output"),
}
