"""Features of several extractors side by side, an :class:`~ordrank._protocols.Extractor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import Extractor

if TYPE_CHECKING:
    from PIL.Image import Image


class Concatenated:
    """Feature vectors of several extractors in one, each scaled to unit length.

    Unscaled, those with the largest numbers would decide all distances. Attributes are documented by
    :class:`ordrank._protocols.Extractor`.

    Parameters
    ----------
    parts : sequence of Extractor
    scaled : bool, default=True
        Whether to scale the vectors.
    """

    def __init__(self, parts: Sequence[Extractor], *, scaled: bool = True) -> None:
        self.parts, self._scaled = tuple(parts), scaled
        self.name = "+".join(part.name for part in parts)
        self.dim = sum(part.dim for part in parts)
        self.fingerprint = " + ".join(part.fingerprint for part in parts)
        self.side = max(part.side for part in parts)

    def extract(self, pictures: Sequence[Image]) -> NDArray[np.float32]:
        """Return features (n, dim) of upright RGB pictures."""
        blocks = [part.extract(pictures) for part in self.parts]
        return np.hstack([unit_length(block) for block in blocks] if self._scaled else blocks)


def unit_length(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors (n, d) scaled to length 1; zeros stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny), dtype=np.float32)
