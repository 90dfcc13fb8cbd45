"""Reading many picture files on all cores.

Processes decode: threads would wait for each other. What they import they import late, so that they start fast.
"""

from __future__ import annotations

import hashlib
import os
import stat
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ordrank._types import BadPicture, Extractor
from ordrank.errors import InputError, UnreadablePictureError
from ordrank.features.pictures import THUMBNAIL_SIDE, decode_picture, thumbnail
from ordrank.features.processes import call_in_processes

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_BYTES = 512_000_000
_BATCH = 32
_FEW = 64  # read in this process: starting others takes longer
# Decoded pictures of a batch are held together up to so many pixels: 96 MB.
_PIXELS_AT_ONCE = 32_000_000


@dataclass(frozen=True)
class ReadPicture:
    """A file that was read.

    Attributes
    ----------
    name : str
        As it was given.
    sha256 : str
        Of the content, in hexadecimal digits.
    size, mtime_ns : int
        Bytes; time of the last change in nanoseconds.
    width, height : int
        Of the upright picture.
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


@dataclass(frozen=True)
class _Decoded:
    """A picture that waits for its features."""

    name: str
    sha256: str
    size: int
    mtime_ns: int
    width: int
    height: int
    picture: Image
    thumbnail: bytes

    def with_features(self, features: NDArray[np.float32]) -> ReadPicture:
        return ReadPicture(
            self.name,
            self.sha256,
            self.size,
            self.mtime_ns,
            self.width,
            self.height,
            features,
            self.thumbnail,
        )


def read_pictures(
    files: Sequence[tuple[str, Path]], extractor: Extractor, *, n_jobs: int = -1
) -> Iterator[ReadPicture | BadPicture]:
    """Read files one after another in the order given, on many cores and in bounded memory.

    Parameters
    ----------
    files : sequence of (name, path)
    extractor : Extractor
    n_jobs : int, default=-1
        Number of processes, as joblib counts them: -1 is one for each core.

    Yields
    ------
    ReadPicture or BadPicture
        One for each file.
    """
    from joblib import effective_n_jobs

    if n_jobs == 0:
        raise InputError("n_jobs is 0; it is a number of processes, or -1 for all cores")
    named = [(name, os.fspath(path)) for name, path in files]  # texts are sent much faster than paths
    batches = [named[start : start + _BATCH] for start in range(0, len(named), _BATCH)]
    n_processes = 1 if len(files) <= _FEW else min(effective_n_jobs(n_jobs), len(batches))
    if n_processes == 1:
        for batch in batches:
            yield from read_batch(batch, extractor)
        return
    with closing(call_in_processes(read_batch, batches, extractor, n_processes=n_processes)) as results:
        for read in results:
            yield from read


def read_one(path: str | os.PathLike[str], extractor: Extractor) -> ReadPicture:
    """Read a single file, or raise an :class:`UnreadablePictureError` that names it."""
    (read,) = read_batch([(os.fspath(path), os.fspath(path))], extractor)
    if isinstance(read, BadPicture):
        raise UnreadablePictureError(f"{read.name} {read.reason}")
    return read


def read_batch(files: Sequence[tuple[str, str]], extractor: Extractor) -> list[ReadPicture | BadPicture]:
    """Read some files in this process."""
    read: list[ReadPicture | BadPicture] = []
    waiting: list[_Decoded | BadPicture] = []
    pixels = 0
    with warnings.catch_warnings():
        # What is wrong with a picture is said by its BadPicture; the rest is not worth a word.
        warnings.filterwarnings("ignore", module=r"PIL\.")
        for name, path in files:
            decoded = _decode_file(name, path, extractor.side)
            waiting.append(decoded)
            pixels += decoded.picture.width * decoded.picture.height if isinstance(decoded, _Decoded) else 0
            if pixels > _PIXELS_AT_ONCE:
                read += _with_features(waiting, extractor)
                waiting, pixels = [], 0
        return read + _with_features(waiting, extractor)


def _decode_file(name: str, path: str, side: int) -> _Decoded | BadPicture:
    try:
        data, mtime_ns = _content(path)
        decoded = decode_picture(data, side=max(side, THUMBNAIL_SIDE))
    except UnreadablePictureError as error:
        return BadPicture(name, str(error))
    digest = hashlib.sha256(data).hexdigest()
    return _Decoded(
        name,
        digest,
        len(data),
        mtime_ns,
        decoded.width,
        decoded.height,
        decoded.picture,
        thumbnail(decoded.picture),
    )


def _content(path: str) -> tuple[bytes, int]:
    """Content of a file and the time of its last change."""
    try:
        _check_status(os.stat(path))  # before it is opened: to open a device may do something
        with open(path, "rb", buffering=0, opener=_open_without_waiting) as stream:
            status = os.fstat(stream.fileno())
            _check_status(status)
            return stream.readall(), status.st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        raise UnreadablePictureError("vanished before it was read") from None
    except MemoryError:
        raise UnreadablePictureError("does not fit into memory") from None
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise UnreadablePictureError(f"cannot be read: {said}") from None


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file even if it has become a pipe that nobody writes to."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_status(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnreadablePictureError("is not a regular file")
    if status.st_size > MOST_BYTES:
        raise UnreadablePictureError(
            f"has {status.st_size // 10**6} million bytes, more than {MOST_BYTES // 10**6} million"
        )


def _with_features(waiting: Sequence[_Decoded | BadPicture], extractor: Extractor) -> list[ReadPicture | BadPicture]:
    outcomes = iter(_features([item.picture for item in waiting if isinstance(item, _Decoded)], extractor))
    return [item if isinstance(item, BadPicture) else _finished(item, next(outcomes)) for item in waiting]


def _finished(item: _Decoded, outcome: NDArray[np.float32] | str) -> ReadPicture | BadPicture:
    return BadPicture(item.name, outcome) if isinstance(outcome, str) else item.with_features(outcome)


def _features(pictures: Sequence[Image], extractor: Extractor) -> list[NDArray[np.float32] | str]:
    """Features (dim,) of each picture, or the reason why there are none."""
    if not pictures:
        return []
    try:
        values = np.asarray(extractor.extract(pictures), dtype=np.float32)
    except Exception as error:  # extractors come from anywhere
        if isinstance(error, InputError) and not isinstance(error, UnreadablePictureError):
            raise  # it is about the extractor, not about a picture
        if len(pictures) == 1:
            return [f"gives no features: {error or type(error).__name__}"]
        return [outcome for picture in pictures for outcome in _features([picture], extractor)]
    if values.shape != (len(pictures), extractor.dim):
        raise InputError(
            f"the features {extractor.name} are of shape {values.shape} instead of {(len(pictures), extractor.dim)}"
        )
    return [row if np.isfinite(row).all() else "gives features that are not finite numbers" for row in values]
