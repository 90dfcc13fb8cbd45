"""Scores, paired tests and verdicts."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from ordrank.errors import PeerFailedError
from ordrank.experiments.compare_report import compose
from ordrank.experiments.contender import Contender, Fitted
from ordrank.experiments.contests import Contest, Match, Rule, Split
from ordrank.experiments.machine import describe_machine
from ordrank.experiments.scores import Score, play, quadratic_kappa, score
from ordrank.experiments.verdicts import (
    by_plain_test,
    corrected_resampled_t,
    make_rows,
    make_verdicts,
    paired_permutation,
    summarise,
)

OURS, SEES_MORE = "OrdinalMetric", "OrdinalMetric + unlabelled"


class TestCorrectedT:
    def test_by_hand(self):
        """d = 1, 2, 3 with as many test as training samples: t = 2 / √((1/3 + 1)·1) = √3 with two degrees."""
        t = np.sqrt(3)
        by_hand = 1 - t / np.sqrt(2 + t**2)  # the distribution of t with two degrees in closed form, both sides
        assert corrected_resampled_t(np.array([1.0, 2.0, 3.0]), 1.0) == pytest.approx(by_hand)

    @given(st.lists(st.floats(-1, 1), min_size=3, max_size=20).filter(lambda d: np.std(d) > 1e-3))
    def test_without_overlap_it_is_the_paired_t_test(self, differences):
        plain = scipy.stats.ttest_1samp(differences, 0).pvalue
        assert corrected_resampled_t(np.array(differences), 0.0) == pytest.approx(plain, rel=1e-9, abs=1e-12)
        assert corrected_resampled_t(np.array(differences), 2.0) >= plain - 1e-12

    def test_differences_without_spread(self):
        assert corrected_resampled_t(np.zeros(5), 1.0) == 1.0
        assert corrected_resampled_t(np.full(5, 0.1), 1.0) == 0.0
        assert corrected_resampled_t(np.array([0.1, 0.1 + 1e-17, 0.3 - 0.2]), 1.0) == 0.0


class TestPermutation:
    def test_exact_on_few_samples(self):
        """Three equal gains: two of the eight signs reach as far."""
        assert paired_permutation(np.ones(3)) == pytest.approx(0.25, abs=0.02)

    def test_no_difference_and_a_clear_one(self):
        assert paired_permutation(np.zeros(10)) == 1.0
        assert paired_permutation(np.ones(100)) < 0.001

    @settings(max_examples=10)
    @given(st.lists(st.integers(-3, 3), min_size=2, max_size=30))
    def test_sides_do_not_matter(self, differences):
        d = np.array(differences, dtype=float)
        assert paired_permutation(d) == pytest.approx(paired_permutation(-d))


def contender(name, kind="peer", fit=None, **limits):
    return Contender(name, kind, fit, "no choice", **limits)


def scored(method, maes, **more):
    return [
        Score(Match("c", "random", 30, repeat), method, 30, 30, mae=mae, tau=0.5, **more)
        if mae is not None
        else Score(Match("c", "random", 30, repeat), method, 30, 30, failure="failed: broken")
        for repeat, mae in enumerate(maes)
    ]


RNG = np.random.default_rng(0)
NOISE = RNG.normal(size=20) * 0.01
CONTENDERS = [
    contender(OURS, "ours"),
    contender(SEES_MORE, "transductive"),
    contender("worse"),
    contender("alike"),
    contender("better"),
    contender("broken"),
    contender("half", "paper"),
]


@pytest.fixture
def scores():
    base = 0.5 + RNG.normal(size=20) * 0.05
    return [
        *scored(OURS, base, chosen={"alpha": 0.123456, "kernel": "rbf"}),
        *scored(SEES_MORE, base - 0.3),
        *scored("worse", base + 0.1 + NOISE),
        *scored("alike", base + NOISE),
        *scored("better", base - 0.1 + NOISE),
        *scored("broken", [None] * 20),
        *scored("half", [error + 0.1 if i % 2 else None for i, error in enumerate(base)]),
    ]


class TestVerdicts:
    def test_of_each_rival(self, scores):
        found = {v.method: v for v in make_verdicts(scores, CONTENDERS)}
        assert {name: v.verdict for name, v in found.items()} == {
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
        assert all(v.plain_p <= v.p for v in found.values() if v.p is not None)

    def test_many_test_samples_make_ties_that_the_plain_test_does_not(self):
        gains = 0.1 + RNG.normal(size=20) * 0.05
        many = [replace(one, n_test=600) for one in (*scored(OURS, [0.5] * 20), *scored("better", 0.5 - gains))]
        rows, (verdict,) = make_rows(many, CONTENDERS), make_verdicts(many, CONTENDERS)
        assert (verdict.verdict, by_plain_test(verdict)) == ("tie", "loss")
        summary = summarise(rows, [verdict])
        assert (summary["best_or_tied"], summary["best_or_tied_plain_test"]) == (1, 0)
        assert summary["places"][0]["lost_to_plain_test"] == ["better"]

    def test_rows_count_what_was_finished_and_say_why_not(self, scores):
        rows = {row.method: row for row in make_rows(scores, CONTENDERS)}
        assert list(rows) == [one.name for one in CONTENDERS]
        assert (rows["half"].repeats, rows["half"].splits, rows["half"].failure) == (10, 20, "failed: broken")
        assert (rows["broken"].mae_mean, rows["broken"].mae_std, rows["broken"].repeats) == (None, None, 0)
        ours = np.array([one.mae for one in scores[:20]])
        assert rows[OURS].mae_mean == pytest.approx(ours.mean())
        assert rows[OURS].mae_std == pytest.approx(ours.std(ddof=1))
        assert rows[OURS].chosen == {"alpha 0.123": 20, "kernel rbf": 20}
        assert rows["worse"].accuracy is None

    def test_summary_counts_losses_and_leaves_out_who_sees_more(self, scores):
        rows, verdicts = make_rows(scores, CONTENDERS), make_verdicts(scores, CONTENDERS)
        summary = summarise(rows, verdicts)
        (place,) = summary["places"]
        assert summary["against_peers"] == {"win": 1, "tie": 1, "loss": 1, "undecided": 0, "not run": 1}
        assert summary["against_paper"] == {"win": 1, "tie": 0, "loss": 0, "undecided": 0, "not run": 0}
        assert (place["best_rival"], place["lost_to"], place["best_or_tied"]) == ("better", ["better"], False)
        assert place["margin"] == pytest.approx(-0.1, abs=0.01)
        assert SEES_MORE not in summary["by_method"]

    def test_without_the_better_one_it_is_best(self, scores):
        rest = [one for one in scores if one.method != "better"]
        summary = summarise(make_rows(rest, CONTENDERS), make_verdicts(rest, CONTENDERS))
        assert summary["best_or_tied"] == 1
        assert summary["places"][0]["best_rival"] == "alike"

    def test_a_single_split_is_judged_by_its_test_samples(self):
        right, wrong = (0.0,) * 40, (0.0,) * 25 + (1.0,) * 15
        one = [*scored(OURS, [0.0], errors=right), *scored("worse", [15 / 40], errors=wrong)]
        (verdict,) = make_verdicts(one, CONTENDERS)
        assert (verdict.verdict, verdict.splits) == ("win", 1)
        assert make_rows(one, CONTENDERS)[0].mae_std is None

    def test_a_single_split_without_its_errors_decides_nothing(self):
        (verdict,) = make_verdicts([*scored(OURS, [0.1]), *scored("worse", [0.9])], CONTENDERS)
        assert (verdict.verdict, verdict.p) == ("undecided", None)

    @pytest.mark.parametrize(("splits", "verdict"), [(2, "undecided"), (4, "undecided"), (5, "win")])
    def test_a_handful_of_splits_decides_nothing(self, splits, verdict):
        few = [*scored(OURS, [0.1] * splits), *scored("worse", [0.9] * splits)]
        found = make_verdicts(few, CONTENDERS)
        assert [v.verdict for v in found] == [verdict]
        assert summarise(make_rows(few, CONTENDERS), found)["best_or_tied"] == (verdict == "win")

    def test_if_ours_fails_nothing_is_won(self):
        broken = [*scored(OURS, [None, None]), *scored("worse", [0.9, 0.8])]
        rows, verdicts = make_rows(broken, CONTENDERS), make_verdicts(broken, CONTENDERS)
        summary = summarise(rows, verdicts)
        assert verdicts[0].verdict == "not run"
        assert (summary["best_or_tied"], summary["lowest"], summary["places"][0]["margin"]) == (0, 0, None)


def test_the_report_hides_neither_losses_nor_gaps(scores):
    rows, verdicts = make_rows(scores, CONTENDERS), make_verdicts(scores, CONTENDERS)
    contest = {
        "name": "c",
        "title": "C",
        "samples": 60,
        "rules": [{"name": "random", "text": "at random", "most": None}],
    }
    document = {
        "contests": [contest],
        "summary": summarise(rows, verdicts),
        "choices": {one.name: one.choices for one in CONTENDERS},
        "seconds": {"this_run": 1.0, "splits_run": 20, "splits": 20, "of_methods": {OURS: 1.0}},
        "seed": 1,
        **describe_machine(),
    }
    files = compose(rows, verdicts, document)
    text = files["report.md"].decode()
    lost = text.partition("## Where it loses")[2].partition("## C")[0]
    assert "| c | random | 30 | better | -0.1" in lost
    assert lost.count("| c |") == 1
    assert "| broken | failed: broken | c random, n = 30 |" in text
    assert "| half | failed: broken | c random, n = 30 (10 of 20 splits) |" in text
    assert "| broken | failed |" in text
    for mark, name in (("▲", "worse"), ("=", "alike"), ("▼", "better")):
        assert re.search(rf"^\| {name} \| 0\.\d+ ± 0\.\d+ {mark} \|$", text, re.MULTILINE)
    assert files["mae-c.png"].startswith(b"\x89PNG")


def test_kappa_weights_are_distances_of_labels():
    """1 - Σ(y - p)² / mean over all pairs, which is what quadratic weights come to; labels with gaps included."""
    rng = np.random.default_rng(0)
    y, p = rng.choice([1, 2, 10], 50).astype(float), rng.choice([1, 2, 10], 50).astype(float)
    expected = 1 - ((y - p) ** 2).mean() / ((y[:, None] - p[None, :]) ** 2).mean()
    assert quadratic_kappa(y, p, y) == pytest.approx(expected)
    assert quadratic_kappa(y, p + 0.3, y) == pytest.approx(expected)
    assert quadratic_kappa(np.ones(5), np.ones(5), np.ones(5)) == 0.0


def constant(X_train, y_train, X_test, groups=None):
    return Fitted(np.full(len(X_test), np.median(y_train)), X_train, X_test, {}, 0.1, 0.2, 0.3)


def unavailable(X_train, y_train, X_test, groups=None):
    raise PeerFailedError("nothing is installed: make peers")


def crashing(X_train, y_train, X_test, groups=None):
    raise ZeroDivisionError("division by zero")


def absurd(X_train, y_train, X_test, groups=None):
    return Fitted(np.full(len(X_test), np.nan), None, None, {}, 0.1, 0.2, 0.3)


@pytest.fixture
def split(graded):
    X, y = graded
    subject = np.arange(90) % 9
    return Split(X[:45], y[:45], X[45:], y[45:], subject[:45], subject[45:])


class TestScore:
    match = Match("c", "random", 45, 0)

    def test_every_number_of_a_distance(self, split):
        one = score(self.match, contender("constant", fit=constant), split)
        assert one.failure is None
        assert one.mae == pytest.approx(np.abs(np.median(split.y_train) - split.y_test).mean())
        assert one.tau == 0.0
        for name in ("accuracy", "order_kept", "ndcg", "same_subject_in_grade", "same_subject"):
            assert 0 <= getattr(one, name) <= 1
        assert (one.search_seconds, one.fit_seconds, one.predict_seconds) == (0.1, 0.2, 0.3)

    def test_a_predictor_has_no_distance_to_score(self, split):
        def predict(X_train, y_train, X_test, groups=None):
            return Fitted(np.full(len(X_test), 2.0), None, None, {}, 0.0, 0.0, 0.0)

        one = score(self.match, contender("p", fit=predict), split)
        assert one.mae is not None
        assert (one.order_kept, one.ndcg, one.same_subject) == (None, None, None)

    @pytest.mark.parametrize(
        ("fit", "limits", "reason"),
        [
            (unavailable, {}, "failed: nothing is installed: make peers"),
            (crashing, {}, "failed with ZeroDivisionError: division by zero"),
            (absurd, {}, "failed: some of its estimates are not numbers"),
            (constant, {"largest": 44}, "not run: it takes too long with more than 44 training samples"),
            (constant, {"most_labels": 2}, "not run: it takes too long with more than 2 different labels"),
        ],
    )
    def test_what_cannot_run_says_why(self, split, fit, limits, reason):
        one = score(self.match, contender("x", fit=fit, **limits), split)
        assert (one.failure, one.mae) == (reason, None)

    def test_limits_are_inclusive(self, split):
        assert score(self.match, contender("x", fit=constant, largest=45, most_labels=3), split).failure is None

    @pytest.mark.parametrize(("most", "kept"), [(1, True), (30, False)])
    def test_errors_of_samples_are_kept_where_there_is_one_split(self, graded, most, kept):
        rule = Rule("random", "", (45,), most, lambda n, repeat: (np.arange(n), np.arange(n, 90)))
        scores = play(self.match, Contest("c", "C", *graded, None, (rule,)), [contender("constant", fit=constant)])
        assert (scores[0].errors is not None) == kept
