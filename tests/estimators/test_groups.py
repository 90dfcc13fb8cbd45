"""Groups of dependent samples are held out together."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from ordrank import CMDSMetric, OrdinalMetric, OrdinalRanker
from ordrank.errors import InputError
from ordrank.estimators._defaults import DEFAULTS, Defaults
from ordrank.estimators._ordinal.training_data import draw_rows


def people(n_people=12, each=8, identity=3.0, seed=0):
    """Samples that depend on their person more than on their grade."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n_people), each)
    grade = rng.integers(0, 4, size=len(who)).astype(float)
    X = identity * rng.normal(size=(n_people, 10))[who] + 0.5 * rng.normal(size=(len(who), 10))
    X[:, 0] += grade
    return X, grade, who


def test_neighbours_equal_those_of_a_fit_without_the_group():
    X, grade, who = people()
    metric = OrdinalMetric(kernel="linear", alpha=0.01, locality=0.3).fit(X, grade, groups=who)
    near = metric.loo_neighbors_
    np.testing.assert_array_equal(near.rows, np.arange(len(X)))
    assert (who[near.indices] != who[:, None]).all()
    unit = (X - metric.mean_) / metric.scale_
    Y = metric.label_positions_[np.searchsorted(metric.labels_, grade)]
    ridge = 0.01 * len(X)  # for samples of unit mean square
    for rest, held_out in LeaveOneGroupOut().split(X, grade, who):
        A, mean = unit[rest] - unit[rest].mean(axis=0), unit[rest].mean(axis=0)
        B = np.linalg.solve(A.T @ A + ridge * np.eye(10), A.T @ Y[rest])
        embedded = np.hstack([(unit - mean) @ B, 0.3 * unit])
        distances = np.linalg.norm(embedded[held_out, None] - embedded[None, rest], axis=2)
        k = near.indices.shape[1]
        np.testing.assert_allclose(near.distances[held_out], np.sort(distances, axis=1)[:, :k], atol=1e-9)


def test_groups_of_one_sample_change_nothing():
    X, grade, _ = people(seed=3)
    alone, plain = OrdinalMetric().fit(X, grade, groups=np.arange(len(X))), OrdinalMetric().fit(X, grade)
    np.testing.assert_allclose(alone.transform(X), plain.transform(X), atol=1e-8)
    np.testing.assert_allclose(alone.loo_neighbors_.distances, plain.loo_neighbors_.distances, atol=1e-8)


def test_is_invariant_to_names_and_order_of_groups():
    X, grade, who = people()
    numbers = OrdinalMetric().fit(X, grade, groups=who).transform(X)
    names = pd.Series([f"person {12 - number}" for number in who])
    np.testing.assert_allclose(OrdinalMetric().fit(X, grade, groups=names).transform(X), numbers)


def test_all_samples_vote_if_nothing_generalises_to_other_groups():
    """The grade is a property of the person: only other samples of the same person predict it."""
    rng = np.random.default_rng(0)
    X, _, who = people(n_people=24, each=6)
    grade = rng.integers(0, 3, size=24).astype(float)[who]
    new, _, new_who = people(n_people=40, each=3, seed=9)
    new_grade = rng.integers(0, 3, size=40).astype(float)[new_who]
    plain = OrdinalRanker().fit(X, grade)
    with pytest.warns(UserWarning, match="not predicted better than by one grade for all"):
        grouped = OrdinalRanker().fit(X, grade, groups=who)
    assert (grouped.n_neighbors_, grouped.weights_) == (len(X), "uniform")
    assert len(set(grouped.predict(new))) == 1
    errors = [np.abs(ranker.predict(new) - new_grade).mean() for ranker in (grouped, plain)]
    assert errors[0] < errors[1]


def test_few_neighbours_vote_if_the_model_generalises_to_other_groups():
    X, grade, who = people(identity=1.0)
    new, new_grade, _ = people(identity=1.0, seed=9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grouped = OrdinalRanker().fit(X, grade, groups=who)
    assert grouped.n_neighbors_ < len(X)
    assert np.abs(grouped.predict(new) - new_grade).mean() < 0.8 * np.abs(np.median(grade) - new_grade).mean()


def test_a_given_number_of_neighbours_is_kept():
    X, _, who = people(n_people=24, each=6)
    grade = (np.arange(24) % 3).astype(float)[who]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert OrdinalRanker(n_neighbors=5).fit(X, grade, groups=who).n_neighbors_ == 5


@pytest.mark.parametrize("kind", ["passthrough", "pipeline", "other"])
def test_votes_of_any_metric_are_selected_by_groups(kind):
    X, _, who = people(n_people=24, each=6)
    grade = np.random.default_rng(0).integers(0, 3, size=24).astype(float)[who]
    metric = {
        "passthrough": "passthrough",
        "pipeline": make_pipeline(StandardScaler(), OrdinalMetric()),
        "other": CMDSMetric(max_iter=20),
    }[kind]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ranker = OrdinalRanker(metric).fit(X, grade, groups=who)
    assert ranker.n_neighbors_ == len(X)
    assert any("one grade for all" in str(warning.message) for warning in caught)
    if kind == "pipeline":
        near = ranker.metric_[-1].loo_neighbors_
        assert (who[near.indices] != who[near.rows, None]).all()


def nested(*steps, memory=None):
    return make_pipeline(StandardScaler(), make_pipeline(PCA(5), *steps, memory=memory), memory=memory)


@pytest.mark.parametrize("cached", [False, True])
def test_groups_and_unlabelled_samples_reach_the_metric_of_a_nested_pipeline(cached, tmp_path):
    X, grade, who = people(identity=1.0)
    memory = str(tmp_path) if cached else None
    flat = OrdinalRanker(make_pipeline(StandardScaler(), PCA(5), OrdinalMetric())).fit(X, grade, X + 0.1, who)
    ranker = OrdinalRanker(nested(OrdinalMetric(), memory=memory)).fit(X, grade, X + 0.1, who)
    near = ranker.metric_[-1][-1].loo_neighbors_
    assert (who[near.indices] != who[near.rows, None]).all()
    np.testing.assert_array_equal(ranker.embedding_, flat.embedding_)
    np.testing.assert_array_equal(ranker.predict(X + 0.2), flat.predict(X + 0.2))


@pytest.mark.parametrize(
    "metric",
    [
        FeatureUnion([("metric", OrdinalMetric())]),
        nested(FeatureUnion([("metric", OrdinalMetric())])),
        make_pipeline(OrdinalMetric(), PCA(2)),
    ],
    ids=["union", "nested", "first"],
)
def test_groups_that_do_not_reach_the_metric_are_reported(metric):
    X, grade, who = people()
    with pytest.raises(InputError, match=r"groups do not reach OrdinalMetric .*; make it the last step of a pipeline"):
        OrdinalRanker(metric).fit(X, grade, groups=who)


def test_a_large_group_limits_the_number_of_neighbours():
    X, grade, _ = people()
    who = np.where(np.arange(len(X)) < 90, 0, 1)
    metric = OrdinalMetric().fit(X, grade, groups=who)
    assert metric.loo_neighbors_.indices.shape[1] == len(X) - 90
    assert np.isfinite(metric.loo_neighbors_.distances).all()


def test_groups_with_weights_and_unlabelled_samples():
    X, grade, who = people()
    weights = (np.arange(len(X)) % 5 > 0).astype(float)
    metric = OrdinalMetric().fit(X, grade, unlabeled=X + 0.1, sample_weight=weights, groups=who)
    near = metric.loo_neighbors_
    assert (who[near.indices] != who[near.rows, None]).all()
    assert (weights[near.rows] > 0).all()
    assert (weights[near.indices] > 0).all()


def test_many_samples_use_groups_of_the_drawn_ones(monkeypatch):
    X, grade, who = people(n_people=30, each=20, identity=1.0)
    monkeypatch.setattr(OrdinalMetric, "_defaults", Defaults(selection_samples=100))
    metric = OrdinalMetric(kernel="linear").fit(X, grade, groups=who)
    near = metric.loo_neighbors_
    assert len(near.rows) == 100
    assert (who[near.indices] != who[near.rows, None]).all()
    of_all = OrdinalMetric(kernel="linear", alpha=metric.alpha_, locality=metric.locality_).fit(X, grade)
    np.testing.assert_allclose(metric.transform(X), of_all.transform(X), atol=1e-8)


def not_drawn(n_samples, n_rows):
    """Return rows that are not among the 1500 by which the ranker selects votes."""
    drawn = draw_rows(n_samples, DEFAULTS.selection_samples, np.random.default_rng(0))
    return np.setdiff1d(np.arange(n_samples), drawn)[:n_rows]


def test_all_samples_vote_if_all_that_were_drawn_are_of_one_group():
    rng = np.random.default_rng(0)
    X, grade, who = rng.normal(size=(2000, 3)), np.arange(2000) % 3, np.zeros(2000)
    who[not_drawn(2000, 2)] = 1
    with pytest.warns(UserWarning, match="one grade for all"):
        ranker = OrdinalRanker("passthrough").fit(X, grade, groups=who)
    assert ranker.n_neighbors_ == 2000


def test_a_metric_whose_drawn_samples_are_of_one_group_holds_samples_out_alone(monkeypatch):
    monkeypatch.setattr(OrdinalMetric, "_defaults", Defaults(selection_samples=60))
    X, grade, _ = people()
    plain = OrdinalMetric().fit(X, grade)
    who = np.zeros(len(X))
    who[np.setdiff1d(np.arange(len(X)), plain.loo_neighbors_.rows)[:2]] = 1
    with pytest.warns(UserWarning, match="the 60 samples drawn for model selection are all of one group"):
        metric = OrdinalMetric().fit(X, grade, groups=who)
    np.testing.assert_array_equal(metric.transform(X), plain.transform(X))
    with pytest.warns(UserWarning, match="one grade for all"):
        assert OrdinalRanker().fit(X, grade, groups=who).n_neighbors_ == len(X)


def test_folds_of_which_no_sample_was_drawn_are_skipped():
    rng = np.random.default_rng(0)
    X, grade, who = rng.normal(size=(2000, 3)), np.arange(2000) % 3, np.arange(2000) % 4
    X[:, 0] += grade
    who[not_drawn(2000, 3)] = 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OrdinalRanker(CMDSMetric(2, solver="fast", scale="fixed", alpha=1.0)).fit(X, grade, groups=who)


def test_weights_that_leave_one_group_are_reported():
    X, grade, who = people()
    with pytest.raises(InputError, match="all samples are of one group"):
        OrdinalMetric().fit(X, grade, sample_weight=(who == 0).astype(float), groups=who)


@pytest.mark.parametrize("estimator", [OrdinalMetric(), OrdinalRanker()], ids=["metric", "ranker"])
@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(96), "all samples are of one group"),
        (np.arange(95), "inconsistent numbers of samples"),
        (np.zeros((96, 2)), "one group for each sample"),
        (np.where(np.arange(96) == 5, np.nan, 1.0), "groups has missing values"),
        (np.array([None, *range(95)], dtype=object), "groups has missing values"),
        (np.array(["a", *range(95)], dtype=object), "different types"),
    ],
)
def test_invalid_groups_are_rejected(estimator, groups, message):
    X, grade, _ = people()
    with pytest.raises((InputError, ValueError), match=message):
        estimator.fit(X, grade, groups=groups)
