"""What to grade next: properties of the choice that hold for any samples."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ordrank.errors import InputError
from ordrank.labeling import active
from ordrank.labeling.active import choose_samples, expected_error, random_subset


def indices(*arguments, **options):
    return [choice.index for choice in choose_samples(*arguments, **options)]


@st.composite
def problems(draw):
    """Ungraded samples, graded ones and expected errors, from a continuous distribution, so that there are no ties."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_labeled, d = draw(st.integers(1, 40)), draw(st.integers(0, 12)), draw(st.integers(1, 6))
    X, labeled = rng.normal(size=(n, d)), rng.normal(size=(n_labeled, d))
    return X, labeled, rng.uniform(0.1, 1.0, n)


@given(problems(), st.integers(0, 50))
def test_choices_are_different_samples_as_many_as_there_are(problem, k):
    X, labeled, error = problem
    chosen = choose_samples(X, k, labeled=labeled, error=error)
    assert len({choice.index for choice in chosen}) == len(chosen) == min(k, len(X))
    assert all(0 <= choice.index < len(X) for choice in chosen)
    assert sum(choice.represents + 1 for choice in chosen) <= len(X)


@given(problems(), st.integers(1, 10))
def test_a_shorter_batch_is_the_beginning_of_a_longer_one(problem, k):
    X, labeled, error = problem
    longer = indices(X, k + 5, labeled=labeled, error=error)
    assert indices(X, k, labeled=labeled, error=error) == longer[:k]


@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_the_samples_does_not_matter(problem, random):
    X, labeled, error = problem
    assume(len(X) > 2)  # two samples tell the same about each other
    order = random.sample(range(len(X)), len(X))
    shuffled = indices(X[order], 5, labeled=labeled[::-1], error=error[order])
    assert [order[i] for i in shuffled] == indices(X, 5, labeled=labeled, error=error)


@given(problems(), st.floats(1e-3, 1e3), st.integers(0, 99))
def test_rotation_translation_and_units_do_not_matter(problem, scale, seed):
    X, labeled, error = problem
    assume(len(X) > 2)
    rng = np.random.default_rng(seed)
    rotation, shift = np.linalg.qr(rng.normal(size=(X.shape[1],) * 2))[0], rng.normal(size=X.shape[1])
    moved = [scale * (samples @ rotation + shift) for samples in (X, labeled)]
    found = choose_samples(moved[0], 5, labeled=moved[1], error=1e-3 * error)
    assert found == choose_samples(X, 5, labeled=labeled, error=error)


def test_choices_maximise_the_reduction_of_the_expected_error():
    """The greedy updates equal the formula with an explicit posterior covariance after each choice."""
    rng = np.random.default_rng(0)
    X, labeled, error = rng.normal(size=(30, 3)), rng.normal(size=(6, 3)), rng.uniform(0.1, 1, 30)
    squared = ((X[:, None] - X) ** 2).sum(axis=2)
    h = np.median(squared[np.triu_indices(30, 1)])
    chosen: list[int] = []
    for _ in range(8):
        given_samples = np.vstack([labeled, X[chosen]])
        cross = np.exp(-((X[:, None] - given_samples) ** 2).sum(axis=2) / h)
        among = np.exp(-((given_samples[:, None] - given_samples) ** 2).sum(axis=2) / h)
        noisy = among + active._NOISE * np.eye(len(among))
        C = np.exp(-squared / h) - cross @ np.linalg.solve(noisy, cross.T)
        scores = (error**2 @ C**2) / (C.diagonal() + active._NOISE)
        scores[chosen] = -np.inf
        chosen.append(int(scores.argmax()))
    assert indices(X, 8, labeled=labeled, error=error) == chosen


@given(st.integers(0, 99))
def test_a_cold_start_covers_all_clusters(seed):
    rng = np.random.default_rng(seed)
    centres = 20 * np.eye(6)
    cluster = np.repeat(np.arange(6), [40, 20, 10, 10, 5, 5])
    X = centres[cluster] + rng.normal(size=(len(cluster), 6))
    first = choose_samples(X, 6)
    assert {int(cluster[choice.index]) for choice in first} == set(range(6))
    assert {choice.reason for choice in first} == {"representative"}
    counts = {int(cluster[choice.index]): choice.represents for choice in first}
    assert counts == {0: 39, 1: 19, 2: 9, 3: 9, 4: 4, 5: 4}
    assert cluster[first[0].index] == 0  # that tells about most samples


@given(st.integers(0, 99), st.integers(2, 30))
def test_copies_are_not_chosen_while_others_remain(seed, n_copies):
    rng = np.random.default_rng(seed)
    X = np.vstack([np.repeat(rng.normal(size=(1, 3)), n_copies, axis=0), rng.normal(size=(8, 3))])
    chosen = indices(X, 9)
    assert sum(i < n_copies for i in chosen) == 1
    labeled = X[:1]
    assert min(indices(X, 8, labeled=labeled)) >= n_copies
    assert len(set(indices(X, len(X), labeled=labeled))) == len(X)  # but in the end


def test_a_graded_sample_discounts_its_surroundings():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 10
    X = np.vstack([left, right])
    assert all(i >= 20 for i in indices(X, 1, labeled=left[:2] + 0.1))
    assert all(i < 20 for i in indices(X, 1, labeled=right[:2] + 0.1))


def test_uncertain_samples_come_first():
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 8])
    labeled = np.vstack([X[:5], X[40:45]]) + 0.01
    error = np.where(np.arange(80) < 40, 0.1, 1.0)
    first = choose_samples(X, 5, labeled=labeled, error=error)
    assert all(choice.index >= 40 for choice in first)
    assert "uncertain" in {choice.reason for choice in first} <= {"uncertain", "novel"}


def test_outliers_are_not_chosen_before_there_is_something_to_learn_from_others():
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(size=(80, 2)), [[60.0, -60.0]]])
    error = np.where(np.arange(81) < 80, 0.5, 1.0)
    assert 80 not in indices(X, 3, labeled=X[:2] + 0.01, error=error)


def test_samples_unlike_all_graded_ones_are_novel():
    rng = np.random.default_rng(2)
    X = np.vstack([rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 30])
    by_cluster = {choice.index >= 40: choice.reason for choice in choose_samples(X, 10, labeled=X[:20] + 0.01)}
    assert by_cluster[True] == "novel"
    assert {choice.reason for choice in choose_samples(X, 10, labeled=X[:2])} == {"representative"}  # too few to say


@settings(max_examples=20)
@given(st.integers(1, 100))
def test_samples_in_one_point_can_be_chosen(n):
    assert len(indices(np.ones((n, 2)), n, labeled=np.ones((3, 2)), error=np.zeros(n))) == n


def test_nothing_is_chosen_from_nothing():
    assert choose_samples(np.empty((0, 3)), 5) == []
    assert choose_samples(np.empty((0, 3)), 5, labeled=np.ones((2, 3)), error=[]) == []
    assert choose_samples(np.ones((4, 3)), 0) == []


@pytest.mark.parametrize(
    ("X", "options", "words"),
    [
        ([[np.nan, 1.0]], {}, "X must be a table of finite numbers"),
        ([1.0, 2.0], {}, "X must be a table of finite numbers"),
        ([[1.0, 2.0]], {"labeled": [[np.inf, 1.0]]}, "labeled must be a table of finite numbers"),
        ([[1.0, 2.0]], {"labeled": [[1.0]]}, "labeled has 1 feature"),
        ([[1.0, 2.0]], {"error": [np.nan]}, "error must hold 1 finite number"),
        ([[1.0, 2.0]], {"error": [-1.0]}, "error must hold 1 finite number"),
        ([[1.0, 2.0]], {"error": [1.0, 1.0]}, "error must hold 1 finite number"),
    ],
)
def test_what_cannot_be_used_is_an_input_error(X, options, words):
    with pytest.raises(InputError, match=words):
        choose_samples(X, 1, **options)


def test_a_negative_number_is_an_input_error():
    with pytest.raises(InputError, match="not negative"):
        choose_samples(np.ones((3, 2)), -1)


def test_inputs_are_not_modified():
    rng = np.random.default_rng(0)
    X, labeled, error = rng.normal(size=(20, 2)), rng.normal(size=(5, 2)), rng.uniform(size=20)
    copies = X.copy(), labeled.copy(), error.copy()
    choose_samples(X, 5, labeled=labeled, error=error)
    for array, copy in zip((X, labeled, error), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_of_many_samples_a_fixed_subset_is_considered():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(active.MAX_CANDIDATES + 1500, 2))
    first = choose_samples(X, 10)
    assert first == choose_samples(X, 10)
    allowed = random_subset(np.arange(len(X)))
    assert {choice.index for choice in first} <= set(allowed.tolist())
    assert len(X) / 2 < sum(choice.represents for choice in first) <= len(X)  # counted among all


@given(st.integers(1, 500), st.integers(1, 100))
def test_most_of_a_subset_stays_when_rows_leave(n, limit):
    rows = np.arange(n)
    subset = random_subset(rows, limit)
    assert len(subset) == min(n, limit)
    assert (np.diff(subset) > 0).all()
    left = np.setdiff1d(rows, subset[:1])
    if len(left):
        assert set(subset[1:].tolist()) <= set(random_subset(left, limit).tolist())


def test_expected_error_is_that_of_the_median():
    labels = np.array([1.0, 2.0, 5.0])
    proba = np.array([[1.0, 0.0, 0.0], [0.25, 0.5, 0.25], [0.0, 0.25, 0.75]])
    np.testing.assert_allclose(expected_error(proba, labels), [0.0, 0.25 + 0.75, 0.75])
