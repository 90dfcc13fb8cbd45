"""Summary of a collection."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from ordrank.collection.database import DATABASE_FORMAT
from ordrank.collection.model_file import current_model
from ordrank.collection.network_file import is_network_name
from ordrank.collection.reports import GradeCount, Info
from ordrank.collection.snapshot import Snapshot, inode_of
from ordrank.collection.store import ERROR, FINETUNED, FITTED, read_store


def describe_collection(directory: Path, snapshot: Snapshot | None = None) -> Info:
    """Return a summary of a collection; a snapshot that is up to date saves reading all grades and the model."""
    with read_store(directory) as store:
        header = store.header
        if snapshot is not None and (snapshot.inode, snapshot.serial) == (inode_of(directory), store.serial):
            grades, model = snapshot.grades, snapshot.model
            not_embedded = len(grades) - (0 if snapshot.space is None else len(snapshot.space.rows))
        else:
            grades, not_embedded = store.grades(), store.count_not_embedded()
            model = None if header.model is None else current_model(directory, header)
        values, counts = np.unique(grades[~np.isnan(grades)], return_counts=True)
        by_value = dict(zip(values.tolist(), counts.tolist(), strict=True))
        if header.order is not None:
            by_value = dict.fromkeys(map(float, range(len(header.order))), 0) | by_value
        dimensions = {"features": header.dim}
        if model is not None:
            dimensions |= {"projection": len(model.projection.components), "order": model.n_order}
        error = store.note(ERROR)
        return Info(
            directory=str(directory),
            name=directory.absolute().name,
            format=DATABASE_FORMAT,
            pictures=len(grades),
            graded=int(counts.sum()),
            grades=tuple(GradeCount(header.format_grade(value), value, count) for value, count in by_value.items()),
            features=header.extractor,
            finetuned=json.loads(store.note(FINETUNED) or "null") if is_network_name(header.extractor) else None,
            dimensions=dimensions,
            model=None if model is None else model.choices(),
            fitted=store.note(FITTED),
            error=None if error is None else float(error),
            balanced=store.is_balanced,
            groups=store.count_groups(),
            changed=store.count_changed(),
            added=store.count_added(),
            not_embedded=not_embedded,
            bytes=sum(map(_size, directory.iterdir())),
        )


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # a writer has just removed it
        return 0
