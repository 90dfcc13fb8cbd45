"""Questions to a collection: a grade by votes, and the nearest pictures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ordrank._types import Answer, FloatArray, IntArray, RankedPicture, Vote
from ordrank.collection.index import ExactIndex, Selection
from ordrank.collection.model_file import Model
from ordrank.collection.records import Header, Places
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
    rows : ndarray of shape (m,)
        Rows of the places of those wanted, nearest first.
    distances, order, appearance : ndarray of shape (m,)
        d² = order² + appearance².
    """

    value: float
    shares: FloatArray
    total: int
    rows: IntArray
    distances: FloatArray
    order: FloatArray
    appearance: FloatArray


class Voters:
    """The graded pictures, who grade others.

    Parameters
    ----------
    places : Places
        Of any pictures; those with a given grade vote.
    index : ExactIndex
        Of the same places.
    model : Model
    """

    def __init__(self, places: Places, index: ExactIndex, model: Model) -> None:
        graded = _graded(places)
        self.ids, self.grades, self._index = places.ids, places.grades, index
        self.labels: FloatArray = np.unique(self.grades[graded])
        self._graded = index.select(None if graded.all() else graded)
        self._n_votes, self._weights = min(model.n_votes, int(graded.sum())), model.weights

    def grade(self, vectors: NDArray[np.float32]) -> FloatArray:
        """Grades (n,) of places (n, s + d)."""
        nearest, distances = self._index.nearest(vectors, self._n_votes, allowed=self._graded)
        return count_votes(self.grades[nearest], distances, aggregate="median", weights=self._weights)

    def vote(self, query: Query) -> tuple[float, FloatArray]:
        """Grade of one query, and the share of the votes that each label got; its own vote does not count."""
        nearest, distances = self._index.nearest(query.place[None], self._n_votes + 1, allowed=self._graded)
        others = np.flatnonzero((nearest[0] >= 0) & (self.ids[nearest[0]] != query.own))[: self._n_votes]
        if not len(others):
            raise CollectionError(
                f"{query.name} is the only picture of the collection that has a grade, and has no vote on its own; "
                "give grades with `ordrank fit`"
            )
        votes, distances = self.grades[nearest[:, others]], distances[:, others]
        value = float(count_votes(votes, distances, aggregate="median", weights=self._weights)[0])
        counts = vote_weights(distances)[0] if self._weights == "distance" else np.ones(len(others))
        shares = np.bincount(np.searchsorted(self.labels, votes[0]), counts, len(self.labels)) / counts.sum()
        return value, shares


class Comparer:
    """Pictures that are ready to be compared with queries, by several threads at once.

    Parameters
    ----------
    places : Places
    index : ExactIndex
        Of the same places.
    model : Model
    """

    def __init__(self, places: Places, index: ExactIndex, model: Model) -> None:
        self.places, self.voters = places, Voters(places, index, model)
        self._index, self._n_order = index, model.n_order

    def compare(self, query: Query, wanted: Wanted) -> Compared:
        """Grade a query and find the pictures nearest to it."""
        value, shares = self.voters.vote(query)
        chosen = self._index.select(self._allowed(value, wanted))
        total = chosen.size - self._is_chosen(query.own, chosen)
        rows, distances = np.empty(0, dtype=np.int64), np.empty(0)
        if wanted.offset < total:
            k = min(wanted.offset + wanted.k, total)
            # One more than wanted: leaving the query out afterwards is cheaper than a search without it.
            found, measured = self._index.nearest(query.place[None], min(k + 1, chosen.size), allowed=chosen)
            others = np.flatnonzero(self.places.ids[found[0]] != query.own)[wanted.offset : k]
            rows, distances = found[0, others], measured[0, others]
        difference = np.subtract(self.places.vectors[rows], query.place, dtype=np.float64)
        order = np.linalg.norm(difference[:, : self._n_order], axis=1)
        appearance = np.linalg.norm(difference[:, self._n_order :], axis=1)
        return Compared(value, shares, total, rows, distances, order, appearance)

    def votes(self, header: Header, shares: FloatArray) -> tuple[Vote, ...]:
        """Return the shares of the votes with the grades as the user writes them."""
        labels = self.voters.labels
        return tuple(Vote(header.show(label), float(share)) for label, share in zip(labels, shares, strict=True))

    def _allowed(self, value: float, wanted: Wanted) -> NDArray[np.bool_] | None:
        """Which pictures may be answers to a query of that grade, (n,), itself included; None for all."""
        if not wanted.within_grade and wanted.lowest <= self._grades_span[0] and self._grades_span[1] <= wanted.highest:
            return None
        allowed = (self._grades >= wanted.lowest) & (self._grades <= wanted.highest)
        if wanted.within_grade:
            allowed &= self._nearest_label == nearest_label(self.voters.labels, np.array([value]))[0]
        return allowed

    def _is_chosen(self, own: int | None, chosen: Selection) -> bool:
        """Whether a query is among the pictures that were chosen."""
        row = None if own is None else self.places.row_of(own)
        return row is not None and (chosen.allowed is None or bool(chosen.allowed[row]))

    @cached_property
    def _grades_span(self) -> tuple[float, float]:
        """Lowest and highest grade; NaN, which no bound holds for, if a picture has neither grade nor estimate."""
        return float(self._grades.min()), float(self._grades.max())

    @cached_property
    def _grades(self) -> FloatArray:
        """Given grades, and estimated ones where none was given."""
        return np.where(np.isnan(self.places.grades), self.places.estimates, self.places.grades)

    @cached_property
    def _nearest_label(self) -> IntArray:
        return nearest_label(self.voters.labels, self._grades)


class Answers:
    """A collection that is ready to answer.

    Parameters
    ----------
    store : Store
    model : Model
    """

    def __init__(self, store: Store, model: Model) -> None:
        self._store, self._header = store, store.header
        places = store.places()
        self._comparer = Comparer(places, index_of(places, model), model)

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
        ids = self._comparer.places.ids[compared.rows].tolist()
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


def index_of(places: Places, model: Model) -> ExactIndex:
    """Return an index of places, some of which must belong to graded pictures."""
    _graded(places)
    return ExactIndex(places.vectors, model.n_order)


def _graded(places: Places) -> NDArray[np.bool_]:
    graded = ~np.isnan(places.grades)
    if not graded.any():
        raise CollectionError("no picture of the collection has a grade to vote with; give grades with `ordrank fit`")
    return graded


def nearest_label(labels: FloatArray, grades: FloatArray) -> IntArray:
    """Position of the nearest label, the lower one half-way."""
    upper = np.minimum(np.searchsorted(labels, grades), len(labels) - 1)
    lower = np.maximum(upper - 1, 0)
    return np.where(labels[upper] - grades < grades - labels[lower], upper, lower)


def _shown(header: Header, grade: float | None, estimate: float | None) -> str:
    value = estimate if grade is None else grade
    return "" if value is None else header.show(value)
