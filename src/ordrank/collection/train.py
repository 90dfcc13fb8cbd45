"""From the features of a collection to its model, and from new features to embeddings and estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ordrank._io import write_files
from ordrank._protocols import FloatArray, IntArray
from ordrank.collection.comparing import implied_by_comparisons
from ordrank.collection.executor import LOCAL, Executor, ReadRange
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
from ordrank.collection.projection import FeatureMoments, Projection, components_of, moments_of, one_blas_thread
from ordrank.collection.search import (
    GradeEstimator,
    Groups,
    build_index,
    distance_to_nearest,
    estimate_new,
    split_held_out,
)
from ordrank.collection.store import Store
from ordrank.collection.types import EmbeddedBatch
from ordrank.estimators import OrdinalMetric, OrdinalRanker
from ordrank.neighbors.search import Embeddings

_ROWS_PER_BLOCK = 4096
# Pictures per matrix of moments, and at least four for each of its rows: on a cluster matrices move, not features.
_ROWS_PER_MOMENTS, _ROWS_PER_FEATURE = 8192, 4
_FOLDS = 5
# Below 1: grades that are given after the training vote too.
_MAX_THRESHOLD_WEIGHT = 0.95
_NOVELTY_SAMPLES = 500  # held-out pictures that novel ones are compared with: p-values from 1/501

EmbedPictures: TypeAlias = Callable[[Sequence[ReadPicture], Mapping[str, float]], EmbeddedBatch]


def train(
    store: Store, *, balanced: bool, notes: Mapping[str, str], executor: Executor = LOCAL
) -> tuple[dict[str, Any], float]:
    """Learn from all pictures of a collection, graded or not, and embed each of them.

    Grades that comparisons probably imply, see :func:`implied_by_comparisons`, take part as if they were given; they
    are stored with the model, and vote until the next training. The error is that of the fit before: implied grades
    derive from given ones, also from the one that is held out, so that errors with them are optimistic. The collection
    keeps its old model until the new one is complete.

    Parameters
    ----------
    store : Store
        Open for writing, with at least two different grades.
    balanced : bool
        Whether every grade has the same weight.
    notes : mapping
        Stored with the collection.
    executor : Executor
        Where all but the map itself is computed: components, coordinates, fits without a fold, embeddings, estimates.

    Returns
    -------
    tuple of dict and float
        The selected hyperparameters, and the leave-one-out mean absolute error of the graded pictures, without
        comparisons.
    """
    store.check_counts()
    grades = store.grades()
    graded = ~np.isnan(grades)
    projection, X = project(store, executor)
    groups = Groups.from_names(np.arange(len(X)), store.groups())
    ranker = fit_ranker(X, grades, groups.codes, balanced=balanced)
    errors = held_out_errors(ranker, grades[graded])
    error = float(errors.mean()) if len(errors) else float("nan")
    implied = _implied_grades(store, ranker, X, grades)
    labels = np.where(graded, grades, implied)
    if not np.isnan(implied).all():
        ranker = fit_ranker(X, labels, groups.codes, balanced=balanced)
    held_out = _held_out(ranker, X, labels, groups.codes, executor)
    held_out[~graded] = np.nan  # estimates of the others may know what comparisons imply
    model = Model.from_ranker(store.header.fingerprint, projection, ranker)
    nearest = _held_out_nearest(store, ranker, np.flatnonzero(~np.isnan(labels)))
    w = min(model.distribution.threshold_weight, _MAX_THRESHOLD_WEIGHT)
    model = replace(model, distribution=replace(model.distribution, nearest=nearest, threshold_weight=w))
    previous, (name, files) = store.header.model, serialize_model(model)
    recorded = {name, *(known for known in store.models() if has_files(store.directory, known))}
    store.record_models(recorded)  # before the files exist: those that a killed process leaves are known
    try:
        for known in recorded:
            remove_unfinished(store.directory, known)
        write_files(store.directory, files)
        # Arrays in another memory layout give other last digits: use the model as every reader will.
        written = read_model(store.directory, name, model.fingerprint, store.header.dim)
        ids, embedded = store.ids(), _embed_all(written, X, labels, groups, held_out, executor)
        implied_by_id = {ids[i]: float(implied[i]) for i in np.flatnonzero(~np.isnan(implied))}
        store.store_embeddings(name, embedded, grades, error, notes, implied_by_id)
    finally:
        # A reader that has just opened the collection may be about to read the previous model.
        for old in recorded - {store.note("model"), previous}:
            remove_model(store.directory, old)
    return model.choices(), error


def project(store: Store, executor: Executor = LOCAL) -> tuple[Projection, NDArray[np.float32]]:
    """Return the principal components of all pictures, and the coordinates (n, p) of all pictures in them."""
    read, ids = executor.feature_reader(store), store.ids()
    rows = max(_ROWS_PER_MOMENTS, _ROWS_PER_FEATURE * store.header.dim)
    parts = [ids[start : start + rows] for start in range(0, len(ids), rows)]
    ranges = [range(part[0], part[-1] + 1) for part in parts]
    center = next(store.features(ranges[0])).mean(axis=0)
    projection = components_of(reduce(add, executor.map(_moments, ranges, read, center)))
    return projection, np.vstack(list(executor.map(_coordinates, ranges, read, projection)))


def _moments(ids: range, read: ReadRange, center: NDArray[np.float32]) -> FeatureMoments:
    """Return the moments of the features of pictures with ids in a range."""
    return moments_of(read(ids), center)


def _coordinates(ids: range, read: ReadRange, projection: Projection) -> NDArray[np.float32]:
    """Return the coordinates (b, p) of pictures with ids in a range."""
    with one_blas_thread():  # others give other last digits
        return np.vstack([projection(block) for block in read(ids)])


def fit_ranker(X: NDArray[np.float32], grades: FloatArray, groups: IntArray | None, *, balanced: bool) -> OrdinalRanker:
    """Fit the default model; samples whose grade is NaN are unlabelled, those of one group are held out together."""
    graded = ~np.isnan(grades)
    # A single group cannot be held out.
    together = None if groups is None or len(np.unique(groups[graded])) < 2 else groups[graded]
    return OrdinalRanker(_metric(balanced)).fit(X[graded], grades[graded], X[~graded], together)


def picture_embedder(store: Store) -> EmbedPictures:
    """Return the function that embeds new pictures and estimates their grades by the graded pictures of the store."""
    model = current_model(store.directory, store.header)
    voting = store.voting_embeddings(model.embedding.n_features_out)
    estimator = GradeEstimator(build_index(voting, model), model) if len(voting.ids) else None

    def embed(pictures: Sequence[ReadPicture], grades: Mapping[str, float]) -> EmbeddedBatch:
        if not pictures:
            return EmbeddedBatch(np.empty((0, 0), dtype=np.float32), np.empty((0, 3)))
        return estimate_new(estimator, model.embed(np.stack([picture.features for picture in pictures])))

    return embed


def update_estimates(store: Store, ids: Sequence[int]) -> None:
    """Estimate the grades of pictures again by the votes of all pictures that are graded now."""
    model, embeddings = current_model(store.directory, store.header), store.embeddings()
    ids_of_all = np.array([row.id for row in store.rows()], dtype=np.int64)
    groups = Groups.from_names(ids_of_all, store.groups())
    estimator = GradeEstimator(build_index(embeddings, model), model, groups)
    graded = ~np.isnan(embeddings.grades)
    chosen = np.isin(embeddings.ids, ids) & (~graded | (graded.sum() > 1))  # nobody votes on the only graded picture
    found = estimator.estimate(embeddings.vectors[chosen], embeddings.ids[chosen])
    store.set_estimates(embeddings.ids[chosen], found.columns())


def held_out_errors(ranker: OrdinalRanker, grades: FloatArray) -> FloatArray:
    """Return the absolute errors (q,) of the training samples that were held out of the fit."""
    proba = ranker.loo_proba_
    known = ~np.isnan(proba[:, 0])
    return np.abs(ranker.grade_distribution_.median(proba[known]) - grades[known])


def _implied_grades(store: Store, ranker: OrdinalRanker, X: NDArray[np.float32], grades: FloatArray) -> FloatArray:
    """Return the grades (n,) of ungraded pictures that comparisons imply, given a ranker of the given grades."""
    compared = {picture for one in store.comparisons() for picture in (one.first, one.second)}
    if not compared:
        return np.full(len(grades), np.nan)
    estimates, graded = np.full(len(grades), np.nan), ~np.isnan(grades)
    estimates[graded] = _known_medians(ranker)
    others = np.flatnonzero(~graded & np.isin(store.ids(), list(compared)))
    if len(others):
        estimates[others] = ranker.predict(X[others])
    order = store.header.order
    labels = np.unique(grades[graded]) if order is None else np.arange(len(order), dtype=np.float64)
    return implied_by_comparisons(store, grades, labels, estimates)


def _known_medians(ranker: OrdinalRanker) -> FloatArray:
    """Return the leave-one-out estimates (n,) of the training samples; NaN for those that were not held out."""
    proba = ranker.loo_proba_
    known, medians = ~np.isnan(proba[:, 0]), np.full(len(proba), np.nan)
    medians[known] = ranker.grade_distribution_.median(proba[known])
    return medians


def _held_out(
    ranker: OrdinalRanker, X: NDArray[np.float32], grades: FloatArray, groups: IntArray | None, executor: Executor
) -> FloatArray:
    """Return what each graded picture is without its own grade, see :class:`EmbeddedBatch`; NaN for others."""
    metric, graded = ranker.metric_, np.flatnonzero(~np.isnan(grades))
    positions = metric.loo_positions_
    if positions is None:
        positions = _out_of_fold_positions(metric, X, grades, groups, executor)
    by_threshold = ranker._held_out.by_threshold[:, : 0 if ranker.grade_distribution_.threshold_weight == 0 else None]
    held_out = np.full((len(X), positions.shape[1] + by_threshold.shape[1]), np.nan)
    held_out[graded] = np.hstack([positions, by_threshold])
    return held_out


def _held_out_nearest(store: Store, ranker: OrdinalRanker, graded: IntArray) -> FloatArray:
    """Return the distances in all features, ascending, of held-out pictures to the nearest of their voting neighbours.

    ``graded`` are the numbers of the training samples among all pictures.
    """
    rows, neighbors = ranker._held_out.rows, ranker._held_out.neighbors
    drawn = np.random.default_rng(0).permutation(len(rows))[:_NOVELTY_SAMPLES]
    needed, position = np.unique(np.column_stack([rows, neighbors])[drawn], return_inverse=True)
    features = store.features_of(np.array(store.ids())[graded[needed]].tolist())
    distances = [distance_to_nearest(features[own], features[others]) for own, *others in position]
    return np.sort(np.array(distances))


def _out_of_fold_positions(
    metric: OrdinalMetric,
    X: NDArray[np.float32],
    grades: FloatArray,
    groups: IntArray | None,
    executor: Executor = LOCAL,
) -> FloatArray:
    """Return the ordinal map (n, s) of graded pictures, of which there are many, from fits without their fold."""
    from sklearn.model_selection import GroupKFold

    graded, s = np.flatnonzero(~np.isnan(grades)), metric.n_components_
    selected = {"kernel": metric.kernel_, "alpha": metric.alpha_, "nu": metric.nu_, "locality": metric.locality_}
    if metric.sharpness_ is not None:
        selected["sharpness"] = metric.sharpness_
    fold = clone(metric).set_params(**selected, n_components=s)  # a fold may lack a rare grade
    together = graded if groups is None or len(np.unique(groups[graded])) < 2 else groups[graded]
    splitter = GroupKFold(min(_FOLDS, len(np.unique(together))), shuffle=True, random_state=0)
    folds, positions = list(splitter.split(graded, groups=together)), np.empty((len(graded), s))
    unlabeled = X[np.isnan(grades)] if metric.nu_ > 0 else None
    ideal = metric.label_positions_[np.searchsorted(metric.labels_, grades[graded])]
    fits = executor.map(_fit_without_fold, folds, fold, X[graded], grades[graded], unlabeled, ideal)
    for (_, held_out), found in zip(folds, fits, strict=True):
        positions[held_out] = found
    return positions


def _fit_without_fold(
    fold: tuple[IntArray, IntArray],
    metric: OrdinalMetric,
    X: NDArray[np.float32],
    grades: FloatArray,
    unlabeled: NDArray[np.float32] | None,
    ideal: FloatArray,
) -> FloatArray:
    """Fit an unfitted metric to the training rows of a fold, and return the ordinal map (h, s) of the held-out rows.

    ``ideal`` (n, s) are the positions of the grades of all rows, to whose axes the map is turned.
    """
    train, held_out = fold
    labels, first, counts = np.unique(grades[train], return_index=True, return_counts=True)
    ideal = ideal[train[first]]
    if len(labels) < 2:  # the only picture of the other grade was held out
        return np.repeat(ideal, len(held_out), axis=0)
    with one_blas_thread():  # others give other last digits
        fitted = clone(metric).fit(X[train], grades[train], unlabeled)
        found = fitted.transform(X[held_out])[:, : ideal.shape[1]]
    # Other frequencies turn the ideal positions of the grades a little, or flip their axes.
    u, _, vt = np.linalg.svd(fitted.label_positions_.T @ (counts[:, None] * ideal))
    return np.asarray(found @ (u @ vt))


def _metric(balanced: bool) -> OrdinalMetric:
    return OrdinalMetric(class_weight="balanced" if balanced else None)


def _embed_all(
    model: Model,
    X: NDArray[np.float32],
    grades: FloatArray,
    groups: Groups,
    held_out: FloatArray,
    executor: Executor,
) -> Iterator[EmbeddedBatch]:
    blocks = [slice(start, start + _ROWS_PER_BLOCK) for start in range(0, len(X), _ROWS_PER_BLOCK)]
    vectors = np.vstack(list(executor.map(_embed, (X[rows] for rows in blocks), model)))
    graded, ids = ~np.isnan(grades), np.arange(len(X))
    known = Embeddings(ids[graded], grades[graded], np.full(graded.sum(), np.nan), vectors[graded])
    estimator = GradeEstimator(build_index(known, model), model, groups)
    queries = ((vectors[rows], held_out[rows], ids[rows]) for rows in blocks)
    for rows, estimates in zip(blocks, executor.map(_estimate, queries, estimator, model.n_order), strict=True):
        yield EmbeddedBatch(vectors[rows], estimates, held_out[rows])


def _embed(X: NDArray[np.float32], model: Model) -> NDArray[np.float32]:
    """Return the embeddings (b, s + d) of coordinates (b, p)."""
    with one_blas_thread():  # others give other last digits
        return model.embed_projected(X)


def _estimate(
    queries: tuple[NDArray[np.float32], FloatArray, IntArray], estimator: GradeEstimator, n_order: int
) -> FloatArray:
    """Return the estimates (b, 3) of pictures with these embeddings, held-out values and ids."""
    vectors, held_out, ids = queries
    without_grade, by_threshold = split_held_out(vectors, held_out, n_order)
    return estimator.estimate(without_grade, ids, by_threshold).columns()
