"""Histograms of oriented gradients (Dalal & Triggs 2005), an :class:`~ordrank._protocols.Extractor`."""

# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

_VERSION = 1  # increase whenever the same picture would give other values
_ORIENTATIONS = 9
_CELL = 8
_BLOCK = 2
_MAX_SIZE = 512
_MISSING = "hog features need scikit-image: pip install 'ordrank[hog]'"


@dataclass(frozen=True)
class Hog:
    """HOG of the grey picture, resized to a square: 9 orientations, 8 × 8 pixel cells, blocks of 2 × 2 cells.

    Parameters
    ----------
    size : int, default=64
        Height and width, a multiple of 8 from 16 to 512.
    """

    size: int = 64

    def __post_init__(self) -> None:
        if self.size % _CELL or not _BLOCK * _CELL <= self.size <= _MAX_SIZE:
            raise InputError(
                f"hog:{self.size} is not possible: the size must be a multiple of {_CELL}, "
                f"{_BLOCK * _CELL} to {_MAX_SIZE} pixels"
            )

    @property
    def name(self) -> str:
        return f"hog:{self.size}"

    @property
    def dim(self) -> int:
        return (self.size // _CELL - _BLOCK + 1) ** 2 * _BLOCK**2 * _ORIENTATIONS

    @property
    def fingerprint(self) -> str:
        from importlib.metadata import version  # slow to import, not needed by workers that decode pictures

        try:
            library = ".".join(version("scikit-image").split(".")[:2])
        except ImportError:
            raise InputError(_MISSING) from None
        return f"{self.name};version={_VERSION};scikit-image={library}"

    @property
    def side(self) -> int:
        return self.size

    def extract(self, pictures: Sequence[Image]) -> NDArray[np.float32]:
        from PIL.Image import Resampling

        try:
            from skimage.feature import hog
        except ImportError:
            raise InputError(_MISSING) from None
        values = np.empty((len(pictures), self.dim), dtype=np.float32)
        for row, picture in zip(values, pictures, strict=True):
            # A box filter would alias slanted edges.
            square = picture.convert("L").resize((self.size, self.size), Resampling.BILINEAR)
            row[:] = hog(
                np.asarray(square),
                orientations=_ORIENTATIONS,
                pixels_per_cell=(_CELL, _CELL),
                cells_per_block=(_BLOCK, _BLOCK),
            )
        return values
