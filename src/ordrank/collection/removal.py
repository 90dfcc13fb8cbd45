"""Removing pictures by name or by pattern."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ordrank.collection.access import write_store
from ordrank.collection.added_files import delete_files, own_files
from ordrank.collection.reports import RemovalReport
from ordrank.collection.snapshot import unknown_picture
from ordrank.collection.store import Store
from ordrank.errors import InputError

_WILDCARDS = "*?["


# Seconds to wait for another writer, as one that adds a picture.
_TIMEOUT = 2.0


def remove_pictures(directory: Path, pictures: Sequence[str | int]) -> RemovalReport:
    """Remove pictures, all that are named or none; see :meth:`Collection.remove`."""
    with write_store(directory, timeout=_TIMEOUT) as store:
        store.check_indexes()
        present = store.named_grades()
        unknown = [picture for picture in pictures if isinstance(picture, int) and picture not in present]
        if unknown:
            raise unknown_picture(unknown[0])
        patterns = [picture for picture in pictures if isinstance(picture, str)]
        numbers = (picture for picture in pictures if isinstance(picture, int))
        names = list(dict.fromkeys([*_matching(store, patterns), *(present[number][0] for number in numbers)]))
        rows = [row for row in map(store.find, names) if row is not None]
        files = own_files(directory, rows)
        store.remove(names)
        delete_files(files)
        return RemovalReport(removed=len(names), left=len(store))


def _matching(store: Store, patterns: Iterable[str]) -> list[str]:
    """Return the names of pictures that are given or match a pattern. Raise InputError if one matches none."""
    known, found, unknown = store.stamps().keys(), dict[str, None](), []
    for pattern in patterns:
        # Names may hold wildcards themselves: a name is taken as it is.
        names = [pattern] if pattern in known else [name for name in known if _matches(name, pattern)]
        found |= dict.fromkeys(names)
        if not names:
            unknown.append(pattern)
    if unknown:
        raise InputError(f"nothing was removed: {store.directory} has no picture {_described(store, unknown)}")
    return list(found)


def _matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern folder by folder, as in a shell: ``*`` does not match a slash."""
    parts, patterns = name.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _described(store: Store, unknown: Sequence[str]) -> str:
    first = unknown[0]
    if any(wildcard in first for wildcard in _WILDCARDS):
        return f"whose name matches {first!r}; * stands for a part of a name without a slash"
    similar = store.similar_name(first)
    return f"named {', '.join(map(repr, unknown))}" + (f"; did you mean {similar!r}?" if similar else "")
