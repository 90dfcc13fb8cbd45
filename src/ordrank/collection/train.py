"""From the features of a collection to its model, and from new features to embeddings and estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ordrank._io import write_files
from ordrank._protocols import FloatArray
from ordrank.collection.ingest.reading import ReadPicture
from ordrank.collection.model_file import (
    Model,
    current_model,
    has_files,
    read_model,
    remove_model,
    remove_unfinished,
    serialize_model,
)
from ordrank.collection.projection import Projection, fit_projection
from ordrank.collection.search import GradeEstimator, build_index
from ordrank.collection.store import ERROR, Store
from ordrank.collection.types import EmbeddedBatch
from ordrank.estimators import OrdinalMetric, OrdinalRanker
from ordrank.estimators._knn_selection import candidate_k, select_votes
from ordrank.neighbors.search import Embeddings

_ROWS_PER_BLOCK = 4096

EmbedPictures: TypeAlias = Callable[[Sequence[ReadPicture], Mapping[str, float]], EmbeddedBatch]


def train(store: Store, *, balanced: bool, notes: Mapping[str, str]) -> tuple[dict[str, Any], float]:
    """Learn from all pictures of a collection, graded or not, and embed each of them.

    The collection keeps its old model until the new one is complete.

    Parameters
    ----------
    store : Store
        Open for writing, with at least two different grades.
    balanced : bool
        Whether every grade has the same weight.
    notes : mapping
        Stored with the collection.

    Returns
    -------
    tuple of dict and float
        The selected hyperparameters, and the leave-one-out mean absolute error of the graded pictures.
    """
    grades = store.grades()
    graded = ~np.isnan(grades)
    projection, X = project(store)
    # As OrdinalRanker does, but without its embedding: embeddings are computed by the model as it is read back.
    metric = _metric(balanced).fit(X[graded], grades[graded], X[~graded])
    neighbors = metric.loo_neighbors_
    assert neighbors is not None  # the default model has a closed form
    n_votes, weights = select_votes(neighbors, grades[graded], candidate_k(int(graded.sum())))
    error = float(neighbors.errors(grades[graded], n_votes, weights=weights).mean())
    model = Model.from_metric(store.header.fingerprint, projection, metric, n_votes, weights)
    previous, (name, files) = store.header.model, serialize_model(model)
    recorded = {name, *(known for known in store.models() if has_files(store.directory, known))}
    store.record_models(recorded)  # before the files exist: those that a killed process leaves are known
    try:
        for known in recorded:
            remove_unfinished(store.directory, known)
        write_files(store.directory, files)
        # Arrays in another memory layout give other last digits: use the model as every reader will.
        written = read_model(store.directory, name, model.fingerprint)
        store.store_embeddings(name, _embed_all(written, X, grades), {**notes, ERROR: repr(error)})
    finally:
        # A reader that has just opened the collection may be about to read the previous model.
        for old in recorded - {store.note("model"), previous}:
            remove_model(store.directory, old)
    return model.choices(), error


def project(store: Store) -> tuple[Projection, NDArray[np.float32]]:
    """Return the principal components of all pictures, and the coordinates (n, p) of all pictures in them."""
    projection = fit_projection(store.features())
    return projection, np.vstack([projection(block) for block in store.features()])


def fit_ranker(X: NDArray[np.float32], grades: FloatArray, *, balanced: bool) -> OrdinalRanker:
    """Fit the default model; samples whose grade is NaN are unlabelled."""
    graded = ~np.isnan(grades)
    return OrdinalRanker(_metric(balanced)).fit(X[graded], grades[graded], unlabeled=X[~graded])


def picture_embedder(store: Store) -> EmbedPictures:
    """Return the function that embeds new pictures and estimates their grades by the graded pictures of the store."""
    model = current_model(store.directory, store.header)
    estimator = GradeEstimator(build_index(store.embeddings(), model), model)

    def embed(pictures: Sequence[ReadPicture], grades: Mapping[str, float]) -> EmbeddedBatch:
        if not pictures:
            return EmbeddedBatch(np.empty((0, 0), dtype=np.float32), np.empty(0))
        vectors = model.embed(np.stack([picture.features for picture in pictures]))
        given = np.array([grades.get(picture.name, np.nan) for picture in pictures])
        return EmbeddedBatch(vectors, _estimates(estimator, vectors, given))

    return embed


def update_estimates(store: Store, ids: Sequence[int]) -> None:
    """Estimate the grades of pictures again by the votes of all pictures that are graded now."""
    model, embeddings = current_model(store.directory, store.header), store.embeddings()
    estimator = GradeEstimator(build_index(embeddings, model), model)
    chosen = np.isin(embeddings.ids, ids)
    store.set_estimates(embeddings.ids[chosen], estimator.estimate(embeddings.vectors[chosen]))


def _metric(balanced: bool) -> OrdinalMetric:
    return OrdinalMetric(class_weight="balanced" if balanced else None)


def _embed_all(model: Model, X: NDArray[np.float32], grades: FloatArray) -> Iterator[EmbeddedBatch]:
    blocks = [slice(start, start + _ROWS_PER_BLOCK) for start in range(0, len(X), _ROWS_PER_BLOCK)]
    vectors = np.vstack([model.embed_projected(X[rows]) for rows in blocks])
    graded = ~np.isnan(grades)
    known = Embeddings(np.flatnonzero(graded), grades[graded], np.full(graded.sum(), np.nan), vectors[graded])
    estimator = GradeEstimator(build_index(known, model), model)
    for rows in blocks:
        yield EmbeddedBatch(vectors[rows], _estimates(estimator, vectors[rows], grades[rows]))


def _estimates(estimator: GradeEstimator, vectors: NDArray[np.float32], grades: FloatArray) -> FloatArray:
    """Return estimates (n,) where no grade was given, NaN elsewhere."""
    estimates, ungraded = np.full(len(vectors), np.nan), np.isnan(grades)
    if ungraded.any():
        estimates[ungraded] = estimator.estimate(vectors[ungraded])
    return estimates
