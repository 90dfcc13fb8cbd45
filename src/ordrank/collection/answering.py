"""Questions to a collection: a grade by votes, and the nearest pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ordrank._types import Answer, FloatArray, IntArray, RankedPicture, Vote
from ordrank.collection.index import ExactIndex
from ordrank.collection.model_file import Model
from ordrank.collection.records import Header, Places
from ordrank.collection.searching import GIVEN, Among, Found, Searchable, SearchedPlaces, nearest_label
from ordrank.collection.store import Store
from ordrank.errors import CollectionError
from ordrank.votes import count_votes, vote_weights


@dataclass(frozen=True)
class Query:
    """A picture to be graded and compared with.

    Attributes
    ----------
    name : str
        As it was asked for.
    place : ndarray of shape (s + d,)
    thumbnail : bytes
    own : int or None
        Its number if it belongs to the collection: it is not its own answer.
    """

    name: str
    place: NDArray[np.float32]
    thumbnail: bytes
    own: int | None = None


@dataclass(frozen=True)
class Wanted:
    """Which pictures may be answers.

    Attributes
    ----------
    k : int
        How many.
    within_grade : bool
        Only those of the query's estimated grade.
    lowest, highest : float
        Only those with grades in between, both included; estimated where none was given.
    offset : int
        How many of the nearest to leave out: those of the pages before.
    """

    k: int = 10
    within_grade: bool = False
    lowest: float = -np.inf
    highest: float = np.inf
    offset: int = 0


@dataclass(frozen=True)
class Compared:
    """A query beside the collection.

    Attributes
    ----------
    value : float
        Estimated grade.
    shares : ndarray of shape (labels,)
        Of the votes.
    total : int
        How many pictures qualify.
    ids : ndarray of shape (m,)
        Numbers of those wanted, nearest first.
    distances, order, appearance : ndarray of shape (m,)
        d² = order² + appearance².
    """

    value: float
    shares: FloatArray
    total: int
    ids: IntArray
    distances: FloatArray
    order: FloatArray
    appearance: FloatArray


class Voters:
    """The graded pictures, who grade others.

    Parameters
    ----------
    searched : Searchable
        Of any pictures; those with a given grade vote.
    model : Model
    """

    def __init__(self, searched: Searchable, model: Model) -> None:
        self.labels: FloatArray = searched.labels
        if not len(self.labels):
            raise _nobody_votes()
        self._searched, self._n_votes, self._weights = searched, model.n_votes, model.weights

    def grade(self, vectors: NDArray[np.float32]) -> FloatArray:
        """Grades (n,) of places (n, s + d)."""
        found = self._searched.nearest(vectors, self._n_votes, GIVEN)
        return count_votes(found.grades, found.distances, aggregate="median", weights=self._weights)

    def vote(self, query: Query) -> tuple[float, FloatArray]:
        """Grade of one query, and the share of the votes that each label got; its own vote does not count."""
        found = self._searched.nearest(query.place[None], self._n_votes, GIVEN, but=query.own)
        if not found.total:
            raise CollectionError(
                f"{query.name} is the only picture of the collection that has a grade, and has no vote on its own; "
                "give grades with `ordrank fit`"
            )
        votes, distances = found.grades, found.distances
        value = float(count_votes(votes, distances, aggregate="median", weights=self._weights)[0])
        counts = vote_weights(distances)[0] if self._weights == "distance" else np.ones(votes.shape[1])
        shares = np.bincount(np.searchsorted(self.labels, votes[0]), counts, len(self.labels)) / counts.sum()
        return value, shares


class Comparer:
    """Pictures that are ready to be compared with queries, by several threads at once.

    Parameters
    ----------
    searched : Searchable
    model : Model
    """

    def __init__(self, searched: Searchable, model: Model) -> None:
        self.voters = Voters(searched, model)
        self._searched, self._n_order = searched, model.n_order

    def compare(self, query: Query, wanted: Wanted) -> Compared:
        """Grade a query and find the pictures nearest to it."""
        value, shares = self.voters.vote(query)
        among, k = self._among(value, wanted), wanted.offset + wanted.k
        if wanted.offset and wanted.offset >= self._nearest(query, 0, among).total:
            k = 0  # there is nothing beyond the last one, and no need to bring all others into order
        found = self._nearest(query, k, among)
        ids, distances = found.ids[0, wanted.offset :], found.distances[0, wanted.offset :]
        difference = np.subtract(self._searched.take(ids), query.place, dtype=np.float64)
        order = np.linalg.norm(difference[:, : self._n_order], axis=1)
        appearance = np.linalg.norm(difference[:, self._n_order :], axis=1)
        return Compared(value, shares, found.total, ids, distances, order, appearance)

    def _nearest(self, query: Query, k: int, among: Among) -> Found:
        return self._searched.nearest(query.place[None], k, among, but=query.own)

    def votes(self, header: Header, shares: FloatArray) -> tuple[Vote, ...]:
        """Return the shares of the votes with the grades as the user writes them."""
        labels = self.voters.labels
        return tuple(Vote(header.show(label), float(share)) for label, share in zip(labels, shares, strict=True))

    def _among(self, value: float, wanted: Wanted) -> Among:
        """Which pictures may be answers to a query of that grade."""
        labels, near = self.voters.labels, None
        if wanted.within_grade:
            near = labels, int(nearest_label(labels, np.array([value]))[0])
        return Among(lowest=wanted.lowest, highest=wanted.highest, nearest_to=near)


class Answers:
    """A collection that is ready to answer.

    Parameters
    ----------
    store : Store
    searched : Searchable
        Its places.
    model : Model
    """

    def __init__(self, store: Store, searched: Searchable, model: Model) -> None:
        self._store, self._header = store, store.header
        self._comparer = Comparer(searched, model)

    def answer(self, query: Query, wanted: Wanted) -> Answer:
        """Grade a query and rank the collection for it."""
        compared = self._comparer.compare(query, wanted)
        known = self._store.rows([query.own])[0].grade if query.own is not None else None
        return Answer(
            query=query.name,
            thumbnail=query.thumbnail,
            grade=self._header.show(compared.value),
            value=compared.value,
            known_grade=None if known is None else self._header.show(known),
            votes=self._comparer.votes(self._header, compared.shares),
            results=self._describe(compared),
        )

    def _describe(self, compared: Compared) -> tuple[RankedPicture, ...]:
        ids = compared.ids.tolist()
        kept, thumbnails = self._store.rows(ids), self._store.thumbnails(ids)
        return tuple(
            RankedPicture(
                name=picture.name,
                grade=_shown(self._header, picture.grade, picture.estimate),
                estimated=picture.grade is None,
                distance=float(compared.distances[i]),
                order_distance=float(compared.order[i]),
                appearance_distance=float(compared.appearance[i]),
                thumbnail=thumbnails[i],
            )
            for i, picture in enumerate(kept)
        )


def search_places(places: Places, model: Model) -> SearchedPlaces:
    """Make places ready to be searched, some of which must belong to graded pictures."""
    if np.isnan(places.grades).all():
        raise _nobody_votes()
    return SearchedPlaces(places, ExactIndex(places.vectors, model.n_order))


def _nobody_votes() -> CollectionError:
    return CollectionError("no picture of the collection has a grade to vote with; give grades with `ordrank fit`")


def _shown(header: Header, grade: float | None, estimate: float | None) -> str:
    value = estimate if grade is None else grade
    return "" if value is None else header.show(value)
