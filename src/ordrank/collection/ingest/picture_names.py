"""Match file names, as users write them in a table, with the names of pictures."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from functools import cached_property
from unicodedata import normalize

_N_CANDIDATES = 32  # compared on each side of a misspelt name in alphabetical order
_MAX_LENGTH = 300  # names beyond it have no suggestion


class PictureNames:
    """Names of pictures, and how else a table may write them.

    A name may have backslashes, ``./`` in front, other Unicode composition, or a folder in front. Absolute paths must
    all have the same folder in front, the one under which most of them are pictures; relative paths too, provided
    that none of them is the name of a picture. A bare file name may leave out the folder of the only picture that is
    called so. Matching paths by their last part would grade pictures of the same name in other folders.

    Parameters
    ----------
    known : collection of str
        Names of the pictures.
    written : iterable of str
        All names of the table.
    in_folder : collection of str, optional
        Those of the pictures that bare file names may stand for; all by default.
    """

    def __init__(
        self, known: Collection[str], written: Iterable[str], in_folder: Collection[str] | None = None
    ) -> None:
        self._known = frozenset(known)
        self._in_folder = self._known if in_folder is None else in_folder
        paths = dict.fromkeys(name if name in self._known else _normalized(name) for name in written)
        relative = [path for path in paths if not _is_absolute(path)]
        self._roots = [_common_root(filter(_is_absolute, paths), self._known)]
        if not any(path in self._known or normalize("NFC", path) in self._by_composed for path in relative):
            self._roots.append(_common_root(relative, self._known))

    def find(self, written: str) -> str | None:
        """Return the name of the picture, or None."""
        if written in self._known:
            return written
        path = _normalized(written)
        candidates = [path, *(path.removeprefix(root) for root in self._roots)]
        for name in candidates:
            if name in self._known:
                return name
        # macOS decomposes accents in file names.
        composed = (self._by_composed.get(normalize("NFC", name)) for name in candidates)
        same_file = self.with_file_name(written)
        return next(filter(None, composed), same_file[0] if len(same_file) == 1 else None)

    def with_file_name(self, written: str) -> list[str]:
        """Return the pictures in any folder that have this file name, sorted; none if it is not a bare file name."""
        return self._by_file_name.get(normalize("NFC", _normalized(written)), [])

    def suggest(self, written: str) -> str | None:
        """Return the most similar name, or None; only names that begin or end alike are compared, for speed."""
        key = _normalized(written).casefold()
        if len(key) > _MAX_LENGTH:
            return None
        near = _around(self._by_prefix, key) + _around(self._by_suffix, key[::-1])
        folded = {name.casefold(): name for name in near}
        same_file = [fold for fold in folded if posixpath.basename(fold) == posixpath.basename(key)]
        matches = get_close_matches(key, same_file or folded, n=1, cutoff=0.0 if same_file else 0.8)
        return folded[matches[0]] if matches else None

    @cached_property
    def _by_composed(self) -> dict[str, str]:
        return {normalize("NFC", name): name for name in sorted(self._known)}

    @cached_property
    def _by_file_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in sorted(self._in_folder):
            found.setdefault(normalize("NFC", posixpath.basename(name)), []).append(name)
        return found

    @cached_property
    def _by_prefix(self) -> list[tuple[str, str]]:
        return sorted((name.casefold(), name) for name in self._known)

    @cached_property
    def _by_suffix(self) -> list[tuple[str, str]]:
        return sorted((name.casefold()[::-1], name) for name in self._known)


def _around(ordered: list[tuple[str, str]], key: str) -> list[str]:
    at = bisect_left(ordered, (key, ""))
    return [name for _, name in ordered[max(0, at - _N_CANDIDATES) : at + _N_CANDIDATES]]


def _normalized(written: str) -> str:
    return posixpath.normpath(written.strip().replace("\\", "/"))


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or re.match("[A-Za-z]:/", path) is not None


def _common_root(paths: Iterable[str], known: frozenset[str]) -> str:
    """Return the folder under which most paths are pictures, the shortest in case of a tie."""
    counts: Counter[str] = Counter()
    for path in paths:
        at = path.find("/") + 1
        while at:
            counts[path[:at]] += path[at:] in known
            at = path.find("/", at) + 1
    return min(counts, key=lambda root: (-counts[root], len(root)), default="")
