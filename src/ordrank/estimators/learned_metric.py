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
from ordrank.backend import as_given, backend_of, is_tensor, move, tensor_samples
from ordrank.errors import InputError, warn_caller
from ordrank.estimators.labels import OrdinalLabels, encode_labels, ordinal_labels
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


def _checked_labels(values: Any, X: Array) -> Array:
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
        given = self._taken(X)
        if is_tensor(given):
            return self._embed(self._checked_tensor(given, reset=False))
        return as_given(self._embed(validate_data(self, given, reset=False, dtype=[np.float64, np.float32])), X)

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
        given = self._taken(pairs)
        if is_tensor(given):
            checked = tensor_samples(given, None).double()
        else:
            checked = check_array(given, allow_nd=True, dtype=np.float64)
        if checked.ndim != 3 or checked.shape[1:] != (2, self.n_features_in_):
            raise InputError(f"pairs must have the shape (n_pairs, 2, {self.n_features_in_}), got {checked.shape}")
        return as_given(self._distances(checked[:, 0], checked[:, 1]), pairs)

    @abstractmethod
    def _embed(self, X: Array) -> Array:
        """Checked samples (n, d) in the space of the metric, of the same type."""

    @abstractmethod
    def _distances(self, first: Array, second: Array) -> Array:
        """Learned distances between the rows of two arrays (n, d)."""

    def _taken(self, X: Any) -> Any:
        """Samples as the metric computes with them: arrays, unless it knows tensors."""
        if is_tensor(X) and X.device.type != "cpu":
            raise InputError(f"{type(self).__name__} computes on the CPU; give it X.cpu(), not a tensor on {X.device}")
        return backend_of(X).to_numpy(X) if is_tensor(X) else X

    def _validated(self, X: Any, y: Any, device: str | None = None) -> tuple[Array, OrdinalLabels]:
        """Checked samples, not centred, and grouped labels, both on the device if one is named."""
        X = self._taken(X)
        if is_tensor(X) and is_tensor(y):
            values, names = y, None
        else:
            values, names = encode_labels(y)
        if is_tensor(X):
            X = self._checked_tensor(X, reset=True, device=device, ensure_min_samples=2)
            values = _checked_labels(values, X)
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

    def _checked_tensor(self, X: Any, *, reset: bool, device: str | None = None, ensure_min_samples: int = 1) -> Array:
        """A tensor under the rules that scikit-learn has for arrays."""
        if X.ndim != 2:
            raise InputError(f"Expected 2D array, got {X.ndim}D tensor instead; reshape it to (n_samples, n_features)")
        if len(X) < ensure_min_samples or X.shape[1] == 0:
            raise InputError(
                f"Found a tensor with {len(X)} sample(s) and {X.shape[1]} feature(s) while a minimum of "
                f"{ensure_min_samples} and 1 is required"
            )
        samples = tensor_samples(X, device)
        validate_data(self, X, reset=reset, skip_check_array=True)
        if not backend_of(samples).all_finite(samples):
            raise InputError("Input X contains NaN or infinity; leave those samples out or fill them in")
        return samples

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
