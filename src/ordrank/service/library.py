"""A collection held open for many questions at once.

Answers come from a snapshot in memory. When another connection, a command line or a correction, has changed the
collection, the next question makes a new snapshot; questions that are under way finish with the old one.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ordrank._types import Extractor
from ordrank.collection.answering import Query
from ordrank.collection.database import DATABASE, connect_to_read, must_exist, sentences
from ordrank.collection.records import Header
from ordrank.collection.store import Store, open_store, write_store
from ordrank.errors import CollectionError, InputError, UnreadablePictureError
from ordrank.features.pictures import THUMBNAIL_SIDE, decode_picture, thumbnail
from ordrank.service.asking import extractor_of, parse_grade, wanted_pictures
from ordrank.service.desk import Desk, OwnDesk, Upload
from ordrank.service.retraining import Training
from ordrank.service.snapshot import Snapshot, file_number, take_snapshot
from ordrank.service.telling import (
    Assessment,
    GradeCount,
    Overview,
    Page,
    Picture,
    Points,
    RankedPage,
    row_of,
    tell_assessment,
    tell_picture,
    tell_ranked,
    unknown_picture,
)

if TYPE_CHECKING:
    from PIL.Image import Image

# Seconds for which a correction waits while another process writes: that of another correction takes far less.
PATIENCE = 1.0
# Seconds for which a question waits for a newer state: to bring in a correction takes far less, all pictures more.
_MOST_WAIT = 0.05


@dataclass(frozen=True)
class Asked:
    """Which picture is asked about: one of the collection by its number, or an uploaded one by its token."""

    picture: int | None = None
    query: str | None = None


@dataclass(frozen=True)
class Part:
    """Which pictures may be answers, as a user writes it, and which part of them is wanted."""

    within_grade: bool = False
    lowest: str | None = None
    highest: str | None = None
    offset: int = 0
    limit: int = 30


class Library:
    """A collection that several threads ask at the same time.

    Parameters
    ----------
    directory : Path
        Of the collection.
    desk : Desk, optional
        Shared with others that answer for the same collection.
    before : Snapshot, optional
        A state that is in memory already.
    """

    def __init__(self, directory: Path, desk: Desk | None = None, before: Snapshot | None = None) -> None:
        must_exist(directory)
        self.directory = directory
        self._renewing = Lock()
        self._watching: sqlite3.Connection | None = None
        self._watched = self._times_opened = 0
        self._idle: deque[tuple[int, Store]] = deque()
        self._desk = desk or OwnDesk(directory, self.renew)
        with self._renewing, sentences(directory):
            self._version = self._data_version()
            self._snapshot = take_snapshot(directory, before, noticed=False)
        self._extractor: Extractor | None = None

    def close(self) -> None:
        """Let go of the files; the next question opens them again."""
        with self._renewing:
            self._stop_watching()
        self._idle_store(0)

    # The state of the collection ---------------------------------------------------------------------------------

    def renew(self) -> None:
        """Look whether the collection has changed; afterwards every answer knows what was written until now."""
        with self._renewing:
            self._renew()

    def _current(self) -> Snapshot:
        """Return the newest state; an older one if a thread takes long to read that."""
        if self._renewing.acquire(timeout=_MOST_WAIT):
            try:
                self._renew()
            finally:
                self._renewing.release()
        return self._snapshot

    def _renew(self) -> None:
        with sentences(self.directory):
            version = self._data_version()  # asked first: what is committed from here on will be noticed again
        if version != self._version:
            before, same_connection = self._snapshot, version[0] == self._version[0]
            self._snapshot = take_snapshot(self.directory, before, noticed=same_connection)
            self._version = version
            if self._snapshot.header.model != before.header.model:
                self._desk.has_seen(self._snapshot.header.model)

    def _data_version(self) -> tuple[int, int]:
        """Return numbers that change whenever another connection has committed, or the file is another one."""
        must_exist(self.directory)
        file = file_number(self.directory)
        if file != self._watched:
            self._stop_watching()
        if self._watching is None:
            self._watching, self._watched = connect_to_read(self.directory / DATABASE), file
            self._times_opened += 1  # each connection counts for itself
        return self._times_opened, int(self._watching.execute("PRAGMA data_version").fetchone()[0])

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.close()
            self._watching = None

    # Looking -----------------------------------------------------------------------------------------------------

    def describe(self) -> Overview:
        """Say what the collection holds."""
        state = self._current()
        labels, counts = np.unique(state.grades[~np.isnan(state.grades)], return_counts=True)
        found = dict(zip(labels.tolist(), counts.tolist(), strict=True))
        if state.header.order is not None:  # also the grades that nobody has got yet
            found = dict.fromkeys(map(float, range(len(state.header.order))), 0) | found
        return Overview(
            name=self.directory.absolute().name,
            pictures=len(state.album.ids),
            graded=int(counts.sum()),
            grades=tuple(GradeCount(state.header.show(value), value, count) for value, count in found.items()),
            features=state.header.extractor,
            model=None if state.space is None else state.space.model.choices(),
            fitted=state.fitted,
            changed=state.changed,
            error=state.error,
        )

    def browse(self, *, grade: str | None = None, given: bool | None = None, offset: int = 0, limit: int = 60) -> Page:
        """Pictures by grade, then by name.

        Parameters
        ----------
        grade : str, optional
            Only those of this grade, given or estimated.
        given : bool, optional
            Only those whose grade was given, or was not.
        offset, limit : int
            Which part.
        """
        state = self._current()
        wanted = np.ones(len(state.album.ids), dtype=np.bool_)
        if grade is not None:
            wanted &= state.of_grade(parse_grade(state.header, grade))
        if given is not None:
            wanted &= np.isnan(state.grades) != given
        rows = state.in_order[wanted[state.in_order]]
        items = tuple(tell_picture(state, row) for row in rows[offset : offset + limit].tolist())
        return Page(len(rows), items)

    def picture(self, number: int) -> Picture:
        """Say what is known of a picture."""
        state = self._current()
        return tell_picture(state, row_of(state, number))

    def content_of(self, number: int) -> str:
        """Return the SHA-256 of a picture's file."""
        state = self._current()
        return state.album.sha256[row_of(state, number)].removeprefix("outdated ")

    def thumbnail(self, number: int) -> bytes:
        """JPEG of a picture of the collection."""
        row_of(self._current(), number)
        with self._reading(number) as store:
            return store.thumbnails([number])[0]

    @contextmanager
    def _reading(self, number: int) -> Iterator[Store]:
        """Read of a picture, which may have been removed a moment ago; files stay open for the next one who reads."""
        file, store = self._watched, None
        try:
            with sentences(self.directory):
                store = self._idle_store(file)
                store = open_store(self.directory) if store is None else store  # an empty one is false
                yield store
        except CollectionError:
            self.renew()
            row_of(self._current(), number)
            raise
        finally:
            if store is not None:
                self._idle.append((file, store))

    def _idle_store(self, file: int) -> Store | None:
        """Return what nobody reads from now, of this file; what is open of others is closed."""
        while self._idle:
            opened, store = self._idle.popleft()
            if opened == file:
                return store
            store.close()
        return None

    def points(self, limit: int) -> Points:
        """Return all pictures that have a place as points to show; a fixed random sample if they are too many."""
        state = self._current()
        if state.space is None:
            return Points(0, 0, b"")
        rows = chosen = np.arange(len(state.space.rows))
        if len(rows) > limit:
            chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:limit])
        pictures = state.space.rows[chosen]
        parts = (
            state.album.ids[pictures].astype("<i4"),
            state.space.positions[chosen].astype("<f4"),
            state.values[pictures].astype("<f4"),
        )
        return Points(len(chosen), len(rows), b"".join(part.tobytes() for part in parts))

    # Asking ------------------------------------------------------------------------------------------------------

    def upload(self, data: bytes, name: str) -> Assessment:
        """Grade a picture that is sent, and remember it for further questions; nothing is written.

        Parameters
        ----------
        data : bytes
            Content of a picture file.
        name : str
            What to call it.
        """
        state = self._current()
        state.comparer  # noqa: B018 - without a model there is no use in decoding
        digest = hashlib.sha256(data).hexdigest()
        if digest in state.album.by_content:
            number = int(state.album.ids[state.album.by_content[digest]])
            return self.rank(Asked(picture=number), Part(limit=1)).answer
        token = self._desk.remember(self._read(state.header, data, name, digest))
        return self.rank(Asked(query=token), Part(limit=1)).answer

    def upload_thumbnail(self, token: str) -> bytes:
        """JPEG of an uploaded picture."""
        return self._desk.recall(token).thumbnail

    def rank(self, asked: Asked, part: Part) -> RankedPage:
        """Grade a picture and rank the collection for it."""
        state = self._current()
        query, token = self._query(state, asked)
        wanted = wanted_pictures(
            state.header,
            part.limit,
            within_grade=part.within_grade,
            lowest=part.lowest,
            highest=part.highest,
            offset=part.offset,
        )
        compared = state.comparer.compare(query, wanted)
        return RankedPage(tell_assessment(state, query, token, compared), compared.total, tell_ranked(state, compared))

    def _query(self, state: Snapshot, asked: Asked) -> tuple[Query, str | None]:
        """Return the picture that is asked about, and its token if it does not belong to the collection."""
        if asked.query is None and asked.picture is not None:
            return self._known(state, row_of(state, asked.picture)), None
        upload = self._desk.recall(asked.query or "")
        if upload.sha256 in state.album.by_content:  # it was added meanwhile
            return self._known(state, state.album.by_content[upload.sha256]), None
        place = state.trained.model.place(upload.features[None])[0]
        return Query(upload.name, place, upload.thumbnail), asked.query

    def _known(self, state: Snapshot, row: int) -> Query:
        number, place = int(state.album.ids[row]), state.trained.place_of(row)
        if place is None:
            with self._reading(number) as store:
                place = state.trained.model.place(store.features_of(number)[None])[0]
        return Query(state.album.names[row], place, b"", number)

    def _read(self, header: Header, data: bytes, name: str, digest: str) -> Upload:
        if self._extractor is None or self._extractor.fingerprint != header.fingerprint:
            self._extractor = extractor_of(self.directory, header)
        decoded = decode_picture(data, side=max(self._extractor.side, THUMBNAIL_SIDE))
        return Upload(name, digest, _features(self._extractor, decoded.picture), thumbnail(decoded.picture))

    # Changing ----------------------------------------------------------------------------------------------------

    def set_grade(self, number: int, grade: str | None) -> Picture:
        """Give a picture another grade, or take it back; it is on disk when this returns.

        Parameters
        ----------
        number : int
        grade : str or None
            None: the model's estimate takes its place.
        """
        asked = self._current()  # nobody is kept from writing by what cannot be done
        value = None if grade is None else parse_grade(asked.header, grade)
        row_of(asked, number)
        with self._desk.pen(), write_store(self.directory, patience=PATIENCE) as store:
            self.renew()  # nobody else can write from here on
            state = self._snapshot
            row = row_of(state, number)
            estimate = self._estimate(state, row) if value is None else None
            # Those who read need not wait for the disk.
            if not store.set_grade(number, value, estimate):
                raise unknown_picture(number)
            self.renew()
            return tell_picture(self._snapshot, row)

    def _estimate(self, state: Snapshot, row: int) -> float | None:
        """Grade by the votes of the others."""
        place = None if state.space is None else state.space.place_of(row)
        if place is None:
            return None
        query = Query(state.album.names[row], place, b"", int(state.album.ids[row]))
        try:
            return state.comparer.voters.vote(query)[0]
        except CollectionError:  # nobody else has a grade
            return None

    def start_training(self) -> Training:
        """Begin to learn from the grades that are there now; the old model answers meanwhile."""
        return self._desk.start_training()

    def training(self) -> Training:
        """Say how far the training is."""
        return self._desk.training()


def _features(extractor: Extractor, picture: Image) -> NDArray[np.float32]:
    try:
        features: NDArray[np.float32] = np.asarray(extractor.extract([picture]), dtype=np.float32)[0]
    except InputError:
        raise
    except Exception as error:  # extractors come from anywhere
        raise UnreadablePictureError(f"gives no features: {error or type(error).__name__}") from error
    if not np.isfinite(features).all():
        raise UnreadablePictureError("gives features that are not finite numbers")
    return features
