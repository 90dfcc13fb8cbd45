"""What every estimator of a linear map L shares: the distance ‖L(x - x′)‖ in its several forms."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ordrank._types import FloatArray, SolverResult
from ordrank.errors import InputError
from ordrank.estimators.labels import OrdinalLabels, encode_labels, ordinal_labels


@dataclass(frozen=True)
class MahalanobisDistance:
    """Picklable distance function between two vectors, ‖L(u - v)‖."""

    components: NDArray[np.floating]

    def __call__(self, u: ArrayLike, v: ArrayLike) -> float:
        """Distance between u (d,) and v (d,)."""
        return float(np.linalg.norm(self.components @ (np.asarray(u) - np.asarray(v))))


class LinearMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of the estimators that learn ``components_`` (s, d).

    A subclass checks its parameters in ``_check_parameters`` and sets ``components_`` in ``_learn``, which is
    given centred samples and grouped labels.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the distance.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Samples. They are centred here; scaling is left to the caller.
        y : array-like of shape (n,)
            Ordered labels: numbers, whose gaps count, or an ordered pandas categorical.

        Returns
        -------
        LinearMetric
            Itself.
        """
        self._check_parameters()
        samples, labels = self._validated(X, y)
        self.labels_ = labels.distinct
        self._learn(samples, labels)
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Map samples to the space in which Euclidean distance is the learned one.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, s)
            ``(X - mean_) @ components_.T``
        """
        check_is_fitted(self)
        checked = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        centred = checked - self.mean_.astype(checked.dtype, copy=False)
        return centred @ self.components_.T.astype(checked.dtype, copy=False)

    def pair_distance(self, pairs: ArrayLike) -> FloatArray:
        """Learned distance of each pair.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, d)

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        check_is_fitted(self)
        checked = check_array(pairs, allow_nd=True, dtype=np.float64)
        if checked.ndim != 3 or checked.shape[1:] != (2, self.n_features_in_):
            raise InputError(f"pairs must have the shape (n_pairs, 2, {self.n_features_in_}), got {checked.shape}")
        return np.linalg.norm((checked[:, 0] - checked[:, 1]) @ self.components_.T, axis=1)

    def get_mahalanobis_matrix(self) -> NDArray[np.floating]:
        """A = LᵀL, of shape (d, d)."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def get_metric(self) -> MahalanobisDistance:
        """Learned distance as a function of two vectors, for libraries that take a callable."""
        check_is_fitted(self)
        return MahalanobisDistance(self.components_.copy())

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise an error that names the first wrong parameter."""

    @abstractmethod
    def _learn(self, X: NDArray[np.floating], labels: OrdinalLabels) -> None:
        """Set ``components_`` and what else was learned."""

    def _validated(self, X: Any, y: Any) -> tuple[NDArray[np.floating], OrdinalLabels]:
        """Centred samples and grouped labels; sets ``mean_``."""
        values, names = encode_labels(y)
        X, values = validate_data(self, X, values, dtype=[np.float64, np.float32], y_numeric=True, ensure_min_samples=2)
        labels = ordinal_labels(values, names)
        if not (X[0] != X).any():
            raise InputError("all samples are identical: every feature is constant, there is no distance to learn")
        # Objectives raise distances to high powers in double precision, and square features in their own.
        size = float(np.abs(X).max())
        if not 1e-18 < size < min(1e18, float(np.finfo(X.dtype).max) ** 0.5 / X.size):
            raise InputError(f"features up to {size:.1g} leave the range of arithmetic when squared; scale them")
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        return X - self.mean_.astype(X.dtype), labels

    def _record(self, result: SolverResult, hint: str) -> None:
        """Keep what the solver did on the estimator, and warn if it stopped early."""
        self.objective_ = result.value
        self.n_iter_ = max(1, result.n_iter)  # finding that the start is a solution counts as an iteration
        self.stop_reason_ = result.stop_reason
        self.history_ = result.history
        if not result.converged:
            warnings.warn(
                f"{type(self).__name__} stopped after {result.n_iter} iterations: {result.stop_reason}. {hint}",
                ConvergenceWarning,
                stacklevel=4,  # the caller of fit
            )

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
