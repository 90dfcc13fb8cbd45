"""Creating a collection of pictures that nobody has graded yet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TypedDict

from ordrank._protocols import Progress, no_progress
from ordrank.collection.access import write_store
from ordrank.collection.feature_selection import AUTO, select_features
from ordrank.collection.fit import check_apart, check_dimension, check_order, existing
from ordrank.collection.ingest.grades_csv import parse_order
from ordrank.collection.ingest.image_folder import list_pictures
from ordrank.collection.ingest.importing import check_report, extractor_of, import_pictures
from ordrank.collection.ingest.reading import read_pictures
from ordrank.collection.reports import ImportReport
from ordrank.collection.types import Header
from ordrank.errors import CollectionError
from ordrank.features.registry import find_extractor


class UngradedOptions(TypedDict, total=False):
    """Options of :meth:`Collection.create_ungraded`."""

    features: str | None
    device: str
    order: str | Sequence[str] | None
    strict: bool | None
    n_jobs: int
    progress: Progress


def create_ungraded(
    directory: Path,
    images: str | os.PathLike[str],
    *,
    features: str | None = None,
    device: str = "cpu",
    order: str | Sequence[str] | None = None,
    strict: bool | None = None,
    n_jobs: int = -1,
    progress: Progress = no_progress,
) -> ImportReport:
    """Create a collection without grades and without a model; see :meth:`Collection.create_ungraded`."""
    check_apart(Path(images), directory)
    listing, read = list_pictures(Path(images)), partial(read_pictures, n_jobs=n_jobs)
    names = None if order is None else parse_order(order)
    header, _ = existing(directory)
    if header is not None and header.model is not None:
        raise CollectionError(f"{directory} is trained already; add pictures to it with `ordrank add`")
    if header is not None:
        check_order(names, header, directory)
    named = None if features is None or features == AUTO else find_extractor(features, device=device)
    if header is not None and (named is None or named.fingerprint == header.fingerprint):
        extractor = extractor_of(directory, header, device=device)
    elif header is not None:
        raise CollectionError(f"{directory} holds features of {header.extractor}; other ones need another directory")
    else:
        found = named or select_features([], {}, {}, read, device=device, progress=progress).extractor
        extractor = check_dimension(found)
        header = Header("", "", 0, names).with_features(extractor)
    with write_store(directory, header) as store:
        store.check_indexes()
        report = import_pictures(store, listing, extractor, {}, read, progress)
        check_report(report, n_pictures=len(store), strict=strict)
    return report
