"""Atomic writes: a file is whole or it is not there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a directory, each under a temporary name first, so that none is ever half-written."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        temporary = temporary_name(directory / name)
        try:
            with temporary.open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(directory / name)
        finally:
            temporary.unlink(missing_ok=True)


def temporary_name(file: Path) -> Path:
    """Return an unused hidden name in the same directory."""
    return file.with_name(f".{file.name}.{secrets.token_hex(8)}")
