"""Pictures that are added one by one from memory: their files are kept in the directory of the collection."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from ordrank._io import write_files
from ordrank._protocols import Extractor
from ordrank.collection.access import write_store
from ordrank.collection.database import OWN_FOLDER, is_own_path
from ordrank.collection.ingest.importing import with_held_out_outputs
from ordrank.collection.ingest.reading import ReadPicture, read_batch
from ordrank.collection.ingest.rows import add_rows
from ordrank.collection.search import estimate_new
from ordrank.collection.snapshot import Snapshot
from ordrank.collection.store import Store
from ordrank.collection.types import BadPicture, EmbeddedBatch, ImageRow
from ordrank.errors import CollectionError, UnreadablePictureError

# Bytes of a folder or file name: most systems allow 255, some of them for a number and for the suffix of a file that is
# being written.
_MAX_PART, _MAX_PARTS = 200, 8
# Seconds to wait for a process that imports pictures or trains.
_TIMEOUT = 10.0


def add_picture(directory: Path, snapshot: Snapshot, extractor: Extractor, data: bytes, name: str) -> tuple[int, bool]:
    """Add a picture to a collection; return its id, and False if its content was there already.

    It gets the embedding and the estimate of the model of the snapshot, if that is the one on disk. Raise
    UnreadablePictureError if it cannot be decoded; its file is deleted then.
    """
    sha256 = hashlib.sha256(data).hexdigest()
    with write_store(directory, timeout=_TIMEOUT) as store:
        known = store.find_content(sha256)
        if known is not None:
            return known.id, False
        if store.header.fingerprint != extractor.fingerprint or store.header.model != snapshot.header.model:
            raise CollectionError(f"{directory} was trained anew a moment ago; add the picture again")
        free = _free_name(store, directory, safe_name(name))
        path = Path(OWN_FOLDER, free)
        file = directory / path
        write_files(file.parent, {file.name: data})
        try:
            (read,) = with_held_out_outputs(store, read_batch([(free, str(file))], extractor))
            if isinstance(read, BadPicture):
                raise UnreadablePictureError(read.reason)
            bad = add_rows(store, [read], {free: path}, {}, _embedded(snapshot, [read]))
            assert not bad, bad  # neither its name nor its content was known
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        added = store.find(free)
        assert added is not None
        return added.id, True


def delete_files(directory: Path, rows: Sequence[ImageRow]) -> None:
    """Delete the files of removed pictures that are in the directory of the collection; others stay where they are."""
    folder = (directory / OWN_FOLDER).resolve()
    for file in (directory / row.path for row in rows if is_own_path(row.path)):
        if file.resolve().is_relative_to(folder):  # a crafted path may lead elsewhere
            file.unlink(missing_ok=True)


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
    path, number = PurePosixPath(name), 1
    while store.find(name) is not None or (folder / name).exists():
        number += 1
        name = str(path.with_name(f"{path.stem} ({number}){path.suffix}"))
    return name


def _embedded(snapshot: Snapshot, pictures: Sequence[ReadPicture]) -> EmbeddedBatch | None:
    if snapshot.model is None:
        return None
    vectors = snapshot.model.embed(np.stack([picture.features for picture in pictures]))
    return estimate_new(snapshot.searcher.estimator if snapshot.has_votes else None, vectors)
