"""Pictures that are added one by one from memory: their files are kept in the directory of the collection."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np

from ordrank._format import pluralize
from ordrank._io import write_files
from ordrank._protocols import Extractor
from ordrank.collection.access import read_store, write_store
from ordrank.collection.database import OWN_FOLDER, is_own_path
from ordrank.collection.ingest.importing import as_held_out
from ordrank.collection.ingest.reading import ReadPicture, read_content
from ordrank.collection.ingest.rows import add_rows
from ordrank.collection.live import LiveSnapshot
from ordrank.collection.search import estimate_new
from ordrank.collection.snapshot import Snapshot
from ordrank.collection.store import Store
from ordrank.collection.types import EmbeddedBatch, ImageRow
from ordrank.errors import AccessDeniedError, CollectionError, DiskFullError
from ordrank.features.pictures import Decode

# Bytes of a folder or file name: most systems allow 255, some of them for a number and for the suffix of a file that is
# being written.
_MAX_PART, _MAX_PARTS = 200, 8
# Seconds to wait for a process that imports pictures or trains.
_TIMEOUT = 10.0


def add_picture(
    directory: Path, live: LiveSnapshot, extractor: Extractor, data: bytes, name: str, decode: Decode
) -> tuple[int, bool]:
    """Add a picture to a collection; return its id, and False if its content was there already.

    It gets the embedding and the estimate of the current model. Raise UnreadablePictureError if it cannot be decoded;
    ``decode`` may set limits.
    """
    sha256 = hashlib.sha256(data).hexdigest()
    with read_store(directory) as store:
        known = store.find_content(sha256)
    if known is not None:
        return known.id, False
    read = read_content(data, extractor, name=name, sha256=sha256, decode=decode)
    with write_store(directory, timeout=_TIMEOUT) as store:
        known = store.find_content(sha256)  # it may have been added meanwhile
        if known is not None:
            return known.id, False
        if store.header.fingerprint != extractor.fingerprint:
            raise CollectionError(f"{directory} was trained anew a moment ago; add the picture again")
        live.refresh()
        with _translate_errors(directory / OWN_FOLDER):
            return _write(store, live.current(), data, as_held_out(store, read)), True


def _write(store: Store, snapshot: Snapshot, data: bytes, read: ReadPicture) -> int:
    """Write the file of a picture and add its row, both or neither; return its id."""
    name = _free_name(store, store.directory, safe_name(read.name))
    path = PurePosixPath(OWN_FOLDER, name)  # the same text on every system
    file = store.directory / path
    try:
        write_files(file.parent, {file.name: data})
        read = replace(read, name=name, mtime_ns=file.stat().st_mtime_ns)
        bad = add_rows(store, [read], {name: path}, {}, _embedded(snapshot, [read]))
        assert not bad, bad  # neither its name nor its content was known
    except BaseException:
        with suppress(OSError):  # as when it could not be written
            file.unlink()
        raise
    added = store.find(name)
    assert added is not None
    return added.id


@contextmanager
def _translate_errors(folder: Path) -> Iterator[None]:
    """Translate errors of the file system into CollectionErrors that name a folder."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(f"{folder}: the disk is full; free some space and try again") from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise AccessDeniedError(f"{folder} is not writable; check its permissions") from None
        raise CollectionError(f"{folder} cannot be written: {error.strerror or error}") from None


def own_files(directory: Path, rows: Sequence[ImageRow]) -> list[Path]:
    """Return the files of pictures that are in the directory of the collection; others stay where they are.

    Raise AccessDeniedError if one cannot be deleted.
    """
    folder = (directory / OWN_FOLDER).resolve()
    files = [directory / row.path for row in rows if is_own_path(row.path)]
    files = [file for file in files if file.resolve().is_relative_to(folder)]  # a crafted path may lead elsewhere
    for parent in {file.parent for file in files if os.path.exists(file)}:
        if not os.access(parent, os.W_OK):
            raise AccessDeniedError(f"nothing was removed: {parent} is not writable; check its permissions")
    return files


def delete_files(files: Sequence[Path]) -> None:
    """Delete the files of removed pictures."""
    left = []
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            left.append(f"{file} ({error.strerror or error})")
    if left:
        raise CollectionError(
            f"the pictures were removed, but {pluralize(len(left), 'file')} could not be deleted, such as {left[0]}; "
            "delete what is left"
        )


def safe_name(name: str) -> str:
    r"""Return a relative name that is that of a file inside a folder on any system.

    Examples
    --------
    >>> safe_name("../ward 3\\scan: a.png"), safe_name("/.hidden"), safe_name("..")
    ('ward 3/scan_ a.png', 'hidden', 'picture')
    """
    text = "".join(c if c.isprintable() and c not in '<>:"|?*' else "_" for c in name.replace("\\", "/"))
    parts = [_shortened(part.strip(" .")).strip(" .") for part in text.split("/")]
    return "/".join([part for part in parts if part][-_MAX_PARTS:]) or "picture"


def numbered_name(name: str, number: int) -> str:
    """Return a name with a number before its suffix."""
    path = PurePosixPath(name)
    return str(path.with_name(f"{path.stem} ({number}){path.suffix}"))


def _shortened(part: str) -> str:
    """Return a name of at most _MAX_PART bytes, with its suffix."""
    stem, dot, suffix = part.rpartition(".")
    if not dot or len(suffix) > 10:
        stem, dot, suffix = part, "", ""
    limit = _MAX_PART - len(os.fsencode(dot + suffix))
    return os.fsencode(stem)[:limit].decode(errors="ignore") + dot + suffix


def _free_name(store: Store, directory: Path, name: str) -> str:
    """Return the name, with a number if there is a picture or a file of that name."""
    folder = directory / OWN_FOLDER
    if any((folder / parent).is_file() for parent in PurePosixPath(name).parents):  # no folder can have that name
        name = safe_name(name.replace("/", "_"))
    free, number = name, 1
    while store.find(free) is not None or (folder / free).exists():
        number += 1
        free = numbered_name(name, number)
    return free


def _embedded(snapshot: Snapshot, pictures: Sequence[ReadPicture]) -> EmbeddedBatch | None:
    if snapshot.model is None:
        return None
    vectors = snapshot.model.embed(np.stack([picture.features for picture in pictures]))
    return estimate_new(snapshot.searcher.estimator if snapshot.has_votes else None, vectors)
