"""The learned embedding of OrdinalMetric: one frozen object, independent of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import Array
from ordrank.backend import backend_of, convert_like
from ordrank.kernel_ridge import DiscriminantRescaling, row_blocks
from ordrank.kernel_ridge.kernels import gaussians


def normalize(X: Array, mean: Array, scale: float) -> Array:
    """Return ``(X - mean) / scale`` in the type and on the device of X (n, d)."""
    asarray = backend_of(X).asarray
    return (X - asarray(mean, X)) / asarray(scale, X)


@dataclass(frozen=True)
class OrdinalEmbedding:
    r"""Map of samples to a space whose Euclidean distance is the learned one.

    A sample is normalised, :math:`u = (x - m) / c`, and mapped to :math:`[f(u), \lambda u]` with

    .. math:: f(u) = c\,Lu - o
              + \sum_\omega C_\omega^T\left[\exp\left(-\tfrac\omega2\|\ell(u) - l_i\|^2\right)\right]_i .

    Attributes
    ----------
    mean : array of shape (d,)
        m.
    scale : float
        c, the root mean square distance of the training samples from their mean.
    linear : array of shape (s, d)
        L, the linear part of the ordinal map per unit of x.
    offset : array of shape (s,)
        o.
    locality : float
        λ, the appearance weight.
    sharpnesses : tuple of J floats
        ω, the inverse squared bandwidths of the Gaussians; empty for a linear map.
    landmarks : array of shape (m, d)
        l, normalised and rescaled; no rows for a linear map.
    coefficients : array of shape (J, m, s)
        C.
    rescaling : DiscriminantRescaling
        ℓ.
    """

    mean: Array
    scale: float
    linear: Array
    offset: Array
    locality: float
    sharpnesses: tuple[float, ...]
    landmarks: Array
    coefficients: Array
    rescaling: DiscriminantRescaling

    @property
    def n_components(self) -> int:
        """Dimension s of the ordinal map: the leading columns of ``transform``."""
        return len(self.linear)

    @property
    def n_features_out(self) -> int:
        """Columns of ``transform``: s, or s + d if λ > 0."""
        return self.n_components + (self.linear.shape[1] if self.locality > 0 else 0)

    @property
    def components(self) -> Array:
        """Matrix of the embedding (s + d, d), or (s, d) if λ = 0; only of a linear map."""
        if self.sharpnesses:
            raise AttributeError("only a linear map has a matrix of components")
        L, backend = self.linear, backend_of(self.linear)
        if self.locality == 0:
            return backend.concat([L])
        return backend.concat([L, (self.locality / self.scale) * backend.asarray(np.eye(L.shape[1]), L)])

    def transform(self, X: Array) -> Array:
        """Embed samples (n, d), one block at a time; the result has the type and device of X."""
        backend = backend_of(X)
        embedded = backend.empty((len(X), self.n_features_out), X)
        for rows in row_blocks(len(X), X.shape[1], backend.block_multiplier(X)):
            unit = normalize(X[rows], self.mean, self.scale)
            embedded[rows, : self.n_components] = self._ordinal_map(unit)
            if self.locality > 0:
                backend.multiply(unit, float(self.locality), embedded[rows, self.n_components :])
        return embedded

    def distances(self, A: Array, B: Array) -> Array:
        """Return the learned distances (n,) between the rows of A and B (n, d)."""
        a, b = normalize(A, self.mean, self.scale), normalize(B, self.mean, self.scale)
        squared_norm = backend_of(A).squared_norm
        ordinal = squared_norm(self._ordinal_map(a) - self._ordinal_map(b))
        return (ordinal + self.locality**2 * squared_norm(a - b)) ** 0.5

    def to_device_of(self, X: Any) -> OrdinalEmbedding:
        """Return the same embedding with tensors on the device of X if X is a tensor, else with arrays."""
        moved = {name: convert_like(getattr(self, name), X) for name in _ARRAYS}
        return replace(self, **moved, rescaling=self.rescaling.to_device_of(X))

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the state as contiguous arrays by name, and as numbers that JSON can hold."""
        host = self.to_device_of(None)
        arrays = {name: getattr(host, name) for name in _ARRAYS}
        arrays |= {"rescaling.directions": host.rescaling.directions, "rescaling.factors": host.rescaling.factors}
        numbers = {
            "scale": float(self.scale),
            "locality": float(self.locality),
            "sharpnesses": [float(sharpness) for sharpness in self.sharpnesses],
            "rescaling_scale": float(self.rescaling.scale),
        }
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}, numbers

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> OrdinalEmbedding:
        """Return the embedding that ``to_arrays`` described; raise KeyError if a part is missing."""
        rescaling = DiscriminantRescaling(
            arrays["rescaling.directions"], arrays["rescaling.factors"], numbers["rescaling_scale"]
        )
        return cls(
            scale=numbers["scale"],
            locality=numbers["locality"],
            sharpnesses=tuple(numbers["sharpnesses"]),
            rescaling=rescaling,
            **{name: arrays[name] for name in _ARRAYS},
        )

    def _ordinal_map(self, unit: Array) -> Array:
        """Return f (n, s) of normalised samples, on their device."""
        backend = backend_of(unit)
        mapped = backend.product(unit, convert_like(self.linear, unit).T * self.scale)
        mapped = mapped - convert_like(self.offset, unit)
        if not self.sharpnesses:
            return mapped
        rescaling = self.rescaling.to_device_of(unit)
        landmarks, coefficients = convert_like(self.landmarks, unit), convert_like(self.coefficients, unit)
        for rows in row_blocks(len(unit), len(landmarks), backend.block_multiplier(unit)):
            kernels = gaussians(rescaling(backend.double(unit[rows])), landmarks, self.sharpnesses)
            for values, weights in zip(kernels, coefficients, strict=True):
                mapped[rows] += backend.product(values, weights)
        return mapped


_ARRAYS = ("mean", "linear", "offset", "landmarks", "coefficients")
