"""Base class of the metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ordrank._protocols import Array
from ordrank.backend import is_tensor
from ordrank.errors import InputError, warn_caller
from ordrank.estimators._validation import check_finite_tensor, check_queries, check_tensor
from ordrank.solvers import SolverResult


class BaseMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Estimator whose ``transform`` embeds samples in a space with the learned metric as Euclidean distance."""

    def transform(self, X: ArrayLike | Array) -> Array:
        """Embed samples in the space whose Euclidean distance is the learned metric.

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
            checked = check_tensor(self, X, reset=False)
        else:
            checked = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        check_queries(checked)
        return self._embed(checked)

    def pair_distance(self, pairs: ArrayLike | Array) -> Array:
        """Return the learned distance of each pair.

        Parameters
        ----------
        pairs : array-like or tensor of shape (n_pairs, 2, d)

        Returns
        -------
        ndarray of shape (n_pairs,)
            A tensor on the same device if ``pairs`` is one.
        """
        check_is_fitted(self)
        if is_tensor(pairs):
            checked = check_finite_tensor(pairs).double()
        else:
            checked = check_array(pairs, allow_nd=True, dtype=np.float64)
        if checked.ndim != 3 or checked.shape[1:] != (2, self.n_features_in_):
            raise InputError(f"pairs must have the shape (n_pairs, 2, {self.n_features_in_}), got {checked.shape}")
        check_queries(checked)
        return self._distances(checked[:, 0], checked[:, 1])

    @abstractmethod
    def _embed(self, X: Array) -> Array:
        """Embed checked samples (n, d), in their type."""

    @abstractmethod
    def _distances(self, A: Array, B: Array) -> Array:
        """Return the learned distances between the rows of A and B (n, d)."""

    def _record(self, result: SolverResult) -> None:
        """Set the attributes that describe the solver's run."""
        self.objective_ = result.value
        self.n_iter_ = max(1, result.n_iter)  # scikit-learn requires at least one
        self.stop_reason_ = result.stop_reason
        self.history_ = result.history

    def _warn_unless_converged(self, result: SolverResult, hint: str) -> None:
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
