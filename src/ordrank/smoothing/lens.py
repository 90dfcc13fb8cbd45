"""A linear view of samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ordrank._types import Array
from ordrank.backend import as_given, backend_of


@dataclass(frozen=True)
class Lens:
    r"""A symmetric linear map that stretches some directions and shrinks others.

    .. math:: x \mapsto \frac1c\left(x + \sum_k (s_k - 1)\langle e_k, x\rangle e_k\right)

    Attributes
    ----------
    directions : ndarray or tensor of shape (r, d)
        e, orthonormal.
    stretches : ndarray or tensor of shape (r,)
        s, positive.
    size : float
        c, with which samples have unit mean square again.
    """

    directions: Array
    stretches: Array
    size: float

    @classmethod
    def plain(cls, n_features: int) -> Lens:
        """One that changes nothing."""
        return cls(np.empty((0, n_features)), np.empty(0), 1.0)

    @property
    def is_plain(self) -> bool:
        """Whether it changes nothing."""
        return not len(self.stretches)

    def beside(self, X: Array) -> Lens:
        """The same lens, for samples that are where X is."""
        return Lens(as_given(self.directions, X), as_given(self.stretches, X), self.size)

    def __call__(self, X: Array) -> Array:
        """Samples (n, d) through the lens, where they are."""
        if self.is_plain:
            return X
        product, along = backend_of(X).product, self.directions
        return (X + product(product(X, along.T) * (self.stretches - 1), along)) / self.size
