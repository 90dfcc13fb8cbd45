"""Features of another extractor, collected beside the present ones until a model is trained on them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import Extractor
from ordrank.collection.database import STAGED_FEATURES, encode_vector, write_meta
from ordrank.collection.types import Header

if TYPE_CHECKING:
    from ordrank.collection.store import Store

_FINGERPRINT = "staged fingerprint"


def begin(store: Store, extractor: Extractor) -> set[int]:
    """Let a store read the features of another extractor, and return the ids of pictures that have them already.

    Everyone else reads the present features until these replace them. Those of a third extractor are forgotten.
    """
    wanted = (_FINGERPRINT, extractor.fingerprint)
    with store.transaction(counted=False) as cursor:
        if cursor.execute("SELECT 1 FROM meta WHERE key = ? AND value = ?", wanted).fetchone() is None:
            cursor.execute(f"DELETE FROM {STAGED_FEATURES}")
            write_meta(cursor, dict([wanted]))
        staged = {picture for (picture,) in cursor.execute(f"SELECT id FROM {STAGED_FEATURES}")}
    store.header, store.features_table = store.header.with_features(extractor), STAGED_FEATURES
    return staged


def put(store: Store, features: Mapping[int, NDArray[np.float32]]) -> None:
    """Stage the features of pictures by id."""
    rows = [(picture, encode_vector(vector)) for picture, vector in features.items()]
    with store.transaction(counted=False) as cursor:
        cursor.executemany(f"INSERT OR REPLACE INTO {STAGED_FEATURES} (id, vector) VALUES (?, ?)", rows)


def adopt(cursor: sqlite3.Cursor, header: Header) -> None:
    """Replace the features of all pictures by the staged ones, which ``header`` describes."""
    cursor.execute("DELETE FROM features")
    cursor.execute(f"INSERT INTO features (id, vector) SELECT id, vector FROM checked_{STAGED_FEATURES}")
    _delete(cursor)
    settings = {"extractor": header.extractor, "fingerprint": header.fingerprint, "dim": str(header.dim)}
    write_meta(cursor, settings)


def adopt_untrained(store: Store) -> None:
    """Replace the features of a collection that has no model yet."""
    with store.transaction() as cursor:
        adopt(cursor, store.header)
    store.features_table = "features"


def discard(store: Store) -> None:
    """Forget the staged features: the store reads the present ones again."""
    with store.transaction(counted=False) as cursor:
        _delete(cursor)
    store.read_header()


def forget(cursor: sqlite3.Cursor, picture: int) -> None:
    """Forget the staged features of a picture whose content has changed, if there are any."""
    cursor.execute(f"DELETE FROM {STAGED_FEATURES} WHERE id = ?", (picture,))


def _delete(cursor: sqlite3.Cursor) -> None:
    cursor.execute(f"DELETE FROM {STAGED_FEATURES}")
    cursor.execute("DELETE FROM meta WHERE key = ?", (_FINGERPRINT,))
