"""A fitted order map beside a share of the plain distance: where samples are, and how far apart."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ordrank._types import Array
from ordrank.backend import as_given, backend_of
from ordrank.errors import InputError
from ordrank.estimators.learned_metric import LearnedMetric
from ordrank.estimators.linear_metric import MahalanobisDistance
from ordrank.estimators.order_map import unit_size
from ordrank.smoothing import Lens, row_blocks
from ordrank.smoothing.kernels import gaussians


@dataclass(frozen=True)
class EmbeddedDistance:
    """Picklable distance function between two vectors, through the map of a fitted metric."""

    metric: OrderedMetric

    def __call__(self, u: ArrayLike, v: ArrayLike) -> float:
        """Distance between u (d,) and v (d,)."""
        return float(self.metric.pair_distance(np.stack([np.asarray(u), np.asarray(v)])[None])[0])


class OrderedMetric(LearnedMetric):
    """What :class:`~ordrank.OrdinalMetric` does once it has learned; its attributes are described there."""

    n_components_: int
    n_features_in_: int
    kernel_: str
    sharpness_: float | None
    sharpnesses_: Sequence[float]
    locality_: float
    size_: float
    mean_: Array
    offset_: Array
    order_components_: Array
    lens_directions_: Array
    lens_stretches_: Array
    lens_size_: float
    landmarks_: Array
    coefficients_: Array

    def get_mahalanobis_matrix(self) -> Array:
        """A with d² = (x - x′)ᵀA(x - x′), of shape (d, d); a linear map has one, a kernel map does not."""
        check_is_fitted(self)
        if self.kernel_ != "linear":
            raise InputError(
                "a kernel map has no Mahalanobis matrix; use transform or pair_distance, or fit with kernel='linear'"
            )
        return self.components_.T @ self.components_

    def get_metric(self) -> EmbeddedDistance | MahalanobisDistance:
        """Learned distance as a function of two vectors, for libraries that take a callable."""
        check_is_fitted(self)
        if self.kernel_ == "rbf":
            return EmbeddedDistance(copy(self))
        L = self.components_
        return MahalanobisDistance(backend_of(L).to_numpy(L))

    def _unit(self, X: Array) -> Array:
        return unit_size(X, self.mean_, self.size_)

    def _order(self, unit: Array) -> Array:
        """Positions of samples of unit size, (n, s), where they are, a block at a time."""
        backend = backend_of(unit)
        order = backend.product(unit, as_given(self.order_components_, unit).T * self.size_)
        order = order - as_given(self.offset_, unit)
        if not self.sharpnesses_:
            return order
        lens = Lens(self.lens_directions_, self.lens_stretches_, self.lens_size_).beside(unit)
        landmarks, coefficients = as_given(self.landmarks_, unit), as_given(self.coefficients_, unit)
        for rows in row_blocks(len(unit), len(landmarks), backend.blocks_at_once(unit)):
            bends = gaussians(lens(backend.double(unit[rows])), landmarks, self.sharpnesses_)
            for bend, weights in zip(bends, coefficients, strict=True):
                order[rows] += backend.product(bend, weights)
        return order

    def _embed(self, X: Array) -> Array:
        """Order map in the first s columns, then λ times the samples of unit size, if λ is not 0."""
        backend = backend_of(X)
        embedded = backend.empty((len(X), self._n_features_out), X)
        for rows in row_blocks(len(X), X.shape[1], backend.blocks_at_once(X)):
            unit = self._unit(X[rows])
            embedded[rows, : self.n_components_] = self._order(unit)
            if self.locality_ > 0:
                backend.multiply(unit, float(self.locality_), embedded[rows, self.n_components_ :])
        return embedded

    def _distances(self, first: Array, second: Array) -> Array:
        unit, squared = (self._unit(first), self._unit(second)), backend_of(first).squared_lengths
        order = squared(self._order(unit[0]) - self._order(unit[1]))
        return (order + self.locality_**2 * squared(unit[0] - unit[1])) ** 0.5

    @property
    def components_(self) -> Array:
        """Rows of the order map, then λ / size times the identity."""
        if getattr(self, "kernel_", None) != "linear":
            raise AttributeError("only a fitted linear map has components_")
        L, backend = self.order_components_, backend_of(self.order_components_)
        rows = [L]
        if self.locality_ > 0:
            rows.append((self.locality_ / self.size_) * backend.asarray(np.eye(L.shape[1]), L))
        return backend.join(rows)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_ + (self.n_features_in_ if self.locality_ > 0 else 0)
