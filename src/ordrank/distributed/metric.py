"""The default model, fitted on a Dask cluster."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from ordrank._protocols import FloatArray, IntArray
from ordrank.distributed.engine import Engine
from ordrank.distributed.inputs import float_dtype, is_dask_array, survey_shards
from ordrank.distributed.shard_stats import Encoding, Survey
from ordrank.distributed.sharded_data import ShardedData
from ordrank.errors import InputError
from ordrank.estimators._label_positions import LabelPositions
from ordrank.estimators._ordinal.fit import OrdinalFit
from ordrank.estimators._ordinal.training_data import InMemoryData, TrainingData
from ordrank.estimators._validation import check_unlabeled
from ordrank.estimators.ordinal_metric import OrdinalMetric


class DaskOrdinalMetric(OrdinalMetric):
    r"""The metric of :class:`~ordrank.OrdinalMetric`, fitted to samples that no single machine holds.

    Workers read their shards and send moments: the fit equals that of a single machine, up to rounding, for any number
    of shards. Model selection uses the same 1500 drawn samples, the only ones that are sent. If a worker is lost, its
    tasks are repeated.

    It has the parameters and fitted attributes of :class:`~ordrank.OrdinalMetric`, except that ``device`` must be None.
    ``loo_neighbors_`` are among the drawn samples, numbered across shards without samples of weight 0. The fitted
    metric needs no cluster: ``transform`` maps NumPy arrays at once and Dask arrays lazily.

    Attributes
    ----------
    seconds_ : dict of str to float
        Duration of each phase of the fit.
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        unlabeled: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        client: Any = None,
    ) -> Self:
        """Learn the metric; if that fails, the estimator does not change.

        Parameters
        ----------
        X : dask array of shape (n, d), or Shards
            Samples in float32 or float64; other numbers become float64.
        y : dask array of shape (n,)
            Ordered labels as numbers; None with Shards, which have them.
        unlabeled : array-like of shape (n_unlabeled, d), optional
            Samples without labels, in the memory of the client; at most 4000 are used.
        sample_weight : dask array of shape (n,), optional
            Weights of the samples; samples of weight 0 are ignored.
        groups : None
            Not supported: samples are taken to be independent.
        client : distributed.Client, optional
            By default the one that was connected last.

        Returns
        -------
        self
        """
        self._check_parameters()
        if groups is not None:
            raise InputError("groups are not supported on a cluster; use OrdinalMetric on some of the groups")
        if self.device is not None:
            raise InputError(f"workers compute on their CPUs, not on device={self.device!r}; leave device at None")
        engine = Engine(client)
        with engine.translate_errors():
            with engine.phase("survey"):
                shards, surveys, total = survey_shards(engine, X, y, sample_weight)
            features = np.empty((0, len(total.center)), dtype=total.dtype)
            checked = type(self)(**self.get_params(deep=False))  # records the features; self stays as it was
            validate_data(checked, features, skip_check_array=True)
            others = check_unlabeled(checked, unlabeled, features)
            factors = self._weight_factors(total)
            positions = self._label_positions(total.labels, total.weights * factors, features.shape[1])
            encoding = Encoding(total.dtype, total.labels, positions.points, factors, np.zeros(len(total.center)), 1.0)
            sharded = ShardedData(engine, shards, _label_counts(surveys, total.labels), encoding, total.center)
            fit = self._fit_embedding(self._training_data(sharded), total.labels, others)
        self.seconds_, self._fit = engine.seconds, fit
        return self._keep(fit, total.labels, positions, features)

    def transform(self, X: Any) -> Any:
        """Embed samples in the space whose Euclidean distance is the learned metric.

        Parameters
        ----------
        X : array-like or dask array of shape (n, d)

        Returns
        -------
        ndarray or dask array of shape (n, n_features_out)
            For a dask array a lazy one with one column of blocks.
        """
        if not is_dask_array(X):
            return super().transform(X)
        check_is_fitted(self)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has the shape {X.shape}, but the metric was fitted with {self.n_features_in_} features"
            )
        X = X.rechunk({1: -1})
        local, chunks = self.to_local(), (X.chunks[0], (self._n_features_out,))
        return X.map_blocks(local.transform, dtype=float_dtype(X), chunks=chunks)

    def to_local(self) -> OrdinalMetric:
        """Return the same metric as a plain :class:`~ordrank.OrdinalMetric`."""
        check_is_fitted(self)
        positions = LabelPositions(self.label_positions_, self.label_repair_, self.negative_mass_)
        fit: OrdinalFit = self._fit
        local = OrdinalMetric(**self.get_params(deep=False))
        return local._keep(fit, self.labels_, positions, np.empty((0, self.n_features_in_)))

    def _training_data(self, sharded: ShardedData) -> TrainingData:
        """Return few samples in the memory of the client, many in shards, with mean and scale."""
        linear, few = self.kernel != "rbf", self._defaults.selection_samples
        if len(sharded) > few:
            # Moments are (d, d): not for more features than model selection has samples, as in InMemoryData.measure.
            return sharded.measured(moments=linear and len(sharded.center) <= few)
        X, index, weights = sharded.gather()
        return InMemoryData.measure(X, index, sharded.encoding.positions, weights, linear=linear, few=few)

    def _weight_factors(self, total: Survey) -> FloatArray:
        """Return for each label the factor to weights of mean 1, and to equal label weights if they are balanced."""
        if self.class_weight == "balanced":
            return total.n_samples / (len(total.labels) * total.weights)
        return np.full(len(total.labels), total.n_samples / total.weights.sum())


def _label_counts(surveys: list[Survey], labels: FloatArray) -> IntArray:
    """Return the number of samples of each label in each shard, (S, m)."""
    counts = np.zeros((len(surveys), len(labels)), dtype=np.int64)
    for row, survey in zip(counts, surveys, strict=True):
        row[np.searchsorted(labels, survey.labels)] = survey.counts
    return counts
