"""What every learned metric shares: checked input, a distance in its several forms, a record of the fit."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ordrank._types import Array, FloatArray, SolverResult
from ordrank.backend import backend_of, is_tensor, move, tensor_samples
from ordrank.errors import InputError, warn_caller
from ordrank.estimators.labels import OrdinalLabels, encode_labels, ordinal_labels
from ordrank.estimators.tensors import checked_labels, checked_tensor
from ordrank.smoothing import row_blocks


def check_size(X: Array, bounds: FloatArray) -> None:
    """Refuse features that cannot be squared: objectives do so in the type of X, and in high powers in double."""
    size = float(np.abs(bounds).max())
    if not 1e-18 < size < min(1e18, backend_of(X).largest(X) ** 0.5 / math.prod(X.shape)):
        raise InputError(f"features up to {size:.1g} leave the range of arithmetic when squared; scale them")


def extremes(X: Array) -> FloatArray:
    """Smallest and largest element of X, of an array a block of rows at a time; not finite if any element is not."""
    blocks = [slice(None)] if is_tensor(X) else list(row_blocks(*X.shape))
    parts = [(float(X[rows].min()), float(X[rows].max())) for rows in blocks]
    return np.array([np.min([low for low, _ in parts]), np.max([high for _, high in parts])])


def _all_alike(X: Array) -> bool:
    """Whether all rows of X are the same."""
    if is_tensor(X):
        return not bool((X[0] != X).any())
    return all(not (X[0] != X[rows]).any() for rows in row_blocks(*X.shape))


class LearnedMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of the estimators whose ``transform`` leads to a space in which Euclidean distance is the learned one."""

    def transform(self, X: ArrayLike | Array) -> Array:
        """Map samples to the space in which Euclidean distance is the learned one.

        Parameters
        ----------
        X : array-like or tensor of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n_features_out)
            A tensor on the same device if X is one.
        """
        check_is_fitted(self)
        if is_tensor(X):
            return self._embed(checked_tensor(self, X, reset=False))
        return self._embed(validate_data(self, X, reset=False, dtype=[np.float64, np.float32]))

    def pair_distance(self, pairs: ArrayLike | Array) -> Array:
        """Learned distance of each pair.

        Parameters
        ----------
        pairs : array-like or tensor of shape (n_pairs, 2, d)

        Returns
        -------
        ndarray of shape (n_pairs,)
            A tensor on the same device if the pairs are one.
        """
        check_is_fitted(self)
        if is_tensor(pairs):
            checked = tensor_samples(pairs, None).double()
        else:
            checked = check_array(pairs, allow_nd=True, dtype=np.float64)
        if checked.ndim != 3 or checked.shape[1:] != (2, self.n_features_in_):
            raise InputError(f"pairs must have the shape (n_pairs, 2, {self.n_features_in_}), got {checked.shape}")
        return self._distances(checked[:, 0], checked[:, 1])

    @abstractmethod
    def _embed(self, X: Array) -> Array:
        """Checked samples (n, d) in the space of the metric, of the same type."""

    @abstractmethod
    def _distances(self, first: Array, second: Array) -> Array:
        """Learned distances between the rows of two arrays (n, d)."""

    def _validated(self, X: Any, y: Any, device: str | None = None) -> tuple[Array, OrdinalLabels]:
        """Checked samples, not centred, and grouped labels, both on the device if one is named."""
        if is_tensor(X) and is_tensor(y):
            values, names = y, None
        else:
            values, names = encode_labels(y)
        if is_tensor(X):
            X = checked_tensor(self, X, reset=True, device=device, ensure_min_samples=2)
            values = checked_labels(values, X)
        else:
            # Whether they are finite is seen below, in the pass that looks at their size.
            checks: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_min_samples": 2}
            X, values = validate_data(self, X, values, y_numeric=True, ensure_all_finite=False, **checks)
        bounds = extremes(X)
        if not np.isfinite(bounds).all():
            check_array(X, estimator=self, input_name="X")  # has the sentence for this
        labels = ordinal_labels(values, names)
        if _all_alike(X):
            raise InputError("all samples are identical: every feature is constant, there is no distance to learn")
        check_size(X, bounds)
        return X if is_tensor(X) else move(X, device), labels

    def _record(self, result: SolverResult, hint: str) -> None:
        """Keep what the solver did on the estimator, and warn if it stopped early."""
        self.objective_ = result.value
        self.n_iter_ = max(1, result.n_iter)  # finding that the start is a solution counts as an iteration
        self.stop_reason_ = result.stop_reason
        self.history_ = result.history
        if not result.converged:
            warn_caller(
                f"{type(self).__name__} stopped after {result.n_iter} iterations: {result.stop_reason}. {hint}",
                ConvergenceWarning,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
