"""Checks of parameters, samples, weights and groups; each error names what is wrong and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from ordrank._protocols import Array, FloatArray, IntArray
from ordrank.backend import backend_of, is_tensor, tensor_samples, to_device
from ordrank.errors import InputError, NeighborsCappedWarning, warn_caller
from ordrank.estimators._labels import OrdinalLabels, encode_labels, ordinal_labels
from ordrank.kernel_ridge import row_blocks

_LARGEST = 1e100  # parameter whose square, and sums of it, are far from overflow
_MIN_COMPONENTS = 10  # that are allowed however few features and labels there are

# --- parameters ----------------------------------------------------------------------------------------------------


def check_integer(name: str, value: Any, *, minimum: int) -> None:
    """Raise InputError if the value is not an integer of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise InputError(f"{name} must be an integer of at least {minimum}, got {value!r}")


def check_number(
    name: str, value: Any, *, above: float = -math.inf, below: float = math.inf, at_least: float = -math.inf
) -> None:
    """Raise InputError if the value is not a finite number with ``above < value < below`` and ``value >= at_least``."""
    number = not isinstance(value, bool) and isinstance(value, Real)
    if number and abs(value) < math.inf and above < value < below and value >= at_least:
        if abs(value) > _LARGEST:
            raise InputError(f"{name} must be at most {_LARGEST:g}, or its square overflows; got {value!r}")
        return
    bounds = {f"above {above:g}": above, f"at least {at_least:g}": at_least, f"below {below:g}": below}
    stated = " and ".join(text for text, bound in bounds.items() if math.isfinite(bound))
    raise InputError(f"{name} must be a number{' ' if stated else ''}{stated}, got {value!r}")


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Raise InputError if the value is not one of the choices."""
    if not isinstance(value, str) or value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise InputError(f"{name} must be one of {allowed}, got {value!r}")


def check_flag(name: str, value: Any) -> None:
    """Raise InputError if the value is not a boolean."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {value!r}")


def check_components(n_components: int, n_labels: int, n_features: int) -> None:
    """Raise InputError if dimensions would stay empty by the million: m labels fill at most m - 1 of them."""
    most = max(_MIN_COMPONENTS, n_labels, n_features)
    if n_components > most:
        raise InputError(
            f"n_components={n_components} is too much for {n_labels} labels, which fill {n_labels - 1} dimensions, and "
            f"{n_features} features; it must be at most {most}"
        )


def check_device(value: Any) -> None:
    """Raise InputError if the value is neither None nor the name of a device."""
    if value is not None and not (isinstance(value, str) and value.partition(":")[0] in ("cpu", "cuda")):
        raise InputError(f"device must be None, 'cpu' or 'cuda', got {value!r}")


def warn_if_all_vote(n_neighbors: int, n_samples: int) -> None:
    """Warn if more neighbours should vote than there are samples."""
    if n_neighbors > n_samples:
        message = f"n_neighbors={n_neighbors} is more than the {n_samples} samples; all of them vote"
        warn_caller(message, NeighborsCappedWarning)


def is_auto(value: Any) -> bool:
    """Return whether the value is ``"auto"``."""
    return isinstance(value, str) and value == "auto"


# --- samples and labels --------------------------------------------------------------------------------------------


def check_tensor(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    device: str | None = None,
    ensure_min_samples: int = 1,
    ensure_all_finite: bool = True,
) -> Array:
    """Return samples (n, d) in single or double precision, on ``device`` if given; arguments as in scikit-learn."""
    if X.ndim != 2:
        raise InputError(f"Expected 2D array, got {X.ndim}D tensor instead; reshape it to (n_samples, n_features)")
    if len(X) < ensure_min_samples or X.shape[1] == 0:
        raise InputError(
            f"Found a tensor with {len(X)} sample(s) and {X.shape[1]} feature(s) while a minimum of "
            f"{ensure_min_samples} and 1 is required"
        )
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return check_finite_tensor(X, device) if ensure_all_finite else tensor_samples(X, device)


def check_finite_tensor(X: Any, device: str | None = None) -> Array:
    """Return the tensor in single or double precision; raise InputError if an element is infinite or NaN."""
    samples = tensor_samples(X, device)
    if not backend_of(samples).all_finite(samples):
        raise InputError("Input X contains NaN or infinity; remove these samples or impute the values")
    return samples


def check_tensor_labels(values: Any, X: Array) -> Array:
    """Return the labels (n,) of the samples in a tensor, as doubles on its device."""
    if values is None:
        raise InputError("fit requires y to be passed, but the target y is None")
    if is_tensor(values):
        values = tensor_samples(values, str(X.device))
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
    else:
        values = to_device(np.asarray(values, dtype=np.float64), str(X.device))
    if values.ndim != 1 or len(values) != len(X):
        raise InputError(
            f"Found input variables with inconsistent numbers of samples: X has {len(X)}, y the shape "
            f"{tuple(values.shape)}"
        )
    if not backend_of(values).all_finite(values):
        raise InputError("Input y contains NaN or infinity; remove these samples")
    return backend_of(values).double(values)


def check_training_data(estimator: Any, X: Any, y: Any, device: str | None = None) -> tuple[Array, OrdinalLabels]:
    """Return checked samples, on ``device`` if given, and grouped labels; the estimator records the features."""
    values, names = (y, None) if is_tensor(X) and is_tensor(y) else encode_labels(y)
    if is_tensor(X):
        X = check_tensor(estimator, X, reset=True, device=device, ensure_min_samples=2)
        values = check_tensor_labels(values, X)
    else:
        # Finiteness is checked below, in the pass that computes the extremes.
        checks: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_min_samples": 2}
        X, values = validate_data(estimator, X, values, y_numeric=True, ensure_all_finite=False, **checks)
    bounds = _extremes(X)
    if not np.isfinite(bounds).all():
        check_array(X, estimator=estimator, input_name="X")  # raises scikit-learn's error
    labels = ordinal_labels(values, names)
    if _is_constant(X):
        raise InputError("all samples are identical: every feature is constant, there is no distance to learn")
    check_magnitude(bounds, math.prod(X.shape), backend_of(X).finfo_max(X))
    return X if is_tensor(X) else to_device(X, device), labels


def check_unlabeled(estimator: Any, unlabeled: Any, like: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return unlabelled samples on the host in the type of ``like`` (0, d), which is returned if there are none."""
    if unlabeled is None:
        return like
    if is_tensor(unlabeled):
        unlabeled = backend_of(unlabeled).to_numpy(tensor_samples(unlabeled, None))
    checks: dict[str, Any] = {"dtype": like.dtype, "ensure_min_samples": 0}
    checked: NDArray[np.floating] = validate_data(estimator, unlabeled, reset=False, **checks)
    if len(checked):
        check_magnitude(_extremes(checked), checked.size, float(np.finfo(checked.dtype).max))
    return checked


def check_magnitude(bounds: FloatArray, n_elements: int, max_number: float) -> None:
    """Raise InputError if features with these extremes overflow or underflow when squared, in a type up to a number."""
    largest = float(np.abs(bounds).max())
    if not 1e-18 < largest < min(1e18, max_number**0.5 / n_elements):
        raise InputError(f"features up to {largest:.1g} overflow or underflow when squared; rescale them")


def check_queries(X: Array) -> None:
    """Raise InputError if the squared norm of a new sample, in its last dimension, overflows."""
    largest = max(float(X.max()), -float(X.min())) if len(X) else 0.0
    if largest > min(1e18, backend_of(X).finfo_max(X) ** 0.5 / X.shape[-1]):
        raise InputError(f"features up to {largest:.1g} overflow when squared; samples of the training were smaller")


def _extremes(X: Array) -> FloatArray:
    """Return the smallest and largest element, an array one block of rows at a time; not finite if any is not."""
    blocks = [slice(None)] if is_tensor(X) else list(row_blocks(*X.shape))
    parts = [(float(X[rows].min()), float(X[rows].max())) for rows in blocks]
    return np.array([np.min([low for low, _ in parts]), np.max([high for _, high in parts])])


def _is_constant(X: Array) -> bool:
    """Return whether all rows are equal."""
    if is_tensor(X):
        return not bool((X[0] != X).any())
    return all(not (X[0] != X[rows]).any() for rows in row_blocks(*X.shape))


# --- weights and groups --------------------------------------------------------------------------------------------


def apply_weights(
    X: Array, labels: OrdinalLabels, sample_weight: ArrayLike | Array | None, *, balanced: bool
) -> tuple[Array, OrdinalLabels, FloatArray, IntArray]:
    """Return the samples of positive weight, their labels (on the host), weights of mean 1, and their rows in X.

    If ``balanced``, all labels get the same total weight.
    """
    weights, rows = np.ones(len(X)), np.arange(len(X))
    if sample_weight is not None:
        if is_tensor(sample_weight):
            sample_weight = backend_of(sample_weight).to_numpy(sample_weight)
        needed = f"sample_weight must have one weight for each of the {len(X)} samples"
        if np.isscalar(sample_weight) or getattr(sample_weight, "ndim", 1) == 0:
            raise InputError(f"{needed}, got one number")
        weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
        if weights.ndim != 1:
            raise InputError(f"{needed}, got an array of shape {weights.shape}")
        check_consistent_length(X, weights)
        if weights.min() < 0:
            raise InputError(f"sample_weight has negative values, the smallest is {weights.min():g}")
        positive = weights > 0
        if not positive.any():
            raise InputError("Sample weights must contain at least one non-zero number.")
        if not positive.all():
            rows = np.flatnonzero(positive)
            X, weights = X[backend_of(X).indices(rows, X)], weights[positive]
            labels = ordinal_labels(labels.values[positive], labels.names)
    if balanced:
        weights = weights / np.bincount(labels.index, weights)[labels.index]
    return X, labels, weights / weights.mean(), rows


def check_groups(groups: ArrayLike | Array, X: Array) -> IntArray:
    """Return group numbers (n,) from 0 for samples X (n, d); group names may be anything that can be sorted."""
    names = backend_of(groups).to_numpy(groups) if is_tensor(groups) else np.asarray(groups)
    if names.ndim != 1:
        raise InputError(f"groups must name one group for each sample, got an array of shape {names.shape}")
    check_consistent_length(X, names)
    if any(map(_is_missing, names)):
        raise InputError("groups has missing values; give every sample a group, a separate one if it is independent")
    try:
        distinct, numbers = np.unique(names, return_inverse=True)
    except TypeError:
        raise InputError("groups has names of different types, which cannot be sorted; use numbers or words") from None
    if len(distinct) < 2:
        raise InputError("all samples are of one group: holding it out would leave no training samples")
    return np.asarray(numbers, dtype=np.int64)


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas.NA, whose comparisons have no truth value."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def largest_group(groups: IntArray | None) -> int:
    """Return the number of samples of the largest group; 1 without groups."""
    return 1 if groups is None else int(np.bincount(groups).max())
