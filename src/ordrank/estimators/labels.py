"""Ordered labels as users give them: numbers, or an ordered pandas categorical."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from ordrank._types import Array, FloatArray, IntArray
from ordrank.backend import backend_of, is_tensor
from ordrank.errors import InputError


@dataclass(frozen=True)
class OrdinalLabels:
    """Labels as numbers, and the way back to what the user gave.

    Attributes
    ----------
    values : array of shape (n,)
        One number per sample; for named grades the position of the name in its order.
    distinct : ndarray of shape (m,)
        The distinct values that occur, rising.
    index : array of shape (n,)
        Position of each value in ``distinct``, where the samples are.
    names : ndarray of object, or None
        All grade names in their order, for an ordered categorical.
    """

    values: Array
    distinct: FloatArray
    index: Array
    names: NDArray[Any] | None

    @property
    def counts(self) -> IntArray:
        """Samples of each label, (m,)."""
        return np.bincount(backend_of(self.index).to_numpy(self.index), minlength=len(self.distinct))

    def on_host(self) -> OrdinalLabels:
        """The same, with arrays instead of tensors."""
        to_numpy = backend_of(self.index).to_numpy
        return replace(self, values=backend_of(self.values).to_numpy(self.values), index=to_numpy(self.index))

    def encode(self, y: Any) -> Any:
        """Numbers for other labels of the same kind; names are matched by name, not by their own order."""
        if self.names is None:
            values, names = encode_labels(y)
            if names is not None:
                raise InputError("y has named grades, but the model was fitted with numbers")
            return values
        given = np.asarray(y, dtype=object)
        position = {name: code for code, name in enumerate(self.names)}
        unknown = sorted({str(name) for name in given if name not in position})
        if unknown:
            raise InputError(f"unknown grades {', '.join(unknown)}; the model knows {', '.join(map(str, self.names))}")
        return np.array([position[name] for name in given], dtype=np.float64)

    def decode(self, values: FloatArray) -> NDArray[Any]:
        """Values as the user knows them: themselves, or the nearest grade's name (None for NaN)."""
        if self.names is None:
            return values
        blank = np.isnan(values)
        # Half-way between two names the lower one is taken.
        nearest = np.ceil(np.where(blank, 0.0, values) - 0.5).astype(int)
        decoded = self.names[np.clip(nearest, 0, len(self.names) - 1)]
        decoded[blank] = None
        return decoded


def encode_labels(y: Any) -> tuple[Any, NDArray[Any] | None]:
    """Numbers for y, and the grade names in their order where y is an ordered categorical.

    Anything that is neither is left to scikit-learn's validation, except text, which has no order, even of
    digits.
    """
    if y is None:  # scikit-learn's validation has the sentence for this
        return None, None
    if is_tensor(y):
        y = backend_of(y).to_numpy(y)
    if hasattr(y, "iloc") and getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
        y = y.iloc[:, 0]  # a data frame of one column
    categorical = getattr(y, "cat", y)  # a pandas Series keeps its categorical there
    if hasattr(categorical, "categories") and hasattr(categorical, "codes"):
        return _encode_categorical(categorical)
    # scikit-learn will look at a column of numbers anyway, which takes as long as much of a small fit.
    is_column = isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "biuf"
    values = y if is_column else column_or_1d(y, warn=True)
    if values.dtype.kind in "biuf":
        return values, None
    strange = [value for value in values if not isinstance(value, Real)]
    if values.dtype == object and not strange:
        return values.astype(np.float64), None
    raise InputError(
        f"Unknown label type: y holds {type(strange[0]).__name__} values, for example {strange[0]!r}. Labels must "
        "be numbers, or an ordered pandas categorical: pd.Categorical(y, categories=[...], ordered=True)"
    )


def _encode_categorical(categorical: Any) -> tuple[FloatArray, NDArray[Any]]:
    if not categorical.ordered:
        raise InputError(
            "y is a categorical without an order; give it one with pd.Categorical(y, categories=[lowest, ..., "
            "highest], ordered=True)"
        )
    codes = np.asarray(categorical.codes, dtype=np.float64)
    if (codes < 0).any():
        raise InputError(f"y has {int((codes < 0).sum())} missing grades; leave those samples out")
    return codes, np.asarray(categorical.categories, dtype=object)


def ordinal_labels(values: Any, names: NDArray[Any] | None) -> OrdinalLabels:
    """Group validated numeric labels; at least two different ones are needed."""
    numbers = values if is_tensor(values) else np.asarray(values, dtype=np.float64)
    distinct, index = backend_of(numbers).unique(numbers)
    if len(distinct) < 2:
        raise InputError(
            f"all {len(numbers)} samples have the same label (1 class), {distinct[0]:g}; an order needs two"
        )
    return OrdinalLabels(numbers, distinct, index, names)
