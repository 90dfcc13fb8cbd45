"""Report the size of results to Dask, which spills by ``sys.getsizeof`` and does not see arrays inside objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def nbytes(value: Any) -> int:
    """Return the bytes of all distinct arrays in a value, its attributes, and lists and tuples of such."""
    return sum({id(array): array.nbytes for array in _arrays(value)}.values())


def _arrays(value: Any) -> Iterator[NDArray[Any]]:
    if isinstance(value, np.ndarray):
        yield value
        return
    if not isinstance(value, (list, tuple)):
        try:
            value = vars(value).values()
        except TypeError:  # numbers and strings have no attributes
            return
    for item in value:
        yield from _arrays(item)


class ArraySizeof:
    """Mixin: the size of an object is that of its arrays."""

    def __sizeof__(self) -> int:
        return nbytes(self)


@dataclass(frozen=True)
class Sized(ArraySizeof):
    """Wrapper that reports the size of an object of another package."""

    value: Any
