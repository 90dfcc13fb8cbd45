"""Decoding of pictures of others in a process of its own, which is killed if one takes too long or too much memory.

Files of a few kilobytes can be made to keep a decoder busy for minutes, or to fill the memory before it knows their
size. The process gets a file and returns an upright picture, downsampled; what it holds is lost with it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock

from ordrank.collection.types import AcquireLock
from ordrank.errors import PictureTooLargeError, UnreadablePictureError
from ordrank.features.pictures import Decode, DecodedPicture, count_decoded_pixels, decode_picture

__all__ = ["Decode", "DecoderProcess", "make_decoder"]

DECODE_SECONDS = 10.0
DECODE_BYTES = 1_500_000_000  # a picture of MAX_PIXELS takes 400 MB, and its decoder may take as much again
LARGE_PIXELS = 25_000_000
_START_SECONDS = 60.0
_SIDE_BYTES = 8


def make_decoder(large_lock: AcquireLock) -> Decode:
    """Return a :class:`DecoderProcess` where the system can limit its memory, else a decoder without limits."""
    return DecoderProcess(large_lock) if os.name == "posix" else decode_picture


class DecoderProcess:
    """Decodes pictures like :func:`~ordrank.features.pictures.decode_picture`, one at a time, within limits.

    Parameters
    ----------
    large_lock : callable
        Returns the lock to hold while a picture that takes more than 100 MB is decoded.
    seconds : float
        For one picture.
    memory : int
        Bytes for one picture.
    """

    def __init__(
        self, large_lock: AcquireLock = nullcontext, *, seconds: float = DECODE_SECONDS, memory: int = DECODE_BYTES
    ) -> None:
        self._large_lock, self._seconds, self._memory = large_lock, seconds, memory
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._lock = Lock()

    def __call__(self, data: bytes, *, side: int) -> DecodedPicture:
        """Decode a picture; raise UnreadablePictureError with a message that continues the name of the file."""
        with self._lock:
            try:
                return self._decode(data, side)
            except (EOFError, OSError):  # killed by the system, or crashed
                self.close()
                raise UnreadablePictureError("cannot be decoded: its decoder ran out of memory or crashed") from None

    def close(self) -> None:
        """Kill the process; the next picture starts another."""
        if self._process is not None and self._connection is not None:
            self._connection.close()
            self._process.kill()
            self._process.wait()
        self._process = self._connection = None

    def _decode(self, data: bytes, side: int) -> DecodedPicture:
        connection = self._connection or self._start()
        connection.send_bytes(side.to_bytes(_SIDE_BYTES) + data)
        is_large = int.from_bytes(self._receive(connection)) > LARGE_PIXELS
        with self._large_lock() if is_large else nullcontext():
            connection.send_bytes(b"decode")
            answer = json.loads(self._receive(connection))
            if "error" in answer:
                raise (PictureTooLargeError if answer["too_large"] else UnreadablePictureError)(answer["error"])
            pixels = self._receive(connection)
        from PIL import Image

        picture = Image.frombytes("RGB", answer["size"], pixels)
        return DecodedPicture(picture, answer["width"], answer["height"])

    def _receive(self, connection: Connection) -> bytes:
        if not connection.poll(self._seconds):
            self.close()
            raise UnreadablePictureError(f"takes more than {self._seconds:g} seconds to decode")
        return connection.recv_bytes()

    def _start(self) -> Connection:
        own, other = socket.socketpair()
        with other:
            command = [sys.executable, "-m", __name__, str(self._memory)]
            # In a session of its own: Ctrl-C is for the server.
            self._process = subprocess.Popen(
                command, stdin=other.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
            )
        self._connection = Connection(own.detach())
        if not self._connection.poll(_START_SECONDS):
            raise EOFError
        self._connection.recv_bytes()
        return self._connection


def _serve(connection: Connection) -> None:
    """Decode pictures until the server ends."""
    connection.send_bytes(b"ready")
    while True:
        message = connection.recv_bytes()
        side, data = int.from_bytes(message[:_SIDE_BYTES]), message[_SIDE_BYTES:]
        connection.send_bytes(count_decoded_pixels(data, side=side).to_bytes(16))
        connection.recv_bytes()
        try:
            decoded = decode_picture(data, side=side)
        except UnreadablePictureError as error:
            too_large = isinstance(error, PictureTooLargeError)
            connection.send_bytes(json.dumps({"error": str(error), "too_large": too_large}).encode())
            continue
        picture = decoded.picture
        header = {"size": picture.size, "width": decoded.width, "height": decoded.height}
        connection.send_bytes(json.dumps(header).encode())
        connection.send_bytes(picture.tobytes())


def _limit_memory(size: int) -> None:
    """Limit the address space to what is in use, by numpy above all, and ``size`` bytes."""
    import resource  # not on every system

    with suppress(OSError):  # only Linux says what is in use, and enforces the limit
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + size
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    _limit_memory(int(sys.argv[1]))
    with suppress(EOFError, OSError):
        _serve(Connection(os.dup(0)))
