"""Grades by the votes of graded pictures, and requests for pages of a ranking."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordrank import Collection
from ordrank.collection.model_file import Model
from ordrank.collection.search import EmbeddedQuery, GradeEstimator
from ordrank.errors import CollectionError
from ordrank.neighbors import k_nearest
from ordrank.neighbors.index import ExactIndex
from ordrank.neighbors.search import Embeddings, InMemoryIndex
from ordrank.neighbors.voting import median_vote


def estimator_of(vectors, grades, n_votes=3, weights="distance"):
    ids = 10 * np.arange(1, len(vectors) + 1)
    grades, vectors = np.asarray(grades, dtype=float), np.asarray(vectors, dtype=np.float32)
    index = InMemoryIndex(Embeddings(ids, grades, np.full(len(ids), np.nan), vectors), ExactIndex(vectors, 1))
    return GradeEstimator(index, Model("f", None, None, {}, n_votes, weights))


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
    value, shares = estimator.vote(EmbeddedQuery("q", query))
    assert value == estimator.estimate(query[None])[0] == brute_force(vectors, grades, query, n_votes, weights)
    np.testing.assert_array_equal(estimator.labels, np.unique(grades[~np.isnan(grades)]))
    assert shares.sum() == pytest.approx(1)
    assert (shares >= 0).all()


@given(graded_vectors())
def test_a_picture_does_not_vote_on_itself(case):
    vectors, grades, n_votes, weights = case
    graded = np.flatnonzero(~np.isnan(grades))
    if len(graded) < 2:
        return
    own = graded[0]
    query = EmbeddedQuery("q", vectors[own], id=10 * (own + 1))
    value, _ = estimator_of(vectors, grades, n_votes, weights).vote(query)
    without = grades.copy()
    without[own] = np.nan
    assert value == brute_force(vectors, without, vectors[own], n_votes, weights)


def test_a_grade_without_near_pictures_gets_no_share():
    estimator = estimator_of([[0, 0], [1, 0], [9, 9]], [1, 2, 5], n_votes=2, weights="uniform")
    value, shares = estimator.vote(EmbeddedQuery("q", np.zeros(2, dtype=np.float32)))
    assert value == 1
    assert shares.tolist() == [0.5, 0.5, 0]


def test_without_grades_there_is_no_estimate():
    with pytest.raises(CollectionError, match="no picture of the collection has a grade to vote with; give grades"):
        estimator_of([[0, 0], [1, 0]], [np.nan, np.nan])


def test_the_only_graded_picture_has_no_estimate():
    estimator = estimator_of([[0, 0], [1, 0]], [np.nan, 3])
    assert estimator.vote(EmbeddedQuery("q", np.zeros(2, dtype=np.float32), id=10))[0] == 3
    with pytest.raises(CollectionError, match="the only graded picture of the collection"):
        estimator.vote(EmbeddedQuery("q", np.zeros(2, dtype=np.float32), id=20))


@pytest.mark.parametrize("offset", [0, 1, 30, 38, 39, 40, 1000])
def test_pages_are_parts_of_the_whole_ranking(trained, offset):
    collection = Collection.open(trained)
    everything, page = collection.rank(6, 100), collection.rank(6, 3, offset=offset)
    assert page.hits == everything.hits[offset : offset + 3]
    assert page.total == everything.total == 39
