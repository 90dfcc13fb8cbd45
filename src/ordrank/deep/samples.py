"""Labels of a training set, and its parts that are trained on and held out."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import GroupKFold

from ordrank._format import pluralize
from ordrank._protocols import IntArray
from ordrank.deep.images import Images
from ordrank.errors import InputError
from ordrank.estimators._labels import OrdinalLabels, encode_labels, ordinal_labels
from ordrank.estimators._validation import check_groups

MIN_IMAGES = 10


def check_labels(images: Images, y: ArrayLike | None) -> OrdinalLabels:
    """Return the labels of images; raise InputError if some are missing, or there are too few to train a network."""
    values, names = encode_labels(y)
    if values is None or len(values) != len(images):
        raise InputError(f"there are {len(images)} images and {0 if values is None else len(values)} labels")
    if not np.isfinite(np.asarray(values, dtype=np.float64)).all():
        raise InputError("y holds missing or infinite labels; remove these images")
    if len(images) < MIN_IMAGES:
        few = pluralize(len(images), "graded image is", "graded images are")
        raise InputError(f"{few} too few to train a network: {MIN_IMAGES} are the least")
    return ordinal_labels(values, names)


def units_of(labels: OrdinalLabels, groups: ArrayLike | None) -> IntArray:
    """Return what is held out as a whole (n,): the groups, without any each image."""
    rows = np.arange(len(labels.index))
    return rows if groups is None else check_groups(groups, rows)


def split_folds(
    labels: OrdinalLabels, groups: ArrayLike | None, n_folds: int, random_state: int
) -> list[tuple[IntArray, IntArray]]:
    """Return the training and held-out images of each network, the last of all images."""
    units, rows = units_of(labels, groups), np.arange(len(labels.index))
    if n_folds == 1:
        return [(rows, rows)]
    n_units = len(np.unique(units))
    if n_units < n_folds:
        what = "images" if groups is None else "groups"
        raise InputError(f"{n_folds} folds need at least as many {what}; there are {n_units}")
    folds = list(GroupKFold(n_folds, shuffle=True, random_state=random_state).split(rows, groups=units))
    if any(len(np.unique(labels.index[train])) < 2 for train, _ in folds):
        raise InputError("without one fold the images left have a single label: give more images of other labels")
    return [*folds, (rows, rows[:0])]
