"""Find the picture files of a folder by their suffixes, without opening them."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ordrank.collection.types import BadPicture
from ordrank.errors import InputError

_SUFFIXES = "jpg, jpeg, jpe, jfif, png, gif, bmp, tif, tiff, webp, ppm, pgm, pbm, pnm, avif, heic, heif, hif, jp2"
_DOTTED_SUFFIXES = frozenset(f".{suffix}" for suffix in _SUFFIXES.split(", "))
_EXPECTED = f"Pictures have one of the suffixes {_SUFFIXES}."
_INVALID_NAME = "has a name that is not valid UTF-8: rename it"
_MAX_NAMES = 100  # of one folder; with links between n folders the number of paths grows like n!
_MAX_SHOWN = 5

_Inode: TypeAlias = tuple[int, int]  # device and inode identify a folder under any of its names


@dataclass(frozen=True)
class FoundPicture:
    """A file with the suffix of a picture."""

    name: str  # path relative to the folder that was searched, with slashes
    path: Path


@dataclass(frozen=True)
class Listing:
    """Content of a folder, sorted by name, so that it does not depend on the file system."""

    files: tuple[FoundPicture, ...]
    bad: tuple[BadPicture, ...]  # files and folders that cannot be used
    ignored: int  # number of files without the suffix of a picture

    @property
    def names(self) -> set[str]:
        """Names of all files, whether they can be used or not."""
        return {found.name for found in self.files} | {bad.name for bad in self.bad}


def list_pictures(path: Path) -> Listing:
    """Return the pictures of a folder and its subfolders.

    Links are followed, except to a folder that contains them; a folder with two names is listed under both. Hidden
    files and folders, whose names begin with a dot, are skipped.

    Parameters
    ----------
    path : Path
        A folder, or a single picture.

    Raises
    ------
    InputError
        If there is no such folder or file, or no picture in it.
    """
    mode = _mode(path)
    if stat.S_ISREG(mode):
        return Listing((_single_picture(path),), (), 0)
    if not stat.S_ISDIR(mode):
        raise InputError(
            f"{_printable(path)} is neither a folder nor a regular file; give the folder that the pictures are in"
        )
    listing = _FolderWalk(path).run()
    if not listing.files:
        raise InputError(_no_picture_message(path, listing))
    return listing


def _mode(path: Path) -> int:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        raise InputError(
            f"there is no folder or file {_printable(path)}; give the folder that the pictures are in"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{_printable(path)} cannot be reached: {reason}; give another folder") from None


def _single_picture(path: Path) -> FoundPicture:
    if not _has_picture_suffix(path.name):
        raise InputError(f"{_printable(path)} is not named like a picture. {_EXPECTED}")
    if not _is_valid_text(path.name):
        raise InputError(f"{_printable(path)} {_INVALID_NAME}")
    return FoundPicture(path.name, path)


def _no_picture_message(path: Path, listing: Listing) -> str:
    sentences = [f"{_printable(path)} holds no picture that can be used (other files: {listing.ignored}). {_EXPECTED}"]
    sentences += [f"{bad.name} {bad.reason}." for bad in listing.bad[:_MAX_SHOWN]]
    if len(listing.bad) > _MAX_SHOWN:
        sentences.append(f"And so on: {len(listing.bad)} in all.")
    return " ".join(sentences)


@dataclass(frozen=True)
class _Folder:
    path: Path
    name: str  # empty for the folder that is searched
    ancestors: frozenset[_Inode]  # itself and the folders it is in, by its real path and by the links followed


class _FolderWalk:
    """A breadth-first walk; file systems allow folders deeper than Python can recurse."""

    def __init__(self, root: Path) -> None:
        self._pending = deque([_Folder(root, "", _real_ancestors(root))])
        self._name_counts: Counter[_Inode] = Counter()
        self._files: list[FoundPicture] = []
        self._bad: list[BadPicture] = []
        self._ignored = 0

    def run(self) -> Listing:
        while self._pending:
            folder = self._pending.popleft()
            for entry in self._visible_entries(folder):
                self._add(entry, f"{folder.name}/{entry.name}" if folder.name else entry.name, folder)
        self._files.sort(key=lambda file: file.name)
        self._bad.sort(key=lambda bad: bad.name)
        return Listing(tuple(self._files), tuple(self._bad), self._ignored)

    def _visible_entries(self, folder: _Folder) -> list[os.DirEntry[str]]:
        """Return the entries sorted, so that the names counted first do not depend on the file system."""
        try:
            with os.scandir(folder.path) as entries:
                return sorted((e for e in entries if not e.name.startswith(".")), key=lambda entry: entry.name)
        except OSError as error:
            reason = f"cannot be entered: {error.strerror}"
            if not folder.name:
                raise InputError(f"{_printable(folder.path)} {reason}; change its permissions") from None
            self._add_bad(folder.name, reason)
            return []

    def _add(self, entry: os.DirEntry[str], name: str, folder: _Folder) -> None:
        try:
            if entry.is_dir():
                self._add_folder(entry, name, folder)
            elif not _has_picture_suffix(name):
                self._ignored += 1
            elif not _is_valid_text(name):
                self._add_bad(name, _INVALID_NAME)
            elif entry.is_file():
                self._files.append(FoundPicture(name, folder.path / entry.name))
            elif entry.is_symlink() and not os.path.exists(entry.path):
                self._add_bad(name, "is a link to nothing")
            else:
                self._add_bad(name, "is not a regular file")
        except OSError as error:
            if error.errno != errno.ELOOP:
                self._add_bad(name, f"cannot be reached: {error.strerror}")
            elif _has_picture_suffix(name):
                self._add_bad(name, "is a link that leads back to itself")
            else:
                self._ignored += 1

    def _add_folder(self, entry: os.DirEntry[str], name: str, parent: _Folder) -> None:
        path = parent.path / entry.name
        inode = _inode(path)
        if inode in parent.ancestors:
            self._add_bad(name, "is a link that leads back to a folder above it")
        elif not _is_valid_text(name):
            self._add_bad(name, _INVALID_NAME)
        elif self._name_counts[inode] == _MAX_NAMES:
            self._add_bad(name, f"is a folder that links already gave {_MAX_NAMES} other names")
        else:
            self._name_counts[inode] += 1
            new = _real_ancestors(path) if entry.is_symlink() else frozenset([inode])
            self._pending.append(_Folder(path, name, parent.ancestors | new))

    def _add_bad(self, name: str, reason: str) -> None:
        self._bad.append(BadPicture(_printable(name), reason))


def _inode(path: Path) -> _Inode:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _real_ancestors(path: Path) -> frozenset[_Inode]:
    """Return a folder and all that contain it, so that a link upwards is recognised before the whole disk is listed."""
    real = Path(os.path.realpath(path))
    inodes = set()
    for folder in (real, *real.parents):
        with suppress(OSError):  # a folder without permission cannot be entered either
            inodes.add(_inode(folder))
    return frozenset(inodes)


def _has_picture_suffix(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in _DOTTED_SUFFIXES


def _is_valid_text(name: str) -> bool:
    """Whether a name can be stored and printed: Python decodes bytes that are not UTF-8 to lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable(name: str | Path) -> str:
    return str(name) if _is_valid_text(str(name)) else os.fsencode(name).decode("utf-8", "backslashreplace")
