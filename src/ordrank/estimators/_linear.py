"""Base class of the metrics ‖L(x - x′)‖."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ordrank._protocols import Array
from ordrank.backend import backend_of, convert_like
from ordrank.estimators._base import BaseMetric
from ordrank.estimators._labels import OrdinalLabels
from ordrank.estimators._validation import check_device, check_training_data


@dataclass(frozen=True)
class MahalanobisDistance:
    """Picklable distance function ‖L(u - v)‖ of two vectors."""

    components: NDArray[np.floating]

    def __call__(self, u: ArrayLike, v: ArrayLike) -> float:
        """Return the distance between u (d,) and v (d,)."""
        return float(np.linalg.norm(self.components @ (np.asarray(u) - np.asarray(v))))


class LinearMetric(BaseMetric):
    """Metric with ``components_`` L (s, d), which a subclass sets in ``_learn``."""

    device: str | None
    components_: Array

    def fit(self, X: ArrayLike | Array, y: ArrayLike | Array) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array-like or tensor of shape (n, d)
            Samples. They are centred, not scaled.
        y : array-like or tensor of shape (n,)
            Ordered labels: numbers, whose gaps count, or an ordered pandas categorical.

        Returns
        -------
        self
        """
        check_device(self.device)
        self._check_parameters()
        samples, labels = check_training_data(self, X, y, self.device)
        backend = backend_of(samples)
        mean = backend.mean(samples)
        self.labels_ = labels.distinct
        labels = replace(labels, index=backend.indices(labels.index, samples))
        self._learn(samples - backend.asarray(mean, samples), labels)
        self.components_, self.mean_ = convert_like(self.components_, X), convert_like(mean, X)
        return self

    def get_mahalanobis_matrix(self) -> Array:
        """Return A = LᵀL, of shape (d, d); a tensor if ``components_`` is one."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def get_metric(self) -> MahalanobisDistance:
        """Return the learned distance as a function of two vectors."""
        check_is_fitted(self)
        return MahalanobisDistance(np.array(backend_of(self.components_).to_numpy(self.components_)))

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise InputError if a parameter is invalid."""

    @abstractmethod
    def _learn(self, X: Array, labels: OrdinalLabels) -> None:
        """Set ``components_`` and the other fitted attributes from centred samples, on their device."""

    def _embed(self, X: Array) -> Array:
        asarray = backend_of(X).asarray
        return (X - asarray(self.mean_, X)) @ asarray(self.components_, X).T

    def _distances(self, A: Array, B: Array) -> Array:
        backend = backend_of(A)
        return backend.norm((A - B) @ backend.asarray(self.components_, A).T)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)
