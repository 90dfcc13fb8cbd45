"""Taking pictures in and training: fit, add, remove."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ordrank._types import BadPicture, Extractor
from ordrank.collection.database import as_text, is_collection
from ordrank.collection.records import Header, Stamp
from ordrank.collection.store import Store, read_store, write_store
from ordrank.datasets.grades_csv import read_grades
from ordrank.datasets.image_folder import FoundPicture, Listing, list_pictures
from ordrank.errors import BadPicturesError, CollectionError, InputError
from ordrank.features.reading import ReadPicture, read_pictures
from ordrank.features.registry import find_extractor

if TYPE_CHECKING:
    from ordrank.collection.training import Placing

# Pictures that are kept together: what an interrupt can cost.
BATCH = 256
Reader: TypeAlias = Callable[[Sequence[tuple[str, Path]], Extractor], Iterator[ReadPicture | BadPicture]]
USUAL_FEATURES = "pixels"
_TRAINING = "ordrank.collection.training"


@dataclass(frozen=True)
class Watch:
    """Who is told what happens: ``tell`` what comes next, ``tick`` how many pictures are read, of how many."""

    tell: Callable[[str], object] = lambda text: None
    tick: Callable[[int, int], object] = lambda done, total: None


@dataclass(frozen=True)
class Grades:
    """Where grades come from.

    Attributes
    ----------
    file : Path
        A CSV file.
    file_column, grade_column : str
    order : tuple of str, or None
        Names of the grades, lowest first, where they are words.
    """

    file: Path
    file_column: str = "file"
    grade_column: str = "grade"
    order: tuple[str, ...] | None = None

    def read(self, known: Iterable[str], order: tuple[str, ...] | None, *, at_least_two: bool) -> dict[str, float]:
        """Grades by name; ``order`` is that of the collection."""
        return read_grades(
            self.file,
            set(known),
            file_column=self.file_column,
            grade_column=self.grade_column,
            order=order,
            at_least_two=at_least_two,
        )


@dataclass(frozen=True)
class Intake:
    """What became of the files of a folder.

    Attributes
    ----------
    read : int
        Pictures that were read and kept.
    known : int
        Pictures that had not changed since they were read.
    bad : tuple of BadPicture
        Files that could not be used, and why.
    ignored : int
        Files without a picture's suffix.
    missing : int
        Pictures of the collection that are not in the folder; they are kept.
    regraded : int
        Pictures that had another grade before.
    """

    read: int = 0
    known: int = 0
    bad: tuple[BadPicture, ...] = ()
    ignored: int = 0
    missing: int = 0
    regraded: int = 0


@dataclass(frozen=True)
class Fitted:
    """What a fit found: pictures in the collection and with a grade, files, choices of the model, its error.

    ``error`` is the mean absolute error of the grades of graded pictures, each left out of the fit.
    """

    pictures: int
    graded: int
    intake: Intake
    chosen: dict[str, Any]
    error: float


def fit(
    images: Path | None,
    collection: Path,
    *,
    grades: Grades | None = None,
    features: str | None = None,
    strict: bool = False,
    balanced: bool | None = None,
    n_jobs: int = -1,
    scheduler: str | None = None,
    workers: int | None = None,
    watch: Watch | None = None,
) -> Fitted:
    """Make a collection of a folder of pictures, or train one again.

    Pictures that are in the collection and have not changed are not read again; what an interrupted call has read
    is kept.

    Parameters
    ----------
    images : Path, optional
        Folder or single picture; None trains with what is there.
    collection : Path
        Directory; made if missing.
    grades : Grades, optional
        Needed for a new collection. Pictures that it does not name keep their grades.
    features : str, optional
        See :func:`ordrank.features.registry.find_extractor`; ``"pixels"`` for a new collection.
    strict : bool
        Refuse to train if a file cannot be used.
    balanced : bool, optional
        Let every grade count the same, however many pictures it has; by default as in the last fit.
    n_jobs : int
        Processes that read pictures.
    scheduler, workers : str and int, optional
        Address of a Dask cluster whose workers read them instead, or number of workers of one on this machine.
    watch : Watch, optional
    """
    watch = watch or Watch()
    _check_apart(images, collection)
    listing = Listing((), (), 0) if images is None else list_pictures(images)
    header, known = _look_into(collection, grades, features)
    new = header or _new_header(collection, grades, features, images)
    given = (
        {}
        if grades is None
        else _read_grades(grades, new, listing, known, at_least_two=header is None or header.model is None)
    )
    with write_store(collection, None if header else new) as store:
        extractor = _extractor_of(store, features) if listing.files else None
        before = store.grades_by_name()
        with _training_is_loaded(), _reader(n_jobs, scheduler, workers) as read:
            intake = _take_in(store, listing, extractor, given, read, watch)
        _check_intake(intake, len(store), strict=strict)
        _check_grades(store.grades_by_name() | _only(given, known), intake)
        store.set_grades(_only(given, known))
        intake = replace(intake, regraded=_count_regraded(before, given))
        if images is not None:
            intake = replace(intake, missing=len(known.keys() - {found.name for found in listing.files}))
        watch.tell("learning a distance")
        from ordrank.collection.training import BALANCED, is_balanced, train

        balanced = is_balanced(store) if balanced is None else balanced
        trained = train(store, balanced=balanced, notes={"fitted": _now(), BALANCED: str(balanced)})
        graded = int((~np.isnan(store.grades())).sum())
        return Fitted(len(store), graded, intake, trained.chosen, trained.error)


def add(
    collection: Path,
    images: Path,
    *,
    grades: Grades | None = None,
    strict: bool = False,
    n_jobs: int = -1,
    watch: Watch | None = None,
) -> Intake:
    """Add pictures to a trained collection; they can be ranked and, if they have grades, vote at once.

    Parameters are those of :func:`fit`.
    """
    watch = watch or Watch()
    listing = list_pictures(images)
    header, known = _look_into(collection, grades, None)
    if header is None or header.model is None:
        raise CollectionError(f"{collection} has no model yet; train it with `ordrank fit --out {collection}`")
    given = {} if grades is None else _read_grades(grades, header, listing, known, at_least_two=False)
    from ordrank.collection.training import place_pictures

    with write_store(collection) as store:
        before, placing = store.grades_by_name(), place_pictures(store)
        with _reader(n_jobs) as read:
            intake = _take_in(store, listing, _extractor_of(store, None), given, read, watch, placing)
        store.set_grades(_only(given, known))
        intake = replace(intake, regraded=_count_regraded(before, given))
        _let_newcomers_vote(store, {found.name for found in listing.files})
    _check_intake(intake, None, strict=strict)
    return intake


def remove(collection: Path, names: Sequence[str]) -> int:
    """Forget pictures of a collection, all that are named or none; the files stay where they are."""
    with write_store(collection) as store:
        unknown = [name for name in names if store.find(name) is None]
        if unknown:
            meant = store.similar_name(unknown[0])
            hint = f"; did you mean {meant!r}?" if meant else ""
            raise InputError(
                f"nothing was removed: {collection} has no picture named {', '.join(map(repr, unknown))}{hint}"
            )
        left = len(store) - len(set(names))
        store.remove(names)
        return left


def _look_into(
    collection: Path, grades: Grades | None, features: str | None
) -> tuple[Header | None, Mapping[str, Stamp]]:
    """Header and names of a collection that exists, if it suits what is asked for."""
    if not is_collection(collection):
        return None, {}
    with read_store(collection) as store:
        header, known = store.header, store.stamps()
    if features is not None and find_extractor(features).fingerprint != header.fingerprint:
        raise CollectionError(
            f"{collection} holds features of {header.extractor}, not of {features}; use another directory for these"
        )
    order = None if grades is None else grades.order
    if order is not None and order != header.order:
        held = "numbers" if header.order is None else f"the grades {', '.join(header.order)}"
        raise CollectionError(f"{collection} holds {held}; another order needs another directory")
    return header, known


def _check_apart(images: Path | None, collection: Path) -> None:
    """Raise InputError if the collection is, holds or lies among the pictures that it is made from."""
    if images is None:
        return
    pictures, out = images.resolve(), collection.resolve()
    if out.is_relative_to(pictures) or pictures.is_relative_to(out):
        how = "is" if out == pictures else "lies in" if out.is_relative_to(pictures) else "holds"
        raise InputError(
            f"{collection} {how} {images}; keep the collection apart from its pictures, in another directory"
        )


def _new_header(collection: Path, grades: Grades | None, features: str | None, images: Path | None) -> Header:
    if images is None:
        raise CollectionError(f"{collection} is not a collection yet; name the folder of pictures to make one from")
    if grades is None:
        raise InputError("a new collection needs grades to learn from: name a CSV file with --labels")
    extractor = find_extractor(features or USUAL_FEATURES)
    return Header(extractor.name, extractor.fingerprint, extractor.dim, grades.order)


def _read_grades(
    grades: Grades, header: Header, listing: Listing, known: Iterable[str], *, at_least_two: bool
) -> dict[str, float]:
    listed = [found.name for found in listing.files] + [bad.name for bad in listing.bad]
    return grades.read([*listed, *known], header.order, at_least_two=at_least_two)


def _extractor_of(store: Store, features: str | None) -> Extractor:
    """Return the extractor that the collection's features came from, if it still gives the same."""
    header = store.header
    try:
        extractor = find_extractor(features or header.extractor)
    except InputError as error:
        hint = "; if it has moved, say where it is now with `ordrank fit --features`" if features is None else ""
        raise InputError(f"{error}{hint}") from None
    if extractor.fingerprint != header.fingerprint:
        raise CollectionError(
            f"{store.directory} holds features of {header.fingerprint}, but {header.extractor} now gives those of "
            f"{extractor.fingerprint}; make a new collection, or bring back what made this one"
        )
    if extractor.name != header.extractor:
        store.set_extractor(extractor.name)
    return extractor


@contextmanager
def _training_is_loaded() -> Iterator[None]:
    """Load what training needs, which takes a second, while other processes read."""
    loading = Thread(target=_load_training)
    loading.start()
    try:
        yield
    finally:
        loading.join()


def _load_training() -> None:
    """Load it without looking for garbage: that would take a sixth of the time, and what is loaded stays."""
    if _TRAINING in sys.modules:
        return
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        import_module(_TRAINING)
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _reader(n_jobs: int, scheduler: str | None = None, workers: int | None = None) -> Iterator[Reader]:
    """How pictures are read: by processes of this machine, or by the workers of a cluster."""
    if scheduler is None and workers is None:
        yield partial(read_pictures, n_jobs=n_jobs)
        return
    from ordrank.distributed.pictures import connected, read_pictures_on

    with connected(scheduler, workers) as engine:
        yield partial(read_pictures_on, engine)


def _take_in(
    store: Store,
    listing: Listing,
    extractor: Extractor | None,
    grades: Mapping[str, float],
    read: Reader,
    watch: Watch,
    placing: Placing | None = None,
) -> Intake:
    """Read what is new or has changed, and keep it a batch at a time."""
    if extractor is None:
        return Intake()
    stamps = store.stamps()
    files = [found for found in listing.files if not _is_unchanged(found, stamps)]
    paths = {found.name: found.path.absolute() for found in files}
    outdated = paths.keys() & stamps.keys()
    if files:
        watch.tell("reading 1 picture" if len(files) == 1 else f"reading {len(files)} pictures")
    # Absolute: processes that stay from an earlier call may be in another directory.
    outcomes = read(list(paths.items()), extractor)
    bad, done = list(listing.bad), 0
    for batch in _batches(outcomes, BATCH):
        pictures = [item for item in batch if isinstance(item, ReadPicture)]
        bad += [item for item in batch if isinstance(item, BadPicture)]
        placed = None if placing is None else placing(pictures, grades)
        # What is added comes from anywhere; a folder that is fitted stands for itself, wherever it is now.
        bad += store.add(pictures, paths, grades, placed, outdated=outdated, replace_namesakes=placing is None)
        done += len(batch)
        watch.tick(done, len(files))
    unusable = len(bad) - len(listing.bad)
    return Intake(len(files) - unusable, len(listing.files) - len(files), tuple(bad), listing.ignored)


def _let_newcomers_vote(store: Store, names: Collection[str]) -> None:
    """Estimate those without a grade once more, with the votes of the others that came with them.

    What is kept then does not depend on the order of files or on interrupts.
    """
    rows = [row for row in store.rows() if row.name in names]
    asking = [row.id for row in rows if row.grade is None]
    if 0 < len(asking) < len(rows):
        from ordrank.collection.training import estimate_again

        estimate_again(store, asking)


def _check_grades(grades: Mapping[str, float | None], intake: Intake) -> None:
    """Refuse to train, and to change grades, if that would leave no order."""
    given = [grade for grade in grades.values() if grade is not None]
    if len(set(given)) < 2:
        counted = "1 picture has a grade" if len(given) == 1 else f"{len(given)} pictures have a grade"
        same = ", all the same" if len(given) > 1 else ""
        raise BadPicturesError(f"{counted}{same}; an order needs two different grades", intake.bad)


def _only(grades: Mapping[str, float], known: Mapping[str, Stamp]) -> dict[str, float]:
    """Grades of pictures that were in the collection before."""
    return {name: grade for name, grade in grades.items() if name in known}


def _count_regraded(before: Mapping[str, float | None], grades: Mapping[str, float]) -> int:
    """How many pictures had another grade before."""
    return sum(before.get(name) not in (None, grade) for name, grade in grades.items())


def _is_unchanged(found: FoundPicture, stamps: Mapping[str, Stamp]) -> bool:
    if found.name not in stamps:
        return False
    try:
        status = os.stat(found.path)
    except OSError:
        return False  # reading it will say why
    path = as_text(str(found.path.absolute()))
    return stamps[found.name] == Stamp(path, status.st_size, status.st_mtime_ns)


def _batches(items: Iterable[Any], length: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(islice(iterator, length)):
        yield batch


def _check_intake(intake: Intake, pictures: int | None, *, strict: bool) -> None:
    if pictures == 0:
        first = f" {intake.bad[0].name} {intake.bad[0].reason}." if intake.bad else ""
        raise BadPicturesError("none of the files could be read as a picture." + first, intake.bad)
    if strict and intake.bad:
        counted = "1 file" if len(intake.bad) == 1 else f"{len(intake.bad)} files"
        raise BadPicturesError(f"{counted} cannot be used", intake.bad)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
