"""Baselines: errors on a small problem, model selection, and failures."""

import io
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from ordrank_experiments import baseline_environment, baseline_worker, own_methods
from ordrank_experiments.baseline_search import (
    Predictor,
    _folds,
    describe,
    grid,
    median_predictor,
    search_metric,
    search_predictor,
    voting_rules,
)
from ordrank_experiments.baselines import PACKAGES, baselines
from ordrank_experiments.method import BaselineFailedError, MethodResult
from ordrank_experiments.tables import CMDS_CALIBRATED, EUCLIDEAN, LDMLR_CALIBRATED
from sklearn.svm import SVC

BASELINES = {method.name: method for method in baselines()}
PACKAGED = {name for name in BASELINES if any(f"({package})" in name for package in PACKAGES)}
METRIC_LEARN = {"LMNN + k-NN", "MLKR + k-NN"}
SCIKIT = sorted(set(BASELINES) - PACKAGED - METRIC_LEARN)
PROBABILISTIC = {"LDA", "SVC (RBF)", "Extra trees", "Gradient boosting", "Gaussian process"}
METRICS = {"Euclidean k-NN", "LDA + k-NN", "NCA + k-NN", *METRIC_LEARN}


@pytest.fixture(scope="module")
def small():
    """Sixty training and test samples with three gapped labels and two of five features that depend on them."""
    rng = np.random.default_rng(3)
    y = np.tile([1.0, 2.0, 4.0], 40)
    X = rng.normal(size=(120, 5))
    X[:, 0] += y
    X[:, 1] -= 0.5 * y
    return X[:60], y[:60], X[60:], y[60:]


def check(fitted, small, *, labels_only=True):
    y, t = small[1], small[3]
    assert isinstance(fitted, MethodResult)
    assert fitted.grades.shape == (60,)
    assert np.abs(fitted.grades - t).mean() < 0.8 * np.abs(np.median(y) - t).mean()
    assert (
        np.isin(fitted.grades, [1, 2, 4]).all()
        if labels_only
        else (fitted.grades >= 1).all() and (fitted.grades <= 4).all()
    )
    json.dumps(fitted.chosen)


def check_proba(fitted, expected):
    assert (fitted.proba is not None) == expected
    if expected:
        assert fitted.proba.shape == (60, 3)
        assert (fitted.proba >= 0).all()
        np.testing.assert_allclose(fitted.proba.sum(axis=1), 1)
        # The most probable label is the prediction or a neighbour of it.
        assert np.abs(fitted.proba.argmax(axis=1) - np.searchsorted([1, 2, 4], fitted.grades)).max() <= 1


@pytest.mark.parametrize("name", SCIKIT)
def test_predictions_beat_a_constant_and_are_labels(name, small):
    fitted = BASELINES[name].fit(*small[:3])
    check(fitted, small, labels_only=name not in METRICS)  # means are between labels
    assert (fitted.embedded_test is not None) == (name in METRICS)
    check_proba(fitted, name in PROBABILISTIC)
    if name in METRICS:
        assert len(fitted.embedded_train) == len(fitted.embedded_test) == 60


@pytest.mark.parametrize("name", sorted(PACKAGED))
def test_baselines_of_other_packages(name, small):
    package = name.partition("(")[2].rstrip(")")
    pytest.importorskip(package, reason=f"{package} is not installed: make baselines")
    fitted = BASELINES[name].fit(*small[:3])
    check(fitted, small)
    check_proba(fitted, name.startswith("Logistic"))


@pytest.mark.parametrize("name", ["Extra trees", "Gradient boosting", "Gaussian process"])
def test_new_fits_give_the_same_result(name, small):
    first, second = (BASELINES[name].fit(*small[:3]) for _ in range(2))
    np.testing.assert_array_equal(first.grades, second.grades)
    np.testing.assert_array_equal(first.proba, second.proba)


@pytest.mark.parametrize("name", ["Extra trees", "Gradient boosting", "Gaussian process"])
def test_with_many_labels_predictions_are_labels(name, small):
    y = np.round(3 * small[0][:, 0])
    assert len(np.unique(y)) > 10
    fitted = BASELINES[name].fit(small[0], y, small[2])
    assert np.isin(fitted.grades, y).all()
    assert (fitted.proba is None) == (name == "Gradient boosting")


@pytest.mark.parametrize("name", sorted(METRIC_LEARN))
def test_baselines_of_the_second_environment(name, small, monkeypatch):
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    if not baseline_environment.environment_versions():
        pytest.skip("metric-learn is not installed: make baselines")
    baseline_environment._worker.cache_clear()
    check(BASELINES[name].fit(*small[:3]), small, labels_only=False)
    baseline_environment._worker.cache_clear()


@pytest.mark.parametrize("name", sorted(PACKAGED))
def test_a_missing_package_is_a_failure_with_advice(name, small, monkeypatch):
    for package in (*PACKAGES, "skordinal.classifiers"):
        monkeypatch.setitem(sys.modules, package, None)  # simulates a missing package
    with pytest.raises(BaselineFailedError, match="is not installed: make baselines, or pip install"):
        BASELINES[name].fit(*small[:3])


def test_packaged_classifiers_are_given_codes_and_scaled_gammas(small, monkeypatch):
    seen = []

    class Stand(SVC):
        def __init__(self, C=1.0, gamma=1.0):
            super().__init__(C=C, gamma=gamma)

        def fit(self, X, y):
            seen.append((self.gamma, set(y.tolist())))
            return super().fit(X, y)

    monkeypatch.setitem(sys.modules, "skordinal.classifiers", types.SimpleNamespace(REDSVM=Stand))
    fitted = BASELINES["REDSVM (skordinal)"].fit(*small[:3])
    check(fitted, small)
    X = (small[0] - small[0].mean(axis=0)) / np.sqrt(np.mean((small[0] - small[0].mean(axis=0)) ** 2))
    unit = 1 / np.mean([np.sum((X - x) ** 2, axis=1) for x in X])
    gamma, codes = seen[-1]
    assert codes == {0, 1, 2}
    assert gamma == pytest.approx(unit * fitted.chosen["relative_gamma"])


def test_inputs_are_not_modified(small):
    before = [part.copy() for part in small]
    for name in ("LDA + k-NN", "SVR (RBF)"):
        BASELINES[name].fit(*small[:3])
    for part, copy in zip(small, before, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_with_more_than_ten_labels_predictions_are_clipped_not_rounded(small):
    X, _, Q, _ = small
    y = np.arange(60) / 2.0
    grades = BASELINES["Kernel ridge"].fit(X, y, Q).grades
    assert ((grades >= 0) & (grades <= 29.5)).all()
    assert not np.isin(grades, y).all()


def test_labels_of_one_sample_cannot_be_cross_validated(small):
    with pytest.raises(BaselineFailedError, match="every label has a single sample"):
        BASELINES["LDA"].fit(small[0][:3], np.array([1.0, 2.0, 3.0]), small[2])


class TestSearch:
    def test_a_grid_is_all_combinations_with_the_last_name_fastest(self):
        assert grid(a=(1, 2), b=(3, 4)) == [{"a": 1, "b": 3}, {"a": 1, "b": 4}, {"a": 2, "b": 3}, {"a": 2, "b": 4}]
        assert describe(grid(a=(1, 2), b=(0.5,))) == "a of 1, 2; b of 0.5"

    def test_selects_the_candidate_of_least_error_and_the_first_of_ties(self, small):
        def start(X, y):
            return lambda params: Predictor(lambda Q: np.full(len(Q), params["guess"]))

        fit = search_predictor(start, grid(guess=(9.0, 2.0, 1.0), again=(0, 1)))
        assert fit(*small[:3]).chosen == {"guess": 2.0, "again": 0}

    @pytest.mark.parametrize("search", [search_predictor, search_metric])
    def test_folds_are_of_whole_groups(self, small, search):
        groups, parts = np.arange(60) // 6, []

        def start(X, y):
            parts.append({tuple(row) for row in X})
            return lambda params: np.eye(5) if search is search_metric else Predictor(lambda Q: np.ones(len(Q)))

        X = np.column_stack([groups, *np.random.default_rng(0).normal(size=(4, 60))])
        search(start, [{}, {}])(X, small[1], small[2], groups)
        everyone = {row[0] for row in parts[-1]}
        assert len(parts) == 5 + 1
        for rest in parts[:-1]:
            left_out = everyone - {row[0] for row in rest}
            assert len(left_out) == 2
            assert len(rest) == 60 - 12

    def test_large_training_sets_use_the_second_grid(self):
        def start(X, y):
            return lambda params: np.eye(2)[: params["n_components"]]

        fit = search_metric(start, grid(n_components=(1, 2)), grid(n_components=(2,)))
        X, y = np.random.default_rng(0).normal(size=(201, 2)), np.arange(201) % 3 + 1.0
        assert fit(X, y, X[:5]).chosen["n_components"] == 2

    def test_k_is_selected_from_the_numbers_of_the_ranker(self):
        assert sorted({rule["votes"] for rule in voting_rules(1200, 240)}) == [1, 3, 7, 15, 31, 51, 101]
        assert sorted({rule["votes"] for rule in voting_rules(60, 12)}) == [1, 3, 7, 15, 20]
        assert max(rule["votes"] for rule in voting_rules(6, 5)) == 1, "no more than remain in a fold"

    def test_aggregates_and_weights_of_one_vote_are_one_rule(self):
        rules = voting_rules(60, 12)
        assert sum(rule["votes"] == 1 for rule in rules) == 1
        assert len(rules) == 1 + 4 * 4

    @pytest.mark.filterwarnings("ignore:The least populated class")
    def test_a_rare_label_does_not_limit_the_number_of_folds(self):
        y = np.array([1.0] * 20 + [2.0] * 2 + [3.0])
        folds = _folds(y, None)
        assert len(folds) == 5
        assert all(np.isin([1.0, 2.0], y[rest]).all() for rest, _ in folds), "folds are stratified"

    def test_the_final_fit_may_differ_from_those_of_the_search(self, small):
        def constant(value):
            return lambda X, y: lambda params: Predictor(lambda Q: np.full(len(Q), value))

        fit = search_predictor(constant(1.0), [{"a": 1}, {"a": 2}], final=constant(3.0))
        assert set(fit(*small[:3]).grades) == {3.0}

    def test_the_median_is_the_first_label_with_half_of_the_probability(self):
        proba = np.array([[0.5, 0.1, 0.4], [0.3, 0.3, 0.4], [0.1, 0.1, 0.8]])
        predictor = median_predictor(np.array([1.0, 2.0, 4.0]), lambda Q: proba)
        assert predictor.predict(np.zeros((3, 1))).tolist() == [1, 2, 4]

    def test_costly_baselines_have_limits(self):
        limits = {name: (method.max_samples, method.max_labels) for name, method in BASELINES.items()}
        assert limits["REDSVM (skordinal)"] == (1300, 10)
        assert limits["LMNN + k-NN"] == (200, None)
        assert all(method.choices for method in BASELINES.values())


@pytest.fixture
def no_worker():
    baseline_environment._worker.cache_clear()
    yield
    baseline_environment._worker.cache_clear()


@pytest.mark.usefixtures("no_worker")
class TestSecondEnvironment:
    params = {"method": "LMNN", "n_components": 2, "n_neighbors": 3}  # noqa: RUF012

    def test_without_an_interpreter(self, small, monkeypatch, tmp_path):
        monkeypatch.setenv(baseline_environment.INTERPRETER, str(tmp_path / "python"))
        with pytest.raises(BaselineFailedError, match=r"no interpreter at .*: make baselines, or set ORDRANK_BAS"):
            BASELINES["LMNN + k-NN"].fit(*small[:3])
        assert baseline_environment.environment_versions() == {}

    def test_without_the_package(self, small, monkeypatch):
        """The interpreter of these tests has no metric-learn; the worker keeps running after a failure."""
        if "metric-learn" in baseline_environment.installed_versions(("metric-learn",)):
            pytest.skip("metric-learn is installed in this environment")
        monkeypatch.setenv(baseline_environment.INTERPRETER, sys.executable)
        for _ in range(2):
            with pytest.raises(BaselineFailedError, match="No module named 'metric_learn': make baselines"):
                baseline_environment.fit_in_environment(small[0], small[1], self.params)
        assert baseline_environment.environment_versions() == {}

    def test_a_worker_with_an_unexpected_reply_is_killed(self, small, monkeypatch, tmp_path):
        chatty = tmp_path / "python"
        chatty.write_text("#!/bin/sh\necho hello\nwhile read line; do :; done\n")
        chatty.chmod(0o755)
        monkeypatch.setenv(baseline_environment.INTERPRETER, str(chatty))
        with pytest.raises(BaselineFailedError, match="ended with status -9"):
            baseline_environment.fit_in_environment(small[0], small[1], self.params)

    def test_a_dead_worker_is_reported_and_replaced(self, small, monkeypatch, tmp_path):
        dying = tmp_path / "python"
        dying.write_text("#!/bin/sh\nexit 3\n")
        dying.chmod(0o755)
        monkeypatch.setenv(baseline_environment.INTERPRETER, str(dying))
        with pytest.raises(BaselineFailedError, match="ended with status 3"):
            baseline_environment.fit_in_environment(small[0], small[1], self.params)
        monkeypatch.setenv(baseline_environment.INTERPRETER, sys.executable)
        with pytest.raises(BaselineFailedError, match=r"metric_learn|LMNN"):
            baseline_environment.fit_in_environment(
                small[0], small[1], {"method": "LMNN", "n_neighbors": 3, "n_components": 0}
            )


class FakeMetric:
    """A class of metric-learn without learning."""

    def __init__(self, n_components, **parameters):
        self.n_components, self.parameters = n_components, parameters

    def fit(self, X, y):
        return self.identity(X)

    def identity(self, X):
        self.components_ = np.eye(X.shape[1])[: self.n_components]
        return self


@pytest.fixture
def fake_metric_learn(monkeypatch):
    module = types.SimpleNamespace(LMNN=FakeMetric, MLKR=FakeMetric)
    monkeypatch.setitem(sys.modules, "metric_learn", module)


@pytest.mark.usefixtures("fake_metric_learn")
class TestWorker:
    def run(self, tmp_path, monkeypatch, capsys, small, **params):
        request, result = tmp_path / "request.npz", tmp_path / "result.npz"
        np.savez(request, X=small[0], y=small[1], params=json.dumps(params))
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps([str(request), str(result)]) + "\n"))
        baseline_worker.main()
        assert capsys.readouterr().out == "done\n"
        with np.load(result) as found:
            return dict(found)

    @pytest.mark.parametrize("params", [{"method": "LMNN", "n_neighbors": 3}, {"method": "MLKR"}])
    def test_returns_a_map(self, tmp_path, monkeypatch, capsys, small, params):
        result = self.run(tmp_path, monkeypatch, capsys, small, **params, n_components=2, max_iter=3)
        np.testing.assert_array_equal(result["components"], np.eye(5)[:2])

    def test_failures_are_returned(self, tmp_path, monkeypatch, capsys, small):
        result = self.run(tmp_path, monkeypatch, capsys, small, method="LMNN", n_components="many", n_neighbors=3)
        assert str(result["error"]).startswith("LMNN failed with TypeError")
        single = (small[0], np.arange(60.0))
        result = self.run(tmp_path, monkeypatch, capsys, single, method="LMNN", n_components=2, n_neighbors=3)
        assert "two samples of two labels" in str(result["error"])

    def test_lmnn_leaves_out_the_only_sample_of_a_label(self, small, monkeypatch):
        seen = []
        monkeypatch.setattr(FakeMetric, "fit", lambda self, X, y: seen.append(y) or FakeMetric.identity(self, X))
        y = small[1].copy()
        y[0] = 3.0
        assert baseline_worker.learn(small[0], y, "LMNN", n_neighbors=3, n_components=2).shape == (2, 5)
        assert len(seen[0]) == 59
        assert len(np.unique(seen[0])) == 3


class FakeRanker:
    """An ``OrdinalRanker`` that records the arguments of fit."""

    def fit(self, X, y, unlabeled=None, groups=None):
        self.grouped_ = groups is not None
        self.unlabeled_ = 0 if unlabeled is None else len(unlabeled)
        self.metric_ = types.SimpleNamespace(transform=lambda Q: Q, alpha_=0.5, n_iter_=3, kernel_="rbf", map_=X, mu=1)
        self.embedding_ = X
        return self

    def predict(self, Q):
        return np.full(len(Q), 2.0)


class TestOwnMethods:
    methods = {one.name: one for one in own_methods.own_methods("umist")}  # noqa: RUF012

    def test_only_the_transductive_method_is_given_the_test_samples(self, small, monkeypatch):
        monkeypatch.setattr(own_methods, "OrdinalRanker", FakeRanker)
        plain = self.methods["OrdinalMetric"].fit(*small[:3])
        marked = self.methods["OrdinalMetric + unlabelled"].fit(*small[:3])
        assert plain.chosen == {"unlabeled": 0, "grouped": False, "alpha": 0.5, "kernel": "rbf"}
        assert self.methods["OrdinalMetric"].fit(*small[:3], np.arange(60) // 6).chosen["grouped"]
        assert marked.chosen["unlabeled"] == 60
        assert plain.proba is None
        assert [one.kind for one in self.methods.values()] == ["default", "transductive", "paper", "paper", "paper"]

    def test_probabilities_of_a_ranker_are_kept(self, small, monkeypatch):
        class WithProbabilities(FakeRanker):
            def predict_proba(self, Q):
                return np.full((len(Q), 3), 1 / 3)

        monkeypatch.setattr(own_methods, "OrdinalRanker", WithProbabilities)
        assert self.methods["OrdinalMetric"].fit(*small[:3]).proba.shape == (60, 3)

    def test_the_default_model(self, small):
        fitted = self.methods["OrdinalMetric"].fit(*small[:3])
        check(fitted, small)
        assert len(fitted.embedded_test) == 60

    @pytest.mark.parametrize("name", [CMDS_CALIBRATED, LDMLR_CALIBRATED, EUCLIDEAN])
    def test_methods_of_the_paper(self, small, name):
        fitted = self.methods[name].fit(*small[:3])
        check(fitted, small, labels_only=False)
        assert fitted.chosen["votes"] in (1, 3, 5, 7)
        assert fitted.search_seconds > 0

    def test_hyperparameters_of_a_pipeline_are_of_its_last_step(self):
        class Pipeline:
            steps = ("scale", "metric")

            def __getitem__(self, i):
                return types.SimpleNamespace(alpha_=0.5, objective_=3.0)

        ranker = types.SimpleNamespace(metric_=Pipeline(), n_votes_=7)
        assert own_methods.chosen_hyperparameters(ranker) == {"n_votes": 7, "alpha": 0.5}
