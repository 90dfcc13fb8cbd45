"""Means, paired tests and their summary."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from ordrank_experiments.compare_report import compose
from ordrank_experiments.conditions import Split
from ordrank_experiments.machine import describe_machine
from ordrank_experiments.method import Method
from ordrank_experiments.scores import Score
from ordrank_experiments.significance import (
    corrected_resampled_t,
    make_rows,
    paired_permutation,
    paired_tests,
    summarise,
)

DEFAULT, TRANSDUCTIVE = "OrdinalMetric", "OrdinalMetric + unlabelled"


class TestCorrectedT:
    def test_closed_form_with_two_degrees_of_freedom(self):
        """d = 1, 2, 3 with as many test as training samples: t = 2 / √((1/3 + 1)·1) = √3."""
        t = np.sqrt(3)
        by_hand = 1 - t / np.sqrt(2 + t**2)
        assert corrected_resampled_t(np.array([1.0, 2.0, 3.0]), 1.0) == pytest.approx(by_hand)

    @given(st.lists(st.floats(-1, 1), min_size=3, max_size=20).filter(lambda d: np.std(d) > 1e-3))
    def test_without_overlap_it_is_the_paired_t_test(self, differences):
        plain = scipy.stats.ttest_1samp(differences, 0).pvalue
        assert corrected_resampled_t(np.array(differences), 0.0) == pytest.approx(plain, rel=1e-9, abs=1e-12)
        assert corrected_resampled_t(np.array(differences), 2.0) >= plain - 1e-12

    def test_constant_differences(self):
        assert corrected_resampled_t(np.zeros(5), 1.0) == 1.0
        assert corrected_resampled_t(np.full(5, 0.1), 1.0) == 0.0
        assert corrected_resampled_t(np.array([0.1, 0.1 + 1e-17, 0.3 - 0.2]), 1.0) == 0.0


class TestPermutation:
    def test_exact_on_few_samples(self):
        """Three equal differences: two of the eight signs are as extreme."""
        assert paired_permutation(np.ones(3)) == pytest.approx(0.25, abs=0.02)

    def test_no_difference_and_a_large_one(self):
        assert paired_permutation(np.zeros(10)) == 1.0
        assert paired_permutation(np.ones(100)) < 0.001

    @settings(max_examples=10)
    @given(st.lists(st.integers(-3, 3), min_size=2, max_size=30))
    def test_is_symmetric(self, differences):
        d = np.array(differences, dtype=float)
        assert paired_permutation(d) == pytest.approx(paired_permutation(-d))


def method(name, kind="baseline"):
    return Method(name, kind, None, "no choice")


def scored(method, maes, **more):
    return [
        Score(Split("c", "random", 30, repeat), method, 30, 30, mae=mae, tau=0.5, **more)
        if mae is not None
        else Score(Split("c", "random", 30, repeat), method, 30, 30, failure="failed: broken")
        for repeat, mae in enumerate(maes)
    ]


RNG = np.random.default_rng(0)
NOISE = RNG.normal(size=20) * 0.01
METHODS = [
    method(DEFAULT, "default"),
    method(TRANSDUCTIVE, "transductive"),
    method("worse"),
    method("alike"),
    method("better"),
    method("broken"),
    method("half", "paper"),
]


@pytest.fixture
def scores():
    base = 0.5 + RNG.normal(size=20) * 0.05
    return [
        *scored(DEFAULT, base, chosen={"alpha": 0.123456, "kernel": "rbf"}),
        *scored(TRANSDUCTIVE, base - 0.3),
        *scored("worse", base + 0.1 + NOISE),
        *scored("alike", base + NOISE),
        *scored("better", base - 0.1 + NOISE),
        *scored("broken", [None] * 20),
        *scored("half", [error + 0.1 if i % 2 else None for i, error in enumerate(base)]),
    ]


class TestPairedTests:
    def test_outcome_against_each_method(self, scores):
        found = {v.method: v for v in paired_tests(scores, METHODS)}
        assert {name: v.outcome for name, v in found.items()} == {
            "worse": "win",
            "alike": "tie",
            "better": "loss",
            "broken": "not run",
            "half": "win",
        }
        assert found["worse"].difference == pytest.approx(0.1, abs=0.01)
        assert found["better"].difference < 0
        assert (found["half"].splits, found["broken"].splits) == (10, 0)
        assert (found["half"].splits_won, found["better"].splits_won) == (10, 0)
        assert all(v.uncorrected_p <= v.p for v in found.values() if v.p is not None)

    def test_many_test_samples_make_ties_that_are_losses_without_correction(self):
        gains = 0.1 + RNG.normal(size=20) * 0.05
        many = [replace(one, n_test=600) for one in (*scored(DEFAULT, [0.5] * 20), *scored("better", 0.5 - gains))]
        rows, (test,) = make_rows(many, METHODS), paired_tests(many, METHODS)
        assert (test.outcome, test.uncorrected_outcome) == ("tie", "loss")
        summary = summarise(rows, [test])
        assert (summary["best_or_tied"], summary["best_or_tied_uncorrected"]) == (1, 0)
        assert summary["conditions"][0]["lost_to_uncorrected"] == ["better"]

    def test_rows_count_finished_splits_and_name_failures(self, scores):
        rows = {row.method: row for row in make_rows(scores, METHODS)}
        assert list(rows) == [one.name for one in METHODS]
        assert (rows["half"].repeats, rows["half"].splits, rows["half"].failure) == (10, 20, "failed: broken")
        assert (rows["broken"].mae_mean, rows["broken"].mae_std, rows["broken"].repeats) == (None, None, 0)
        errors = np.array([one.mae for one in scores[:20]])
        assert rows[DEFAULT].mae_mean == pytest.approx(errors.mean())
        assert rows[DEFAULT].mae_std == pytest.approx(errors.std(ddof=1))
        assert rows[DEFAULT].chosen == {"alpha 0.123": 20, "kernel rbf": 20}
        assert rows["worse"].accuracy is None

    def test_summary_counts_losses_and_excludes_the_transductive_method(self, scores):
        rows, tests = make_rows(scores, METHODS), paired_tests(scores, METHODS)
        summary = summarise(rows, tests)
        (condition,) = summary["conditions"]
        assert summary["against_baselines"] == {"win": 1, "tie": 1, "loss": 1, "undecided": 0, "not run": 1}
        assert summary["against_paper"] == {"win": 1, "tie": 0, "loss": 0, "undecided": 0, "not run": 0}
        assert (condition["best_other"], condition["lost_to"], condition["best_or_tied"]) == (
            "better",
            ["better"],
            False,
        )
        assert condition["margin"] == pytest.approx(-0.1, abs=0.01)
        assert TRANSDUCTIVE not in summary["by_method"]

    def test_best_if_no_method_is_better(self, scores):
        rest = [one for one in scores if one.method != "better"]
        summary = summarise(make_rows(rest, METHODS), paired_tests(rest, METHODS))
        assert summary["best_or_tied"] == 1
        assert summary["conditions"][0]["best_other"] == "alike"

    def test_a_single_split_is_tested_by_its_samples(self):
        right, wrong = (0.0,) * 40, (0.0,) * 25 + (1.0,) * 15
        one = [*scored(DEFAULT, [0.0], errors=right), *scored("worse", [15 / 40], errors=wrong)]
        (test,) = paired_tests(one, METHODS)
        assert (test.outcome, test.splits) == ("win", 1)
        assert make_rows(one, METHODS)[0].mae_std is None

    def test_a_single_split_without_errors_of_samples_is_undecided(self):
        (test,) = paired_tests([*scored(DEFAULT, [0.1]), *scored("worse", [0.9])], METHODS)
        assert (test.outcome, test.p) == ("undecided", None)

    @pytest.mark.parametrize(("splits", "outcome"), [(2, "undecided"), (4, "undecided"), (5, "win")])
    def test_fewer_than_five_splits_are_undecided(self, splits, outcome):
        few = [*scored(DEFAULT, [0.1] * splits), *scored("worse", [0.9] * splits)]
        found = paired_tests(few, METHODS)
        assert [v.outcome for v in found] == [outcome]
        assert summarise(make_rows(few, METHODS), found)["best_or_tied"] == (outcome == "win")

    def test_a_failed_default_model_wins_nothing(self):
        broken = [*scored(DEFAULT, [None, None]), *scored("worse", [0.9, 0.8])]
        rows, tests = make_rows(broken, METHODS), paired_tests(broken, METHODS)
        summary = summarise(rows, tests)
        assert tests[0].outcome == "not run"
        assert (summary["best_or_tied"], summary["lowest"], summary["conditions"][0]["margin"]) == (0, 0, None)


def test_the_report_lists_losses_and_missing_results(scores):
    rows, tests = make_rows(scores, METHODS), paired_tests(scores, METHODS)
    benchmark = {
        "name": "c",
        "title": "C",
        "samples": 60,
        "rules": [{"name": "random", "text": "at random", "max_repeats": None}],
    }
    document = {
        "benchmarks": [benchmark],
        "summary": summarise(rows, tests),
        "choices": {one.name: one.choices for one in METHODS},
        "seconds": {"this_run": 1.0, "splits_run": 20, "splits": 20, "of_methods": {DEFAULT: 1.0}},
        "seed": 1,
        **describe_machine(),
    }
    files = compose(rows, tests, document)
    text = files["report.md"].decode()
    lost = text.partition("## Losses")[2].partition("## C")[0]
    assert "| c | random | 30 | better | -0.1" in lost
    assert lost.count("| c |") == 1
    assert "| broken | failed: broken | c random, n = 30 |" in text
    assert "| half | failed: broken | c random, n = 30 (10 of 20 splits) |" in text
    assert "| broken | failed |" in text
    for mark, name in (("▲", "worse"), ("=", "alike"), ("▼", "better")):
        assert re.search(rf"^\| {name} \| 0\.\d+ ± 0\.\d+ {mark} \|$", text, re.MULTILINE)
    assert files["mae-c.png"].startswith(b"\x89PNG")


def test_drawn_tables_are_tested_without_a_correction_for_overlap():
    pair, own = [method(DEFAULT, "default"), method("other")], np.linspace(0.3, 0.4, 20)
    scores = [*scored(DEFAULT, own), *scored("other", own + 0.01 + NOISE)]
    (overlapping,) = paired_tests(scores, pair)
    (drawn,) = paired_tests([replace(one, split=replace(one.split, rule="drawn")) for one in scores], pair)
    assert overlapping.p > overlapping.uncorrected_p
    assert drawn.p == drawn.uncorrected_p == overlapping.uncorrected_p


def test_probabilities_are_averaged_only_if_every_split_has_them():
    complete = scored("m", [0.1, 0.2, None], rps=0.3, calibration=0.1)
    (row,) = make_rows(complete, [method("m")])
    assert (row.rps, row.calibration) == (pytest.approx(0.3), pytest.approx(0.1))
    (row,) = make_rows([replace(complete[0], rps=None), *complete[1:]], [method("m")])
    assert row.rps is None
    assert row.calibration is not None
