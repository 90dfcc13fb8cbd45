"""The cache of this user: files that take time to make and can be made again."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ordrank._io import write_files

VARIABLE = "ORDRANK_CACHE"


def cache_directory() -> Path:
    """Return the directory that ``ORDRANK_CACHE`` names, else the customary one of the system."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    home = Path(os.path.expanduser("~"))
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "ordrank"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "ordrank" / "Cache"
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else home / ".cache") / "ordrank"


def cached(name: str, source: str, make: Callable[[], bytes]) -> bytes:
    """Return a file of the cache; make it if it is missing, damaged or from another source.

    Parameters
    ----------
    name : str
        File name. ``NAME.json`` beside it records the source and the SHA-256 of the content.
    source : str
        What the content is made from, such as a checksum.
    make : callable
        Return the content. Where the cache cannot be written, it is called every time.
    """
    directory = cache_directory()
    content = _read(directory, name, source)
    if content is None:
        content = make()
        record = {"source": source, "sha256": hashlib.sha256(content).hexdigest()}
        with suppress(OSError):  # no space, no permission: only the next use is slower
            write_files(directory, {name: content, f"{name}.json": json.dumps(record, indent=1).encode()})
    return content


def _read(directory: Path, name: str, source: str) -> bytes | None:
    """Return the content of a file if it is as recorded, else None."""
    try:
        record = json.loads((directory / f"{name}.json").read_bytes())
        content = (directory / name).read_bytes()
    except (OSError, ValueError):
        return None
    expected = {"source": source, "sha256": hashlib.sha256(content).hexdigest()}
    return content if record == expected else None
