"""Preprocessing of pictures for a network, as its JSON file or its metadata specify."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

METADATA_KEY = "ordrank.preprocessing"  # of the metadata of a network in the ONNX format
_MAX_SIZE = 4096
_MAX_NUMBER = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Preprocessing:
    """Cut a picture to its centre, resize it and normalise it, ``(values / scale - mean) / std``."""

    size: int  # input height and width of the network
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    scale: float = 255.0  # divisor of the values 0 to 255
    layout: str = "NCHW"  # or "NHWC"
    resize: str = "crop"  # the centre square, or "stretch" without keeping the aspect ratio
    output: str | None = None  # output of the network; the first by default
    interpolation: str = "bilinear"  # or "bicubic"
    crop_fraction: float = 1.0  # of either side that is kept, around the centre

    @property
    def side(self) -> int:
        """Length that the shorter side of a picture needs, so that none is enlarged because it was downsampled."""
        return math.ceil(self.size / self.crop_fraction)

    def to_json(self) -> str:
        """Return the JSON object that :func:`parse_preprocessing` reads."""
        return json.dumps({key: value for key, value in asdict(self).items() if value is not None})

    def apply(self, picture: Image) -> NDArray[np.float32]:
        """Return an RGB picture as a batch of one, (1, 3, size, size) or (1, size, size, 3)."""
        pixels, table = self.square(picture, self.size, self.crop_fraction), self._table()
        values = np.empty((1, 3, self.size, self.size), dtype=np.float32)
        for channel in range(3):
            table[channel].take(pixels[..., channel], out=values[0, channel], mode="clip")  # other modes buffer `out`
        return values if self.layout == "NCHW" else np.ascontiguousarray(np.moveaxis(values, 1, 3))

    def square(self, picture: Image, side: int, fraction: float) -> NDArray[np.uint8]:
        """Return this fraction of an RGB picture, around its centre, resized to (side, side, 3)."""
        from PIL.Image import Resampling

        interpolation, box = Resampling[self.interpolation.upper()], self._box(picture, fraction)
        return np.asarray(picture.resize((side, side), interpolation, box=box))

    def _table(self) -> NDArray[np.float32]:
        """Return the normalised values (3, 256) of all pixel values: looking them up is faster than computing them."""
        mean, std = np.array([self.mean, self.std], dtype=np.float32)
        levels = np.arange(256, dtype=np.float32) / np.float32(self.scale)
        return np.ascontiguousarray(((levels[:, None] - mean) / std).T)

    def _box(self, picture: Image, fraction: float) -> tuple[float, float, float, float]:
        width, height = picture.size
        inner = [fraction * length for length in picture.size]
        if self.resize == "crop":
            inner = [min(inner)] * 2
        left, top = (width - inner[0]) / 2, (height - inner[1]) / 2
        return (left, top, left + inner[0], top + inner[1])


def read_preprocessing(file: Path) -> Preprocessing:
    """Read the JSON file of a network; raise InputError naming the invalid key."""
    if not file.is_file():  # a pipe would block
        raise InputError(f"{file} cannot be read as JSON: it is not a file")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read as JSON: {error}") from None
    return parse_preprocessing(text, str(file))


def parse_preprocessing(text: str, source: str) -> Preprocessing:
    """Parse the JSON object of a network; raise InputError that begins with ``source`` and names the invalid key."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} cannot be read as JSON: {error}") from None
    return _checked(source, given)


def _checked(file: str, given: Any) -> Preprocessing:
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
    "interpolation": (lambda value: value in ("bilinear", "bicubic"), "bilinear or bicubic"),
    "crop_fraction": (lambda value: _is_number(value) and 0.1 <= value <= 1, "a number from 0.1 to 1"),
}
