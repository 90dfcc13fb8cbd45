"""Validate the input of a distributed fit: Shards, or Dask arrays whose row blocks become shards."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from ordrank.distributed.engine import Engine
from ordrank.distributed.shard_stats import Survey, combined_survey, survey
from ordrank.distributed.shards import Shard, Shards, read_arrays
from ordrank.errors import InputError
from ordrank.estimators._validation import check_magnitude


def is_dask_array(X: Any) -> bool:
    """Return whether X is a Dask array, without importing Dask."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "rechunk")


def float_dtype(X: Any) -> np.dtype[np.floating]:
    """Return the type in which scikit-learn's validation leaves a Dask array: its own if a float, else double."""
    return X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)


def survey_shards(
    engine: Engine, X: Any, y: Any, sample_weight: Any = None, *, labelled: bool = True
) -> tuple[list[Any], list[Survey], Survey]:
    """Validate X, y and sample_weight, and survey their shards.

    Parameters
    ----------
    engine : Engine
    X : Shards, or dask array of shape (n, d)
    y, sample_weight : dask array of shape (n,), or None
        None with Shards.
    labelled : bool
        Whether labels, at least two distinct ones, are required.

    Returns
    -------
    shards : list of Shard or futures of Shard
        Only shards with samples of positive weight.
    surveys : list of Survey
        Of each.
    total : Survey
        Of all samples.
    """
    shards, names = _shards(engine, X, y, sample_weight, labelled)
    results = zip(shards, engine.gather(engine.map(survey, shards)), names, strict=True)
    kept = [(shard, found, name) for shard, found, name in results if found is not None]
    if not kept:
        raise InputError("no shard has samples of positive weight; a fit needs at least two")
    surveys = [found for _, found, _ in kept]
    d, first_name = len(surveys[0].center), kept[0][2]
    for _, found, name in kept:
        if len(found.center) != d:
            raise InputError(
                f"{name} has {len(found.center)} features, but {first_name} has {d}; all shards need the same"
            )
        if not np.isfinite([*found.low, *found.high]).all():
            raise InputError(f"Input X contains NaN or infinity, in {name}; remove these samples")
    total = reduce(combined_survey, surveys)
    if labelled and len(total.labels) < 2:
        raise InputError(
            f"all {total.n_samples} samples have the same label (1 class), {total.labels[0]:g}; an order needs two"
        )
    if (total.low == total.high).all():
        reason = ", there is no distance to learn" if labelled else ""
        raise InputError(f"all samples are identical: every feature is constant{reason}")
    bounds = np.array([total.low.min(), total.high.max()])
    check_magnitude(bounds, total.n_samples * d, float(np.finfo(total.dtype).max))
    return [shard for shard, _, _ in kept], surveys, total


def _shards(engine: Engine, X: Any, y: Any, sample_weight: Any, labelled: bool) -> tuple[list[Any], list[str]]:
    """Return shards, or futures of them, and their names."""
    if isinstance(X, Shards):
        if y is not None or sample_weight is not None:
            raise InputError("shards have their own labels and weights; leave out y and sample_weight")
        return list(X.shards), [shard.name for shard in X.shards]
    if not is_dask_array(X):
        raise InputError(
            f"X is a {type(X).__name__}; a fit on a cluster takes a Dask array or Shards, and OrdinalMetric takes "
            "in-memory arrays"
        )
    if X.ndim != 2:
        raise InputError(f"X must have two dimensions, got the shape {X.shape}")
    columns = [X.rechunk({1: -1}).to_delayed().reshape(-1).tolist()]
    for name, column in (("y", y), ("sample_weight", sample_weight)):
        if column is None and (name == "sample_weight" or not labelled):
            continue
        if not is_dask_array(column) or column.ndim != 1:
            raise InputError(f"{name} must be a one-dimensional Dask array")
        known = not np.isnan([*X.shape, *column.shape]).any()
        if known and column.shape[0] != X.shape[0]:
            raise InputError(f"X has {X.shape[0]} samples, but {name} has {column.shape[0]} values")
        blocks = (column.rechunk((X.chunks[0],)) if known else column).to_delayed().tolist()
        if len(blocks) != len(columns[0]):
            raise InputError(f"X has {len(columns[0])} row blocks, but {name} has {len(blocks)}; rechunk one of them")
        columns.append(blocks)
    names = [f"block {number} of X" for number in range(len(columns[0]))]
    # Computed blocks stay in the memory of the workers.
    futures = [engine.client.compute(column) for column in columns]
    return engine.map(_array_shard, names, *futures), names


def _array_shard(name: str, X: Any, y: Any = None, sample_weight: Any = None) -> Shard:
    labels = np.zeros(len(X)) if y is None else np.asarray(y)
    return Shard(name, read_arrays, (np.asarray(X), labels, sample_weight))
