"""Changing and undoing single grades, as people correct them one by one."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from ordrank.collection.live import LiveSnapshot
from ordrank.collection.snapshot import unknown_picture
from ordrank.collection.store import Store, write_store
from ordrank.collection.types import AcquireLock, Picture
from ordrank.errors import InputError

_TIMEOUT = 1.0  # seconds that a change waits for another writer


class GradeWriter:
    """Changes grades one at a time; safe to use from several threads.

    Parameters
    ----------
    directory : Path
    live : LiveSnapshot
        Refreshed with each change.
    write_lock : callable
        Returns a lock that other processes hold while they change a grade.
    """

    def __init__(self, directory: Path, live: LiveSnapshot, write_lock: AcquireLock) -> None:
        self._directory, self._live = directory, live
        self._write_lock, self._writing = write_lock, Lock()  # to wait in turn, instead of polling the lock of the file

    def set(self, picture: str | int, grade: str | float | None) -> Picture:
        """Set the grade of a picture, by name or id, or withdraw it (None)."""
        snapshot = self._live.current()  # fail before waiting for other writers
        value = None if grade is None else snapshot.parse_grade(str(grade))
        picture = int(snapshot.images.ids[snapshot.row_of(picture)])
        with self._write_lock(), self._writing, write_store(self._directory, timeout=_TIMEOUT) as store:
            return self._write(store, picture, value)

    def undo(self) -> Picture | None:
        """Undo the last change that has not been undone; return None if there is none."""
        with self._write_lock(), self._writing, write_store(self._directory, timeout=_TIMEOUT) as store:
            change = store.last_change()
            if change is None:
                return None
            (row,) = store.rows([change.id])
            if row.grade != change.grade:
                raise InputError(f"the grade of {row.name} has changed since in another way; nothing was undone")
            return self._write(store, change.id, change.before, undoes=change.serial)

    def _write(self, store: Store, picture: int, value: float | None, undoes: int | None = None) -> Picture:
        self._live.refresh()  # nobody else can write from here on
        if not store.set_grade(picture, value, undoes):
            raise unknown_picture(picture)
        self._live.refresh()
        snapshot = self._live.current()
        return snapshot.picture(snapshot.row_of(picture))
