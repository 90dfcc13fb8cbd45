"""From pictures that were read to rows of the database."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, MutableSet, Sequence
from pathlib import Path

from ordrank.collection import change_log
from ordrank.collection.database import as_text, encode_vector
from ordrank.collection.ingest.reading import ReadPicture
from ordrank.collection.store import Store, put_embedding
from ordrank.collection.types import BadPicture, EmbeddedBatch

# A picture whose file holds other content by now is marked, so that its old content can be added under another name.
_MARK_OUTDATED = "UPDATE pictures SET sha256 = 'outdated ' || sha256 WHERE id = ?"


def add_rows(
    store: Store,
    pictures: Sequence[ReadPicture],
    paths: Mapping[str, Path],
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
        Whether a picture may replace one of the same name whose file is elsewhere and still exists.

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
            reason = None if replace_same_name else _name_conflict(store, picture, path)
            reason = reason or _duplicate(store, cursor, picture, grades, outdated)
            if reason is not None:
                bad.append(BadPicture(picture.name, reason))
                continue
            row = _insert(store, cursor, picture, path, grades.get(picture.name))
            if embedded is not None:
                put_embedding(cursor, row, embedded.vectors[i], float(embedded.estimates[i]))
    return bad


def _name_conflict(store: Store, picture: ReadPicture, path: str) -> str | None:
    """Return why a picture cannot have its name: another one has it, whose file is elsewhere and still exists."""
    known = store.find(picture.name)
    if known is None or known.path == path or known.sha256 == picture.sha256 or not os.path.exists(known.path):
        return None
    return f"has the name of another picture of the collection, {known.path}; rename one of them"


def _duplicate(
    store: Store,
    cursor: sqlite3.Cursor,
    picture: ReadPicture,
    grades: Mapping[str, float],
    outdated: MutableSet[str],
) -> str | None:
    """Return why a picture is not added: another one has the same content, and its file still exists."""
    same_content = store.find_content(picture.sha256)
    if same_content is None or same_content.name == picture.name:
        return None
    gone, is_known = not os.path.exists(same_content.path), store.find(picture.name) is not None
    if same_content.name in outdated or (gone and is_known):
        cursor.execute(_MARK_OUTDATED, (same_content.id,))
        return None
    if gone:  # it was renamed
        cursor.execute("UPDATE pictures SET name = ? WHERE id = ?", (picture.name, same_content.id))
        return None
    cursor.execute("DELETE FROM pictures WHERE name = ?", (picture.name,))  # its file no longer holds that picture
    change_log.forget_removed(cursor)
    given, held = grades.get(picture.name), grades.get(same_content.name, same_content.grade)
    if given is not None and held is None:
        cursor.execute("UPDATE pictures SET grade = ?, estimate = NULL WHERE id = ?", (given, same_content.id))
    elif given is not None and given != held:
        shown = f"{store.header.format_grade(given)} instead of {store.header.format_grade(held or 0.0)}"
        return f"has the same content as {same_content.name!r} but another grade, {shown}; give both the same"
    return f"has the same content as {same_content.name!r} and is kept once"


def _insert(store: Store, cursor: sqlite3.Cursor, picture: ReadPicture, path: str, grade: float | None) -> int:
    known = store.find(picture.name)
    if known is not None:
        cursor.execute("DELETE FROM pictures WHERE id = ?", (known.id,))
        grade = known.grade if grade is None else grade
    columns = (picture.sha256, picture.size, picture.mtime_ns, picture.width, picture.height)
    cursor.execute(
        "INSERT INTO pictures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        (None if known is None else known.id, picture.name, path, *columns, grade),
    )
    row = cursor.lastrowid
    assert row is not None
    cursor.execute("INSERT INTO features VALUES (?, ?)", (row, encode_vector(picture.features)))
    cursor.execute("INSERT INTO thumbnails VALUES (?, ?)", (row, picture.thumbnail))
    return row
