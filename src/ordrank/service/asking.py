"""Asking a collection: the grade of a picture, and the pictures that are most like it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ordrank._types import Answer, Extractor
from ordrank.collection.answering import Answers, Query, Wanted, search_places
from ordrank.collection.model_file import Model
from ordrank.collection.records import Header, Row
from ordrank.collection.searching import Searchable
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
    scheduler: str | None = None,
    workers: int | None = None,
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
    scheduler, workers : str and int, optional
        Address of a Dask cluster whose workers hold and search the places, or number of workers of one on this
        machine. They must see the collection under the same path.
    """
    with read_store(collection) as store:
        model = model_of(store)
        wanted = wanted_pictures(store.header, k, within_grade=within_grade, lowest=lowest, highest=highest)
        asked = [_query(store, model, text) for text in queries]
        with _searched(store, model, scheduler, workers) as searched:
            answers = Answers(store, searched, model)
            return [answers.answer(query, wanted) for query in asked]


def embed(collection: Path, queries: Sequence[str]) -> NDArray[np.float32]:
    """Places (q, s + d) of pictures in the learned space, as :func:`~ordrank.service.export` writes them.

    Parameters
    ----------
    collection : Path
    queries : sequence of str
        Names of pictures in the collection, or picture files.
    """
    if not queries:
        raise InputError("there is no picture to embed; name at least one")
    with read_store(collection) as store:
        model = model_of(store)
        return np.stack([_query(store, model, text).place for text in queries])


@contextmanager
def _searched(store: Store, model: Model, scheduler: str | None, workers: int | None) -> Iterator[Searchable]:
    """Make the places of a collection ready to be searched: here, or on a cluster."""
    if scheduler is None and workers is None:
        yield search_places(store.places(), model)
        return
    from ordrank.distributed.pictures import connected
    from ordrank.distributed.searching import shard_collection

    with connected(scheduler, workers) as engine, engine.watched("search"):
        yield shard_collection(engine, store, model.n_order)


def _query(store: Store, model: Model, text: str) -> Query:
    """Read a picture from its file, else find it in the collection by its name."""
    row = None if Path(text).is_file() else store.find(text)
    if row is not None:
        return _known(store, model, text, row)
    if not Path(text).is_file():
        meant = store.similar_name(text)
        hint = f"did you mean {meant}?" if meant else "give picture files, or names that `ordrank export` lists"
        raise InputError(f"{text or repr(text)} is neither a picture file nor a name in {store.directory}; {hint}")
    picture = read_one(text, extractor_of(store.directory, store.header))
    row = store.find_content(picture.sha256)
    if row is not None:
        return _known(store, model, text, row)
    return Query(text, model.place(picture.features[None])[0], picture.thumbnail)


def _known(store: Store, model: Model, text: str, row: Row) -> Query:
    (thumbnail,), place = store.thumbnails([row.id]), store.place_of(row.id)
    if place is None:
        place = model.place(store.features_of(row.id)[None])[0]
    return Query(text, place, thumbnail, row.id)


def wanted_pictures(
    header: Header, k: int, *, within_grade: bool, lowest: str | None, highest: str | None, offset: int = 0
) -> Wanted:
    """Say which pictures may be answers, from what a user writes."""
    if k < 1:
        raise InputError(f"k must be at least 1; it is {k}")
    least = -np.inf if lowest is None else parse_grade(header, lowest)
    most = np.inf if highest is None else parse_grade(header, highest)
    if least > most:
        raise InputError(f"{lowest} is higher than {highest}: no grade lies from the one up to the other")
    return Wanted(k, within_grade, least, most, offset)


def parse_grade(header: Header, text: str) -> float:
    """Return a grade as a number, from what a user writes."""
    if header.order is not None:
        if text not in header.order:
            raise InputError(f"{text} is no grade of this collection; its grades are {', '.join(header.order)}")
        return float(header.order.index(text))
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise InputError(f"{text} is no grade: the grades of this collection are numbers")
    return value


def extractor_of(directory: Path, header: Header) -> Extractor:
    """Return what gives new pictures features that can be compared with those of the collection."""
    extractor = find_extractor(header.extractor)
    if extractor.fingerprint != header.fingerprint:
        raise CollectionError(
            f"{directory} holds features of {header.fingerprint}, but {extractor.name} now gives those of "
            f"{extractor.fingerprint}; pictures that are not in the collection cannot be compared with it"
        )
    return extractor
