"""Search: the grade of a query by the votes of graded pictures, and the pictures nearest to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray
from ordrank.collection.model_file import Model
from ordrank.collection.types import RankedPicture, RankRequest, RankResult, Vote
from ordrank.errors import CollectionError
from ordrank.metrics import nearest_label
from ordrank.neighbors.index import ExactIndex
from ordrank.neighbors.search import GRADED_ONLY, Embeddings, Filter, Hits, InMemoryIndex, VectorIndex
from ordrank.neighbors.voting import median_vote, vote_weights

if TYPE_CHECKING:
    from ordrank.collection.snapshot import Snapshot

NO_GRADES = "no picture of the collection has a grade to vote with; give grades with `ordrank fit`"


@dataclass(frozen=True)
class EmbeddedQuery:
    """A query with its embedding (s + d,); ``id`` is set if it belongs to the collection, and excludes it from hits."""

    name: str
    vector: NDArray[np.float32]
    thumbnail: bytes = b""
    id: int | None = None


class GradeEstimator:
    """Estimates grades by the votes of the nearest graded pictures.

    Parameters
    ----------
    index : VectorIndex
        Of any pictures; those with a given grade vote.
    model : Model
        Holds the number of votes and their weights.
    """

    def __init__(self, index: VectorIndex, model: Model) -> None:
        self.labels: FloatArray = index.labels
        if not len(self.labels):
            raise CollectionError(NO_GRADES)
        self._index, self._n_votes, self._weights = index, model.n_votes, model.weights

    def estimate(self, vectors: NDArray[np.float32]) -> FloatArray:
        """Return the grades (n,) of embeddings (n, s + d)."""
        hits = self._index.nearest(vectors, self._n_votes, GRADED_ONLY)
        return median_vote(hits.grades, hits.distances, self._weights)

    def vote(self, query: EmbeddedQuery) -> tuple[float, FloatArray]:
        """Return the grade of a query and the share (m,) of the votes for each label; its own vote is excluded."""
        hits = self._index.nearest(query.vector[None], self._n_votes, GRADED_ONLY, exclude=query.id)
        if not hits.total:
            raise CollectionError(
                f"{query.name} is the only graded picture of the collection, and does not vote on itself; "
                "give more grades with `ordrank fit`"
            )
        value = float(median_vote(hits.grades, hits.distances, self._weights)[0])
        votes = hits.grades[0]
        counts = vote_weights(hits.distances, self._weights)[0]
        shares = np.bincount(np.searchsorted(self.labels, votes), counts, len(self.labels)) / counts.sum()
        return value, shares


class Searcher:
    """Ranks the pictures of a snapshot for queries; safe to use from several threads.

    Parameters
    ----------
    snapshot : Snapshot
    index : VectorIndex
        Of its embeddings, in memory or on a cluster.
    """

    def __init__(self, snapshot: Snapshot, index: VectorIndex) -> None:
        self.estimator = GradeEstimator(index, snapshot.trained_model)
        self._snapshot, self._index, self._n_order = snapshot, index, snapshot.trained_model.n_order

    def rank(self, query: EmbeddedQuery, request: RankRequest) -> RankResult:
        """Estimate the grade of a query and rank the pictures that match the request."""
        header, (value, shares) = self._snapshot.header, self.estimator.vote(query)
        where = self._filter(request, value)
        k = request.offset + request.k
        if request.offset and request.offset >= self._nearest(query, 0, where).total:
            k = 0  # beyond the last page: count without sorting
        hits = self._nearest(query, k, where)
        ids, distances = hits.ids[0, request.offset :], hits.distances[0, request.offset :]
        difference = np.subtract(self._index.take(ids), query.vector, dtype=np.float64)
        order = np.linalg.norm(difference[:, : self._n_order], axis=1)
        appearance = np.linalg.norm(difference[:, self._n_order :], axis=1)
        known = np.nan if query.id is None else self._snapshot.grades[self._snapshot.row_of(query.id)]
        return RankResult(
            query=query.name,
            id=query.id,
            grade=header.format_grade(value),
            value=value,
            known_grade=None if np.isnan(known) else header.format_grade(known),
            votes=tuple(
                Vote(header.format_grade(label), float(share))
                for label, share in zip(self.estimator.labels, shares, strict=True)
            ),
            position=self._snapshot.display_position(query.vector) if request.with_position else None,
            total=hits.total,
            hits=tuple(
                self._ranked(picture, *measured)
                for picture, *measured in zip(
                    ids.tolist(), distances.tolist(), order.tolist(), appearance.tolist(), strict=True
                )
            ),
            thumbnail=query.thumbnail,
        )

    def _nearest(self, query: EmbeddedQuery, k: int, where: Filter) -> Hits:
        return self._index.nearest(query.vector[None], k, where, exclude=query.id)

    def _filter(self, request: RankRequest, value: float) -> Filter:
        """Return the filter of a request for a query of estimated grade ``value``."""
        lowest, highest = self._snapshot.grade_range(request)
        scale, nearest = self._snapshot.scale, None
        if request.within_grade:
            nearest = scale, int(nearest_label(scale, np.array([value]))[0])
        return Filter(lowest=lowest, highest=highest, nearest_to=nearest)

    def _ranked(self, picture: int, distance: float, order: float, appearance: float) -> RankedPicture:
        found = self._snapshot.picture(self._snapshot.row_of(picture))
        grade = found.grade or found.estimate or ""
        return RankedPicture(found.id, found.name, grade, found.grade is None, distance, order, appearance)


def build_index(embeddings: Embeddings, model: Model) -> InMemoryIndex:
    """Return an index of embeddings, some of which must belong to graded pictures."""
    if np.isnan(embeddings.grades).all():
        raise CollectionError(NO_GRADES)
    return InMemoryIndex(embeddings, ExactIndex(embeddings.vectors, model.n_order))
