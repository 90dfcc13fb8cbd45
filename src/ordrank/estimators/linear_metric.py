"""What every estimator of a linear map L shares: the distance ‖L(x - x′)‖ in its several forms."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ordrank._types import Array
from ordrank.backend import as_given, backend_of
from ordrank.estimators.labels import OrdinalLabels
from ordrank.estimators.learned_metric import LearnedMetric
from ordrank.estimators.parameters import check_device


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
    given centred samples and grouped labels on the device where to compute. ``components_`` and ``mean_`` are handed
    out in the kind of X: arrays, or tensors on its device.
    """

    device: str | None
    components_: Array

    def fit(self, X: ArrayLike | Array, y: ArrayLike | Array) -> Self:
        """Learn the distance.

        Parameters
        ----------
        X : array-like or tensor of shape (n, d)
            Samples. They are centred here; scaling is left to the caller.
        y : array-like or tensor of shape (n,)
            Ordered labels: numbers, whose gaps count, or an ordered pandas categorical.

        Returns
        -------
        LinearMetric
            Itself.
        """
        check_device(self.device)
        self._check_parameters()
        samples, labels = self._validated(X, y, self.device)
        backend = backend_of(samples)
        mean = backend.mean(samples)
        self.labels_ = labels.distinct
        labels = replace(labels, index=backend.indices(labels.index, samples))
        self._learn(samples - backend.asarray(mean, samples), labels)
        self.components_, self.mean_ = as_given(self.components_, X), as_given(mean, X)
        return self

    def get_mahalanobis_matrix(self) -> Array:
        """A = LᵀL, of shape (d, d), in the kind of ``components_``."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def get_metric(self) -> MahalanobisDistance:
        """Learned distance as a function of two vectors, for libraries that take a callable."""
        check_is_fitted(self)
        return MahalanobisDistance(np.array(backend_of(self.components_).to_numpy(self.components_)))

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise an error that names the first wrong parameter."""

    @abstractmethod
    def _learn(self, X: Array, labels: OrdinalLabels) -> None:
        """Set ``components_`` and what else was learned."""

    def _embed(self, X: Array) -> Array:
        """``(X - mean_) @ components_.T``, where X is."""
        asarray = backend_of(X).asarray
        return (X - asarray(self.mean_, X)) @ asarray(self.components_, X).T

    def _distances(self, first: Array, second: Array) -> Array:
        backend = backend_of(first)
        return backend.lengths((first - second) @ backend.asarray(self.components_, first).T)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)
