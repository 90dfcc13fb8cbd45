"""Samples that belong together: several pictures of one person, of one patient, of one fruit."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length

from ordrank._types import Array, IntArray
from ordrank.backend import backend_of, is_tensor
from ordrank.errors import InputError


def number_groups(groups: ArrayLike | Array, X: Array) -> IntArray:
    """Number the groups of samples X (n, d) from 0 on, (n,); anything that can be sorted names a group."""
    named = backend_of(groups).to_numpy(groups) if is_tensor(groups) else np.asarray(groups)
    if named.ndim != 1:
        raise InputError(f"groups must name one group for each sample, got an array of shape {named.shape}")
    check_consistent_length(X, named)
    if any(name is None or name != name for name in named):
        raise InputError("groups has gaps; give every sample a group, its own if it belongs to no other")
    try:
        distinct, numbers = np.unique(named, return_inverse=True)
    except TypeError:
        raise InputError("groups has names of different types, which cannot be sorted; use numbers or words") from None
    if len(distinct) < 2:
        raise InputError("all samples are of one group: leaving it out would leave nothing to learn from")
    return np.asarray(numbers, dtype=np.int64)


def largest_group(groups: IntArray | None) -> int:
    """Number of samples of the largest group; 1 if each sample is on its own."""
    return 1 if groups is None else int(np.bincount(groups).max())
