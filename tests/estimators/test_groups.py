"""Samples that belong together: what is chosen is chosen as if all of a group were left out."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ordrank import CMDSMetric, OrdinalMetric, OrdinalRanker
from ordrank.errors import InputError
from ordrank.estimators import order_map


def people(n_people=12, each=8, identity=3.0, seed=0):
    """Faces that look like their person more than like their grade."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n_people), each)
    grade = rng.integers(0, 4, size=len(who)).astype(float)
    X = identity * rng.normal(size=(n_people, 10))[who] + 0.5 * rng.normal(size=(len(who), 10))
    X[:, 0] += grade
    return X, grade, who


def of_recipe(recipe, locality):
    kernel = {"kernel": "linear"} if recipe.sharpness is None else {"kernel": "rbf", "sharpness": recipe.sharpness}
    return OrdinalMetric(**kernel, alpha=recipe.alpha, locality=locality)


def test_neighbours_are_those_of_a_fit_without_the_group():
    X, grade, who = people()
    metric = OrdinalMetric(kernel="linear", alpha=0.01, locality=0.3).fit(X, grade, groups=who)
    near = metric.neighborhoods_
    np.testing.assert_array_equal(near.rows, np.arange(len(X)))
    assert (who[near.indices] != who[:, None]).all()
    unit = (X - metric.mean_) / metric.size_
    Y = metric.label_positions_[np.searchsorted(metric.labels_, grade)]
    ridge = 0.01 * len(X)  # of samples of unit size
    for rest, left_out in LeaveOneGroupOut().split(X, grade, who):
        A, mean = unit[rest] - unit[rest].mean(axis=0), unit[rest].mean(axis=0)
        B = np.linalg.solve(A.T @ A + ridge * np.eye(10), A.T @ Y[rest])
        places = np.hstack([(unit - mean) @ B, 0.3 * unit])
        distances = np.linalg.norm(places[left_out, None] - places[None, rest], axis=2)
        k = near.indices.shape[1]
        np.testing.assert_allclose(near.distances[left_out], np.sort(distances, axis=1)[:, :k], atol=1e-9)


def test_groups_of_one_are_no_groups():
    X, grade, _ = people(seed=3)
    alone, plain = OrdinalMetric().fit(X, grade, groups=np.arange(len(X))), OrdinalMetric().fit(X, grade)
    np.testing.assert_allclose(alone.transform(X), plain.transform(X), atol=1e-8)
    np.testing.assert_allclose(alone.neighborhoods_.distances, plain.neighborhoods_.distances, atol=1e-8)


def test_names_and_order_of_groups_do_not_matter():
    X, grade, who = people()
    numbers = OrdinalMetric().fit(X, grade, groups=who).transform(X)
    names = pd.Series([f"person {12 - number}" for number in who])
    np.testing.assert_allclose(OrdinalMetric().fit(X, grade, groups=names).transform(X), numbers)


def test_what_only_tells_people_apart_is_not_learned():
    """A grade that is the person's own: alone, a sample is graded by the others of its person; a group is not."""
    rng = np.random.default_rng(0)
    X, _, who = people(n_people=24, each=6)
    grade = rng.integers(0, 3, size=24).astype(float)[who]
    new, _, new_who = people(n_people=40, each=3, seed=9)
    new_grade = rng.integers(0, 3, size=40).astype(float)[new_who]
    plain = OrdinalRanker().fit(X, grade)
    with pytest.warns(UserWarning, match="not graded better than by one grade for all"):
        told = OrdinalRanker().fit(X, grade, groups=who)
    assert (told.n_neighbors_, told.weights_) == (len(X), "uniform")
    assert len(set(told.predict(new))) == 1
    errors = [np.abs(ranker.predict(new) - new_grade).mean() for ranker in (told, plain)]
    assert errors[0] < errors[1]


def test_what_holds_for_all_people_is_learned():
    X, grade, who = people(identity=1.0)
    new, new_grade, _ = people(identity=1.0, seed=9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = OrdinalRanker().fit(X, grade, groups=who)
    assert told.n_neighbors_ < len(X)
    assert np.abs(told.predict(new) - new_grade).mean() < 0.8 * np.abs(np.median(grade) - new_grade).mean()


def test_given_votes_stay():
    X, _, who = people(n_people=24, each=6)
    grade = (np.arange(24) % 3).astype(float)[who]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert OrdinalRanker(n_neighbors=5).fit(X, grade, groups=who).n_neighbors_ == 5


@pytest.mark.parametrize("kind", ["passthrough", "pipeline", "other"])
def test_any_metric_is_chosen_votes_for_by_people(kind):
    X, _, who = people(n_people=24, each=6)
    grade = np.random.default_rng(0).integers(0, 3, size=24).astype(float)[who]
    metric = {
        "passthrough": "passthrough",
        "pipeline": make_pipeline(StandardScaler(), OrdinalMetric()),
        "other": CMDSMetric(max_iter=20),
    }[kind]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ranker = OrdinalRanker(metric).fit(X, grade, groups=who)
    assert ranker.n_neighbors_ == len(X)
    assert any("one grade for all" in str(warning.message) for warning in said)
    if kind == "pipeline":
        near = ranker.metric_[-1].neighborhoods_
        assert (who[near.indices] != who[near.rows, None]).all()


def test_a_large_group_leaves_fewer_votes():
    X, grade, _ = people()
    who = np.where(np.arange(len(X)) < 90, 0, 1)
    metric = OrdinalMetric().fit(X, grade, groups=who)
    assert metric.neighborhoods_.indices.shape[1] == len(X) - 90
    assert np.isfinite(metric.neighborhoods_.distances).all()


def test_with_weights_and_unlabelled_samples():
    X, grade, who = people()
    weights = (np.arange(len(X)) % 5 > 0).astype(float)
    metric = OrdinalMetric().fit(X, grade, unlabeled=X + 0.1, sample_weight=weights, groups=who)
    counted = who[weights > 0]
    near = metric.neighborhoods_
    assert (counted[near.indices] != counted[near.rows, None]).all()


def test_of_many_samples_the_drawn_ones_tell(monkeypatch):
    X, grade, who = people(n_people=30, each=20, identity=1.0)
    monkeypatch.setattr(order_map, "SEARCH_SAMPLES", 100)
    monkeypatch.setattr("ordrank.estimators.order_fit.SEARCH_SAMPLES", 100)
    metric = OrdinalMetric(kernel="linear").fit(X, grade, groups=who)
    near = metric.neighborhoods_
    assert len(near.rows) == 100
    assert (who[near.indices] != who[near.rows, None]).all()
    all_of_them = OrdinalMetric(kernel="linear", alpha=metric.alpha_, locality=metric.locality_).fit(X, grade)
    np.testing.assert_allclose(metric.transform(X), all_of_them.transform(X), atol=1e-8)


@pytest.mark.parametrize("estimator", [OrdinalMetric(), OrdinalRanker()], ids=["metric", "ranker"])
@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(96), "all samples are of one group"),
        (np.arange(95), "inconsistent numbers of samples"),
        (np.zeros((96, 2)), "one group for each sample"),
        (np.where(np.arange(96) == 5, np.nan, 1.0), "groups has gaps"),
        (np.array([None, *range(95)], dtype=object), "groups has gaps"),
        (np.array(["a", *range(95)], dtype=object), "different types"),
    ],
)
def test_what_is_wrong_with_groups_is_said(estimator, groups, message):
    X, grade, _ = people()
    with pytest.raises((InputError, ValueError), match=message):
        estimator.fit(X, grade, groups=groups)
