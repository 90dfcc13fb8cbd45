"""From what a user gives to shards that were looked at."""

from __future__ import annotations

from typing import Any

import numpy as np

from ordrank.distributed.engine import Engine
from ordrank.distributed.shards import ArraySource, Shard, Shards
from ordrank.distributed.sums import Survey, joined_surveys, survey
from ordrank.errors import InputError
from ordrank.estimators.learned_metric import check_size


def is_dask_array(X: Any) -> bool:
    """Whether X is one, without importing Dask for others."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "rechunk")


def surveyed(
    engine: Engine, X: Any, y: Any, sample_weight: Any = None, *, labelled: bool = True
) -> tuple[list[Any], list[Survey], Survey]:
    """Shards (or futures of them) that have samples, a first look at each, and at all together.

    Parameters
    ----------
    engine : Engine
    X, y, sample_weight
        As the user gave them.
    labelled : bool
        Whether labels are needed, and at least two of them.
    """
    shards, names = _shards(engine, X, y, sample_weight, labelled)
    looks = engine.gather(engine.each(survey, shards))
    there = [(shard, look, name) for shard, look, name in zip(shards, looks, names, strict=True) if look is not None]
    if not there:
        raise InputError("no shard has samples that count; a fit needs at least two")
    surveys = [look for _, look, _ in there]
    for _, look, name in there:
        if look.near.shape != surveys[0].near.shape:
            raise InputError(
                f"{name} has {len(look.near)} features, but {there[0][2]} has {len(surveys[0].near)}; all shards need "
                "the same"
            )
        if not np.isfinite([look.low, look.high]).all():
            raise InputError(f"Input X contains NaN or infinity, in {name}; leave those samples out")
    total = joined_surveys(surveys)
    if labelled and len(total.labels) < 2:
        raise InputError(
            f"all {total.n_samples} samples have the same label (1 class), {total.labels[0]:g}; an order needs two"
        )
    if total.constant:
        raise InputError("all samples are identical: every feature is constant, there is no distance to learn")
    like = np.broadcast_to(np.zeros((), dtype=total.dtype), (total.n_samples, len(total.near)))
    check_size(like, np.array([total.low, total.high]))
    return [shard for shard, _, _ in there], surveys, total


def _shards(engine: Engine, X: Any, y: Any, sample_weight: Any, labelled: bool) -> tuple[list[Any], list[str]]:
    if isinstance(X, Shards):
        if y is not None or sample_weight is not None:
            raise InputError("shards have their own labels and weights; leave out y and sample_weight")
        return list(X.shards), [shard.name for shard in X.shards]
    if not is_dask_array(X):
        raise InputError(
            f"X is a {type(X).__name__}; a fit on a cluster takes a Dask array or Shards, and OrdinalMetric takes the "
            "arrays of one machine"
        )
    if X.ndim != 2:
        raise InputError(f"X must have two dimensions, got the shape {X.shape}")
    columns = [X.rechunk({1: -1}).to_delayed().reshape(-1).tolist()]
    for name, column in (("y", y), ("sample_weight", sample_weight)):
        if column is None and (name == "sample_weight" or not labelled):
            continue
        if not is_dask_array(column) or column.ndim != 1:
            raise InputError(f"{name} must be a Dask array of one dimension, as X is one of two")
        known = not np.isnan([*X.shape, *column.shape]).any()
        if known and column.shape[0] != X.shape[0]:
            raise InputError(f"X has {X.shape[0]} samples, but {name} has {column.shape[0]} values")
        blocks = (column.rechunk((X.chunks[0],)) if known else column).to_delayed().tolist()
        if len(blocks) != len(columns[0]):
            raise InputError(f"X has {len(columns[0])} blocks of rows, but {name} has {len(blocks)}; make them agree")
        columns.append(blocks)
    names = [f"block {place} of X" for place in range(len(columns[0]))]
    # Blocks stay in the memory of the workers that computed them.
    futures = [engine.client.compute(column) for column in columns]
    return engine.each(_shard, names, *futures), names


def _shard(name: str, X: Any, y: Any = None, sample_weight: Any = None) -> Shard:
    labels = np.zeros(len(X)) if y is None else np.asarray(y)
    return Shard(ArraySource(np.asarray(X), labels, sample_weight), name)
