"""Import of picture files: read what is new or has changed, and add it to the database a batch at a time."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ordrank._format import pluralize
from ordrank._protocols import Extractor, Progress
from ordrank.collection import staged_features
from ordrank.collection.database import as_text, content_sha256, stored_path
from ordrank.collection.ingest.image_folder import FoundPicture, Listing
from ordrank.collection.ingest.reading import ReadPicture
from ordrank.collection.ingest.rows import add_rows
from ordrank.collection.network_file import find_collection_extractor
from ordrank.collection.reports import ImportReport
from ordrank.collection.store import Store
from ordrank.collection.types import BadPicture, FileStamp, Header
from ordrank.errors import BadPicturesError, CollectionError, InputError

if TYPE_CHECKING:
    from ordrank.collection.train import EmbedPictures

# Pictures in one transaction: what an interrupt can cost.
BATCH = 256
Reader: TypeAlias = Callable[[Sequence[tuple[str, Path]], Extractor], Iterator[ReadPicture | BadPicture]]


def import_pictures(
    store: Store,
    listing: Listing,
    extractor: Extractor,
    grades: Mapping[str, float],
    read: Reader,
    progress: Progress,
    embed: EmbedPictures | None = None,
    *,
    replace_same_name: bool = True,
) -> ImportReport:
    """Read the pictures of a listing that are new or have changed, and add them with their grades.

    With ``embed`` they are embedded at once. ``replace_same_name`` is that of :func:`add_rows`.
    """
    stamps = store.stamps()
    files = [found for found in listing.files if not _is_unchanged(found, stamps)]
    # Absolute paths: worker processes may have another working directory.
    paths = {found.name: found.path.absolute() for found in files}
    outdated = paths.keys() & stamps.keys()
    stage = "reading 1 picture" if len(files) == 1 else f"reading {len(files)} pictures"
    if files:
        progress(stage, 0, 0)
    bad, done = list(listing.bad), 0
    outcomes = all_held_out(store, read(list(paths.items()), extractor))
    for batch in _batches(outcomes, BATCH):
        pictures = [item for item in batch if isinstance(item, ReadPicture)]
        bad += [item for item in batch if isinstance(item, BadPicture)]
        embedded = None if embed is None else embed(pictures, grades)
        bad += add_rows(
            store, pictures, paths, grades, embedded, outdated=outdated, replace_same_name=replace_same_name
        )
        done += len(batch)
        progress(stage, done, len(files))
    unusable = len(bad) - len(listing.bad)
    return ImportReport(len(files) - unusable, len(listing.files) - len(files), tuple(bad), listing.ignored)


def stage_features(store: Store, extractor: Extractor, read: Reader, progress: Progress) -> int:
    """Read all pictures of a collection again for the features of another extractor, which it is then trained on.

    What an interrupted call has read is kept. Return the number of pictures, however often they were read. Raise
    BadPicturesError if a picture cannot be read as it was.
    """
    staged = staged_features.begin(store, extractor)
    rows = {row.name: row for row in store.rows() if row.id not in staged}
    stage, bad, done = f"reading {pluralize(len(rows), 'picture')} again", list[BadPicture](), 0
    if rows:
        progress(stage, 0, 0)
    files = [(row.name, stored_path(store.directory, row.path)) for row in rows.values()]
    for batch in _batches(all_held_out(store, read(files, extractor)), BATCH):
        features = {}
        for item in batch:
            if isinstance(item, BadPicture):
                bad.append(item)
            elif item.sha256 != content_sha256(rows[item.name].sha256):
                bad.append(BadPicture(item.name, "has changed since it was read"))
            else:
                features[rows[item.name].id] = item.features
        staged_features.put(store, features)
        done += len(batch)
        progress(stage, done, len(rows))
    if bad:
        counted = pluralize(len(bad), "picture")
        raise BadPicturesError(
            f"{counted} cannot be read again, so the collection keeps its features; restore the files, or remove the "
            "pictures with `ordrank remove`",
            tuple(bad),
        )
    return len(store)


def all_held_out(store: Store, pictures: Iterable[ReadPicture | BadPicture]) -> Iterator[ReadPicture | BadPicture]:
    """Yield pictures, those that were read as :func:`as_held_out` returns them."""
    return (as_held_out(store, read) if isinstance(read, ReadPicture) else read for read in pictures)


def as_held_out(store: Store, picture: ReadPicture) -> ReadPicture:
    """Return a picture, if the network of a collection was trained on it as a network that has not seen it sees it.

    It may have been removed since, and is added again.
    """
    outputs = store.held_out_outputs(picture.sha256)
    if outputs is None:
        return picture
    if len(outputs) >= len(picture.features) or not np.isfinite(outputs).all():  # of a stranger
        raise sqlite3.DatabaseError("the outputs of a network are not possible")
    return replace(picture, features=np.concatenate([outputs, picture.features[len(outputs) :]]))


def check_report(report: ImportReport, *, n_pictures: int | None, strict: bool | None) -> None:
    """Raise BadPicturesError if the collection is empty, or with ``strict`` if a file could not be used.

    Nothing is lost without a duplicate, so that it is not counted.
    """
    if n_pictures == 0:
        first = f" {report.bad[0].name} {report.bad[0].reason}." if report.bad else ""
        raise BadPicturesError("none of the files could be read as a picture." + first, report.bad)
    unusable = tuple(bad for bad in report.bad if bad.duplicate_of is None)
    if strict and unusable:
        raise BadPicturesError(f"{pluralize(len(unusable), 'file')} cannot be used", unusable)


def extractor_of(directory: Path, header: Header, given: Extractor | None = None, device: str = "cpu") -> Extractor:
    """Return the extractor of the features of a collection: the given one, or the one that the collection names.

    Raise CollectionError if it computes other features by now.
    """
    try:
        extractor = find_collection_extractor(directory, header.extractor, device) if given is None else given
    except CollectionError:
        raise
    except InputError as error:
        raise InputError(f"{error}; if it has moved, name it with `ordrank fit --features`") from None
    if extractor.fingerprint == header.fingerprint and extractor.dim != header.dim:
        raise CollectionError(f"{directory} holds features of another length than {extractor.name}; create it again")
    if extractor.fingerprint != header.fingerprint:
        raise CollectionError(
            f"{directory} holds features of {header.fingerprint}, but {extractor.name} now computes those of "
            f"{extractor.fingerprint}; new pictures cannot be compared with it: create a new collection, or restore "
            "the extractor"
        )
    return extractor


def _is_unchanged(found: FoundPicture, stamps: Mapping[str, FileStamp]) -> bool:
    if found.name not in stamps:
        return False
    try:
        status = os.stat(found.path)
    except OSError:
        return False  # reading it will say why
    path = as_text(str(found.path.absolute()))
    return stamps[found.name] == FileStamp(path, status.st_size, status.st_mtime_ns)


def _batches(items: Iterable[Any], length: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(islice(iterator, length)):
        yield batch
