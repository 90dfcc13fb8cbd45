"""Damage in the write-ahead log that a killed process has left beside a database.

SQLite replays a log up to the first frame that does not match its checksum. That is right where a process was killed
while it wrote; but where a disk has changed a byte, all changes from there on are lost without notice. How many frames
were committed is known from the index of the log, unless it is gone, and from what follows: a transaction only begins
when the one before is complete.

Formats: https://sqlite.org/fileformat2.html#walformat and https://sqlite.org/walformat.html
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from threading import Lock
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import CollectionError

_MAGIC = 0x377F0682  # one more where checksums are those of big-endian words
_HEADER, _INDEX_HEADER = 32, 48  # bytes
_FRAME_HEADER = 6  # words: page, size of the database at the end of a transaction, salts (2), checksum (2)
_PAGE_SIZES = [2**i for i in range(9, 17)]
_BLOCK_FRAMES = 256
_ZERO = np.zeros(2, dtype=np.uint32)
_checked: set[tuple[int, int]] = set()
_lock = Lock()


def check_log(database: Path) -> None:
    """Raise CollectionError if changes that were committed cannot be read from the log of a database.

    To be called before a connection; looks at the log before the first one of this process only. Later ones find a log
    that was replayed, and to close its index would release the locks that the process has on it.
    """
    log, index = (database.with_name(f"{database.name}-{ending}") for ending in ("wal", "shm"))
    with _lock:
        try:
            status = database.stat()
            if (status.st_dev, status.st_ino) in _checked:
                return
            before = _headers(log, index)
            is_damaged = _is_damaged(log, *before) and _headers(log, index) == before
        except OSError:  # SQLite says why
            return
        if is_damaged:  # and not begun anew by another process while it was read
            raise CollectionError(
                f"{log} is damaged, and the last changes are in it; restore all files of the collection from a copy, "
                "or delete this one, which loses these changes, and run `ordrank check`"
            )
        _checked.add((status.st_dev, status.st_ino))


def _headers(log: Path, index: Path) -> tuple[bytes, bytes]:
    """Return the headers of a log and of its index, empty where there is no such file."""
    return _start_of(log, _HEADER), _start_of(index, _INDEX_HEADER)


def _start_of(file: Path, size: int) -> bytes:
    if not file.is_file():
        return b""
    with file.open("rb") as opened:
        return opened.read(size)


def _is_damaged(log: Path, header: bytes, index: bytes) -> bool:
    """Return whether a log lacks a frame that was committed."""
    if not header:
        return False
    if not _is_header(header):
        return log.stat().st_size > _HEADER  # frames are only written after a header
    with log.open("rb") as opened:
        opened.seek(_HEADER)
        follows, ends = _read_frames(opened, header)
    n_valid = len(follows) if follows.all() else int(follows.argmin())
    # An invalid frame does no harm at the end, where it is of a transaction that was not completed.
    return n_valid < _count_committed(index, header) or bool((ends[n_valid:-1] & follows[n_valid + 1 :]).any())


def _is_header(header: bytes) -> bool:
    if len(header) < _HEADER:
        return False
    magic, _, page_size, _, _, _, *stored = np.frombuffer(header, ">u4").tolist()
    words = np.frombuffer(header[:-8], _byte_order(header))
    return magic & ~1 == _MAGIC and page_size in _PAGE_SIZES and _checksums(words[None], _ZERO)[0].tolist() == stored


def _byte_order(header: bytes) -> str:
    return ">u4" if header[3] & 1 else "<u4"


def _count_committed(index: bytes, header: bytes) -> int:
    """Return how many frames were committed to the log with a header; 0 if its index is that of another, or invalid."""
    if len(index) < _INDEX_HEADER or index[32:40] != header[16:24]:  # the salts
        return 0
    words = np.frombuffer(index, "=u4")
    return int(words[4]) if (_checksums(words[None, :-2], _ZERO)[0] == words[-2:]).all() else 0


def _read_frames(log: BinaryIO, header: bytes) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which frames match the checksum that continues that of the frame before, and which end a transaction."""
    _, _, page_size, _, *salts, _, _ = np.frombuffer(header, ">u4").tolist()
    width = _FRAME_HEADER + page_size // 4
    last = np.frombuffer(header[-8:], ">u4")[None]
    follows, ends = [np.empty(0, dtype=bool)], [np.empty(0, dtype=bool)]
    while len(block := log.read(_BLOCK_FRAMES * 4 * width)) >= 4 * width:
        frames = np.frombuffer(block[: len(block) // (4 * width) * 4 * width], _byte_order(header)).reshape(-1, width)
        _, size, *of_log, first, second = frames[:, :_FRAME_HEADER].view(">u4").T
        stored, is_current = np.stack([first, second], axis=1), (np.stack(of_log, axis=1) == salts).all(axis=1)
        words = np.hstack([frames[:, :2], frames[:, _FRAME_HEADER:]])
        follows.append(is_current & (_checksums(words, np.vstack([last, stored[:-1]])) == stored).all(axis=1))
        ends.append(size != 0)
        last = stored[-1:]
    return np.concatenate(follows), np.concatenate(ends)


def _checksums(words: NDArray[np.uint32], start: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the checksums (n, 2) of rows of words (n, k), each of which continues one of the checksums (n, 2) or (2,).

    SQLite adds s₀ += x + s₁ and s₁ += y + s₀ for every two words: without these, a Fibonacci sequence. So a word counts
    as many times as the Fibonacci number of its distance from the end, modulo 2³².
    """
    k = words.shape[1]
    fibonacci = _fibonacci(k + 2)
    weights = np.stack([fibonacci[:k], fibonacci[1 : k + 1]], axis=1)[::-1]
    of_start = np.array([fibonacci[k - 1 : k + 1], fibonacci[k : k + 2]])
    checksums: NDArray[np.uint32] = words.astype(np.uint32) @ weights + start.astype(np.uint32) @ of_start
    return checksums


@cache
def _fibonacci(n: int) -> NDArray[np.uint32]:
    """Return the first n Fibonacci numbers modulo 2³²."""
    numbers = [0, 1]
    while len(numbers) < n:
        numbers.append((numbers[-1] + numbers[-2]) % 2**32)
    return np.array(numbers, dtype=np.uint32)
