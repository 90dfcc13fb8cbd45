"""Checks of the files of a model, which may come from anyone: their checksum says that they are whole, no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_NEIGHBORS = 10_000
# The axes of each array; equal letters are equal lengths.
_AXES = {
    "projection.mean": "f",
    "projection.components": "pf",
    "mean": "p",
    "linear": "sp",
    "offset": "s",
    "landmarks": "kp",
    "coefficients": "jks",
    "rescaling.directions": "rp",
    "rescaling.factors": "r",
    "distribution.labels": "m",
    "distribution.frequencies": "m",
    "distribution.scores": "q",
    "distribution.score_index": "q",
    "distribution.nearest": "n",
    "distribution.coefficients": "c",
    "distribution.thresholds": "t",
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 1e-100


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


_VALUES: dict[str, dict[str, Callable[[Any], bool]]] = {
    "embedding": {
        "scale": _is_positive,
        "rescaling_scale": _is_positive,
        "locality": lambda value: _is_number(value) and 0 <= value < 1e100,
        "sharpnesses": lambda value: isinstance(value, list) and all(map(_is_positive, value)),
    },
    "distribution": {
        "n_neighbors": lambda value: type(value) is int and 1 <= value <= _MAX_NEIGHBORS,
        "weights": lambda value: value in ("distance", "uniform"),
        "frequency_weight": _is_share,
        "threshold_weight": _is_share,
        "n_order": lambda value: type(value) is int,
    },
    "hyperparameters": {
        "kernel": lambda value: value in ("linear", "rbf"),
        "sharpness": lambda value: value is None or _is_number(value),
        "alpha": _is_number,
        "nu": _is_number,
    },
}


def check_values(text: Mapping[str, Any]) -> None:
    """Raise ValueError if a value of the description of a model is missing or invalid."""
    for part, valid in _VALUES.items():
        given = text.get(part)
        if not isinstance(given, dict) or given.keys() != valid.keys():
            raise ValueError(f"{part} has other values than {', '.join(valid)}")
        for name, is_valid in valid.items():
            if not is_valid(given[name]):
                raise ValueError(f"its {name} is invalid")


def check_arrays(arrays: Mapping[str, NDArray[Any]], text: Mapping[str, Any], dim: int) -> None:
    """Raise ValueError if the arrays of a model of ``dim`` features are not finite numbers, or do not fit together."""
    lengths = {"f": dim}
    for name, axes in _AXES.items():
        array, kind = arrays.get(name), "i" if name == "distribution.score_index" else "f"
        if array is None or array.dtype.kind != kind or array.ndim != len(axes) or not (np.abs(array) < 1e30).all():
            raise ValueError(f"its {name} is missing, or is no array of numbers")
        if any(lengths.setdefault(axis, n) != n for axis, n in zip(axes, array.shape, strict=True)):
            raise ValueError(f"its {name} does not fit the other arrays")
    labels, index = arrays["distribution.labels"], arrays["distribution.score_index"]
    if len(labels) < 2 or (np.diff(labels) <= 0).any() or ((index < 0) | (index >= len(labels))).any():
        raise ValueError("its labels are not ascending")
    frequencies = arrays["distribution.frequencies"]
    if ((frequencies < 0) | (frequencies > 1)).any():
        raise ValueError("its frequencies are not from 0 to 1")
    sharpnesses, weight = text["embedding"]["sharpnesses"], text["distribution"]["threshold_weight"]
    if lengths["s"] < 1 or (sharpnesses and len(sharpnesses) != lengths["j"]):
        raise ValueError("its embedding has no order")
    threshold = (lengths["c"], lengths["t"], text["distribution"]["n_order"])
    if weight > 0 and (threshold != (lengths["p"], len(labels) - 1, lengths["s"]) or not text["embedding"]["locality"]):
        raise ValueError("its threshold model does not fit its embedding")
