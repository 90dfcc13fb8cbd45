"""Principal component analysis of samples in shards."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from ordrank.distributed.engine import Engine
from ordrank.distributed.inputs import float_dtype, is_dask_array, survey_shards
from ordrank.distributed.shard_stats import Encoding, moments_of_shard
from ordrank.distributed.shards import Shards
from ordrank.errors import InputError
from ordrank.estimators._validation import check_integer
from ordrank.kernel_ridge import combine_moments

# The scatter matrix of so many features takes 200 MB.
MAX_FEATURES = 5000


class DaskPCA(TransformerMixin, BaseEstimator):
    """Principal component analysis over shards, from the scatter matrix of all samples.

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
        """Compute the components.

        Parameters
        ----------
        X : dask array of shape (n, d), or Shards
        y : None
            Ignored.
        client : distributed.Client, optional
            By default the one that was connected last.
        """
        check_integer("n_components", self.n_components, minimum=1)
        engine = Engine(client)
        with engine.translate_errors():
            shards, _, total = survey_shards(engine, X, None, labelled=False)
            d, m = len(total.center), len(total.labels)
            if not self.n_components <= min(d, total.n_samples):
                raise InputError(f"n_components={self.n_components} exceeds the {d} features or the number of samples")
            if d > MAX_FEATURES:
                raise InputError(f"the scatter matrix of {d} features is too large; reduce them to {MAX_FEATURES}")
            factors = np.full(m, total.n_samples / total.weights.sum())  # to weights of mean 1
            encoding = Encoding(total.dtype, total.labels, np.zeros((m, 1)), factors, np.zeros(d), 1.0)
            parts = engine.map(moments_of_shard, shards, encoding=encoding, center=total.center)
            moments = engine.tree_reduce(combine_moments, parts)
        values, vectors = np.linalg.eigh(moments.gram)
        order = np.argsort(values)[::-1][: self.n_components]
        components = vectors[:, order].T
        largest = np.argmax(np.abs(components), axis=1)
        components *= np.where(components[np.arange(len(components)), largest] < 0, -1, 1)[:, None]
        self.components_, self.mean_ = components.astype(total.dtype), moments.mean
        self.explained_variance_ = np.maximum(values[order], 0.0) / max(1, total.n_samples - 1)
        self.explained_variance_ratio_ = values[order] / values.sum()
        self.n_features_in_ = d
        return self

    def transform(self, X: Any) -> Any:
        """Return the coordinates (n, n_components) of samples.

        Parameters
        ----------
        X : array-like or dask array of shape (n, d), or Shards
            Dask arrays are transformed lazily, Shards whenever they are read.
        """
        check_is_fitted(self)
        if isinstance(X, Shards):
            return X.map(self.transform)
        samples = X if is_dask_array(X) else check_array(X, dtype=[np.float64, np.float32])
        if samples.shape[1] != len(self.mean_):
            raise InputError(f"X has {samples.shape[1]} features, but the components have {len(self.mean_)}")
        if is_dask_array(X):
            X = X.rechunk({1: -1})
            chunks = (X.chunks[0], (len(self.components_),))
            return X.map_blocks(self.transform, dtype=float_dtype(X), chunks=chunks)
        dtype = samples.dtype
        return (samples - self.mean_.astype(dtype)) @ self.components_.T.astype(dtype)
