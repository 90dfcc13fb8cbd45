"""Histograms of oriented gradients: where edges are and which way they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

_VERSION = 1  # goes up whenever the same picture would give other values
_ORIENTATIONS = 9
_CELL = 8
_BLOCK = 2
_LARGEST = 512


@dataclass(frozen=True)
class Hog:
    """Gradient histograms of the whole picture, grey, squeezed into a square.

    Nine orientations, cells of 8 × 8 pixels, normalised in blocks of 2 × 2 cells.

    Parameters
    ----------
    size : int, default=64
        Height and width of the square, a multiple of 8, 16 to 512.
    """

    size: int = 64

    def __post_init__(self) -> None:
        if self.size % _CELL or not _BLOCK * _CELL <= self.size <= _LARGEST:
            raise InputError(
                f"hog:{self.size} is not possible: the size is a multiple of {_CELL}, "
                f"{_BLOCK * _CELL} to {_LARGEST} pixels"
            )

    @property
    def name(self) -> str:
        """Such as ``hog:64``."""
        return f"hog:{self.size}"

    @property
    def dim(self) -> int:
        """Values of all blocks, which overlap by a cell."""
        return (self.size // _CELL - _BLOCK + 1) ** 2 * _BLOCK**2 * _ORIENTATIONS

    @property
    def fingerprint(self) -> str:
        """Name, our version and that of scikit-image."""
        from importlib.metadata import version  # loads a lot, which processes that read pictures do without

        library = ".".join(version("scikit-image").split(".")[:2])
        return f"{self.name};version={_VERSION};scikit-image={library}"

    @property
    def side(self) -> int:
        """Pictures may be shrunk to the size of the square."""
        return self.size

    def extract(self, pictures: Sequence[Image]) -> NDArray[np.float32]:
        """Values (n, dim) of upright RGB pictures, each 0 to 1."""
        from PIL.Image import Resampling
        from skimage.feature import hog

        values = np.empty((len(pictures), self.dim), dtype=np.float32)
        for row, picture in zip(values, pictures, strict=True):
            # Boxes would make stairs of slanted edges.
            square = picture.convert("L").resize((self.size, self.size), Resampling.BILINEAR)
            row[:] = hog(
                np.asarray(square),
                orientations=_ORIENTATIONS,
                pixels_per_cell=(_CELL, _CELL),
                cells_per_block=(_BLOCK, _BLOCK),
            )
        return values
