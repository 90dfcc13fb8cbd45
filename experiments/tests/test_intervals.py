"""The benchmark of intervals: splits, oracle, rounding and scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ordrank_experiments.graded_data import GradedData

from experiments.benchmarks import intervals
from experiments.benchmarks.intervals import (
    SplitSamples,
    measure,
    oracle,
    rounded_inwards,
    score,
    shortest_interval,
    split,
    summarise,
)

LABELS = np.array([1.0, 2.0, 4.0])


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_no_shorter_interval_holds_as_many_grades(grades):
    grades = np.array(grades, dtype=float)
    low, high = shortest_interval(grades)
    assert ((grades >= low) & (grades <= high)).mean() >= 0.9
    for a in np.unique(grades):
        for b in np.unique(grades):
            if 0 <= b - a < high - low:
                assert ((grades >= a) & (grades <= b)).mean() < 0.9


def test_the_oracle_has_one_interval_for_every_predicted_median():
    medians = np.array([1.0] * 10 + [2.0] * 10)
    grades = np.array([1.0] * 9 + [9.0] + [2.0] * 5 + [3.0] * 5)
    found = oracle(medians, grades)
    assert {tuple(row) for row in found[:10]} == {(1.0, 1.0)}
    assert {tuple(row) for row in found[10:]} == {(2.0, 3.0)}


@given(st.floats(0, 5), st.floats(0, 5))
def test_rounding_inwards_changes_no_coverage_unless_no_label_is_inside(a, b):
    low, high = sorted((a, b))
    ((first, last),) = rounded_inwards(np.array([[low, high]]), LABELS)
    inside = LABELS[(low <= LABELS) & (high >= LABELS)]
    assert (first, last) == (inside[0], inside[-1]) if len(inside) else first == last


def test_scores_by_hand():
    samples = SplitSamples(np.zeros((3, 1)), LABELS, None, np.zeros((3, 1)), np.array([1.0, 2.0, 4.0]))
    found = score(np.array([[1.0, 2.0], [4.0, 4.0], [1.0, 4.0]]), samples)
    assert found["coverage"] == pytest.approx(2 / 3)
    assert found["width"] == pytest.approx((1 + 0 + 3) / 3)
    assert found["grades"] == pytest.approx((2 + 1 + 3) / 3)
    assert found["by_grade"] == {1.0: (1, 1), 2.0: (0, 1), 4.0: (1, 1)}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.tile(LABELS, 80)
    return GradedData(np.column_stack([y + rng.normal(0, 0.5, 240), rng.normal(size=240)]), y, np.arange(240) // 6)


def test_people_are_in_one_half_only(data):
    samples = split(data, "people", 3)
    assert len(samples.y) + len(samples.y_test) == 240
    assert len(np.unique(samples.groups)) == 20
    assert split(data, "random", 3).groups is None
    np.testing.assert_array_equal(split(data, "random", 3).X, split(data, "random", 3).X)


def test_coverage_of_a_grade_needs_fifty_test_samples_a_split():
    found = {"coverage": 0.5, "width": 1.0, "grades": 2.0, "by_grade": {1.0: (50, 60), 2.0: (10, 20)}}
    (row,) = summarise([{"m": found}, {"m": found | {"by_grade": {1.0: (30, 40), 2.0: (90, 70)}}}])
    assert row["by_grade"] == {"1": 0.8}
    assert (row["coverage"], row["coverage_std"], row["repeats"]) == (0.5, 0.0, 2)


def test_the_oracle_covers_90_percent_of_the_test_samples(data):
    found = measure(data, "people", 0, {"oracle": intervals.oracle_intervals})
    assert 0.9 <= found["oracle"]["coverage"] <= 1


@pytest.mark.parametrize("rule", ["random", "people"])
def test_mapie_covers_about_90_percent(data, rule, monkeypatch):
    pytest.importorskip("mapie", reason="mapie is not installed: make baselines")
    monkeypatch.setattr(intervals, "random_forest", lambda: intervals.RandomForestRegressor(20, random_state=0))
    found = measure(data, rule, 0, {"MAPIE": intervals.mapie_intervals})
    assert set(found) == {"MAPIE CV+, kernel ridge", "MAPIE CV+, random forest"}
    assert all(0.8 <= one["coverage"] <= 1 and one["width"] < 2.5 for one in found.values()), found


def test_ordrank_is_asked_for_90_percent_and_given_the_groups(data, monkeypatch):
    class Ranker:
        def fit(self, X, y, groups=None):
            self.grouped = groups is not None
            return self

        def predict_interval(self, X, coverage):
            assert (self.grouped, coverage) == (True, 0.9)
            return np.tile([1, 4], (len(X), 1))

    monkeypatch.setattr(intervals, "OrdinalRanker", Ranker)
    found = measure(data, "people", 0, {"ordrank": intervals.ordrank_intervals})
    assert (found["ordrank"]["coverage"], found["ordrank"]["width"]) == (1.0, 3.0)
