"""Creating, extending and training a collection."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias, TypedDict

import numpy as np

from ordrank._format import pluralize
from ordrank._protocols import Extractor
from ordrank.collection.database import is_collection
from ordrank.collection.ingest.grades_csv import parse_order, read_grades
from ordrank.collection.ingest.groups_csv import read_groups
from ordrank.collection.ingest.image_folder import Listing, list_pictures
from ordrank.collection.ingest.importing import Reader, check_report, extractor_of, import_pictures
from ordrank.collection.ingest.reading import read_pictures
from ordrank.collection.model_file import untrained
from ordrank.collection.projection import MAX_FEATURES
from ordrank.collection.reports import FitReport, ImportReport, advice_for, is_poor, verdict
from ordrank.collection.store import BALANCED, FITTED, Store, read_store, write_store
from ordrank.collection.types import FileStamp, Header, Progress, no_progress
from ordrank.errors import BadPicturesError, CollectionError, InputError
from ordrank.features.registry import find_extractor

DEFAULT_FEATURES = "pixels"

LabelsLike: TypeAlias = str | os.PathLike[str] | Mapping[str, float | str]


class FitOptions(TypedDict, total=False):
    """Options of :meth:`Collection.fit`."""

    features: str | None
    order: str | Sequence[str] | None
    file_column: str
    grade_column: str
    group_column: str | None
    balanced: bool | None
    strict: bool
    n_jobs: int
    scheduler: str | None
    workers: int | None
    progress: Progress


@dataclass(frozen=True)
class Labels:
    """Grades by name: a CSV file with two named columns, or a mapping.

    ``order`` names the grades, lowest first, where they are words.
    """

    source: LabelsLike
    file_column: str = "file"
    grade_column: str = "grade"
    order: tuple[str, ...] | None = None

    def read(self, known: Iterable[str], header: Header, *, at_least_two: bool) -> dict[str, float]:
        """Return the grades of known pictures. Raise InputError if the source names others, or wrong grades."""
        if isinstance(self.source, Mapping):
            names = set(known)
            unknown = [name for name in self.source if name not in names]
            if unknown:
                counted = pluralize(len(unknown), "picture that is", "pictures that are")
                raise InputError(f"labels name {counted} not in the folder or the collection, first {unknown[0]!r}")
            grades = {name: header.parse_grade(str(grade)) for name, grade in self.source.items()}
            if at_least_two and len(set(grades.values())) < 2:
                raise InputError("an order needs two different grades; labels hold fewer")
            return grades
        return read_grades(
            Path(self.source),
            set(known),
            file_column=self.file_column,
            grade_column=self.grade_column,
            order=header.order,
            at_least_two=at_least_two,
        )


def fit_collection(
    directory: Path,
    images: str | os.PathLike[str] | None,
    labels: LabelsLike | None,
    *,
    features: str | None = None,
    order: str | Sequence[str] | None = None,
    file_column: str = "file",
    grade_column: str = "grade",
    group_column: str | None = None,
    balanced: bool | None = None,
    strict: bool = False,
    n_jobs: int = -1,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: Progress = no_progress,
) -> FitReport:
    """Create a collection from pictures and labels, or train one again; see :meth:`Collection.fit`."""
    images = None if images is None else Path(images)
    if order is not None and labels is None:
        raise InputError("an order names the grades of labels: name their CSV file with --labels")
    names = None if order is None else parse_order(order)
    source = None if labels is None else Labels(labels, file_column, grade_column, names)
    _check_apart(images, directory)
    listing = Listing((), (), 0) if images is None else list_pictures(images)
    header, known, extractor = _existing(directory, source, features)
    if header is None:
        if source is None:
            raise InputError("a new collection needs grades to learn from: name a CSV file with --labels")
        extractor = find_extractor(DEFAULT_FEATURES) if extractor is None else extractor
        if extractor.dim > MAX_FEATURES:
            raise InputError(
                f"{extractor.name} gives {extractor.dim} numbers a picture, more than {MAX_FEATURES}; use smaller ones"
            )
        new = Header(extractor.name, extractor.fingerprint, extractor.dim, names)
    else:
        new = header
    grades = _read_labels(source, new, listing, known, at_least_two=new.model is None)
    groups = _read_groups(source, group_column, grades)
    with write_store(directory, None if header else new) as store:
        report, before = ImportReport(), store.named_grades()
        if listing.files:
            extractor = extractor_of(directory, store.header, extractor)
            if extractor.name != store.header.extractor:
                store.set_extractor(extractor.name)
            with _training_imported(), _reader(n_jobs, scheduler, workers) as read:
                report = import_pictures(store, listing, extractor, grades, read, progress)
        check_report(report, n_pictures=len(store), strict=strict)
        regraded = _grades_of_known(store, before, grades)
        imported = dict(store.named_grades().values())
        _check_grades(imported | regraded, report)
        store.set_grades(regraded)
        if groups:
            store.set_groups(groups)
        report = replace(report, regraded=_count_regraded(store, before))
        if images is not None:
            report = replace(report, missing=len(imported.keys() - {found.name for found in listing.files}))
        progress("learning a distance", 0, 0)
        from ordrank.collection.train import train

        balanced = store.is_balanced if balanced is None else balanced
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        model, error = train(store, balanced=balanced, notes={FITTED: now, BALANCED: str(balanced)})
        return _fit_report(store, report, model, error)


def _fit_report(store: Store, imported: ImportReport, model: dict[str, Any], error: float) -> FitReport:
    grades = store.grades()
    given = grades[~np.isnan(grades)]
    error_median = float(np.abs(np.median(given) - given).mean())
    advice = None
    if is_poor(error, error_median):
        counts = Counter(map(store.header.format_grade, given.tolist()))
        advice = advice_for(dict(counts), store.header.extractor)
    words = verdict(error, error_median)
    return FitReport(len(store), len(given), imported, model, error, error_median, words, advice)


def add_pictures(
    directory: Path, images: Path, labels: Labels | None, *, strict: bool, n_jobs: int, progress: Progress
) -> ImportReport:
    """Add pictures to a trained collection; see :meth:`Collection.add`."""
    listing = list_pictures(images)
    header, known, _ = _existing(directory, labels, None)
    if header is None or header.model is None:
        raise untrained(directory)
    grades = _read_labels(labels, header, listing, known, at_least_two=False)
    from ordrank.collection.train import picture_embedder

    with write_store(directory) as store:
        before, embed = store.named_grades(), picture_embedder(store)
        with _reader(n_jobs, None, None) as read:
            report = import_pictures(
                store, listing, extractor_of(directory, store.header), grades, read, progress, embed
            )
        store.set_grades(_grades_of_known(store, before, grades))
        report = replace(report, regraded=_count_regraded(store, before))
        if grades:
            _update_new_estimates(store, {found.name for found in listing.files})
    check_report(report, n_pictures=None, strict=strict)
    return report


def _existing(
    directory: Path, labels: Labels | None, features: str | None
) -> tuple[Header | None, Mapping[str, FileStamp], Extractor | None]:
    """Return header and file stamps of a collection, if there is one, and the extractor if its name is given.

    Raise CollectionError if labels or features do not fit.
    """
    extractor = None if features is None else find_extractor(features)
    if not is_collection(directory):
        return None, {}, extractor
    with read_store(directory) as store:
        header, known = store.header, store.stamps()
    if extractor is not None and extractor.fingerprint != header.fingerprint:
        raise CollectionError(
            f"{directory} holds features of {header.extractor}, not of {features}; use another directory for these"
        )
    order = None if labels is None else labels.order
    if order is not None and order != header.order:
        held = "numbers" if header.order is None else f"the grades {', '.join(header.order)}"
        raise CollectionError(f"{directory} holds {held}; another order needs another directory")
    return header, known, extractor


def _check_apart(images: Path | None, directory: Path) -> None:
    """Raise InputError if the collection is, holds or lies among the pictures that it is made from."""
    if images is None:
        return
    pictures, out = images.resolve(), directory.resolve()
    if out.is_relative_to(pictures) or pictures.is_relative_to(out):
        how = "is" if out == pictures else "lies in" if out.is_relative_to(pictures) else "holds"
        raise InputError(
            f"{directory} {how} {images}; keep the collection apart from its pictures, in another directory"
        )


def _read_labels(
    labels: Labels | None, header: Header, listing: Listing, known: Iterable[str], *, at_least_two: bool
) -> dict[str, float]:
    if labels is None:
        return {}
    listed = [found.name for found in listing.files] + [bad.name for bad in listing.bad]
    return labels.read([*listed, *known], header, at_least_two=at_least_two)


def _read_groups(labels: Labels | None, column: str | None, graded: Iterable[str]) -> dict[str, str]:
    """Return the groups of graded pictures by name, if a column of the CSV file names them."""
    if column is None:
        return {}
    if labels is None or isinstance(labels.source, Mapping):
        raise InputError("groups are a column of the CSV file with the grades: name that file with --labels")
    if column in (labels.file_column, labels.grade_column):
        raise InputError(f"column {column!r} cannot hold the groups too; name another column")
    return read_groups(Path(labels.source), set(graded), file_column=labels.file_column, group_column=column)


@contextmanager
def _training_imported() -> Iterator[None]:
    """Import what training needs, which takes a second, while worker processes read."""
    importing = Thread(target=import_module, args=("ordrank.collection.train",))
    importing.start()
    try:
        yield
    finally:
        importing.join()


@contextmanager
def _reader(n_jobs: int, scheduler: str | None, workers: int | None) -> Iterator[Reader]:
    """Yield the function that reads pictures: in processes of this machine, or on a Dask cluster."""
    if scheduler is None and workers is None:
        yield partial(read_pictures, n_jobs=n_jobs)
        return
    from ordrank.collection.dask import connected, read_pictures_on

    with connected(scheduler, workers) as engine:
        yield partial(read_pictures_on, engine)


def _update_new_estimates(store: Store, names: set[str]) -> None:
    """Estimate new pictures again with the votes of all grades that were added with them.

    The result then does not depend on the order of the files or on interrupts.
    """
    new = [row.id for row in store.rows() if row.name in names and not store.is_held_out(row.id)]
    if new:
        from ordrank.collection.train import update_estimates

        update_estimates(store, new)


def _check_grades(grades: Mapping[str, float | None], report: ImportReport) -> None:
    """Raise BadPicturesError if there are no two different grades."""
    given = [grade for grade in grades.values() if grade is not None]
    if len(set(given)) < 2:
        counted = "1 picture has a grade" if len(given) == 1 else f"{len(given)} pictures have a grade"
        same = ", all the same" if len(given) > 1 else ""
        raise BadPicturesError(f"{counted}{same}; an order needs two different grades", report.bad)


def _grades_of_known(
    store: Store, before: Mapping[int, tuple[str, float | None]], grades: Mapping[str, float]
) -> dict[str, float]:
    """Return the grades of pictures that were known before the import, by their present names.

    A grade under the old name of a renamed picture holds unless its new name has one too.
    """
    present, known = store.named_grades(), {}
    for picture, (old_name, _) in before.items():
        name = present[picture][0] if picture in present else None
        if name is not None and old_name in grades:
            known[name] = grades.get(name, grades[old_name])
    return known


def _count_regraded(store: Store, before: Mapping[int, tuple[str, float | None]]) -> int:
    """Count the pictures that had another grade before."""
    present = store.named_grades()
    return sum(
        grade is not None and picture in present and present[picture][1] != grade
        for picture, (_, grade) in before.items()
    )
