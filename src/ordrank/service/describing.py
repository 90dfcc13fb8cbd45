"""What a collection is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ordrank.collection.database import FORMAT
from ordrank.collection.store import read_store
from ordrank.collection.training import error_of, is_balanced, model_of


@dataclass(frozen=True)
class Description:
    """A collection in numbers.

    Attributes
    ----------
    directory : str
    format : int
        Of the files.
    pictures, graded : int
    grades : dict
        Number of pictures by grade as it is written, in the order of the grades.
    features : str
        What pictures are described by.
    dimensions : dict
        Of the features, of their projection, and of the order map.
    model : dict or None
        What the model chose; None before the first fit.
    fitted : str or None
        When.
    error : float or None
        Mean absolute error of the grades of graded pictures, each left out of the fit.
    balanced : bool
        Whether every grade counted the same.
    waiting : int
        Pictures that have no place yet, because a fit was interrupted.
    bytes : int
        On disk.
    """

    directory: str
    format: int
    pictures: int
    graded: int
    grades: dict[str, int]
    features: str
    dimensions: dict[str, int]
    model: dict[str, Any] | None
    fitted: str | None
    error: float | None
    balanced: bool
    waiting: int
    bytes: int


def describe(collection: Path) -> Description:
    """Say what a collection holds."""
    with read_store(collection) as store:
        header, grades = store.header, store.grades()
        known = np.sort(grades[~np.isnan(grades)])
        model = None if header.model is None else model_of(store)
        dimensions = {"features": header.dim}
        if model is not None:
            dimensions |= {"projection": len(model.projection.components), "order": model.n_order}
        return Description(
            directory=str(collection),
            format=FORMAT,
            pictures=len(grades),
            graded=len(known),
            grades=dict(Counter(header.show(grade) for grade in known)),
            features=header.extractor,
            dimensions=dimensions,
            model=None if model is None else model.choices(),
            fitted=store.state("fitted"),
            error=error_of(store),
            balanced=is_balanced(store),
            waiting=store.count_without_place(),
            bytes=sum(map(_size, collection.iterdir())),
        )


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # a writer has just removed it
        return 0
