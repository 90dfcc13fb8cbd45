"""From pictures that were read to rows of the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, MutableSet, Sequence
from pathlib import PurePath

from ordrank.collection import change_log, judgements, staged_features
from ordrank.collection.database import as_text, encode_vector, is_own_path, path_exists, put_embedding
from ordrank.collection.ingest.reading import ReadPicture
from ordrank.collection.store import Store
from ordrank.collection.types import BadPicture, EmbeddedBatch

# A picture whose file holds other content by now is marked, so that its old content can be added under another name,
# and with its id, so that the same content can be outdated more than once.
_MARK_OUTDATED = "UPDATE pictures SET sha256 = 'outdated ' || id || ' ' || sha256 WHERE id = ?"
_REPLACE = (
    "UPDATE pictures SET path = ?, sha256 = ?, size = ?, mtime_ns = ?, width = ?, height = ?, grade = ?, "
    "estimate = NULL, lowest = NULL, highest = NULL WHERE id = ?"
)
_MOVE = "UPDATE pictures SET path = ?, size = ?, mtime_ns = ?, grade = ? WHERE id = ?"
_INSERT = (
    "INSERT INTO pictures (id, name, path, sha256, size, mtime_ns, width, height, grade) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def add_rows(
    store: Store,
    pictures: Sequence[ReadPicture],
    paths: Mapping[str, PurePath],
    grades: Mapping[str, float],
    embedded: EmbeddedBatch | None = None,
    *,
    outdated: MutableSet[str] | None = None,
    replace_same_name: bool = True,
) -> list[BadPicture]:
    """Add pictures, all or none.

    A picture whose name is known replaces the old one. One whose content is known was renamed if the old file is gone,
    and is a duplicate otherwise.

    Parameters
    ----------
    store : Store
    pictures : sequence of ReadPicture
    paths, grades : mapping
        By name; a picture without a grade keeps the one it had.
    embedded : EmbeddedBatch, optional
        Their embeddings; None before there is a model.
    outdated : mutable set of str, optional
        Names that will be added again because their files have changed: their old content makes no other picture a
        duplicate. Names that are added are removed from it.
    replace_same_name : bool
        Whether a picture may replace one of the same name whose file is elsewhere and still exists; never one whose
        file is in the directory of the collection.

    Returns
    -------
    list of BadPicture
        Those that were not added: duplicates, whose grades go to the pictures they duplicate, and name conflicts.
    """
    bad = []
    outdated = set() if outdated is None else outdated
    with store.transaction() as cursor:
        for i, picture in enumerate(pictures):
            outdated.discard(picture.name)
            path = as_text(str(paths[picture.name]))
            problem = _name_conflict(store, picture, path, replace_same_name=replace_same_name)
            problem = problem or _duplicate(store, cursor, picture, grades, outdated)
            if problem is not None:
                bad.append(problem)
                continue
            row = _insert(store, cursor, picture, path, grades.get(picture.name))
            if embedded is not None and store.embedding(row) is None:
                put_embedding(cursor, row, embedded, i)
    return bad


def _name_conflict(store: Store, picture: ReadPicture, path: str, *, replace_same_name: bool) -> BadPicture | None:
    """Return why a picture cannot have its name: another one has it, whose file is elsewhere and still exists."""
    known = store.find(picture.name)
    if (
        known is None
        or known.path == path
        or known.sha256 == picture.sha256
        or (replace_same_name and not is_own_path(known.path))
        or not path_exists(store.directory, known.path)
    ):
        return None
    reason = f"has the name of another picture of the collection, {known.path}; rename one of them"
    return BadPicture(picture.name, reason)


def _duplicate(
    store: Store,
    cursor: sqlite3.Cursor,
    picture: ReadPicture,
    grades: Mapping[str, float],
    outdated: MutableSet[str],
) -> BadPicture | None:
    """Return why a picture is not added: another one has the same content, and its file still exists."""
    same_content = store.find_content(picture.sha256)
    if same_content is None or same_content.name == picture.name:
        return None
    gone, is_known = not path_exists(store.directory, same_content.path), store.find(picture.name) is not None
    if same_content.name in outdated or (gone and is_known):
        cursor.execute(_MARK_OUTDATED, (same_content.id,))
        return None
    if gone:  # it was renamed
        cursor.execute("UPDATE pictures SET name = ? WHERE id = ?", (picture.name, same_content.id))
        return None
    cursor.execute("DELETE FROM pictures WHERE name = ?", (picture.name,))  # its file no longer holds that picture
    given, held = grades.get(picture.name), grades.get(same_content.name, same_content.grade)
    same = f"has the same content as {same_content.name!r}"
    if given is not None and held is None:
        change_log.remember_grades(cursor, [(given, same_content.name)])
        cursor.execute("UPDATE pictures SET grade = ? WHERE id = ?", (given, same_content.id))
    elif given is not None and given != held:
        shown = f"{store.header.format_grade(given)} instead of {store.header.format_grade(held or 0.0)}"
        return BadPicture(picture.name, f"{same} but another grade, {shown}; give both the same")
    return BadPicture(picture.name, f"{same} and is kept once", duplicate_of=same_content.name)


def _insert(store: Store, cursor: sqlite3.Cursor, picture: ReadPicture, path: str, grade: float | None) -> int:
    """Add a picture, or replace the one of the same name, which keeps its id and, without a new one, its grade.

    If only the file has moved or its time has changed, the picture keeps its features: a fine-tuned network that was
    trained on its grade would give it others.
    """
    known = store.find(picture.name)
    columns = (path, picture.sha256, picture.size, picture.mtime_ns, picture.width, picture.height)
    if known is None:
        row = change_log.new_id(cursor)
        cursor.execute(_INSERT, (row, picture.name, *columns, grade))
    else:
        row, grade = known.id, known.grade if grade is None else grade
        if grade is not None:
            change_log.remember_grades(cursor, [(grade, picture.name)])
            judgements.forget_gradings(cursor, [(grade, picture.name)])
        if known.sha256 == picture.sha256:
            file = (path, picture.size, picture.mtime_ns)
            if is_own_path(known.path) and path_exists(store.directory, known.path):  # this is a copy of its file
                file = (known.path, known.size, known.mtime_ns)
            cursor.execute(_MOVE, (*file, grade, row))
            return row
        cursor.execute(_REPLACE, (*columns, grade, row))
        cursor.execute("DELETE FROM embeddings WHERE id = ?", (row,))
        judgements.forget_content(cursor, row)
        staged_features.forget(cursor, row)
    change_log.remember_added(cursor, row)
    cursor.execute("INSERT OR REPLACE INTO features (id, vector) VALUES (?, ?)", (row, encode_vector(picture.features)))
    cursor.execute("INSERT OR REPLACE INTO thumbnails (id, jpeg) VALUES (?, ?)", (row, picture.thumbnail))
    return row
