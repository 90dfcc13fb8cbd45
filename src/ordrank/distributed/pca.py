"""Principal components of samples that no single machine holds."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from ordrank._types import FloatArray
from ordrank.distributed.engine import Engine
from ordrank.distributed.reading import is_dask_array, surveyed
from ordrank.distributed.sharded_samples import ShardedSamples
from ordrank.distributed.shards import Shards
from ordrank.distributed.sums import Frame
from ordrank.errors import InputError
from ordrank.estimators.parameters import check_integer

# The scatter matrix of so many features takes 200 MB.
MOST_FEATURES = 5000


class DaskPCA(TransformerMixin, BaseEstimator):
    r"""Principal component analysis over shards, from the scatter matrix of all samples.

    Components are those of scikit-learn's ``PCA``, with its signs: the largest element of each is positive.

    Parameters
    ----------
    n_components : int

    Attributes
    ----------
    components_ : ndarray of shape (n_components, d)
    mean_ : ndarray of shape (d,)
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
    """

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: Any = None, *, client: Any = None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : dask array of shape (n, d), or Shards
        y : None
            Labels play no part.
        client : distributed.Client, optional
            By default the one that was connected last.
        """
        check_integer("n_components", self.n_components, minimum=1)
        engine = Engine(client)
        with engine.watched():
            shards, surveys, total = surveyed(engine, X, None, labelled=False)
            d = len(total.near)
            if not self.n_components <= min(d, total.n_samples):
                raise InputError(f"n_components={self.n_components} exceeds the {d} features or the number of samples")
            if d > MOST_FEATURES:
                raise InputError(f"principal components of {d} features do not fit; reduce them to {MOST_FEATURES}")
            nothing, ones = np.zeros((len(total.labels), 1)), np.ones(len(total.labels))
            frame = Frame(total.dtype, total.labels, nothing, ones, np.zeros(d), 1.0)
            counts = np.array([[look.n_samples] for look in surveys])
            moments = ShardedSamples(engine, shards, counts, frame, total.near).measured(sums=True).sums
        assert moments is not None
        self._keep(moments.mean, moments.gram, total.dtype, total.n_samples)
        return self

    def transform(self, X: ArrayLike) -> Any:
        """Coordinates (n, n_components) of samples: of a dask array lazily, of others at once."""
        check_is_fitted(self)
        if is_dask_array(X):
            blocks: Any = X
            blocks = blocks.rechunk({1: -1})
            return blocks.map_blocks(
                self.transform, dtype=self.components_.dtype, chunks=(blocks.chunks[0], (self.n_components,))
            )
        samples = check_array(X, dtype=[np.float64, np.float32])
        if samples.shape[1] != len(self.mean_):
            raise InputError(f"X has {samples.shape[1]} features, but the components have {len(self.mean_)}")
        dtype = samples.dtype
        return (samples - self.mean_.astype(dtype)) @ self.components_.T.astype(dtype)

    def on(self, shards: Shards) -> Shards:
        """The same shards with these coordinates, found whenever they are read."""
        check_is_fitted(self)
        return shards.mapped(self.transform)

    def _keep(self, mean: FloatArray, gram: FloatArray, dtype: np.dtype[np.floating], n_samples: int) -> None:
        values, vectors = np.linalg.eigh(gram)
        order = np.argsort(values)[::-1][: self.n_components]
        components: NDArray[np.float64] = vectors[:, order].T
        largest = np.argmax(np.abs(components), axis=1)
        components *= np.sign(components[np.arange(len(components)), largest])[:, None]
        self.components_, self.mean_ = components.astype(dtype), mean
        self.explained_variance_ = np.maximum(values[order], 0.0) / max(1, n_samples - 1)
        self.explained_variance_ratio_ = values[order] / values.sum()
        self.n_features_in_ = len(mean)
