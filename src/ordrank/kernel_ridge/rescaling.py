"""Linear rescaling of inputs by a discriminant metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ordrank._protocols import Array
from ordrank.backend import backend_of, convert_like


@dataclass(frozen=True)
class DiscriminantRescaling:
    r"""Symmetric positive definite linear map, the square root of a discriminant metric.

    .. math:: x \mapsto \frac1c\left(x + \sum_k (s_k - 1)\langle e_k, x\rangle e_k\right)

    The orthogonal complement of the directions is only divided by c.
    """

    directions: Array  # orthonormal rows e, (r, d)
    factors: Array  # positive s, (r,)
    scale: float  # c, which restores the unit mean square of the training samples

    @classmethod
    def identity(cls, n_features: int) -> DiscriminantRescaling:
        """Return the rescaling that changes nothing."""
        return cls(np.empty((0, n_features)), np.empty(0), 1.0)

    @property
    def is_identity(self) -> bool:
        """Whether the rescaling changes nothing."""
        return not len(self.factors)

    def to_device_of(self, X: Array) -> DiscriminantRescaling:
        """Return the same rescaling with arrays of the kind and on the device of X."""
        return DiscriminantRescaling(convert_like(self.directions, X), convert_like(self.factors, X), self.scale)

    def __call__(self, X: Array) -> Array:
        """Rescale samples (n, d)."""
        if self.is_identity:
            return X
        product, directions = backend_of(X).product, self.directions
        return (X + product(product(X, directions.T) * (self.factors - 1), directions)) / self.scale
