"""Asking a collection: the grade of a picture, and the pictures that are most like it."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from ordrank._types import Answer
from ordrank.collection.answering import Answers, Query, Wanted
from ordrank.collection.model_file import Model
from ordrank.collection.records import Header, Row
from ordrank.collection.store import Store, read_store
from ordrank.collection.training import model_of
from ordrank.errors import CollectionError, InputError
from ordrank.features.reading import read_one
from ordrank.features.registry import find_extractor


def ask(
    collection: Path,
    queries: Sequence[str],
    *,
    k: int = 10,
    within_grade: bool = False,
    lowest: str | None = None,
    highest: str | None = None,
) -> list[Answer]:
    """Grade pictures and rank the collection for each.

    Parameters
    ----------
    collection : Path
    queries : sequence of str
        Names of pictures in the collection, or picture files.
    k : int
        How many pictures to rank.
    within_grade : bool
        Only pictures of the query's estimated grade.
    lowest, highest : str, optional
        Only pictures with grades in between, both included.
    """
    with read_store(collection) as store:
        model = model_of(store)
        bounds = [_grade(store.header, text) for text in (lowest, highest)]
        wanted = Wanted(
            k,
            within_grade,
            -np.inf if bounds[0] is None else bounds[0],
            np.inf if bounds[1] is None else bounds[1],
        )
        asked = [_query(store, model, text) for text in queries]
        answers = Answers(store, model)
        return [answers.answer(query, wanted) for query in asked]


def _query(store: Store, model: Model, text: str) -> Query:
    """Find a picture of the collection by its name, else read it from its file."""
    row = store.find(text)
    if row is not None:
        return _known(store, model, text, row)
    if not Path(text).exists():
        raise InputError(f"{text} is neither a file nor the name of a picture in {store.directory}{_hint(store, text)}")
    extractor = find_extractor(store.header.extractor)
    if extractor.fingerprint != store.header.fingerprint:
        raise CollectionError(
            f"{store.directory} holds features of {store.header.fingerprint}, but {extractor.name} now gives those of "
            f"{extractor.fingerprint}; pictures that are not in the collection cannot be compared with it"
        )
    picture = read_one(text, extractor)
    row = store.find_content(picture.sha256)
    if row is not None:
        return _known(store, model, text, row)
    return Query(text, model.place(picture.features[None])[0], picture.thumbnail)


def _known(store: Store, model: Model, text: str, row: Row) -> Query:
    (thumbnail,) = store.thumbnails([row.id])
    return Query(text, model.place(store.features_of(row.id)[None])[0], thumbnail, row.id)


def _hint(store: Store, text: str) -> str:
    meant = get_close_matches(text, store.stamps(), n=1)
    return f"; did you mean {meant[0]}?" if meant else ""


def _grade(header: Header, text: str | None) -> float | None:
    """Return a grade as a number, from what a user writes."""
    if text is None:
        return None
    if header.order is not None:
        if text not in header.order:
            raise InputError(f"{text} is no grade of this collection; its grades are {', '.join(header.order)}")
        return float(header.order.index(text))
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{text} is no grade: the grades of this collection are numbers") from None
