"""Summary of a collection."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ordrank._protocols import FloatArray
from ordrank.collection.access import read_store
from ordrank.collection.database import DATABASE_FORMAT
from ordrank.collection.model_file import current_model
from ordrank.collection.network_file import is_network_name
from ordrank.collection.reports import GradeCount, Info
from ordrank.collection.snapshot import Snapshot, inode_of
from ordrank.collection.store_reader import FITTED
from ordrank.metrics import nearest_label


def describe_collection(directory: Path, snapshot: Snapshot | None = None) -> Info:
    """Return a summary of a collection; a snapshot that is up to date saves reading all grades and the model."""
    with read_store(directory) as store:
        header = store.header
        if snapshot is not None and (snapshot.inode, snapshot.serial) == (inode_of(directory), store.serial):
            grades, estimates, model = snapshot.grades, snapshot.estimates, snapshot.model
            not_embedded = len(grades) - (0 if snapshot.space is None else len(snapshot.space.rows))
        else:
            store.check_counts()
            grades, estimates, not_embedded = store.grades(), store.estimates(), store.count_not_embedded()
            model = None if header.model is None else current_model(directory, header)
        values, counts = np.unique(grades[~np.isnan(grades)], return_counts=True)
        by_value = dict(zip(values.tolist(), counts.tolist(), strict=True))
        if header.order is not None:
            by_value = dict.fromkeys(map(float, range(len(header.order))), 0) | by_value
        estimated = _count_estimated(np.array(list(by_value)), estimates[np.isnan(grades) & ~np.isnan(estimates)])
        dimensions = {"features": header.dim}
        if model is not None:
            dimensions |= {"projection": len(model.projection.components), "order": model.n_order}
        return Info(
            directory=str(directory),
            name=directory.absolute().name,
            format=DATABASE_FORMAT,
            pictures=len(grades),
            graded=int(counts.sum()),
            grades=tuple(
                GradeCount(header.format_grade(value), value, count, n_estimated)
                for (value, count), n_estimated in zip(by_value.items(), estimated, strict=True)
            ),
            features=header.extractor,
            finetuned=store.finetuned if is_network_name(header.extractor) else None,
            dimensions=dimensions,
            model=None if model is None else model.choices(),
            fitted=store.note(FITTED),
            error=store.error,
            balanced=store.is_balanced,
            groups=store.count_groups(),
            changed=store.count_changed(),
            added=store.count_added(),
            removed=store.count_removed(),
            not_embedded=not_embedded,
            bytes=sum(_size(file) for file in directory.iterdir() if file.is_file()) + store.own_bytes(),
        )


def _count_estimated(scale: FloatArray, estimates: FloatArray) -> list[int]:
    """Count the estimates that are nearest to each grade of a scale."""
    if not len(scale):
        return []
    counts: list[int] = np.bincount(nearest_label(scale, estimates), minlength=len(scale)).tolist()
    return counts


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # a writer has just removed it
        return 0
