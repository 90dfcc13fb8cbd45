"""Atomic writes: a file is whole or it is not there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a directory, so that none of them is ever half-written."""
    for name, content in files.items():
        with replace_when_complete(directory / name) as temporary:
            temporary.write_bytes(content)


@contextmanager
def replace_when_complete(file: Path) -> Iterator[Path]:
    """Yield an unused hidden name in the same directory; what the block writes there is synced and then renamed."""
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        temporary.replace(file)
        sync_directory(file.parent)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(file)) from None  # the temporary name means nothing
    finally:
        temporary.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Sync the names of files, so that a renamed file keeps its new name after a loss of power."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows cannot open directories
        return
    with suppress(OSError):  # some file systems cannot sync them; the file has its name already
        descriptor = os.open(directory, os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
