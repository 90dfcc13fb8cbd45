"""Tensors under the rules that scikit-learn has for arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ordrank._types import Array
from ordrank.backend import backend_of, is_tensor, move, tensor_samples
from ordrank.errors import InputError


def checked_tensor(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    device: str | None = None,
    ensure_min_samples: int = 1,
    ensure_all_finite: bool = True,
) -> Array:
    """Samples (n, d) of single or double precision, on a device if one is named; the arguments are scikit-learn's."""
    if X.ndim != 2:
        raise InputError(f"Expected 2D array, got {X.ndim}D tensor instead; reshape it to (n_samples, n_features)")
    if len(X) < ensure_min_samples or X.shape[1] == 0:
        raise InputError(
            f"Found a tensor with {len(X)} sample(s) and {X.shape[1]} feature(s) while a minimum of "
            f"{ensure_min_samples} and 1 is required"
        )
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return finite_tensor(X, device) if ensure_all_finite else tensor_samples(X, device)


def finite_tensor(X: Any, device: str | None = None) -> Array:
    """Numbers of single or double precision, none of them infinite or NaN."""
    samples = tensor_samples(X, device)
    if not backend_of(samples).all_finite(samples):
        raise InputError("Input X contains NaN or infinity; leave those samples out or fill them in")
    return samples


def checked_labels(values: Any, X: Array) -> Array:
    """Labels of the samples in a tensor, as doubles beside them."""
    if values is None:
        raise InputError("fit requires y to be passed, but the target y is None")
    if is_tensor(values):
        values = tensor_samples(values, str(X.device))
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
    else:
        values = move(np.asarray(values, dtype=np.float64), str(X.device))
    if values.ndim != 1 or len(values) != len(X):
        raise InputError(
            f"Found input variables with inconsistent numbers of samples: X has {len(X)}, y the shape "
            f"{tuple(values.shape)}"
        )
    if not backend_of(values).all_finite(values):
        raise InputError("Input y contains NaN or infinity; leave those samples out")
    return backend_of(values).double(values)
