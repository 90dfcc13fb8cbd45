"""Scores of one method on one split."""

import numpy as np
import pytest
from ordrank_experiments.conditions import Benchmark, Split, SplitData, SplitRule
from ordrank_experiments.method import BaselineFailedError, Method, MethodResult
from ordrank_experiments.scores import run_split, score

from ordrank import metrics

SPLIT = Split("c", "random", 45, 0)


def constant(X_train, y_train, X_test, groups=None):
    return MethodResult(np.full(len(X_test), np.median(y_train)), X_train, X_test, {}, 0.1, 0.2, 0.3)


def unavailable(X_train, y_train, X_test, groups=None):
    raise BaselineFailedError("nothing is installed: make baselines")


def crashing(X_train, y_train, X_test, groups=None):
    raise ZeroDivisionError("division by zero")


def not_finite(X_train, y_train, X_test, groups=None):
    return MethodResult(np.full(len(X_test), np.nan), None, None, {}, 0.1, 0.2, 0.3)


@pytest.fixture
def data(graded):
    X, y = graded
    subject = np.arange(90) % 9
    return SplitData(X[:45], y[:45], X[45:], y[45:], subject[:45], subject[45:])


def method(fit, **limits):
    return Method("m", "baseline", fit, "no choice", **limits)


def test_kappa_weights_are_squared_differences_of_label_values():
    rng = np.random.default_rng(0)
    y, p = rng.choice([1.0, 2.0, 10.0], (2, 50))
    expected = 1 - ((y - p) ** 2).mean() / ((y[:, None] - p[None, :]) ** 2).mean()
    assert metrics.quadratic_weighted_kappa(y, p) == pytest.approx(expected)
    assert metrics.quadratic_weighted_kappa(y, p + 0.3, labels=y) == pytest.approx(expected)
    assert metrics.quadratic_weighted_kappa(np.ones(5), np.ones(5)) == 0.0


class TestScore:
    def test_of_a_metric(self, data):
        one = score(SPLIT, method(constant), data)
        assert one.failure is None
        assert one.mae == pytest.approx(np.abs(np.median(data.y_train) - data.y_test).mean())
        assert one.tau == 0.0
        for name in ("accuracy", "order_preservation", "ndcg", "same_subject_in_grade", "same_subject"):
            assert 0 <= getattr(one, name) <= 1
        assert (one.search_seconds, one.fit_seconds, one.predict_seconds) == (0.1, 0.2, 0.3)

    def test_a_predictor_has_no_ranking_scores(self, data):
        def predict(X_train, y_train, X_test, groups=None):
            return MethodResult(np.full(len(X_test), 2.0), None, None, {}, 0.0, 0.0, 0.0)

        one = score(SPLIT, method(predict), data)
        assert one.mae is not None
        assert (one.order_preservation, one.ndcg, one.same_subject) == (None, None, None)

    @pytest.mark.parametrize(
        ("fit", "limits", "reason"),
        [
            (unavailable, {}, "failed: nothing is installed: make baselines"),
            (crashing, {}, "failed with ZeroDivisionError: division by zero"),
            (not_finite, {}, "failed: some of its estimates are not finite"),
            (constant, {"max_samples": 44}, "not run: it takes too long with more than 44 training samples"),
            (constant, {"max_labels": 2}, "not run: it takes too long with more than 2 different labels"),
        ],
    )
    def test_failures_have_a_reason(self, data, fit, limits, reason):
        one = score(SPLIT, method(fit, **limits), data)
        assert (one.failure, one.mae) == (reason, None)

    def test_limits_are_inclusive(self, data):
        assert score(SPLIT, method(constant, max_samples=45, max_labels=3), data).failure is None

    @pytest.mark.parametrize(("max_repeats", "kept"), [(1, True), (30, False)])
    def test_errors_of_samples_are_kept_for_a_single_split(self, graded, max_repeats, kept):
        rule = SplitRule("random", "", (45,), max_repeats, lambda n, repeat: (np.arange(n), np.arange(n, 90)))
        scores = run_split(SPLIT, Benchmark("c", "C", *graded, None, (rule,)), [method(constant)])
        assert (scores[0].errors is not None) == kept
