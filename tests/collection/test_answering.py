from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordrank.collection.answering import Comparer, Query, Voters, Wanted
from ordrank.collection.index import ExactIndex
from ordrank.collection.model_file import Model
from ordrank.collection.records import Places
from ordrank.collection.searching import SearchedPlaces, nearest_label
from ordrank.errors import CollectionError
from ordrank.neighbors import k_nearest
from ordrank.votes import count_votes

grades = st.lists(st.integers(-20, 20).map(lambda number: number / 2), min_size=1, max_size=12)


@given(labels=grades.map(np.unique), values=grades.map(np.array))
def test_the_nearest_label_is_nearest_and_the_lower_one_half_way(labels, values):
    distances = np.abs(values[:, None] - labels)
    np.testing.assert_array_equal(nearest_label(labels, values), distances.argmin(axis=1))


def voters_of(vectors, given_grades, n_votes=3, weights="distance"):
    given_grades = np.asarray(given_grades, dtype=float)
    return Voters(searched_of(vectors, given_grades), Model("f", None, None, n_votes, weights))


def searched_of(vectors, given_grades):
    ids = 10 * np.arange(1, len(vectors) + 1)
    places = Places(ids, given_grades, np.full(len(ids), np.nan), np.asarray(vectors, dtype=np.float32))
    return SearchedPlaces(places, ExactIndex(places.vectors, 1))


@st.composite
def elections(draw):
    """Places on a grid, so that distances tie, some of them graded; a number of votes and how they count."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n = draw(st.integers(2, 30))
    vectors = rng.integers(0, 4, size=(n, 3)).astype(np.float32)
    given_grades = rng.choice([1.0, 2.0, 5.0], size=n)
    given_grades[rng.random(n) < 0.3] = np.nan
    given_grades[rng.integers(n)] = 2.0
    return vectors, given_grades, draw(st.integers(1, 40)), draw(st.sampled_from(["distance", "uniform"]))


def brute_force(vectors, given_grades, query, n_votes, weights):
    graded = ~np.isnan(given_grades)
    nearest, distances = k_nearest(vectors[graded].astype(float), query[None].astype(float), min(n_votes, graded.sum()))
    return count_votes(given_grades[graded][nearest], distances, aggregate="median", weights=weights)[0]


@given(elections())
def test_the_graded_pictures_vote_and_no_others(election):
    vectors, given_grades, n_votes, weights = election
    query = np.array([1.5, 0, 2], dtype=np.float32)
    voters = voters_of(vectors, given_grades, n_votes, weights)
    value, shares = voters.vote(Query("q", query, b""))
    assert value == voters.grade(query[None])[0] == brute_force(vectors, given_grades, query, n_votes, weights)
    np.testing.assert_array_equal(voters.labels, np.unique(given_grades[~np.isnan(given_grades)]))
    assert shares.sum() == pytest.approx(1)
    assert (shares >= 0).all()


@given(elections())
def test_a_picture_has_no_vote_on_itself(election):
    vectors, given_grades, n_votes, weights = election
    graded = np.flatnonzero(~np.isnan(given_grades))
    if len(graded) < 2:
        return
    own = graded[0]
    value, _ = voters_of(vectors, given_grades, n_votes, weights).vote(Query("q", vectors[own], b"", 10 * (own + 1)))
    without = given_grades.copy()
    without[own] = np.nan
    assert value == brute_force(vectors, without, vectors[own], n_votes, weights)


def test_a_grade_that_nobody_near_has_gets_no_share():
    voters = voters_of([[0, 0], [1, 0], [9, 9]], [1, 2, 5], n_votes=2, weights="uniform")
    value, shares = voters.vote(Query("q", np.zeros(2, dtype=np.float32), b""))
    assert value == 1
    assert shares.tolist() == [0.5, 0.5, 0]


def test_nobody_to_vote_is_said():
    with pytest.raises(CollectionError, match="no picture of the collection has a grade to vote with; give grades"):
        voters_of([[0, 0], [1, 0]], [np.nan, np.nan])


def test_nobody_else_to_vote_is_said():
    voters = voters_of([[0, 0], [1, 0]], [np.nan, 3])
    assert voters.vote(Query("q", np.zeros(2, dtype=np.float32), b"", 10))[0] == 3
    with pytest.raises(CollectionError, match="the only picture of the collection that has a grade"):
        voters.vote(Query("q", np.zeros(2, dtype=np.float32), b"", 20))


def test_beyond_the_last_picture_nothing_is_searched(monkeypatch):
    searched = searched_of(np.arange(12.0).reshape(6, 2), np.array([1.0, 1, 2, 2, 3, 3]))
    comparer = Comparer(searched, Model("f", None, SimpleNamespace(n_components_=1), 2, "uniform"))
    query = Query("q", np.zeros(2, dtype=np.float32), b"", 60)
    asked, plain = [], ExactIndex.nearest

    def nearest(self, queries, k, *, allowed=None):
        asked.append(k)
        return plain(self, queries, k, allowed=allowed)

    monkeypatch.setattr(ExactIndex, "nearest", nearest)
    found = comparer.compare(query, Wanted(k=2, offset=4))
    assert (found.total, found.ids.tolist(), asked) == (5, [50], [3, 6])
    found = comparer.compare(query, Wanted(k=2, offset=5))
    assert (found.total, found.ids.tolist(), asked) == (5, [], [3, 6, 3])
