"""From the features of a collection to its model, and from new features to places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray
from ordrank.collection.answering import Voters, search_places
from ordrank.collection.model_file import (
    Model,
    has_files,
    read_model,
    remove_model,
    remove_unfinished,
    serialize_model,
)
from ordrank.collection.projection import Projection, fit_projection
from ordrank.collection.records import Placed, Places
from ordrank.collection.store import Store
from ordrank.errors import CollectionError
from ordrank.estimators import OrdinalMetric, OrdinalRanker
from ordrank.estimators.ballots import choose_votes, numbers_of_votes
from ordrank.features.reading import ReadPicture
from ordrank.pages import write_files

_ROWS_PER_BLOCK = 4096

# Notes of a collection: whether its model was trained with grades that count the same, and how good it is.
BALANCED, ERROR = "balanced", "error"

Placing: TypeAlias = Callable[[Sequence[ReadPicture], Mapping[str, float]], Placed]


@dataclass(frozen=True)
class Trained:
    """What was chosen, and the mean absolute error of graded pictures that were left out of a fit without lens."""

    chosen: dict[str, Any]
    error: float


def train(store: Store, *, balanced: bool, notes: Mapping[str, str]) -> Trained:
    """Learn from all pictures of a collection, graded or not, and give each its place.

    Until the last moment the collection keeps its old model, and so it does if something goes wrong.

    Parameters
    ----------
    store : Store
        Open to be written in, with two different grades at least.
    balanced : bool
        Let every grade count the same.
    notes : mapping
        Kept with the collection.
    """
    grades = store.grades()
    graded = ~np.isnan(grades)
    projection, X = project(store)
    # As the ranker of all pictures would, but for the places that it would give them: theirs are those of the file.
    metric = _metric(balanced).fit(X[graded], grades[graded], X[~graded])
    n_votes, weights = choose_votes(metric.neighborhoods_, grades[graded], numbers_of_votes(int(graded.sum())))
    model = Model(store.header.fingerprint, projection, metric, n_votes, weights)
    before, (name, files) = store.header.model, serialize_model(model)
    recorded = {name, *(known for known in store.models() if has_files(store.directory, known))}
    store.record_models(recorded)  # before the files exist: those that a killed process leaves are known
    try:
        for known in recorded:
            remove_unfinished(store.directory, known)
        write_files(store.directory, files)
        # As it was read: arrays that lie differently in memory give other last digits.
        written = read_model(store.directory, name, model.fingerprint)
        error = float(metric.neighborhoods_.errors(grades[graded], n_votes, weights=weights).mean())
        store.place_all(name, _places(written, X, grades), {**notes, ERROR: repr(error)})
    finally:
        # A reader that opened the collection a moment ago may still be about to read the model before.
        for old in recorded - {store.state("model"), before}:
            remove_model(store.directory, old)
    return Trained(model.choices(), error)


def is_balanced(store: Store) -> bool:
    """Whether every grade counted the same in the last fit."""
    return store.state(BALANCED) == str(True)


def error_of(store: Store) -> float | None:
    """Mean absolute error of the grades of graded pictures that were left out of the last fit."""
    error = store.state(ERROR)
    return None if error is None else float(error)


def project(store: Store) -> tuple[Projection, NDArray[np.float32]]:
    """Principal components of all pictures, and all pictures in them, (n, p)."""
    projection = fit_projection(store.features())
    return projection, np.vstack([projection(block) for block in store.features()])


def fit_ranker(X: NDArray[np.float32], grades: FloatArray, *, balanced: bool) -> OrdinalRanker:
    """Fit the default model; samples with NaN for a grade join as unlabelled ones."""
    graded = ~np.isnan(grades)
    return OrdinalRanker(_metric(balanced)).fit(X[graded], grades[graded], unlabeled=X[~graded])


def _metric(balanced: bool) -> OrdinalMetric:
    return OrdinalMetric(class_weight="balanced" if balanced else None)


def place_pictures(store: Store) -> Placing:
    """Return how new pictures get their places: by the model, and the votes of the graded pictures."""
    model = model_of(store)
    places = store.places()
    voters = Voters(search_places(places, model), model)

    def place(pictures: Sequence[ReadPicture], grades: Mapping[str, float]) -> Placed:
        if not pictures:
            return Placed(np.empty((0, 0), dtype=np.float32), np.empty(0))
        vectors = model.place(np.stack([picture.features for picture in pictures]))
        given = np.array([grades.get(picture.name, np.nan) for picture in pictures])
        return Placed(vectors, _estimates(voters, vectors, given))

    return place


def estimate_again(store: Store, ids: Sequence[int]) -> None:
    """Estimate the grades of pictures by the votes of all graded pictures that are there by now."""
    model, places = model_of(store), store.places()
    voters = Voters(search_places(places, model), model)
    asking = np.isin(places.ids, ids)
    store.set_estimates(places.ids[asking], voters.grade(places.vectors[asking]))


def model_of(store: Store) -> Model:
    """Read the model of a collection."""
    if store.header.model is None:
        raise CollectionError(
            f"{store.directory} has no model yet; train it with `ordrank fit --out {store.directory}`"
        )
    return read_model(store.directory, store.header.model, store.header.fingerprint)


def _places(model: Model, X: NDArray[np.float32], grades: FloatArray) -> Iterator[Placed]:
    blocks = [slice(start, start + _ROWS_PER_BLOCK) for start in range(0, len(X), _ROWS_PER_BLOCK)]
    vectors = np.vstack([model.place_projected(X[rows]) for rows in blocks])
    graded = ~np.isnan(grades)
    known = Places(np.flatnonzero(graded), grades[graded], np.full(graded.sum(), np.nan), vectors[graded])
    voters = Voters(search_places(known, model), model)
    for rows in blocks:
        yield Placed(vectors[rows], _estimates(voters, vectors[rows], grades[rows]))


def _estimates(voters: Voters, vectors: NDArray[np.float32], grades: FloatArray) -> FloatArray:
    """Grades by vote where none was given, NaN elsewhere."""
    estimates, asking = np.full(len(vectors), np.nan), np.isnan(grades)
    if asking.any():
        estimates[asking] = voters.grade(vectors[asking])
    return estimates
