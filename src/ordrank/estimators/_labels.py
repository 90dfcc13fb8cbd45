"""Ordered labels: numbers, or an ordered pandas categorical."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from ordrank._protocols import Array, FloatArray, IntArray
from ordrank.backend import backend_of, is_tensor
from ordrank.errors import InputError
from ordrank.metrics import nearest_label


@dataclass(frozen=True)
class OrdinalLabels:
    """Encoded labels."""

    values: Array  # (n,), numbers; for named labels the position of the name in its order
    distinct: FloatArray  # (m,), the values that occur, ascending
    index: Array  # (n,), position of each value in ``distinct``, on the device of the samples
    names: NDArray[Any] | None  # all names in their order, for an ordered categorical

    @property
    def counts(self) -> IntArray:
        """Number of samples of each label, (m,)."""
        return np.bincount(backend_of(self.index).to_numpy(self.index), minlength=len(self.distinct))

    def on_host(self) -> OrdinalLabels:
        """Return the same with arrays instead of tensors."""
        to_numpy = backend_of(self.index).to_numpy
        return replace(self, values=backend_of(self.values).to_numpy(self.values), index=to_numpy(self.index))

    def encode(self, y: Any) -> Any:
        """Return numbers for other labels of the same kind; names are matched by name, not by their own order."""
        if self.names is None:
            values, names = encode_labels(y)
            if names is not None:
                raise InputError("y has named grades, but the model was fitted with numbers")
            return values
        given = np.asarray(y, dtype=object).reshape(-1)
        position = {name: code for code, name in enumerate(self.names)}
        unknown = sorted({str(name) for name in given if name not in position})
        if unknown:
            raise InputError(f"unknown grades {', '.join(unknown)}; the model knows {', '.join(map(str, self.names))}")
        return np.array([position[name] for name in given], dtype=np.float64)

    def decode(self, values: FloatArray) -> NDArray[Any]:
        """Return numbers unchanged, or the names of the nearest labels that occur, the lower half-way; None for NaN."""
        if self.names is None:
            return values
        missing = np.isnan(values)
        nearest = nearest_label(self.distinct, np.where(missing, self.distinct[0], values))
        decoded = self.names[self.distinct.astype(np.int64)][nearest]
        decoded[missing] = None
        return decoded


def encode_labels(y: Any) -> tuple[Any, NDArray[Any] | None]:
    """Return numbers for y, and the names in their order if y is an ordered categorical.

    Raise InputError for text, which has no order even if it consists of digits; other errors are left to scikit-learn's
    validation.
    """
    if y is None:  # scikit-learn's validation raises the error
        return None, None
    if is_tensor(y):
        y = backend_of(y).to_numpy(y)
    if hasattr(y, "iloc") and getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
        y = y.iloc[:, 0]  # a data frame of one column
    categorical = getattr(y, "cat", y)  # a pandas Series keeps its categorical there
    if hasattr(categorical, "categories") and hasattr(categorical, "codes"):
        return _encode_categorical(categorical)
    # A column of numbers is validated later; doing it twice takes as long as much of a small fit.
    is_column = isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "biuf"
    values = y if is_column else column_or_1d(y, warn=True)
    if values.dtype.kind in "biuf":
        return values, None
    if values.dtype.kind == "m":
        raise InputError("y holds durations; make them numbers, for example y / np.timedelta64(1, 'D') for days")
    if not len(values):
        raise InputError("y is empty; a fit needs at least two samples with different labels")
    other = [value for value in values if not isinstance(value, Real)]
    if values.dtype == object and not other:
        return values.astype(np.float64), None
    raise InputError(
        f"Unknown label type: y holds {type(other[0]).__name__} values, for example {other[0]!r}. Labels must "
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
        raise InputError(f"y has {int((codes < 0).sum())} missing grades; remove these samples")
    return codes, np.asarray(categorical.categories, dtype=object)


def ordinal_labels(values: Any, names: NDArray[Any] | None) -> OrdinalLabels:
    """Group validated numeric labels; raise InputError if there are fewer than two different ones."""
    numbers = values if is_tensor(values) else np.asarray(values, dtype=np.float64)
    distinct, index = backend_of(numbers).unique(numbers)
    if len(distinct) < 2:
        raise InputError(
            f"all {len(numbers)} samples have the same label (1 class), {distinct[0]:g}; an order needs two"
        )
    return OrdinalLabels(numbers, distinct, index, names)
