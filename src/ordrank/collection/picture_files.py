"""The files of the pictures of a collection: versions to look at, copies, and new pictures from memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ordrank.collection.access import read_store
from ordrank.collection.database import content_sha256
from ordrank.collection.live import LiveSnapshot
from ordrank.collection.queries import QueryReader
from ordrank.features.pictures import Decode, decode_picture


class PictureFiles:
    """Reads the content of pictures, and adds single ones; thread-safe.

    Parameters
    ----------
    directory : Path
    live : LiveSnapshot
    queries : QueryReader
        Has the extractor of the features.
    """

    def __init__(self, directory: Path, live: LiveSnapshot, queries: QueryReader) -> None:
        self._directory, self._live, self._queries = directory, live, queries

    def sha256(self, picture: int) -> str:
        """Return the SHA-256 of a picture's content."""
        snapshot = self._live.current(picture)
        return content_sha256(snapshot.images.sha256[snapshot.row_of(picture)])

    def thumbnail(self, picture: int) -> bytes:
        """Return a picture as a JPEG of at most 256 pixels in width and height."""
        self._live.current(picture).row_of(picture)
        with self._live.reading(picture) as store:
            return store.thumbnails([picture])[0]

    def large_version(self, picture: int, side: int, *, decode: Decode = decode_picture) -> bytes:
        """Return a picture as a JPEG of at most ``side`` pixels in width and height, from its file.

        Raise UnknownError if the file is gone or has changed. For ``decode`` see :meth:`Collection.read_query`.
        """
        from ordrank.collection.originals import large_version

        self._live.current(picture).row_of(picture)
        with self._live.reading(picture) as store:
            (row,) = store.rows([picture])
        return large_version(self._directory, row, side, decode)

    def zip(self, pictures: Sequence[int]) -> Iterator[bytes]:
        """Yield a ZIP file with the files of pictures, in parts; those that are gone are listed in it."""
        from ordrank.collection.originals import zip_originals

        snapshot = self._live.current(*pictures)
        ids = [int(snapshot.images.ids[snapshot.row_of(picture)]) for picture in dict.fromkeys(pictures)]
        with read_store(self._directory) as store:
            rows = store.rows(ids)
        return zip_originals(self._directory, rows)

    def add(self, data: bytes, name: str, *, decode: Decode = decode_picture) -> tuple[int, bool]:
        """Add one picture from memory; its file is kept in the directory of the collection.

        Return its id, and whether it is new: a picture with the same content is kept once. Like
        :meth:`Collection.add`, but for the name, which may be changed to one that is free, and also before the first
        fit. For ``decode`` see :meth:`Collection.read_query`.
        """
        from ordrank.collection.added_files import add_picture

        extractor = self._queries.extractor_of(self._live.current().header)
        return add_picture(self._directory, self._live, extractor, data, name, decode)
