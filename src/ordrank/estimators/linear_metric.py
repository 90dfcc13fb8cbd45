"""What every estimator of a linear map L shares: the distance ‖L(x - x′)‖ in its several forms."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ordrank._types import FloatArray
from ordrank.estimators.labels import OrdinalLabels
from ordrank.estimators.learned_metric import LearnedMetric


@dataclass(frozen=True)
class MahalanobisDistance:
    """Picklable distance function between two vectors, ‖L(u - v)‖."""

    components: NDArray[np.floating]

    def __call__(self, u: ArrayLike, v: ArrayLike) -> float:
        """Distance between u (d,) and v (d,)."""
        return float(np.linalg.norm(self.components @ (np.asarray(u) - np.asarray(v))))


class LinearMetric(LearnedMetric):
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
        self.mean_ = samples.mean(axis=0, dtype=np.float64)
        self.labels_ = labels.distinct
        self._learn(samples - self.mean_.astype(samples.dtype), labels)
        return self

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

    def _embed(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """``(X - mean_) @ components_.T``."""
        centred = X - self.mean_.astype(X.dtype, copy=False)
        return centred @ self.components_.T.astype(X.dtype, copy=False)

    def _distances(self, first: FloatArray, second: FloatArray) -> FloatArray:
        return np.linalg.norm((first - second) @ self.components_.T, axis=1)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)
