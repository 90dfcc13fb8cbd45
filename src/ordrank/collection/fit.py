"""Creating, extending and training a collection."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, TypedDict

import numpy as np

from ordrank._protocols import Extractor, Progress, no_progress
from ordrank.collection import staged_features
from ordrank.collection.access import read_store, write_store
from ordrank.collection.database import check_exists, is_collection, is_own_path, stored_path
from ordrank.collection.executor import LOCAL, Executor
from ordrank.collection.feature_selection import AUTO, SelectedFeatures, reuse, select_features
from ordrank.collection.ingest.folder_grades import read_folder_grades
from ordrank.collection.ingest.grades_csv import GradeTable, parse_order
from ordrank.collection.ingest.image_folder import Listing, list_pictures
from ordrank.collection.ingest.importing import (
    Reader,
    check_report,
    extractor_of,
    import_pictures,
    stage_features,
)
from ordrank.collection.ingest.labels import Labels, LabelsLike
from ordrank.collection.ingest.reading import read_pictures
from ordrank.collection.projection import MAX_FEATURES
from ordrank.collection.reports import FeatureChoice, FitReport, ImportReport, advice_for, is_poor, verdict
from ordrank.collection.store import Store
from ordrank.collection.store_reader import BALANCED, FITTED
from ordrank.collection.types import FileStamp, Header
from ordrank.errors import BadPicturesError, CollectionError, InputError
from ordrank.features.registry import find_extractor


class ReadOptions(TypedDict, total=False):
    """Options of :meth:`Collection.evaluate_on`."""

    file_column: str
    grade_column: str
    strict: bool | None
    n_jobs: int
    progress: Progress


class AddOptions(ReadOptions, total=False):
    """Options of :meth:`Collection.add`."""

    group_column: str | None
    device: str


class FitOptions(AddOptions, total=False):
    """Options of :meth:`Collection.fit`."""

    features: str | None
    order: str | Sequence[str] | None
    balanced: bool | None
    scheduler: str | None
    workers: int | None


def fit_collection(
    directory: Path,
    images: str | os.PathLike[str] | None,
    labels: LabelsLike | None,
    *,
    features: str | None = None,
    device: str = "cpu",
    order: str | Sequence[str] | None = None,
    file_column: str = "file",
    grade_column: str = "grade",
    group_column: str | None = None,
    balanced: bool | None = None,
    strict: bool | None = None,
    n_jobs: int = -1,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: Progress = no_progress,
) -> FitReport:
    """Create a collection from pictures and labels, or train one again; see :meth:`Collection.fit`."""
    images = None if images is None else Path(images)
    names = None if order is None else parse_order(order)
    source = None if labels is None else Labels(labels, file_column, grade_column, group_column)
    check_apart(images, directory)
    listing = Listing((), (), 0) if images is None else list_pictures(images)
    header, known = existing(directory)
    new = Header("", "", 0, names, by_folder=source is None) if header is None else header
    if names is not None and source is None and not new.by_folder:
        raise InputError("an order names the grades of labels: name their CSV file with --labels")
    check_order(names, new, directory)
    if source is None:
        _check_no_groups(group_column)
        table, groups = _grades_by_folder(listing, known, new, progress), dict[str, str]()
    else:
        table, groups = _read_labels(
            source, listing, known, new, at_least_two=new.model is None, skip_missing=strict is False
        )
    grades = table.grades
    with _resources(n_jobs, scheduler, workers) as (read, executor):
        if header is None:
            files = [(found.name, found.path.absolute()) for found in listing.files]
            selected = _select_features(features or AUTO, files, grades, groups, device, read, progress)
            new = new.with_features(check_dimension(selected.extractor))
        else:
            selected = _other_features(directory, features, device, read, progress)
        with write_store(directory, None if header else new) as store:
            store.check_indexes()
            report, before, reread = ImportReport(), store.named_grades(), 0
            if selected.extractor is not None and selected.extractor.fingerprint != store.header.fingerprint:
                with _training_imported():
                    reread = stage_features(store, selected.extractor, reuse(read, selected.read), progress)
                if store.header.model is None:
                    staged_features.adopt_untrained(store)
                elif listing.files:  # new pictures are added to features that are in use
                    train_store(store, balanced, progress, executor=executor)
            if listing.files:
                extractor = extractor_of(directory, store.header, selected.extractor, device)
                if extractor.name != store.header.extractor:
                    store.set_extractor(extractor.name)
                with _training_imported():
                    report = import_pictures(store, listing, extractor, grades, reuse(read, selected.read), progress)
            report = replace(report, reread=reread, not_found=table.not_found)
            check_report(report, n_pictures=len(store), strict=strict)
            regraded = _grades_of_known(store, before, grades)
            imported = dict(store.named_grades().values())
            _check_grades(imported | regraded, report)
            store.set_grades(regraded)
            if groups:
                store.set_groups(groups)
            report = replace(report, regraded=_count_regraded(store, before))
            if images is not None:
                report = replace(report, missing=_count_missing(store, imported.keys() - listing.names))
            model, error = train_store(store, balanced, progress, executor=executor)
            return fit_report(store, report, model, error, selected.choice)


def train_store(
    store: Store,
    balanced: bool | None,
    progress: Progress,
    notes: Mapping[str, str] | None = None,
    *,
    executor: Executor = LOCAL,
) -> tuple[dict[str, Any], float]:
    """Train a collection with what is in its store; ``balanced`` None is as before. Notes are stored with the model."""
    progress("learning a distance", 0, 0)
    from ordrank.collection.train import train

    store.update_consensus()
    balanced = store.is_balanced if balanced is None else balanced
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    all_notes = {FITTED: now, BALANCED: str(balanced), **(notes or {})}
    return train(store, balanced=balanced, notes=all_notes, executor=executor)


def _select_features(
    features: str,
    files: Sequence[tuple[str, Path]],
    grades: Mapping[str, float],
    groups: Mapping[str, str],
    device: str,
    read: Reader,
    progress: Progress,
) -> SelectedFeatures:
    """Return the named features, or the best for these files."""
    if features != AUTO:
        return SelectedFeatures(find_extractor(features, device=device))
    return select_features(files, grades, groups, read, device=device, progress=progress)


def _other_features(
    directory: Path,
    features: str | None,
    device: str,
    read: Reader,
    progress: Progress,
) -> SelectedFeatures:
    """Return the features that a collection is to have, if they are named; none if it keeps its own."""
    if features is None:
        return SelectedFeatures()
    with read_store(directory) as store:
        rows = store.rows()
    files = [(row.name, stored_path(directory, row.path)) for row in rows]
    grades = {row.name: row.grade for row in rows if row.grade is not None}
    groups = {row.name: row.group for row in rows if row.group is not None}
    selected = _select_features(features, files, grades, groups, device, read, progress)
    check_dimension(selected.extractor)
    return selected


def check_dimension(extractor: Extractor | None) -> Extractor:
    """Return an extractor. Raise InputError if its features are too many."""
    assert extractor is not None
    if extractor.dim > MAX_FEATURES:
        raise InputError(
            f"{extractor.name} gives {extractor.dim} numbers a picture, more than {MAX_FEATURES}; use smaller ones"
        )
    return extractor


def fit_report(
    store: Store, imported: ImportReport, model: dict[str, Any], error: float, features: FeatureChoice | None
) -> FitReport:
    """Return the outcome of a training that has selected a model with this leave-one-out error."""
    grades = store.grades()
    given = grades[~np.isnan(grades)]
    error_median = float(np.abs(np.median(given) - given).mean())
    advice = None
    if is_poor(error, error_median):
        counts = Counter(map(store.header.format_grade, given.tolist()))
        advice = advice_for(dict(counts), store.header.extractor)
    words = verdict(error, error_median, has_seen_groups=store.has_seen_groups())
    return FitReport(len(store), len(given), imported, model, error, error_median, words, advice, features)


def add_pictures(
    directory: Path,
    images: Path,
    labels: LabelsLike | None,
    *,
    file_column: str = "file",
    grade_column: str = "grade",
    group_column: str | None = None,
    device: str = "cpu",
    strict: bool | None = None,
    n_jobs: int = -1,
    progress: Progress = no_progress,
) -> ImportReport:
    """Add pictures to a collection; see :meth:`Collection.add`."""
    source = None if labels is None else Labels(labels, file_column, grade_column, group_column)
    check_exists(directory)
    check_apart(images, directory)
    listing = list_pictures(images)
    header, known = existing(directory)
    assert header is not None
    table, groups = GradeTable({}), dict[str, str]()
    if source is None:
        _check_no_groups(group_column)
    else:
        table, groups = _read_labels(source, listing, known, header, at_least_two=False, skip_missing=strict is False)
    grades = table.grades
    from ordrank.collection.train import picture_embedder

    with write_store(directory) as store:
        store.check_indexes()
        before, embed = store.named_grades(), None if store.header.model is None else picture_embedder(store)
        extractor = extractor_of(directory, store.header, device=device)
        read = partial(read_pictures, n_jobs=n_jobs)
        report = import_pictures(store, listing, extractor, grades, read, progress, embed, replace_same_name=False)
        store.set_grades(_grades_of_known(store, before, grades))
        if groups:
            store.set_groups(groups)
        report = replace(report, regraded=_count_regraded(store, before), not_found=table.not_found)
        if embed is not None and (grades or groups):
            _update_new_estimates(store, {found.name for found in listing.files})
    check_report(report, n_pictures=None, strict=strict)
    return report


def existing(directory: Path) -> tuple[Header | None, Mapping[str, FileStamp]]:
    """Return header and file stamps of a collection, if there is one."""
    if not is_collection(directory):
        return None, {}
    with read_store(directory) as store:
        return store.header, store.stamps()


def check_order(order: tuple[str, ...] | None, header: Header, directory: Path) -> None:
    """Raise CollectionError if an order of grades is given that is not that of the collection."""
    if order is not None and order != header.order:
        held = "numbers" if header.order is None else f"the grades {', '.join(header.order)}"
        raise CollectionError(f"{directory} holds {held}; another order needs another directory")


def _check_no_groups(group_column: str | None) -> None:
    if group_column is not None:
        raise InputError("groups are a column of the CSV file with the grades: name that file with --labels")


def check_apart(images: Path | None, directory: Path) -> None:
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
    labels: Labels, listing: Listing, known: Iterable[str], header: Header, *, at_least_two: bool, skip_missing: bool
) -> tuple[GradeTable, dict[str, str]]:
    """Return grades and groups of the pictures in a folder, usable or not, and of those in the collection."""
    names = listing.names | set(known)
    in_folder = listing.names or None  # file names without a folder are those of the pictures at hand
    table = labels.read(names, header, in_folder=in_folder, at_least_two=at_least_two, skip_missing=skip_missing)
    return table, labels.read_groups(names, in_folder)


def _grades_by_folder(
    listing: Listing, known: Mapping[str, FileStamp], header: Header, progress: Progress
) -> GradeTable:
    """Return the grades of new pictures by their folders, if those of the collection are by folder.

    Pictures that are known keep the grades they have by now. Raise InputError if a first fit had fewer than two grades.
    """
    if not header.by_folder:
        return GradeTable({})
    grades = read_folder_grades([found.name for found in listing.files if found.name not in known], header)
    values = sorted(set(grades.values()))
    if not known and len(values) < 2:
        raise InputError(
            "a new collection needs two different grades to learn from: name a CSV file with --labels, or sort the "
            "pictures into folders that are named after their grades"
        )
    if grades:
        progress(f"grading by folder: {', '.join(map(header.format_grade, values))}", 0, 0)
    return GradeTable(grades)


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
def _resources(n_jobs: int, scheduler: str | None, workers: int | None) -> Iterator[tuple[Reader, Executor]]:
    """Yield what reads pictures and what training runs on: processes of this machine, or a Dask cluster for both."""
    if scheduler is None and workers is None:
        yield partial(read_pictures, n_jobs=n_jobs), LOCAL
        return
    from ordrank.collection.dask import ClusterExecutor, connected, read_pictures_on

    with connected(scheduler, workers) as engine:
        yield partial(read_pictures_on, engine), ClusterExecutor(engine)


def _update_new_estimates(store: Store, names: set[str]) -> None:
    """Estimate new pictures again with the votes of all grades that were added with them.

    The result then does not depend on the order of the files or on interrupts.
    """
    new = [row.id for row in store.rows() if row.name in names and not store.is_held_out(row.id)]
    if new and store.has_votes():
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


def _count_missing(store: Store, names: set[str]) -> int:
    """Count the pictures of these names whose files are elsewhere: those added on the page are in no folder."""
    return sum(not is_own_path(path) for name, (path, _, _) in store.stamps().items() if name in names)


def _count_regraded(store: Store, before: Mapping[int, tuple[str, float | None]]) -> int:
    """Count the pictures that had another grade before."""
    present = store.named_grades()
    return sum(
        grade is not None and picture in present and present[picture][1] != grade
        for picture, (_, grade) in before.items()
    )
