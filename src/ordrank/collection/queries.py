"""From a query as the user gives it to its embedding: by id, name or content in the collection, else from its file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ordrank._protocols import Extractor
from ordrank.collection.ingest.importing import extractor_of
from ordrank.collection.ingest.reading import read_query
from ordrank.collection.live import LiveSnapshot
from ordrank.collection.search import EmbeddedQuery, split_held_out
from ordrank.collection.snapshot import Snapshot
from ordrank.collection.store import read_store
from ordrank.collection.types import Header, QueryPicture
from ordrank.errors import InputError, PictureTooLargeError
from ordrank.features.pictures import count_pixels

# A picture file, the name or id of a picture in the collection, or a picture that was read.
Query: TypeAlias = str | os.PathLike[str] | int | np.integer | QueryPicture


class QueryReader:
    """Reads queries and embeds them with the model of a snapshot."""

    def __init__(self, directory: Path, live: LiveSnapshot) -> None:
        self._directory, self._live = directory, live
        self._extractor: Extractor | None = None

    def read(self, data: bytes, name: str, max_pixels: int | None = None) -> int | QueryPicture:
        """Return the id of the picture with this content, else decode it and compute its features."""
        snapshot, sha256 = self._live.current(), hashlib.sha256(data).hexdigest()
        row = snapshot.images.by_content.get(sha256)
        if row is not None:  # needs neither decoding nor the extractor
            return int(snapshot.images.ids[row])
        if max_pixels is not None and (count_pixels(data) or 0) > max_pixels:
            raise PictureTooLargeError(f"has more than {max_pixels // 10**6} million pixels; send a smaller one")
        return read_query(data, self._extractor_of(snapshot.header), name=name, sha256=sha256)

    def embed(self, snapshot: Snapshot, query: Query) -> EmbeddedQuery:
        """Return a query with its embedding. Raise InputError if it is neither a file nor in the collection."""
        images = snapshot.images
        if isinstance(query, int | np.integer):
            row = snapshot.row_of(int(query))
            return self._known(snapshot, row, images.names[row])
        text = None
        if not isinstance(query, QueryPicture):
            text = os.fspath(query)
            if not Path(text).is_file():
                if text in images.by_name:
                    return self._known(snapshot, images.by_name[text], text)
                raise self._unknown(text)
            query = read_query(Path(text), self._extractor_of(snapshot.header), name=text)
        if query.sha256 in images.by_content:
            row = images.by_content[query.sha256]
            return self._known(snapshot, row, text or images.names[row])
        return EmbeddedQuery(query.name, snapshot.trained_model.embed(query.features[None])[0], query.thumbnail)

    def _known(self, snapshot: Snapshot, row: int, name: str) -> EmbeddedQuery:
        picture, space = int(snapshot.images.ids[row]), snapshot.space
        vector, held_out = (None, None) if space is None else (space.vector(row), space.held_out_of(row))
        if vector is None:
            with self._live.reading(picture) as store:
                # A newer model than that of the snapshot may have embedded it since; a cluster checks that none has.
                vector = store.embedding(picture) if space is None else None
                if vector is None:
                    vector = snapshot.trained_model.embed(store.feature_vector(picture)[None])[0]
                elif len(known := store.held_out(snapshot.trained_model.n_held_out, picture)[1]):
                    held_out = known[0]
        if held_out is None:
            return EmbeddedQuery(name, vector, id=picture)
        vectors, by_threshold = split_held_out(vector[None], held_out[None], snapshot.trained_model.n_order)
        return EmbeddedQuery(name, vectors[0], b"", picture, None if by_threshold is None else by_threshold[0])

    def _extractor_of(self, header: Header) -> Extractor:
        """Return the extractor of the features in the collection; it is loaded once."""
        if self._extractor is None or self._extractor.fingerprint != header.fingerprint:
            self._extractor = extractor_of(self._directory, header)
        return self._extractor

    def _unknown(self, text: str) -> InputError:
        with read_store(self._directory) as store:
            similar = store.similar_name(text)
        hint = f"did you mean {similar}?" if similar else "give picture files, or names that `ordrank export` lists"
        return InputError(f"{text or repr(text)} is neither a picture file nor a name in {self._directory}; {hint}")
