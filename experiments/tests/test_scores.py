"""Scores of one method on one split."""

import numpy as np
import pytest
from ordrank_experiments.conditions import Benchmark, Split, SplitData, SplitRule
from ordrank_experiments.method import BaselineFailedError, Method, MethodResult
from ordrank_experiments.scores import run_split, score

from ordrank import metrics
from ordrank.errors import InputError
from ordrank.metrics import calibration_error, ranked_probability_score

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
    assert metrics.quadratic_weighted_kappa(np.ones(5), np.ones(5)) == 1.0


class TestProbabilities:
    labels = np.array([1.0, 2.0, 4.0])

    def test_a_certain_prediction_has_its_absolute_error_as_score(self):
        y, estimate = np.array([1.0, 4.0, 2.0, 2.0]), np.array([0, 0, 1, 2])
        expected = np.abs(y - self.labels[estimate]).mean()
        assert ranked_probability_score(y, np.eye(3)[estimate], self.labels) == pytest.approx(expected)

    def test_is_the_energy_form_of_the_crps_also_for_grades_that_are_no_labels(self):
        """E|T - y| - E|T - T'| / 2 for independent T, T' of the predicted distribution."""
        rng = np.random.default_rng(0)
        proba, y = rng.dirichlet([1, 1, 1], 40), rng.uniform(0, 5, 40)
        spread = np.abs(self.labels[:, None] - self.labels)
        expected = (proba * np.abs(self.labels - y[:, None])).sum(axis=1)
        expected -= np.einsum("qi,ij,qj->q", proba, spread, proba) / 2
        assert ranked_probability_score(y, proba, self.labels) == pytest.approx(expected.mean())

    def test_the_true_distribution_has_the_lowest_score_and_is_calibrated(self):
        rng = np.random.default_rng(0)
        proba = rng.dirichlet([1, 1, 1], 20_000)
        y = self.labels[(rng.uniform(size=(20_000, 1)) > proba.cumsum(axis=1)).sum(axis=1)]
        sharper = proba**2 / (proba**2).sum(axis=1, keepdims=True)
        others = [sharper, np.full_like(proba, 1 / 3), proba[:, ::-1]]
        best = ranked_probability_score(y, proba, self.labels)
        assert all(best < ranked_probability_score(y, other, self.labels) for other in others)
        assert calibration_error(y, proba, self.labels) < 0.01
        assert calibration_error(y, sharper, self.labels) > 0.04

    def test_calibration_error_by_hand(self):
        """Predictions .8 and .8 of an event that happens once in two: .3 off; the second threshold is certain."""
        proba, y = np.array([[0.8, 0.2, 0.0], [0.8, 0.2, 0.0]]), np.array([1.0, 2.0])
        assert calibration_error(y, proba, self.labels) == pytest.approx(0.3 / 2)

    @pytest.mark.parametrize(
        ("proba", "complaint"),
        [([[1.0, 0.0]], "must have shape"), ([[0.5, 0.2, 0.2]], "the sum 1"), ([[1.5, -0.5, 0.0]], "at least 0")],
    )
    def test_wrong_probabilities_are_rejected(self, proba, complaint):
        with pytest.raises(InputError, match=complaint):
            ranked_probability_score([1.0], proba, self.labels)

    def test_a_method_with_probabilities_is_scored(self, data):
        labels = np.unique(data.y_train)

        def predict(X_train, y_train, X_test, groups=None):
            proba = np.full((len(X_test), len(labels)), 1 / len(labels))
            return MethodResult(np.full(len(X_test), 2.0), None, None, {}, 0.0, 0.0, 0.0, proba)

        one = score(SPLIT, method(predict), data)
        assert one.rps == pytest.approx(
            ranked_probability_score(data.y_test, np.full((45, len(labels)), 1 / len(labels)), labels)
        )
        assert 0 <= one.calibration <= 1
        assert score(SPLIT, method(constant), data).rps is None


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
