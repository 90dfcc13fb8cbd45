"""The peers: what each makes of a small problem, how it chooses, and what is said where it cannot run."""

import io
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import SVC

from ordrank.errors import PeerFailedError
from ordrank.experiments import ours, peer_environment, peer_worker
from ordrank.experiments.contender import Fitted
from ordrank.experiments.ours import chosen_by, our_contenders
from ordrank.experiments.peer_search import BALLOTS, describe, grid, search_metric, search_predictor
from ordrank.experiments.peers import PACKAGES, peers
from ordrank.experiments.tables import CMDS_CALIBRATED, EUCLIDEAN, LDMLR_CALIBRATED

PEERS = {peer.name: peer for peer in peers()}
FOREIGN = {name for name in PEERS if any(f"({package})" in name for package in PACKAGES)}
ELSEWHERE = {"LMNN + k-NN", "MLKR + k-NN"}
SCIKIT = sorted(set(PEERS) - FOREIGN - ELSEWHERE)
METRICS = {"Euclidean k-NN", "LDA + k-NN", "NCA + k-NN", *ELSEWHERE}


@pytest.fixture(scope="module")
def small():
    """Sixty training samples of three gapped labels, which two of five features follow."""
    rng = np.random.default_rng(3)
    y = np.tile([1.0, 2.0, 4.0], 40)
    X = rng.normal(size=(120, 5))
    X[:, 0] += y
    X[:, 1] -= 0.5 * y
    return X[:60], y[:60], X[60:], y[60:]


def check(fitted, small, *, legal=True):
    y, t = small[1], small[3]
    assert isinstance(fitted, Fitted)
    assert fitted.grades.shape == (60,)
    assert np.abs(fitted.grades - t).mean() < 0.8 * np.abs(np.median(y) - t).mean()
    assert (
        np.isin(fitted.grades, [1, 2, 4]).all() if legal else (fitted.grades >= 1).all() and (fitted.grades <= 4).all()
    )
    assert min(fitted.search_seconds, fitted.fit_seconds, fitted.predict_seconds) >= 0
    json.dumps(fitted.chosen)


@pytest.mark.parametrize("name", SCIKIT)
def test_it_beats_a_constant_guess_with_legal_grades(name, small):
    fitted = PEERS[name].fit(*small[:3])
    check(fitted, small, legal=name not in METRICS)  # means of votes are between labels
    assert (fitted.embedded_test is not None) == (name in METRICS)
    if name in METRICS:
        assert len(fitted.embedded_train) == len(fitted.embedded_test) == 60


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_peers_of_other_packages(name, small):
    package = name.partition("(")[2].rstrip(")")
    pytest.importorskip(package, reason=f"{package} is not installed: make peers")
    check(PEERS[name].fit(*small[:3]), small)


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_peers_of_the_second_environment(name, small, monkeypatch):
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    if not peer_environment.versions_elsewhere():
        pytest.skip("metric-learn is not installed: make peers")
    peer_environment._worker.cache_clear()
    check(PEERS[name].fit(*small[:3]), small, legal=False)
    peer_environment._worker.cache_clear()


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_a_missing_package_is_a_failure_that_says_what_to_do(name, small, monkeypatch):
    for package in (*PACKAGES, "skordinal.classifiers"):
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(PeerFailedError, match="is not installed: make peers, or pip install"):
        PEERS[name].fit(*small[:3])


def test_classifiers_of_other_packages_see_codes_and_widths_in_units_of_the_data(small, monkeypatch):
    """A stand-in for skordinal: labels reach it as 0, 1, 2, and come back as they were."""
    seen = []

    class Stand(SVC):
        def __init__(self, C=1.0, gamma=1.0):
            super().__init__(C=C, gamma=gamma)

        def fit(self, X, y):
            seen.append((self.gamma, set(y.tolist())))
            return super().fit(X, y)

    monkeypatch.setitem(sys.modules, "skordinal.classifiers", types.SimpleNamespace(REDSVM=Stand))
    fitted = PEERS["REDSVM (skordinal)"].fit(*small[:3])
    check(fitted, small)
    X = (small[0] - small[0].mean(axis=0)) / np.sqrt(np.mean((small[0] - small[0].mean(axis=0)) ** 2))
    unit = 1 / np.mean([np.sum((X - x) ** 2, axis=1) for x in X])
    gamma, codes = seen[-1]
    assert codes == {0, 1, 2}
    assert gamma == pytest.approx(unit * fitted.chosen["relative_gamma"])


def test_inputs_stay_as_they_are(small):
    before = [part.copy() for part in small]
    for name in ("LDA + k-NN", "SVR (RBF)"):
        PEERS[name].fit(*small[:3])
    for part, copy in zip(small, before, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_many_labels_are_a_scale(small):
    """More than ten labels: regression is clipped to their range, not moved to a label."""
    X, _, Q, _ = small
    y = np.arange(60) / 2.0
    grades = PEERS["Kernel ridge"].fit(X, y, Q).grades
    assert ((grades >= 0) & (grades <= 29.5)).all()
    assert not np.isin(grades, y).all()


def test_single_samples_leave_nothing_to_choose_with(small):
    with pytest.raises(PeerFailedError, match="every label has a single sample"):
        PEERS["LDA"].fit(small[0][:3], np.array([1.0, 2.0, 3.0]), small[2])


class TestSearch:
    def test_a_grid_is_all_combinations_the_last_name_fastest(self):
        assert grid(a=(1, 2), b=(3, 4)) == [{"a": 1, "b": 3}, {"a": 1, "b": 4}, {"a": 2, "b": 3}, {"a": 2, "b": 4}]
        assert describe(grid(a=(1, 2), b=(0.5,))) == "a of 1, 2; b of 0.5"

    def test_it_takes_the_point_of_least_error_and_the_first_of_equals(self, small):
        def start(X, y):
            return lambda params: lambda Q: np.full(len(Q), params["guess"])

        fit = search_predictor(start, grid(guess=(9.0, 2.0, 1.0), again=(0, 1)))
        assert fit(*small[:3]).chosen == {"guess": 2.0, "again": 0}

    @pytest.mark.parametrize("search", [search_predictor, search_metric])
    def test_people_are_left_out_as_a_whole(self, small, search):
        groups, parts = np.arange(60) // 6, []

        def start(X, y):
            parts.append({tuple(row) for row in X})
            return lambda params: np.eye(5) if search is search_metric else (lambda Q: np.ones(len(Q)))

        X = np.column_stack([groups, *np.random.default_rng(0).normal(size=(4, 60))])
        search(start, [{}])(X, small[1], small[2], groups)
        everyone = {row[0] for row in parts[-1]}
        assert len(parts) == 5 + 1
        for rest in parts[:-1]:
            left_out = everyone - {row[0] for row in rest}
            assert len(left_out) == 2
            assert len(rest) == 60 - 12

    def test_large_sets_have_a_grid_of_their_own(self):
        def start(X, y):
            return lambda params: np.eye(2)[: params["n_components"]]

        fit = search_metric(start, grid(n_components=(1, 2)), grid(n_components=(2,)))
        X, y = np.random.default_rng(0).normal(size=(201, 2)), np.arange(201) % 3 + 1.0
        assert fit(X, y, X[:5]).chosen["n_components"] == 2

    def test_one_vote_has_one_way_to_be_counted(self):
        assert sum(ballot["votes"] == 1 for ballot in BALLOTS) == 1
        assert len(BALLOTS) == 11

    def test_costly_peers_say_so(self):
        limits = {name: (peer.largest, peer.most_labels) for name, peer in PEERS.items()}
        assert limits["REDSVM (skordinal)"] == (1300, 10)
        assert limits["LMNN + k-NN"] == (200, None)
        assert all(peer.choices for peer in PEERS.values())


@pytest.fixture
def no_worker():
    peer_environment._worker.cache_clear()
    yield
    peer_environment._worker.cache_clear()


@pytest.mark.usefixtures("no_worker")
class TestSecondEnvironment:
    order = {"method": "LMNN", "n_components": 2, "n_neighbors": 3}  # noqa: RUF012

    def test_without_an_interpreter(self, small, monkeypatch, tmp_path):
        monkeypatch.setenv(peer_environment.INTERPRETER, str(tmp_path / "python"))
        with pytest.raises(PeerFailedError, match=r"no interpreter at .*: make peers, or let ORDRANK_PEERS_PYTHON"):
            PEERS["LMNN + k-NN"].fit(*small[:3])
        assert peer_environment.versions_elsewhere() == {}

    def test_without_the_package(self, small, monkeypatch):
        """The interpreter that runs these tests has no metric-learn; the worker answers all the same."""
        if "metric-learn" in peer_environment.versions_here(("metric-learn",)):
            pytest.skip("metric-learn is installed beside ordrank")
        monkeypatch.setenv(peer_environment.INTERPRETER, sys.executable)
        for _ in range(2):
            with pytest.raises(PeerFailedError, match="No module named 'metric_learn': make peers"):
                peer_environment.learn_elsewhere(small[0], small[1], self.order)
        assert peer_environment.versions_elsewhere() == {}

    def test_a_worker_that_says_something_else_is_ended(self, small, monkeypatch, tmp_path):
        chatty = tmp_path / "python"
        chatty.write_text("#!/bin/sh\necho hello\nwhile read line; do :; done\n")
        chatty.chmod(0o755)
        monkeypatch.setenv(peer_environment.INTERPRETER, str(chatty))
        with pytest.raises(PeerFailedError, match="ended with status -9"):
            peer_environment.learn_elsewhere(small[0], small[1], self.order)

    def test_a_worker_that_dies_is_named_and_replaced(self, small, monkeypatch, tmp_path):
        dying = tmp_path / "python"
        dying.write_text("#!/bin/sh\nexit 3\n")
        dying.chmod(0o755)
        monkeypatch.setenv(peer_environment.INTERPRETER, str(dying))
        with pytest.raises(PeerFailedError, match="ended with status 3"):
            peer_environment.learn_elsewhere(small[0], small[1], self.order)
        monkeypatch.setenv(peer_environment.INTERPRETER, sys.executable)
        with pytest.raises(PeerFailedError, match=r"metric_learn|LMNN"):
            peer_environment.learn_elsewhere(
                small[0], small[1], {"method": "LMNN", "n_neighbors": 3, "n_components": 0}
            )


class FakeMetric:
    """Stands for a class of metric-learn: remembers how it was made."""

    def __init__(self, n_components, **parameters):
        self.n_components, self.parameters = n_components, parameters

    def fit(self, X, y):
        self.components_ = np.eye(X.shape[1])[: self.n_components]
        return self


@pytest.fixture
def fake_metric_learn(monkeypatch):
    module = types.SimpleNamespace(LMNN=FakeMetric, MLKR=FakeMetric)
    monkeypatch.setitem(sys.modules, "metric_learn", module)


@pytest.mark.usefixtures("fake_metric_learn")
class TestWorker:
    def ask(self, tmp_path, monkeypatch, capsys, small, **order):
        request, answer = tmp_path / "request.npz", tmp_path / "answer.npz"
        np.savez(request, X=small[0], y=small[1], order=json.dumps(order))
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps([str(request), str(answer)]) + "\n"))
        peer_worker.main()
        assert capsys.readouterr().out == "done\n"
        with np.load(answer) as found:
            return dict(found)

    @pytest.mark.parametrize("order", [{"method": "LMNN", "n_neighbors": 3}, {"method": "MLKR"}])
    def test_it_answers_with_a_map(self, tmp_path, monkeypatch, capsys, small, order):
        answer = self.ask(tmp_path, monkeypatch, capsys, small, **order, n_components=2, max_iter=3)
        np.testing.assert_array_equal(answer["components"], np.eye(5)[:2])

    def test_what_goes_wrong_is_an_answer_too(self, tmp_path, monkeypatch, capsys, small):
        answer = self.ask(tmp_path, monkeypatch, capsys, small, method="LMNN", n_components="many", n_neighbors=3)
        assert str(answer["error"]).startswith("LMNN failed with TypeError")
        lonely = (small[0], np.arange(60.0))
        answer = self.ask(tmp_path, monkeypatch, capsys, lonely, method="LMNN", n_components=2, n_neighbors=3)
        assert "two samples of every label" in str(answer["error"])


class FakeRanker:
    """An ``OrdinalRanker`` whose fit takes ungraded pictures."""

    def fit(self, X, y, unlabeled=None, groups=None):
        self.told_ = groups is not None
        self.seen_ = 0 if unlabeled is None else len(unlabeled)
        self.metric_ = types.SimpleNamespace(transform=lambda Q: Q, alpha_=0.5, n_iter_=3, kernel_="rbf", map_=X, mu=1)
        self.embedding_ = X
        return self

    def predict(self, Q):
        return np.full(len(Q), 2.0)


class TestOurs:
    contenders = {one.name: one for one in our_contenders("umist")}  # noqa: RUF012

    def test_only_the_marked_one_sees_the_test_pictures(self, small, monkeypatch):
        monkeypatch.setattr(ours, "OrdinalRanker", FakeRanker)
        plain = self.contenders["OrdinalMetric"].fit(*small[:3])
        marked = self.contenders["OrdinalMetric + unlabelled"].fit(*small[:3])
        assert plain.chosen == {"seen": 0, "told": False, "alpha": 0.5, "kernel": "rbf"}
        assert self.contenders["OrdinalMetric"].fit(*small[:3], np.arange(60) // 6).chosen["told"]
        assert marked.chosen["seen"] == 60
        assert [one.kind for one in self.contenders.values()] == ["ours", "transductive", "paper", "paper", "paper"]

    def test_the_default_model(self, small):
        fitted = self.contenders["OrdinalMetric"].fit(*small[:3])
        check(fitted, small)
        assert len(fitted.embedded_test) == 60

    @pytest.mark.parametrize("name", [CMDS_CALIBRATED, LDMLR_CALIBRATED, EUCLIDEAN])
    def test_methods_of_the_paper(self, small, name):
        fitted = self.contenders[name].fit(*small[:3])
        check(fitted, small, legal=False)
        assert fitted.chosen["votes"] in (1, 3, 5, 7)
        assert fitted.search_seconds > 0

    def test_choices_of_a_pipeline_are_those_of_its_last_step(self):
        class Pipeline:
            steps = ("scale", "metric")

            def __getitem__(self, i):
                return types.SimpleNamespace(alpha_=0.5, objective_=3.0)

        assert chosen_by(types.SimpleNamespace(metric_=Pipeline(), n_votes_=7)) == {"n_votes": 7, "alpha": 0.5}
