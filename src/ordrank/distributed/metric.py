"""The default model, learned on a Dask cluster."""

from __future__ import annotations

from copy import copy
from typing import Any, Self, cast

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ordrank._types import FloatArray, IntArray
from ordrank.distributed.engine import Engine
from ordrank.distributed.local_term import Features, ShardedObjective, prepared_parts
from ordrank.distributed.reading import is_dask_array, surveyed
from ordrank.distributed.sharded_samples import ShardedSamples
from ordrank.distributed.sums import Frame, Survey
from ordrank.distributed.target_neighbors import find_target_neighbors
from ordrank.errors import InputError, NeighborsCappedWarning, warn_caller
from ordrank.estimators import order_map
from ordrank.estimators.order_map import Design, Samples
from ordrank.estimators.order_solver import closed_form
from ordrank.estimators.ordinal_metric import OrdinalMetric
from ordrank.smoothing import RidgeFit
from ordrank.solvers import lbfgs


class DaskOrdinalMetric(OrdinalMetric):
    r"""The distance of :class:`~ordrank.OrdinalMetric`, learned from samples that no single machine holds.

    Workers read their shards and send sums: the fit is the one of a single machine, up to rounding, for any number of
    shards. What is chosen automatically is chosen on the same 1500 drawn samples, the only ones that travel. A worker
    that is lost costs the time to repeat its share.

    Parameters are those of :class:`~ordrank.OrdinalMetric`, except that workers have no ``device``, and so are the
    fitted attributes. ``neighborhoods_`` are among the drawn samples. The fitted metric needs no cluster: ``transform``
    maps arrays of NumPy at once, and those of Dask lazily.

    Attributes
    ----------
    seconds_ : dict of str to float
        How long each phase of the fit took.
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
        """Learn the distance.

        Parameters
        ----------
        X : dask array of shape (n, d), or Shards
            Samples in float32 or float64; other numbers become float64.
        y : dask array of shape (n,)
            Ordered labels as numbers; None with Shards, which have them.
        unlabeled : array-like of shape (n_unlabeled, d), optional
            More samples, without labels, in the memory of the client; at most 4000 are used.
        sample_weight : dask array of shape (n,), optional
            How much each sample counts in the map; samples of weight 0 are left out.
        groups : None
            Samples of a cluster are taken for independent.
        client : distributed.Client, optional
            By default the one that was connected last.

        Returns
        -------
        DaskOrdinalMetric
            Itself. If the fit fails it is as it was.
        """
        self._check_parameters()
        if groups is not None:
            raise InputError("a cluster cannot leave out groups; choose with OrdinalMetric on some of the groups")
        if self.device is not None:
            raise InputError(f"workers compute on their CPUs, not on device={self.device!r}; leave device at None")
        engine = Engine(client)
        learner = copy(self)
        with engine.watched():
            learner._fit_shards(engine, X, y, unlabeled, sample_weight)
        learner.seconds_ = engine.seconds
        self.__dict__ = learner.__dict__
        return self

    def transform(self, X: Any) -> Any:
        """Map samples to the space in which Euclidean distance is the learned one.

        Parameters
        ----------
        X : array-like or dask array of shape (n, d)

        Returns
        -------
        ndarray or dask array of shape (n, n_features_out)
            A dask array of one column of blocks for a dask array.
        """
        if not is_dask_array(X):
            return super().transform(X)
        check_is_fitted(self)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has the shape {X.shape}, but the metric was fitted with {self.n_features_in_} features"
            )
        X = X.rechunk({1: -1})
        dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        local = self.to_local()
        return X.map_blocks(local.transform, dtype=dtype, chunks=(X.chunks[0], (self._n_features_out,)))

    def to_local(self) -> OrdinalMetric:
        """The same metric as a plain :class:`~ordrank.OrdinalMetric`."""
        local = OrdinalMetric(**self.get_params())
        local.__dict__ |= {name: value for name, value in vars(self).items() if name != "seconds_"}
        return local

    def _fit_shards(self, engine: Engine, X: Any, y: Any, unlabeled: Any, sample_weight: Any) -> None:
        with engine.phase("survey"):
            shards, surveys, total = surveyed(engine, X, y, sample_weight)
        self.n_features_in_ = len(total.near)
        self.__dict__.pop("feature_names_in_", None)
        self.labels_ = total.labels
        factors = self._weight_factors(total)
        self.label_positions_ = self._place(total.weights * factors)
        none = np.zeros(self.n_features_in_)
        frame = Frame(total.dtype, total.labels, self.label_positions_, factors, none, 1.0)
        samples = ShardedSamples(engine, shards, _label_counts(surveys, total.labels), frame, total.near)
        others = self._validated_unlabeled(unlabeled, np.empty((0, self.n_features_in_), dtype=total.dtype))
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        linear = self.kernel != "rbf"
        if len(samples) <= order_map.SEARCH_SAMPLES:
            Z, index, weights = samples.whole()
            self._fit_to(Samples.measured(Z, index, self.label_positions_, weights, linear=linear), others, rng)
            return
        sums = linear and self.n_features_in_ <= order_map.SEARCH_SAMPLES
        self._fit_to(cast(Samples, samples.measured(sums=sums)), others, rng)

    def _weight_factors(self, total: Survey) -> FloatArray:
        """For each label, what makes weights of mean 1, and labels of equal weight if they are balanced."""
        if self.class_weight == "balanced":
            return total.n_samples / (len(total.labels) * total.weights)
        return np.full(len(total.labels), total.n_samples / total.weights.sum())

    def _coefficients(self, fit: RidgeFit, design: Design, everything: Samples | ShardedSamples) -> FloatArray:
        if self.mu == 0 or not isinstance(everything, ShardedSamples):
            return super()._coefficients(fit, design, cast(Samples, everything))
        engine, sizes = everything.engine, everything.label_counts.sum(axis=0)
        self._warn_if_capped(sizes)
        n_pairs = int(np.sum(sizes * np.minimum(self.n_neighbors, sizes - 1)))
        if not n_pairs:
            result = closed_form(fit)
        else:
            with engine.phase("neighbours"):
                nearest = find_target_neighbors(everything, self.n_neighbors)
                engine.wait(nearest)
            features = Features(design, self.nu_, fit.path.feature_mean, fit.path.total)
            with engine.phase("shares"):
                parts = prepared_parts(everything, nearest, features, self.tau)
                engine.wait(parts)
            objective = ShardedObjective(everything, parts, fit, self.mu / n_pairs)
            start = np.ascontiguousarray(fit.coefficients().T).reshape(-1)
            result = lbfgs(objective, start, max_iter=self.max_iter, tol=self.tol)
        self._record(result, "Raise max_iter, or lower mu.")
        return np.asarray(result.x, dtype=np.float64).reshape(self.n_components_, -1).T

    def _warn_if_capped(self, sizes: IntArray) -> None:
        too_small = int(np.sum(sizes <= self.n_neighbors))
        if too_small:
            warn_caller(
                f"{too_small} of {len(sizes)} labels have at most n_neighbors={self.n_neighbors} samples (the smallest "
                f"has {sizes.min()}); their samples use every other sample of the label as target neighbours",
                NeighborsCappedWarning,
            )


def _label_counts(surveys: list[Survey], labels: FloatArray) -> IntArray:
    """Samples of each label in each shard, (S, m)."""
    counts = np.zeros((len(surveys), len(labels)), dtype=np.int64)
    for row, survey in zip(counts, surveys, strict=True):
        row[np.searchsorted(labels, survey.labels)] = survey.counts
    return counts
