"""Decode picture files and extract their features on all cores.

Pictures are decoded in processes: threads wait for each other. Heavy imports are deferred, so that processes start
fast.
"""

from __future__ import annotations

import hashlib
import os
import stat
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import Extractor
from ordrank.collection.ingest.processes import call_in_processes
from ordrank.collection.types import BadPicture
from ordrank.errors import InputError, UnreadablePictureError
from ordrank.features.pictures import THUMBNAIL_SIDE, Decode, decode_picture, thumbnail

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_BYTES = 512_000_000
_BATCH_SIZE = 32
_MAX_SERIAL = 64  # up to so many files are read in this process: starting others takes longer
_MAX_BATCH_PIXELS = 32_000_000  # decoded images held at the same time: 96 MB
_NO_FEATURES = np.empty(0, dtype=np.float32)


@dataclass(frozen=True)
class ReadPicture:
    """A picture file that was read.

    Attributes
    ----------
    name : str
        As given to :func:`read_pictures`.
    sha256 : str
        Hexadecimal digest of the content.
    size, mtime_ns : int
        Number of bytes; modification time in nanoseconds.
    width, height : int
        Of the original picture, after rotation by its EXIF orientation.
    features : ndarray of float32, shape (dim,)
    thumbnail : bytes
        JPEG.
    """

    name: str
    sha256: str
    size: int
    mtime_ns: int
    width: int
    height: int
    features: NDArray[np.float32]
    thumbnail: bytes


def read_pictures(
    files: Sequence[tuple[str, Path]], extractor: Extractor, *, n_jobs: int = -1
) -> Generator[ReadPicture | BadPicture]:
    """Read files in the order given, in parallel and in bounded memory.

    Parameters
    ----------
    files : sequence of (name, path)
    extractor : Extractor
    n_jobs : int, default=-1
        Number of processes as in joblib; -1 for one per core.

    Yields
    ------
    ReadPicture or BadPicture
        One for each file.
    """
    if n_jobs == 0:
        raise InputError("n_jobs is 0; it is a number of processes, or -1 for all cores")
    named = [(name, os.fspath(path)) for name, path in files]  # str is pickled much faster than Path
    batches = [named[start : start + _BATCH_SIZE] for start in range(0, len(named), _BATCH_SIZE)]
    n_processes = 1 if len(files) <= _MAX_SERIAL else min(_effective_n_jobs(n_jobs), len(batches))
    if n_processes == 1:
        for batch in batches:
            yield from read_batch(batch, extractor)
        return
    with closing(call_in_processes(read_batch, batches, extractor, n_processes=n_processes)) as results:
        for read in results:
            yield from read


def read_content(
    data: bytes, extractor: Extractor, *, name: str, sha256: str, decode: Decode = decode_picture
) -> ReadPicture:
    """Read a picture from memory; its modification time is 0.

    Raise UnreadablePictureError with a message that continues a sentence that begins with the name. Warnings of Pillow
    are not ignored: their filters are not thread-safe, and a server reads in many threads.

    Parameters
    ----------
    data : bytes
    extractor : Extractor
    name, sha256 : str
    decode : callable
    """
    decoded = decode(data, side=_side(extractor))
    (features,) = _extract([decoded.picture], extractor)
    if isinstance(features, str):
        raise UnreadablePictureError(features)
    sizes = (decoded.width, decoded.height)
    return ReadPicture(name, sha256, len(data), 0, *sizes, features, thumbnail(decoded.picture))


def _effective_n_jobs(n_jobs: int) -> int:
    from joblib import effective_n_jobs  # late: slow to import, and few files need no processes

    return int(effective_n_jobs(n_jobs))


def read_batch(files: Sequence[tuple[str, str]], extractor: Extractor) -> list[ReadPicture | BadPicture]:
    """Read files in this process."""
    read: list[ReadPicture | BadPicture] = []
    pending: dict[int, tuple[ReadPicture, Image]] = {}  # by position in `read`: decoded, without features yet
    pixels = 0
    with _pillow_warnings_ignored():
        for position, (name, path) in enumerate(files):
            try:
                picture, image = _decode_file(name, path, _side(extractor))
            except UnreadablePictureError as error:
                read.append(BadPicture(name, str(error)))
                continue
            read.append(picture)
            pending[position] = picture, image
            pixels += image.width * image.height
            if pixels > _MAX_BATCH_PIXELS:
                _add_features(read, pending, extractor)
                pending, pixels = {}, 0
        _add_features(read, pending, extractor)
    return read


def _side(extractor: Extractor) -> int:
    """Return the shorter side that pictures keep: features and thumbnails are made from them."""
    return max(extractor.side, THUMBNAIL_SIDE)


@contextmanager
def _pillow_warnings_ignored() -> Iterator[None]:
    """Ignore the warnings of Pillow, in all threads; its errors are raised as ever."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def _decode_file(name: str, path: str, side: int) -> tuple[ReadPicture, Image]:
    """Return a picture without features, and its decoded image."""
    data, mtime_ns = read_file(path)
    decoded = decode_picture(data, side=side)
    picture = ReadPicture(
        name=name,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        mtime_ns=mtime_ns,
        width=decoded.width,
        height=decoded.height,
        features=_NO_FEATURES,
        thumbnail=thumbnail(decoded.picture),
    )
    return picture, decoded.picture


def read_file(path: str) -> tuple[bytes, int]:
    """Return the content of a file and its modification time in nanoseconds."""
    try:
        _check_status(os.stat(path))  # before opening: opening a device may have side effects
        with open(path, "rb", buffering=0, opener=_open_nonblocking) as stream:
            status = os.fstat(stream.fileno())
            _check_status(status)
            return stream.readall(), status.st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        raise UnreadablePictureError("vanished before it was read") from None
    except MemoryError:
        raise UnreadablePictureError("does not fit into memory") from None
    except OSError as error:
        raise UnreadablePictureError(f"cannot be read: {(error.strerror or str(error)).lower()}") from None


def _open_nonblocking(path: str, flags: int) -> int:
    """Open a file without blocking if it was replaced by a named pipe since its status was checked."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_status(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnreadablePictureError("is not a regular file")
    if status.st_size > MAX_BYTES:
        raise UnreadablePictureError(
            f"has {status.st_size // 10**6} million bytes, more than {MAX_BYTES // 10**6} million"
        )


def _add_features(
    read: list[ReadPicture | BadPicture], pending: dict[int, tuple[ReadPicture, Image]], extractor: Extractor
) -> None:
    """Replace the pending pictures of ``read`` by pictures with features, or by BadPicture."""
    outcomes = _extract([image for _, image in pending.values()], extractor)
    for (position, (picture, _)), outcome in zip(pending.items(), outcomes, strict=True):
        if isinstance(outcome, str):
            read[position] = BadPicture(picture.name, outcome)
        else:
            read[position] = replace(picture, features=outcome)


def _extract(images: Sequence[Image], extractor: Extractor) -> list[NDArray[np.float32] | str]:
    """Return for each image its features (dim,), or the reason why it has none."""
    if not images:
        return []
    try:
        values = np.asarray(extractor.extract(images), dtype=np.float32)
    except Exception as error:  # extractors may be third-party code
        if isinstance(error, InputError) and not isinstance(error, UnreadablePictureError):
            raise  # about the extractor, not about a picture
        if len(images) == 1:
            return [f"gives no features: {error or type(error).__name__}"]
        return [outcome for image in images for outcome in _extract([image], extractor)]
    if values.shape != (len(images), extractor.dim):
        raise InputError(
            f"the features {extractor.name} are of shape {values.shape} instead of {(len(images), extractor.dim)}"
        )
    return [row if np.isfinite(row).all() else "gives features that are not finite numbers" for row in values]
