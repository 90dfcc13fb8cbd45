"""Search: the grade of a query by the votes of graded pictures, and the pictures nearest to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.collection.model_file import Model
from ordrank.collection.types import (
    COVERAGE,
    EmbeddedBatch,
    GradeProbability,
    RankedPicture,
    RankRequest,
    RankResult,
)
from ordrank.errors import CollectionError
from ordrank.estimators._defaults import DEFAULTS
from ordrank.metrics import nearest_label
from ordrank.neighbors.index import ExactIndex
from ordrank.neighbors.search import GRADED_ONLY, Embeddings, Filter, Hits, InMemoryIndex, VectorIndex

if TYPE_CHECKING:
    from ordrank.collection.snapshot import Snapshot

_BATCH = 256  # queries searched at a time
ONLY_GRADED = "the only graded picture of the collection does not vote on itself; give more grades with `ordrank fit`"
NO_GRADES = "no picture of the collection has a grade to vote with; give grades with `ordrank fit`"
NO_GIVEN = "no picture of the collection has a grade that estimates could be compared with; give grades"

ReadFeatures: TypeAlias = Callable[[Sequence[int]], NDArray[np.float32]]  # ids of k pictures to features (k, dim)


@dataclass(frozen=True)
class EmbeddedQuery:
    """A query with its embedding, as if it had no grade.

    Attributes
    ----------
    name : str
    vector : ndarray of shape (s + d,)
    thumbnail : bytes
    id : int or None
        If it belongs to the collection; it neither votes on itself nor is it a hit.
    by_threshold : ndarray of shape (m,), or None
        Probabilities of the threshold model, if it was held out of that.
    features : ndarray of shape (dim,), or None
        Of a picture that does not belong to the collection.
    """

    name: str
    vector: NDArray[np.float32]
    thumbnail: bytes = b""
    id: int | None = None
    by_threshold: FloatArray | None = None
    features: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Estimates:
    """Distributions of the grades of q queries."""

    proba: FloatArray  # (q, M)
    values: FloatArray  # (q,), medians
    intervals: FloatArray  # (q, 2), lowest and highest grade
    nearest: IntArray  # (q, k), ids of pictures that vote, nearest first

    def row(self, i: int) -> Estimates:
        """Return the estimate of one query."""
        rows = slice(i, i + 1)
        return Estimates(self.proba[rows], self.values[rows], self.intervals[rows], self.nearest[rows])

    def columns(self) -> FloatArray:
        """Return medians and intervals side by side, (q, 3)."""
        return np.column_stack([self.values, self.intervals])


@dataclass(frozen=True)
class Groups:
    """Groups of pictures that are held out together, by ascending ids (n,); each picture alone by default."""

    ids: IntArray
    codes: IntArray | None = None  # (n,)

    @classmethod
    def from_names(cls, ids: IntArray, names: Sequence[str | None]) -> Groups:
        """Return the groups of these names; a picture without a name is a group of its own."""
        if all(name is None for name in names):
            return cls(ids)
        numbers: dict[object, int] = {}
        keys = (i if name is None else name for i, name in enumerate(names))
        return cls(ids, np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64))

    @cached_property
    def largest(self) -> int:
        """Number of pictures of the largest group."""
        return 1 if self.codes is None else int(np.bincount(self.codes).max())

    def of(self, ids: IntArray) -> IntArray:
        """Return the group numbers of pictures."""
        return ids if self.codes is None else self.codes[np.searchsorted(self.ids, ids)]


class GradeEstimator:
    """Estimates grades by the nearest graded pictures.

    Parameters
    ----------
    index : VectorIndex
        Of any pictures; those with a given grade vote.
    model : Model
    groups : Groups, optional
        A picture of the collection gets no vote of its own group.
    """

    def __init__(self, index: VectorIndex, model: Model, groups: Groups | None = None) -> None:
        if not len(index.labels):
            raise CollectionError(NO_GRADES)
        self._model, self._index = model, index
        self._groups = groups or Groups(np.empty(0, dtype=np.int64))
        # Grades that were given since the training are labels too.
        self.labels: FloatArray = np.union1d(index.labels, model.distribution.labels)
        self._distribution = model.distribution.with_labels(self.labels)

    def estimate(
        self,
        vectors: NDArray[np.floating],
        ids: IntArray | None = None,
        by_threshold: NDArray[np.floating] | None = None,
    ) -> Estimates:
        """Estimate the grades of embeddings (q, s + d).

        Parameters
        ----------
        vectors : ndarray of shape (q, s + d)
        ids : ndarray of shape (q,), optional
            Of the pictures if they belong to the collection: neither they nor others of their groups vote on them.
        by_threshold : ndarray of shape (q, m), optional
            Probabilities by the threshold model of pictures that were held out of it; NaN for others.
        """
        k = self._distribution.n_neighbors
        hits = self._index.nearest(vectors, k if ids is None else k + self._groups.largest, GRADED_ONLY)
        grades, distances, nearest = hits.grades, hits.distances, hits.ids
        n_votes = np.full(len(vectors), min(k, nearest.shape[1]))
        if ids is not None:
            own = self._groups.of(nearest) == self._groups.of(ids)[:, None]
            alone = own.all(axis=1)  # without other groups, others of the own group vote
            own[alone] = nearest[alone] == ids[alone, None]
            others_first = np.argsort(own, axis=1, kind="stable")
            grades = np.take_along_axis(grades, others_first, axis=1)
            distances = np.take_along_axis(distances, others_first, axis=1)
            nearest = np.take_along_axis(nearest, others_first, axis=1)
            n_votes = np.minimum(k, nearest.shape[1] - own.sum(axis=1))
            if not n_votes.all():
                raise CollectionError(ONLY_GRADED)
        votes, by_threshold = np.searchsorted(self.labels, grades), self._threshold_proba(vectors, by_threshold)
        proba = np.empty((len(vectors), len(self.labels)))
        for n in np.unique(n_votes):
            rows = n_votes == n
            known = None if by_threshold is None else by_threshold[rows]
            proba[rows] = self._distribution.proba(votes[rows, :n], distances[rows, :n], vectors[rows], known)
        intervals = self._distribution.interval(proba, COVERAGE)
        return Estimates(proba, self._distribution.median(proba), intervals, nearest[:, : n_votes.min(initial=k)])

    def interval(self, proba: FloatArray, coverage: float) -> FloatArray:
        """Return the lowest and the highest grade (q, 2) of intervals from probabilities (q, M) of grades."""
        return self._distribution.interval(proba, coverage)

    def novelty(self, query: EmbeddedQuery, nearest: IntArray, read_features: ReadFeatures) -> float | None:
        """Return the p-value that a query is like the pictures that vote on it (k,), nearest first.

        They are compared in all features: principal components of a collection hardly show what is foreign to it.
        """
        ids, own = nearest[: DEFAULTS.novelty_neighbors].tolist(), query.features
        if own is None:
            assert query.id is not None  # it belongs to the collection
            own = read_features([query.id])[0]
        value = float(self._distribution.novelty(np.array([distance_to_nearest(own, read_features(ids))]))[0])
        return None if np.isnan(value) else value

    def _threshold_proba(
        self, vectors: NDArray[np.floating], held_out: NDArray[np.floating] | None
    ) -> FloatArray | None:
        """Return probabilities (q, M) by the threshold model: held-out ones where they are known."""
        distribution = self._distribution
        if held_out is None or distribution.threshold_weight == 0:
            return None
        proba = distribution.threshold.proba(np.asarray(vectors[:, distribution.n_order :], dtype=np.float64))
        known, columns = ~np.isnan(held_out[:, 0]), np.searchsorted(self.labels, self._model.distribution.labels)
        proba[known] = 0.0
        proba[np.ix_(known, columns)] = held_out[known]
        return proba


class Searcher:
    """Ranks the pictures of a snapshot for queries; safe to use from several threads.

    Parameters
    ----------
    snapshot : Snapshot
    index : VectorIndex
        Of its embeddings, in memory or on a cluster.
    """

    def __init__(self, snapshot: Snapshot, index: VectorIndex) -> None:
        self.estimator = GradeEstimator(index, snapshot.trained_model, snapshot.groups)
        self._snapshot, self._index, self._n_order = snapshot, index, snapshot.trained_model.n_order

    def rank(
        self, queries: Sequence[EmbeddedQuery], request: RankRequest, read_features: ReadFeatures
    ) -> list[RankResult]:
        """Estimate the grades of queries and rank the pictures that match the request, for each query."""
        new = [i for i, query in enumerate(queries) if query.id is None]
        batches = [new[start : start + _BATCH] for start in range(0, len(new), _BATCH)]
        # A picture of the collection is not among its own hits, nor does it get votes of its group: one at a time.
        batches += [[i] for i, query in enumerate(queries) if query.id is not None]
        results: dict[int, RankResult] = {}
        for batch in batches:
            results |= zip(batch, self._rank_batch([queries[i] for i in batch], request, read_features), strict=True)
        return [results[i] for i in range(len(queries))]

    def _rank_batch(
        self, queries: Sequence[EmbeddedQuery], request: RankRequest, read_features: ReadFeatures
    ) -> list[RankResult]:
        """Rank for one picture of the collection, or for queries none of which belongs to it."""
        first, vectors = queries[0], np.stack([query.vector for query in queries])
        ids = None if first.id is None else np.array([first.id])
        by_threshold = None if first.by_threshold is None else first.by_threshold[None]
        estimates = self.estimator.estimate(vectors, ids, by_threshold)
        results: dict[int, RankResult] = {}
        for where, rows in self._filters(request, estimates.values):
            hits = self._nearest(vectors[rows], request, where, exclude=first.id)
            for i, row in enumerate(rows.tolist()):
                results[row] = self._result(queries[row], request, estimates.row(row), hits.row(i), read_features)
        return [results[row] for row in range(len(queries))]

    def _nearest(self, vectors: NDArray[np.floating], request: RankRequest, where: Filter, exclude: int | None) -> Hits:
        """Return the nearest pictures up to the end of the requested page."""
        k = request.offset + request.k
        if request.offset and request.offset >= self._index.nearest(vectors, 0, where, exclude=exclude).total:
            k = 0  # beyond the last page: count without sorting
        return self._index.nearest(vectors, k, where, exclude=exclude)

    def _result(
        self, query: EmbeddedQuery, request: RankRequest, estimate: Estimates, hits: Hits, read_features: ReadFeatures
    ) -> RankResult:
        """Return the result of one query from its estimate and its hits."""
        header, value = self._snapshot.header, float(estimate.values[0])
        lowest, highest = estimate.intervals[0].tolist()
        found, distances = hits.ids[0, request.offset :], hits.distances[0, request.offset :]
        difference = np.subtract(self._index.take(found), query.vector, dtype=np.float64)
        order = np.linalg.norm(difference[:, : self._n_order], axis=1)
        appearance = np.linalg.norm(difference[:, self._n_order :], axis=1)
        known = np.nan if query.id is None else self._snapshot.grades[self._snapshot.row_of(query.id)]
        return RankResult(
            query=query.name,
            id=query.id,
            grade=header.format_grade(value),
            value=value,
            lowest=header.format_grade(lowest),
            highest=header.format_grade(highest),
            known_grade=None if np.isnan(known) else header.format_grade(known),
            probabilities=tuple(
                GradeProbability(header.format_grade(label), probability)
                for label, probability in zip(self.estimator.labels, estimate.proba[0].tolist(), strict=True)
            ),
            novelty=self.estimator.novelty(query, estimate.nearest[0], read_features),
            position=self._snapshot.display_position(query.vector, query.id) if request.with_position else None,
            total=hits.total,
            hits=tuple(
                self._ranked(picture, *measured)
                for picture, *measured in zip(
                    found.tolist(), distances.tolist(), order.tolist(), appearance.tolist(), strict=True
                )
            ),
            thumbnail=query.thumbnail,
        )

    def _filters(self, request: RankRequest, values: FloatArray) -> Iterator[tuple[Filter, IntArray]]:
        """Yield the filters of a request for queries of estimated grades (q,), each with the rows it is for."""
        lowest, highest = self._snapshot.grade_range(request)
        if not request.within_grade:
            yield Filter(lowest=lowest, highest=highest), np.arange(len(values))
            return
        scale = self._snapshot.scale
        grades = nearest_label(scale, values)
        for grade in np.unique(grades).tolist():
            yield Filter(lowest=lowest, highest=highest, nearest_to=(scale, grade)), np.flatnonzero(grades == grade)

    def _ranked(self, picture: int, distance: float, order: float, appearance: float) -> RankedPicture:
        found = self._snapshot.picture(self._snapshot.row_of(picture))
        grade = found.grade or found.estimate or ""
        return RankedPicture(found.id, found.name, grade, found.grade is None, distance, order, appearance)


def distance_to_nearest(features: NDArray[np.float32], others: NDArray[np.float32]) -> np.float64:
    """Return the distance of features (dim,) to the nearest of others (k, dim)."""
    return np.linalg.norm(np.subtract(others, features, dtype=np.float64), axis=1).min()  # type: ignore[no-any-return]


def split_held_out(
    vectors: NDArray[np.floating], held_out: NDArray[np.floating], n_order: int
) -> tuple[NDArray[np.float32], NDArray[np.float64] | None]:
    """Return the embeddings (n, s + d) of pictures without their own grades, and their threshold probabilities (n, m).

    ``held_out`` is that of :class:`EmbeddedBatch`; NaN leaves the embedding as it is.
    """
    order = np.where(np.isnan(held_out[:, :n_order]), vectors[:, :n_order], held_out[:, :n_order])
    without = np.hstack([order, vectors[:, n_order:]]).astype(np.float32)
    proba = np.clip(held_out[:, n_order:].astype(np.float64), 0.0, 1.0)  # a crafted file may hold any numbers
    return without, proba if held_out.shape[1] > n_order else None


def estimate_new(estimator: GradeEstimator | None, vectors: NDArray[np.floating]) -> EmbeddedBatch:
    """Return the embeddings (n, s + d) of new pictures with their estimates; NaN without pictures that vote."""
    estimates = np.full((len(vectors), 3), np.nan) if estimator is None else estimator.estimate(vectors).columns()
    return EmbeddedBatch(vectors, estimates)


def build_index(embeddings: Embeddings, model: Model) -> InMemoryIndex:
    """Return an index of embeddings, some of which must belong to graded pictures."""
    if np.isnan(embeddings.grades).all():
        raise CollectionError(NO_GRADES)
    model.check_embeddings(embeddings.vectors)
    return InMemoryIndex(embeddings, ExactIndex(embeddings.vectors, model.n_order))
