"""Opening the database of a collection: any number of readers, one writer, and graders beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ordrank.collection.database import (
    DATABASE,
    check_exists,
    check_is_free,
    connect_to_read,
    connect_to_write,
    create,
    delete_files,
    is_collection,
    translate_errors,
)
from ordrank.collection.store import Store
from ordrank.collection.types import Header
from ordrank.collection.writer_lock import writer_lock


def open_store(directory: Path) -> Store:
    """Open a collection for repeated reading; each statement sees the latest state."""
    check_exists(directory)
    return Store(directory, connect_to_read(directory / DATABASE)[0])


@contextmanager
def read_store(directory: Path) -> Iterator[Store]:
    """Open a collection for reading, in one consistent state whatever a writer does meanwhile."""
    check_exists(directory)
    with translate_errors(directory), closing(connect_to_read(directory / DATABASE)[0]) as connection:
        connection.execute("BEGIN")
        yield Store(directory, connection)


@contextmanager
def write_store(directory: Path, new: Header | None = None, *, timeout: float = 0.0) -> Iterator[Store]:
    """Open a collection for writing; there is one writer at a time.

    Parameters
    ----------
    directory : Path
    new : Header, optional
        Create a collection with these settings where there is none. It is deleted again if the block fails before a
        picture was added.
    timeout : float
        Seconds to wait for another writer.
    """
    if new is None:
        check_exists(directory)
    else:
        check_is_free(directory)
    is_new_directory = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    with translate_errors(directory), writer_lock(directory, timeout):
        is_empty = is_new = not is_collection(directory)
        try:
            if is_new and new is not None:
                create(directory, new)
            with closing(connect_to_write(directory)) as connection:
                store = Store(directory, connection)
                is_empty = False
                try:
                    yield store
                except BaseException:
                    is_empty = is_new and len(store) == 0
                    raise
        except BaseException:
            if is_empty:
                delete_files(directory, and_directory=is_new_directory)
            raise


def open_judgements(directory: Path, *, timeout: float) -> Store:
    """Open a collection to record grades and comparisons, also while another process imports pictures or trains.

    Such a process does not hold the database for long, but when it stores its results: ``timeout`` in seconds.
    """
    check_exists(directory)
    return Store(directory, connect_to_write(directory, timeout))
