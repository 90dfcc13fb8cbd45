"""From a query as the user gives it to its result: by id, name or content in the collection, else from its file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import Extractor, Progress, no_progress
from ordrank.collection.access import read_store
from ordrank.collection.ingest.importing import extractor_of
from ordrank.collection.ingest.reading import read_content, read_pictures
from ordrank.collection.live import LiveSnapshot
from ordrank.collection.search import EmbeddedQuery, Searcher, split_held_out
from ordrank.collection.snapshot import Snapshot, take_snapshot
from ordrank.collection.types import BadPicture, Header, QueryPicture, RankRequest, RankResult
from ordrank.errors import InputError, UnknownError, UnreadablePictureError
from ordrank.features.pictures import Decode, decode_picture

# A picture file, the name or id of a picture in the collection, or a picture that was read.
Query: TypeAlias = str | os.PathLike[str] | int | np.integer | QueryPicture
_BLOCK = 256  # pictures embedded at a time


class QueryReader:
    """Reads queries, embeds them with the model of a snapshot, and ranks the collection for them."""

    def __init__(self, directory: Path, live: LiveSnapshot) -> None:
        self._directory, self._live = directory, live
        self._extractor: Extractor | None = None

    def read(self, data: bytes, name: str, decode: Decode = decode_picture) -> int | QueryPicture:
        """Return the id of the picture with this content, else decode it and compute its features."""
        snapshot, sha256 = self._live.current(), hashlib.sha256(data).hexdigest()
        row = snapshot.images.by_content.get(sha256)
        if row is not None:  # needs neither decoding nor the extractor
            return int(snapshot.images.ids[row])
        extractor = self.extractor_of(snapshot.header)
        read = read_content(data, extractor, name=name, sha256=sha256, decode=decode)
        return QueryPicture(name, sha256, read.features, read.thumbnail)

    def rank(
        self,
        queries: Sequence[Query],
        request: RankRequest,
        scheduler: str | None,
        workers: int | None,
        n_jobs: int,
        progress: Progress,
    ) -> list[RankResult]:
        """Rank the collection for queries, in memory or on a Dask cluster; see :meth:`Collection.rank_all`."""

        def rank_once() -> list[RankResult]:
            snapshot, searching = self._searching(scheduler, workers)
            snapshot.grade_range(request)  # fail before decoding, and before a cluster is started
            embedded = self.embed(snapshot, queries, n_jobs=n_jobs, progress=progress)
            with searching as searcher:
                return searcher.rank(embedded, request, self._read_features)

        try:
            return rank_once()
        except UnknownError:  # if not a query itself, one of the nearest pictures was removed meanwhile
            return rank_once()

    def _searching(
        self, scheduler: str | None, workers: int | None
    ) -> tuple[Snapshot, AbstractContextManager[Searcher]]:
        """Return a snapshot, and its searcher in memory or on a Dask cluster."""
        if scheduler is None and workers is None:
            snapshot = self._live.current()
            return snapshot, nullcontext(snapshot.searcher)
        from ordrank.collection.dask import cluster_searcher

        snapshot = take_snapshot(self._directory, load_vectors=False)
        return snapshot, cluster_searcher(self._directory, snapshot, scheduler, workers)

    def embeddings(self, queries: Sequence[Query]) -> NDArray[np.float32]:
        """Return the embeddings (q, s + d) of queries; see :meth:`Collection.embed`."""
        if len(queries) == 0:
            raise InputError("there is no picture to embed; name at least one")
        snapshot = self._live.current()
        return np.stack([snapshot.embedding_of(query.vector, query.id) for query in self.embed(snapshot, queries)])

    def _read_features(self, ids: Sequence[int]) -> NDArray[np.float32]:
        with self._live.reading(*ids) as store:
            return store.features_of(ids)

    def embed(
        self, snapshot: Snapshot, queries: Sequence[Query], *, n_jobs: int = -1, progress: Progress = no_progress
    ) -> list[EmbeddedQuery]:
        """Return queries with their embeddings, in order; many files are read in processes.

        Raise InputError if a query is neither a file nor in the collection, and UnreadablePictureError if a file cannot
        be used.
        """
        files = {i: os.fspath(query) for i, query in enumerate(queries) if _is_file(query)}
        pictures = {i: query for i, query in enumerate(queries) if isinstance(query, QueryPicture)}
        embedded = {i: self._stored(snapshot, q) for i, q in enumerate(queries) if i not in files and i not in pictures}
        for i, picture in zip(files, self._read_files(snapshot, list(files.values()), n_jobs, progress), strict=True):
            pictures[i] = picture
            if len(pictures) >= _BLOCK:
                embedded |= self._embed_pictures(snapshot, pictures, files)
                pictures = {}
        embedded |= self._embed_pictures(snapshot, pictures, files)
        return [embedded[i] for i in range(len(queries))]

    def _read_files(
        self, snapshot: Snapshot, files: Sequence[str], n_jobs: int, progress: Progress
    ) -> Iterator[QueryPicture]:
        if not files:
            return
        named, stage = [(file, Path(file).absolute()) for file in files], f"reading {len(files)} pictures"
        if len(files) > 1:
            progress(stage, 0, 0)
        with closing(read_pictures(named, self.extractor_of(snapshot.header), n_jobs=n_jobs)) as outcomes:
            for done, read in enumerate(outcomes, start=1):
                if isinstance(read, BadPicture):
                    raise UnreadablePictureError(f"{read.name} {read.reason}")
                yield QueryPicture(read.name, read.sha256, read.features, read.thumbnail)
                progress(stage, done, len(files))

    def _embed_pictures(
        self, snapshot: Snapshot, pictures: Mapping[int, QueryPicture], files: Mapping[int, str]
    ) -> dict[int, EmbeddedQuery]:
        """Return pictures as queries by position: by content those of the collection, the others embedded at once."""
        images, embedded, new = snapshot.images, {}, {}
        for i, picture in pictures.items():
            row = images.by_content.get(picture.sha256)
            if row is None:
                new[i] = picture
            else:
                embedded[i] = self._known(snapshot, row, files.get(i, images.names[row]))
        if new:
            vectors = snapshot.trained_model.embed(np.stack([picture.features for picture in new.values()]))
            for (i, picture), vector in zip(new.items(), vectors, strict=True):
                embedded[i] = EmbeddedQuery(picture.name, vector, picture.thumbnail, features=picture.features)
        return embedded

    def _stored(self, snapshot: Snapshot, query: Query) -> EmbeddedQuery:
        """Return a picture of the collection, by id or name, as a query."""
        if isinstance(query, int | np.integer):
            row = snapshot.row_of(int(query))
            return self._known(snapshot, row, snapshot.images.names[row])
        text = str(query)
        if text not in snapshot.images.by_name:
            raise self._unknown(text)
        return self._known(snapshot, snapshot.images.by_name[text], text)

    def _known(self, snapshot: Snapshot, row: int, name: str) -> EmbeddedQuery:
        picture, space = int(snapshot.images.ids[row]), snapshot.space
        vector, held_out = (None, None) if space is None else (space.vector(row), space.held_out_of(row))
        if vector is None:
            with self._live.reading(picture) as store:
                # A newer model than that of the snapshot may have embedded it since; a cluster checks that none has.
                vector = store.embedding(picture) if space is None else None
                if vector is None:
                    vector = snapshot.trained_model.embed(store.features_of([picture]))[0]
                elif len(known := store.held_out(snapshot.trained_model.n_held_out, picture)[1]):
                    held_out = known[0]
        if held_out is None:
            return EmbeddedQuery(name, vector, id=picture)
        vectors, by_threshold = split_held_out(vector[None], held_out[None], snapshot.trained_model.n_order)
        return EmbeddedQuery(name, vectors[0], b"", picture, None if by_threshold is None else by_threshold[0])

    def extractor_of(self, header: Header) -> Extractor:
        """Return the extractor of the features in the collection; it is loaded once."""
        if self._extractor is None or self._extractor.fingerprint != header.fingerprint:
            self._extractor = extractor_of(self._directory, header)
        return self._extractor

    def _unknown(self, text: str) -> InputError:
        with read_store(self._directory) as store:
            similar = store.similar_name(text)
        hint = f"did you mean {similar}?" if similar else "give picture files, or names that `ordrank export` lists"
        return InputError(f"{text or repr(text)} is neither a picture file nor a name in {self._directory}; {hint}")


def _is_file(query: Query) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(query, str | os.PathLike) and Path(query).is_file()
