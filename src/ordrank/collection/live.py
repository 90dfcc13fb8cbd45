"""The current snapshot of a collection, refreshed when another connection has changed the database."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from ordrank.collection import change_log
from ordrank.collection.access import open_store
from ordrank.collection.database import DATABASE, check_exists, connect_to_read, translate_errors
from ordrank.collection.snapshot import Snapshot, inode_of, take_snapshot
from ordrank.collection.store import Store
from ordrank.errors import CollectionError

# Seconds that a query waits for a newer snapshot: applying a grade change takes far less, reading all pictures more.
_REFRESH_TIMEOUT = 0.05


class LiveSnapshot:
    """Keeps the current snapshot, and connections for reading; safe to use from several threads.

    Parameters
    ----------
    directory : Path
    snapshot : Snapshot, optional
        A state that is in memory already.
    on_new_model : callable, optional
        Called with the name of a model once the snapshot holds it.

    Attributes
    ----------
    snapshot : Snapshot or None
        The last one that was read.
    """

    def __init__(
        self,
        directory: Path,
        snapshot: Snapshot | None = None,
        on_new_model: Callable[[str | None], object] | None = None,
    ) -> None:
        self._directory, self.snapshot, self._on_new_model = directory, snapshot, on_new_model
        self._refreshing = Lock()
        self._watcher: sqlite3.Connection | None = None
        self._inode = self._n_watchers = 0
        self._stamps: tuple[tuple[int, int], ...] | None = None  # of a database whose changes the watcher cannot see
        self._version: tuple[int, int] | None = None
        self._judged = 0  # comparisons and confirmations by then: a snapshot holds neither, and stays as it is
        self._idle: deque[tuple[int, Store]] = deque()

    def current(self, *pictures: int | str) -> Snapshot:
        """Return the latest snapshot; an older one while another thread takes long to read it.

        Pictures are ids or names that it has if the collection has them, also if they have just been added.
        """
        if self.snapshot is None:
            self.refresh()
        elif self._refreshing.acquire(timeout=_REFRESH_TIMEOUT):
            try:
                self._refresh()
            finally:
                self._refreshing.release()
        assert self.snapshot is not None
        if any(self.snapshot.find_row(picture) is None for picture in pictures):
            self.refresh()
        return self.snapshot

    def refresh(self) -> None:
        """Bring the snapshot up to date with everything that is committed now."""
        with self._refreshing:
            self._refresh()

    def close(self) -> None:
        """Close all files; the next use opens them again."""
        with self._refreshing:
            self._stop_watching()
        self._take_idle(None)

    @contextmanager
    def reading(self, *pictures: int) -> Iterator[Store]:
        """Yield a connection to read data of pictures, and keep it open for the next reader.

        If reading fails because one of them has just been removed, raise UnknownError.
        """
        inode, store = self._inode, None
        try:
            with translate_errors(self._directory):
                store = self._take_idle(inode)
                store = open_store(self._directory) if store is None else store  # an empty store is false
                yield store
        except CollectionError:
            self.refresh()
            for picture in pictures:
                self.current(picture).row_of(picture)
            raise
        finally:
            if store is not None:
                self._idle.append((inode, store))

    def _refresh(self) -> None:
        with translate_errors(self._directory):
            version = self._data_version()  # first: what is committed from here on changes it again
            if version == self._version and self.snapshot is not None:
                return
            previous = self.snapshot
            assert self._watcher is not None
            judged = change_log.counter(self._watcher, change_log.JUDGED)
            same_connection = self._version is not None and version[0] == self._version[0]
            changed = same_connection and judged == self._judged
            self.snapshot, self._judged = take_snapshot(self._directory, previous, changed=changed), judged
        if previous is not None and previous.header.fingerprint != self.snapshot.header.fingerprint:
            self._take_idle(None)  # they would read other features
        self._version = version
        model = self.snapshot.header.model
        if self._on_new_model is not None and previous is not None and model != previous.header.model:
            self._on_new_model(model)

    def _data_version(self) -> tuple[int, int]:
        """Return numbers that change when another connection has committed, or the file was replaced."""
        check_exists(self._directory)
        inode = inode_of(self._directory)
        if inode != self._inode or (self._stamps is not None and self._stamps != self._file_stamps()):
            self._stop_watching()
        if self._watcher is None:
            stamps = self._file_stamps()
            self._watcher, sees_changes = connect_to_read(self._directory / DATABASE)
            self._inode, self._stamps = inode, None if sees_changes else stamps
            self._n_watchers += 1  # data_version is relative to a connection
        return self._n_watchers, int(self._watcher.execute("PRAGMA data_version").fetchone()[0])

    def _file_stamps(self) -> tuple[tuple[int, int], ...]:
        """Return size and modification time of the database and, if there is one, of its write-ahead log."""
        files = (self._directory / DATABASE, self._directory / f"{DATABASE}-wal")
        return tuple(
            (status.st_size, status.st_mtime_ns) for status in (file.stat() for file in files if file.exists())
        )

    def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None

    def _take_idle(self, inode: int | None) -> Store | None:
        """Return an idle connection to the file with this inode; close idle ones to other files, with None all."""
        with suppress(IndexError):  # none is left; another thread may have taken the last one
            while True:
                opened, store = self._idle.popleft()
                if opened == inode:
                    return store
                store.close()
        return None
