"""Grades by the votes of graded pictures, and requests for pages of a ranking."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordrank import Collection
from ordrank.collection.model_file import Model
from ordrank.collection.search import GradeEstimator, split_held_out
from ordrank.errors import CollectionError
from ordrank.estimators._distribution import GradeDistribution
from ordrank.estimators._threshold import ThresholdModel
from ordrank.neighbors import k_nearest
from ordrank.neighbors.index import ExactIndex
from ordrank.neighbors.search import Embeddings, InMemoryIndex
from ordrank.neighbors.voting import median_vote

LABELS = np.array([1.0, 2.0, 5.0])


def estimator_of(vectors, grades, n_votes=3, weights="distance", **pooled):
    """Return an estimator of pictures with the ids 10, 20, ... and one ordinal coordinate; trained on three grades."""
    ids = 10 * np.arange(1, len(vectors) + 1)
    grades, vectors = np.asarray(grades, dtype=float), np.asarray(vectors, dtype=np.float32)
    index = InMemoryIndex(Embeddings(ids, grades, np.full(len(ids), np.nan), vectors), ExactIndex(vectors, 1))
    distribution = GradeDistribution.of_votes(LABELS, np.array([0, 1, 1, 2]), n_votes, weights, n_order=1)
    return GradeEstimator(index, Model("f", None, None, {}, replace(distribution, **pooled)))


@st.composite
def graded_vectors(draw):
    """Embeddings on a grid, so that distances tie, some of them graded; a number of votes and their weights."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n = draw(st.integers(2, 30))
    vectors = rng.integers(0, 4, size=(n, 3)).astype(np.float32)
    grades = rng.choice([1.0, 2.0, 5.0], size=n)
    grades[rng.random(n) < 0.3] = np.nan
    grades[rng.integers(n)] = 2.0
    return vectors, grades, draw(st.integers(1, 40)), draw(st.sampled_from(["distance", "uniform"]))


def brute_force(vectors, grades, query, n_votes, weights):
    graded = ~np.isnan(grades)
    nearest, distances = k_nearest(vectors[graded].astype(float), query[None].astype(float), min(n_votes, graded.sum()))
    return median_vote(grades[graded][nearest], distances, weights)[0]


@given(graded_vectors())
def test_only_graded_pictures_vote(case):
    vectors, grades, n_votes, weights = case
    query = np.array([1.5, 0, 2], dtype=np.float32)
    estimator = estimator_of(vectors, grades, n_votes, weights)
    found = estimator.estimate(query[None])
    assert found.values[0] == brute_force(vectors, grades, query, n_votes, weights)
    np.testing.assert_array_equal(estimator.labels, LABELS)
    assert found.proba.sum() == pytest.approx(1)
    assert (found.proba >= 0).all()
    assert found.intervals[0, 0] <= found.values[0] <= found.intervals[0, 1]
    np.testing.assert_array_equal(found.columns(), [[found.values[0], *found.intervals[0]]])


@given(graded_vectors())
def test_pictures_do_not_vote_on_themselves(case):
    vectors, grades, n_votes, weights = case
    graded = ~np.isnan(grades)
    if graded.sum() < 2:
        return
    ids = 10 * np.arange(1, len(vectors) + 1)
    found = estimator_of(vectors, grades, n_votes, weights).estimate(vectors, ids)
    for own, value in enumerate(found.values):
        without = np.where(np.arange(len(grades)) == own, np.nan, grades)
        assert value == brute_force(vectors, without, vectors[own], n_votes, weights)


def test_a_grade_without_near_pictures_has_no_probability():
    estimator = estimator_of([[0, 0], [1, 0], [9, 9]], [1, 2, 5], n_votes=2, weights="uniform")
    found = estimator.estimate(np.zeros((1, 2), dtype=np.float32))
    assert found.values[0] == 1
    assert found.proba.tolist() == [[0.5, 0.5, 0]]


def test_a_grade_that_was_given_since_the_training_has_the_probability_of_its_votes():
    pooled = {"frequency_weight": 0.2, "threshold_weight": 0.5, "threshold": ThresholdModel(np.ones(1), np.zeros(2))}
    estimator = estimator_of([[0, 0], [0, 0], [9, 9]], [1, 3, 5], n_votes=2, weights="uniform", **pooled)
    np.testing.assert_array_equal(estimator.labels, [1, 2, 3, 5])
    found = estimator.estimate(np.zeros((1, 2), dtype=np.float32))
    # Half of the votes count 0.5 · 0.8; the frequencies ¼, ½, 0, ¼ count 0.1; Φ(0) = ½ is below both thresholds.
    np.testing.assert_allclose(found.proba, [[0.2 + 0.025 + 0.25, 0.05, 0.2, 0.025 + 0.25]])


def test_threshold_probabilities_of_pictures_are_those_held_out_where_they_are_known():
    threshold = ThresholdModel(np.array([1.0]), np.array([-1.0, 1.0]))
    pooled = {"threshold_weight": 1.0, "threshold": threshold}
    estimator = estimator_of([[0, 0], [0, 1], [9, 9]], [1, 3, 5], **pooled)
    vectors = np.array([[0, 0.5], [0, 0.5]], dtype=np.float32)
    held_out = np.array([[0.125, 0.25, 0.625], [np.nan] * 3])
    proba = estimator.estimate(vectors, np.array([10, 20]), held_out).proba
    np.testing.assert_array_equal(proba[0], [0.125, 0.25, 0, 0.625])
    np.testing.assert_allclose(proba[1][[0, 1, 3]], threshold.proba(np.array([[0.5]]))[0])
    assert proba[1, 2] == 0  # 3 was no grade of the training
    np.testing.assert_allclose(estimator.estimate(vectors).proba, [proba[1], proba[1]])


def test_the_interval_of_grades_holds_every_grade_that_is_not_extreme():
    scores = {"scores": np.full(200, 0.6), "score_index": np.zeros(200, dtype=np.int64)}
    estimator = estimator_of([[0, 0], [1, 0], [1, 0]], [1, 2, 5], weights="uniform", **scores)
    found = estimator.estimate(np.zeros((1, 2), dtype=np.float32))
    assert found.columns().tolist() == [[2, 2, 2]]
    scores["scores"] += 0.1
    estimator = estimator_of([[0, 0], [1, 0], [1, 0]], [1, 2, 5], weights="uniform", **scores)
    assert estimator.estimate(np.zeros((1, 2), dtype=np.float32)).columns().tolist() == [[2, 1, 5]]


def test_copies_at_distance_zero_vote_and_the_picture_itself_does_not():
    estimator = estimator_of([[0, 0]] * 4 + [[3, 3]], [5, 1, 1, 1, 2], n_votes=3)
    found = estimator.estimate(np.zeros((2, 2), dtype=np.float32), np.array([10, 20]))
    assert found.values.tolist() == [1, 1]
    np.testing.assert_allclose(found.proba, [[1, 0, 0], [2 / 3, 0, 1 / 3]])
    assert [sorted(nearest) for nearest in found.nearest.tolist()] == [[20, 30, 40], [10, 30, 40]]


def test_embeddings_without_grades_replace_the_ordinal_coordinates_of_pictures_that_were_in_the_fit():
    vectors = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32)
    held_out = np.array([[9, 0.25, 0.75], [np.nan] * 3], dtype=np.float32)
    without, by_threshold = split_held_out(vectors, held_out, 1)
    np.testing.assert_array_equal(without, [[9, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(by_threshold, [[0.25, 0.75], [np.nan] * 2])
    assert split_held_out(vectors, held_out[:, :1], 1)[1] is None


def test_without_grades_there_is_no_estimate():
    with pytest.raises(CollectionError, match="no picture of the collection has a grade to vote with; give grades"):
        estimator_of([[0, 0], [1, 0]], [np.nan, np.nan])


def test_the_only_graded_picture_has_no_estimate():
    estimator, query = estimator_of([[0, 0], [1, 0]], [np.nan, 3]), np.zeros((1, 2), dtype=np.float32)
    assert estimator.estimate(query, np.array([10])).values[0] == 3
    with pytest.raises(CollectionError, match="the only graded picture of the collection"):
        estimator.estimate(query, np.array([20]))


@pytest.mark.parametrize("offset", [0, 1, 30, 38, 39, 40, 1000])
def test_pages_are_parts_of_the_whole_ranking(trained, offset):
    collection = Collection.open(trained)
    everything, page = collection.rank(6, 100), collection.rank(6, 3, offset=offset)
    assert page.hits == everything.hits[offset : offset + 3]
    assert page.total == everything.total == 39
