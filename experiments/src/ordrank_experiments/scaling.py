"""Scaling of all features by one number, which keeps directions and ratios of distances."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data


class UnitMeanSquare(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Centre samples and divide them by one number, so that their mean squared norm is 1.

    Attributes
    ----------
    mean_ : ndarray of shape (d,)
    size_ : float
        Root mean square norm of the centred training samples.
    """

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Compute mean and scale of the samples (n, d)."""
        self._measure(X)
        return self

    def fit_transform(self, X: ArrayLike, y: Any = None) -> NDArray[np.float64]:
        """Fit and transform the samples (n, d), which are validated once."""
        return self._scaled(self._measure(X))

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return (X - mean_) / size_; only centred if all training samples were equal."""
        check_is_fitted(self)
        return self._scaled(validate_data(self, X, reset=False, dtype=np.float64))

    def _measure(self, X: ArrayLike) -> NDArray[np.float64]:
        samples: NDArray[np.float64] = validate_data(self, X, dtype=np.float64)
        self.mean_ = samples.mean(axis=0)
        self.size_ = float(np.sqrt(((samples - self.mean_) ** 2).sum(axis=1).mean()))
        return samples

    def _scaled(self, samples: NDArray[np.float64]) -> NDArray[np.float64]:
        return (samples - self.mean_) / (self.size_ or 1.0)
