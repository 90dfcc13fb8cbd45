"""The pictures of a folder, found by their suffixes; none of them is opened here."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ordrank._types import BadPicture
from ordrank.errors import InputError

_SUFFIXES = "jpg, jpeg, jpe, jfif, png, gif, bmp, tif, tiff, webp, ppm, pgm, pbm, pnm, avif, jp2"
_DOTTED = frozenset(f".{suffix}" for suffix in re.findall(r"\w+", _SUFFIXES))
_LOOKED_FOR = f"Looked for are the suffixes {_SUFFIXES}."
_LEADS_BACK = "is a link that leads back to a folder above it"
_LEADS_NOWHERE = "is a link to nothing"
_RENAME = "has a name that is not valid UTF-8: rename it"
# Links between neighbouring folders give each of them a number of names that grows faster than exponentially.
_MOST_NAMES = 100
_SHOWN = 5

_Identity: TypeAlias = tuple[int, int]  # device and inode: the same folder under whichever name


@dataclass(frozen=True)
class FoundPicture:
    """A file that should be a picture.

    Attributes
    ----------
    name : str
        Path from the folder that was searched, with slashes.
    path : Path
        Where it can be opened.
    """

    name: str
    path: Path


@dataclass(frozen=True)
class Listing:
    """What a folder holds.

    Attributes
    ----------
    files : tuple of FoundPicture
        Sorted by name, so that the order does not depend on the file system.
    bad : tuple of BadPicture
        What could not be followed, entered or named, sorted by name.
    ignored : int
        Number of files without a picture's suffix.
    """

    files: tuple[FoundPicture, ...]
    bad: tuple[BadPicture, ...]
    ignored: int


def list_pictures(place: Path) -> Listing:
    """Find the pictures of a folder and of all folders in it.

    Links are followed, and a folder that has two names is listed under both; a link that leads back to a folder
    above it is not followed. Hidden files and folders, whose names begin with a dot, are passed over.

    Parameters
    ----------
    place : Path
        A folder, or a single picture.
    """
    mode = _mode(place)
    if stat.S_ISREG(mode):
        return Listing((_single(place),), (), 0)
    if not stat.S_ISDIR(mode):
        raise InputError(f"{_shown(str(place))} is neither a folder nor a regular file; give the folder of pictures")
    listing = _Search(place).run()
    if not listing.files:
        raise InputError(_nothing(place, listing))
    return listing


def _mode(place: Path) -> int:
    try:
        return os.stat(place).st_mode
    except FileNotFoundError:
        shown = _shown(str(place))
        raise InputError(f"there is no folder or file {shown}; give the folder that the pictures are in") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{_shown(str(place))} cannot be reached: {reason}; give another folder") from None


def _single(place: Path) -> FoundPicture:
    if not _has_picture_suffix(place.name):
        raise InputError(f"{_shown(str(place))} is not named like a picture. {_LOOKED_FOR}")
    if not _is_text(place.name):
        raise InputError(f"{_shown(str(place))} {_RENAME}")
    return FoundPicture(place.name, place)


def _nothing(place: Path, listing: Listing) -> str:
    """Say why a folder yields no picture at all."""
    shown = _shown(str(place))
    sentences = [f"{shown} holds no picture that can be used (other files: {listing.ignored}). {_LOOKED_FOR}"]
    sentences += [f"{bad.name} {bad.reason}." for bad in listing.bad[:_SHOWN]]
    if len(listing.bad) > _SHOWN:
        sentences.append(f"And so on: {len(listing.bad)} in all.")
    return " ".join(sentences)


@dataclass(frozen=True)
class _Folder:
    path: Path
    name: str  # empty for the folder that is searched
    above: frozenset[_Identity]  # itself and every folder it is in, by its real path or by the links that led to it


class _Search:
    """A walk through folders, level by level: recursion would end at a depth that file systems allow."""

    def __init__(self, place: Path) -> None:
        self._pending = deque([_Folder(place, "", _real_path_identities(place))])
        self._names_of_folder: Counter[_Identity] = Counter()
        self._files: list[FoundPicture] = []
        self._bad: list[BadPicture] = []
        self._ignored = 0

    def run(self) -> Listing:
        while self._pending:
            folder = self._pending.popleft()
            for entry in self._visible_entries(folder):
                self._sort_in(entry, f"{folder.name}/{entry.name}" if folder.name else entry.name, folder)
        self._files.sort(key=lambda file: file.name)
        self._bad.sort(key=lambda bad: bad.name)
        return Listing(tuple(self._files), tuple(self._bad), self._ignored)

    def _visible_entries(self, folder: _Folder) -> list[os.DirEntry[str]]:
        """Sorted, because the order decides which names of a folder come first."""
        try:
            with os.scandir(folder.path) as entries:
                return sorted((e for e in entries if not e.name.startswith(".")), key=lambda entry: entry.name)
        except OSError as error:
            if not folder.name:
                shown = _shown(str(folder.path))
                raise InputError(f"{shown} cannot be entered: {error.strerror}; change its permissions") from None
            self._refuse(folder.name, f"cannot be entered: {error.strerror}")
            return []

    def _sort_in(self, entry: os.DirEntry[str], name: str, folder: _Folder) -> None:
        try:
            if entry.is_dir():
                self._enter(entry, name, folder)
            elif not _has_picture_suffix(name):
                self._ignored += 1
            elif not _is_text(name):
                self._refuse(name, _RENAME)
            elif entry.is_file():
                self._files.append(FoundPicture(name, folder.path / entry.name))
            else:
                self._refuse(name, _why_not_a_file(entry))
        except OSError as error:
            self._refuse_or_ignore(name, error)

    def _enter(self, entry: os.DirEntry[str], name: str, folder: _Folder) -> None:
        path = folder.path / entry.name
        identity = _identity(path)
        if identity in folder.above:
            self._refuse(name, _LEADS_BACK)
        elif not _is_text(name):
            self._refuse(name, _RENAME)
        elif self._names_of_folder[identity] == _MOST_NAMES:
            self._refuse(name, f"is a folder that links already gave {_MOST_NAMES} other names")
        else:
            self._names_of_folder[identity] += 1
            new = _real_path_identities(path) if entry.is_symlink() else frozenset([identity])
            self._pending.append(_Folder(path, name, folder.above | new))

    def _refuse(self, name: str, reason: str) -> None:
        self._bad.append(BadPicture(_shown(name), reason))

    def _refuse_or_ignore(self, name: str, error: OSError) -> None:
        """Deal with what the system does not tell the kind of."""
        if error.errno != errno.ELOOP:
            self._refuse(name, f"cannot be reached: {error.strerror}")
        elif _has_picture_suffix(name):
            self._refuse(name, "is a link that leads back to itself")
        else:
            self._ignored += 1


def _why_not_a_file(entry: os.DirEntry[str]) -> str:
    # Of a link, is_dir and is_file are false where it leads to nothing: only the target's absence tells.
    return _LEADS_NOWHERE if entry.is_symlink() and not os.path.exists(entry.path) else "is not a regular file"


def _identity(path: Path) -> _Identity:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _real_path_identities(path: Path) -> frozenset[_Identity]:
    """Of a folder and of all that contain it, so that a link upwards does not lead into the whole disk."""
    real = Path(os.path.realpath(path))
    identities = set()
    for folder in (real, *real.parents):
        with suppress(OSError):  # what cannot be looked at cannot be entered either
            identities.add(_identity(folder))
    return frozenset(identities)


def _has_picture_suffix(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in _DOTTED


def _is_text(name: str) -> bool:
    """Whether a name can be stored and printed: Python hands over bytes that are not UTF-8 as lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(name: str) -> str:
    return name if _is_text(name) else os.fsencode(name).decode("utf-8", "backslashreplace")
