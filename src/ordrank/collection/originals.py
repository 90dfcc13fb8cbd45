"""The picture files behind a collection: larger versions to look at, and copies of some of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from io import RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from ordrank.collection.added_files import numbered_name, safe_name
from ordrank.collection.database import content_sha256, stored_path
from ordrank.collection.ingest.reading import read_file
from ordrank.collection.types import ImageRow
from ordrank.errors import UnknownError, UnreadablePictureError
from ordrank.features.pictures import Decode, encode_jpeg

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

_MISSING = "missing.txt"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a ZIP file can hold


def read_original(directory: Path, row: ImageRow) -> bytes:
    """Return the content of the file of a picture of a collection. Raise UnknownError if it is not what was read once.

    A file with other content is never returned: the database may come from elsewhere, and name any file.
    """
    try:
        return read_unchanged(directory, row)
    except UnreadablePictureError as error:
        raise UnknownError(f"the file of {row.name} {error}") from None


def read_unchanged(directory: Path, row: ImageRow) -> bytes:
    """Do as :func:`read_original`, but raise UnreadablePictureError, whose message continues one with the name."""
    data, _ = read_file(str(stored_path(directory, row.path)))
    if hashlib.sha256(data).hexdigest() != content_sha256(row.sha256):
        raise UnreadablePictureError("has changed since it was read")
    return data


def large_version(directory: Path, row: ImageRow, side: int, decode: Decode) -> bytes:
    """Return a picture as a JPEG whose longer side has at most ``side`` pixels, without the metadata of its file."""
    data = read_original(directory, row)
    shorter = max(1, side * min(row.width, row.height) // max(row.width, row.height, 1))
    try:
        return encode_jpeg(decode(data, side=shorter).picture, side, quality=90)
    except UnreadablePictureError as error:
        raise UnknownError(f"the file of {row.name} {error}") from None


def zip_originals(directory: Path, rows: Sequence[ImageRow]) -> Iterator[bytes]:
    """Yield a ZIP file with the files of pictures, one at a time; those that are gone are listed in it."""
    written, missing = _Written(), list[str]()
    with ZipFile(written, "w", ZIP_STORED) as archive:  # pictures are compressed already
        for row in rows:
            try:
                archive.writestr(ZipInfo(_unused_name(archive, row.name), _EPOCH), read_original(directory, row))
            except UnknownError as error:
                missing.append(str(error))
            yield written.take()
        if missing:
            archive.writestr(ZipInfo(_MISSING, _EPOCH), "\n".join(missing))
    yield written.take()


class _Written(RawIOBase):
    """A stream that keeps what is written until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        """Return what was written since the last call."""
        content = b"".join(self._parts)
        self._parts.clear()
        return content


def _unused_name(archive: ZipFile, name: str) -> str:
    """Return a name that stays inside the folder it is extracted to, on any system, and is not in the archive yet."""
    safe = unused = safe_name(name)
    number = 1
    while unused == _MISSING or unused in archive.NameToInfo:
        number += 1
        unused = numbered_name(safe, number)
    return unused
