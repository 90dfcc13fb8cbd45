"""The benchmark of wrong grades: how grades are falsified, and how suspicion is scored."""

import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ordrank_experiments.graded_data import GradedData

from experiments.benchmarks import wrong_grades
from experiments.benchmarks.wrong_grades import falsify, measure, summarise, suspicions_of


@given(st.integers(0, 200), st.integers(2, 7), st.sampled_from([0.05, 0.1, 0.5]))
def test_falsified_grades_are_other_grades_of_the_scale_at_most_two_away(seed, m, share):
    labels = np.array([1.0, 2.0, 4.0, 5.0, 7.0, 8.0, 9.0])[:m]
    y = np.tile(labels, 20)
    wrong, is_wrong = falsify(y, share, np.random.default_rng(seed))
    assert is_wrong.sum() == round(share * len(y))
    assert ((wrong != y) == is_wrong).all()
    assert np.isin(wrong, labels).all()
    steps = np.abs(np.searchsorted(labels, wrong) - np.searchsorted(labels, y))
    assert steps.max() <= 2


def test_the_given_grades_are_not_modified():
    y = np.tile([1.0, 2.0, 3.0], 10)
    falsify(y, 0.5, np.random.default_rng(0))
    np.testing.assert_array_equal(y, np.tile([1.0, 2.0, 3.0], 10))


def test_suspicions_of_a_ranker_are_from_its_leave_one_out_probabilities():
    proba = np.array([[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]])
    ranker = types.SimpleNamespace(loo_proba_=proba, classes_=np.array([0, 3]))
    found = suspicions_of(ranker, np.array([0.0, 3.0, 0.0]))
    assert found["ordrank doctor"][:2].tolist() == [0.0, 0.0]  # no other grade is likelier
    assert found["ordrank doctor"][2] > 5
    assert found["ordrank, self_confidence"].tolist() == [-0.75, -0.5, -0.0]


@pytest.fixture
def separated():
    """Sixty samples on a line, so far apart by grade that a wrong one is obvious."""
    y = np.tile([0.0, 1.0, 2.0], 20)
    return GradedData(np.column_stack([y, np.random.default_rng(0).normal(0, 0.05, 60)]), y)


def test_a_method_that_knows_the_wrong_grades_has_precision_1(separated):
    methods = {
        "all": lambda X, y: {"knows": np.abs(X[:, 0] - y), "inverted": -np.abs(X[:, 0] - y)},
    }
    found = measure(separated, 0.1, 0, methods)
    assert found["knows"]["average_precision"] == 1.0
    assert found["inverted"]["average_precision"] < 0.15
    rows = summarise([found, measure(separated, 0.1, 1, methods)])
    assert [(row["method"], row["repeats"]) for row in rows] == [("knows", 2), ("inverted", 2)]
    assert (rows[0]["mean"], rows[0]["std"]) == (1.0, 0.0)
    assert summarise([found])[0]["std"] is None


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_cleanlab_finds_obvious_wrong_grades(separated, kind, monkeypatch):
    pytest.importorskip("cleanlab", reason="cleanlab is not installed: make baselines")
    monkeypatch.setattr(wrong_grades, "TREES", 20)
    found = measure(separated, 0.1, 0, {kind: wrong_grades.METHODS[kind]})
    assert all(one["average_precision"] > 0.5 for one in found.values()), found
    assert len(found) == {"classification": 6, "regression": 4}[kind]
