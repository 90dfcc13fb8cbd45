"""Verification of everything that a collection has on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ordrank._format import pluralize
from ordrank._protocols import Progress
from ordrank.collection import checksums
from ordrank.collection.access import write_store
from ordrank.collection.check_report import CheckReport, Damage, OriginalFiles
from ordrank.collection.checksums import Table
from ordrank.collection.database import (
    DATABASE,
    check_exists,
    connect_to_read,
    is_own_path,
    path_exists,
    translate_errors,
)
from ordrank.collection.model_file import current_model
from ordrank.collection.network_file import check_network, is_network_name
from ordrank.collection.originals import read_unchanged
from ordrank.collection.store import Store
from ordrank.collection.types import ImageRow
from ordrank.errors import CollectionError, UnreadablePictureError

_COPY = f"restore {DATABASE} from a copy; nothing else holds this"
_TRAIN = "train the model again with `ordrank fit --out COLLECTION`"
_ADD_AGAIN = "remove these pictures with `ordrank remove` and add their files again, with their grades"
_ONLY_FILE = "restore it from a copy: it is the only file of its picture"
_REPAIR = "rebuild it with `ordrank check --repair COLLECTION`"
_REMEDIES = {"embeddings": _TRAIN, "features": _ADD_AGAIN, "thumbnails": _ADD_AGAIN}
_MAX_PROBLEMS = 20  # of the structure of the database
_STAGE = "checking the rows of the database"


def check_collection(directory: Path, progress: Progress, *, repair: bool) -> CheckReport:
    """Verify a collection, see :meth:`Collection.check`."""
    check_exists(directory)
    if repair:
        with write_store(directory) as store:
            store.rebuild_indexes()
    with translate_errors(directory), closing(connect_to_read(directory / DATABASE)[0]) as connection:
        connection.execute("BEGIN")
        has_checksums, known = checksums.has_checksums(connection), checksums.tables(connection)
        progress("checking the structure of the database", 0, 0)
        damage = list(_structure(connection))
        n_rows = sum(connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0] for table in known)
        if has_checksums:
            progress(_STAGE, 0, 0)
            damage += _rows(connection, known, n_rows, progress)
        files, found = _files(directory, connection, progress)
        return CheckReport(n_rows, has_checksums, (*damage, *found), files)


def _structure(connection: sqlite3.Connection) -> Iterator[Damage]:
    """Yield what is wrong with pages, indexes and references, and missing rows."""
    for (problem,) in connection.execute(f"PRAGMA integrity_check({_MAX_PROBLEMS})"):
        if problem != "ok":
            yield Damage(f"{DATABASE}: {problem}", _REPAIR if " index " in problem else _COPY)
    for table, row, *_ in connection.execute("PRAGMA foreign_key_check").fetchmany(_MAX_PROBLEMS):
        yield Damage(f"{DATABASE}: row {row} of {table} is of a picture that does not exist", _COPY)
    try:
        checksums.check_counts(connection)
    except sqlite3.DatabaseError as error:
        if str(error) != checksums.RAISED:  # else a row of the counters is damaged, and reported as such
            yield Damage(f"{DATABASE}: {error}", _COPY)


def _rows(connection: sqlite3.Connection, known: list[Table], n_rows: int, progress: Progress) -> Iterator[Damage]:
    """Yield the tables with rows that do not match their checksums."""
    done = 0
    for table in known:
        keys = []
        for key, is_intact in checksums.verify(connection, table):
            done += 1
            if not is_intact:
                keys.append(key)
            if done % 1000 == 0 or done == n_rows:
                progress(_STAGE, done, n_rows)
        if keys:
            shown = ", ".join("/".join(map(str, key)) for key in keys[:_MAX_PROBLEMS])
            more = f" and {len(keys) - _MAX_PROBLEMS} more" if len(keys) > _MAX_PROBLEMS else ""
            what = f"{DATABASE}: {pluralize(len(keys), 'row')} of {table.name} ({', '.join(table.key)} {shown}{more})"
            yield Damage(what, _REMEDIES.get(table.name, _COPY))


def _files(
    directory: Path, connection: sqlite3.Connection, progress: Progress
) -> tuple[OriginalFiles | None, list[Damage]]:
    """Verify model, network and the files of pictures; these not if the rows that name them are damaged."""
    damage = []
    try:
        store = Store(directory, connection)
        rows = store.rows()
    except (sqlite3.DatabaseError, UnicodeDecodeError):  # reported already
        return None, []
    try:
        if store.header.model is not None:
            current_model(directory, store.header)
        if is_network_name(store.header.extractor):
            check_network(directory, store.header.extractor)
    except CollectionError as error:  # says what to do
        what, _, remedy = str(error).partition("; ")
        damage.append(Damage(what, remedy))
    counts, stage = {"unchanged": 0, "changed": 0, "missing": 0}, "checking the files of the pictures"
    progress(stage, 0, 0)
    for done, row in enumerate(rows, start=1):
        state = _state(directory, row)
        counts[state] += 1
        if state != "unchanged" and is_own_path(row.path):
            damage.append(Damage(f"{row.path} is {state}", _ONLY_FILE))
        progress(stage, done, len(rows))
    return OriginalFiles(**counts), damage


def _state(directory: Path, row: ImageRow) -> str:
    if not path_exists(directory, row.path):
        return "missing"
    try:
        read_unchanged(directory, row)
    except UnreadablePictureError:
        return "changed"
    return "unchanged"
