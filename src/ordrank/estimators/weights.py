"""How much each sample counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, check_consistent_length

from ordrank._types import Array, FloatArray, IntArray
from ordrank.backend import backend_of, is_tensor
from ordrank.errors import InputError
from ordrank.estimators.labels import OrdinalLabels, ordinal_labels


def weigh_samples(
    X: Array, labels: OrdinalLabels, sample_weight: ArrayLike | Array | None, *, balanced: bool
) -> tuple[Array, OrdinalLabels, FloatArray, IntArray]:
    """Samples, where they are, and labels that count, with weights of mean 1; and which rows of X they are.

    Parameters
    ----------
    X : array of shape (n, d)
    labels : OrdinalLabels
        On the host.
    sample_weight : array-like or tensor of shape (n,), optional
        Samples of weight 0 are left out.
    balanced : bool
        Whether every label gets the same weight in all.
    """
    weights, rows = np.ones(len(X)), np.arange(len(X))
    if sample_weight is not None:
        if is_tensor(sample_weight):
            sample_weight = backend_of(sample_weight).to_numpy(sample_weight)
        weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
        if weights.ndim != 1:
            raise InputError(f"Sample weights must be 1D array or scalar, got shape {weights.shape}")
        check_consistent_length(X, weights)
        if weights.min() < 0:
            raise InputError(f"sample_weight has negative values, the smallest is {weights.min():g}")
        counted = weights > 0
        if not counted.any():
            raise InputError("Sample weights must contain at least one non-zero number.")
        if not counted.all():
            rows = np.flatnonzero(counted)
            X, weights = X[backend_of(X).indices(rows, X)], weights[counted]
            labels = ordinal_labels(labels.values[counted], labels.names)
    if balanced:
        weights = weights / np.bincount(labels.index, weights)[labels.index]
    return X, labels, weights / weights.mean(), rows
