import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ordrank_experiments.checkpoint import Checkpoint, Run, identify, run_all
from ordrank_experiments.paper import Cell
from ordrank_experiments.protocol import (
    Learned,
    Outcome,
    PaperMethod,
    Unit,
    balanced_split,
    errors_by_votes,
    even_split,
    read_outcomes,
    run_unit,
)
from sklearn.neighbors import KNeighborsRegressor

from ordrank.errors import InputError

CELL = Cell("umist", 12, 3, 5, 2)
open_checkpoint = partial(Checkpoint, read=read_outcomes)


def outcome(repeat):
    return Outcome(CELL, "m", repeat, 0.1, 0.2, 3, (0.5, 0.4, 0.3), {"ridge": 1.0})


@settings(max_examples=20)
@given(st.integers(0, 1000), st.integers(1, 4))
def test_splits_are_balanced_disjoint_and_seeded(seed, each):
    y = np.repeat([1, 2, 5], [10, 6, 8])
    train, test = balanced_split(y, 3 * each, (seed, 0))
    assert [int((y[train] == label).sum()) for label in (1, 2, 5)] == [each] * 3
    assert sorted([*train, *test]) == list(range(24))
    np.testing.assert_array_equal(train, balanced_split(y, 3 * each, (seed, 0))[0])


def test_splits_of_different_repeats_differ():
    y = np.repeat([1, 2], 50)
    assert len({tuple(balanced_split(y, 20, (0, repeat))[0]) for repeat in range(20)}) == 20


@settings(max_examples=20)
@given(st.integers(0, 1000), st.integers(1, 12))
def test_even_splits_draw_from_all_subjects_of_a_label(seed, each):
    y = np.repeat([1, 1, 1, 2, 2], [12, 12, 12, 12, 12])
    subject = np.repeat([5, 6, 7, 5, 8], [12, 12, 12, 12, 12])  # subject 5 has both labels
    train, test = even_split(y, subject, 2 * each, (seed, 0))
    for label in (1, 2):
        of_label = subject[train][y[train] == label]
        drawn = [int((of_label == one).sum()) for one in np.unique(subject[y == label])]
        assert sum(drawn) == each
        assert max(drawn) - min(drawn) <= 1
    assert sorted([*train, *test]) == list(range(60))
    np.testing.assert_array_equal(train, even_split(y, subject, 2 * each, (seed, 0))[0])


def test_even_splits_continue_with_other_subjects_when_one_is_exhausted():
    y, subject = np.ones(10), np.repeat([1, 2], [2, 8])
    train, _ = even_split(y, subject, 7, (0, 0))
    assert [int((subject[train] == one).sum()) for one in (1, 2)] == [2, 5]


def test_errors_equal_k_nearest_neighbor_regression():
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(40, 3)), rng.integers(0, 5, 40)
    Q, t = rng.normal(size=(15, 3)), rng.integers(0, 5, 15)
    errors = errors_by_votes(Z, y, Q, t)
    for k in (1, 4, 9):
        expected = np.abs(KNeighborsRegressor(k).fit(Z, y).predict(Q) - t).mean()
        assert errors[k - 1] == pytest.approx(expected)


def test_the_error_of_an_outcome_is_that_of_its_k():
    assert outcome(0).mae == 0.3


def learn_identity(X, y, cell, calls=None):
    if calls is not None:
        calls.append(cell)
    return Learned(lambda Z: Z, 0.0, 0.0, 1, {})


def test_methods_share_the_split_and_are_fitted_once_per_size_they_depend_on():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    X = {"raw": rng.normal(size=(60, 5)), "aligned": np.zeros((60, 5))}
    cells = [CELL, replace(CELL, K=4), replace(CELL, s=3)]
    calls = {name: [] for name in ("Ks", "K", "", "other")}
    methods = [PaperMethod(on, partial(learn_identity, calls=calls[on]), "raw", on) for on in ("Ks", "K", "")]
    methods.append(PaperMethod("other", partial(learn_identity, calls=calls["other"]), "aligned", "", only="fgnet"))
    outcomes = run_unit(Unit("umist", 12, 3, 7), X, y, cells, methods, seed=1)
    assert [len(calls[name]) for name in calls] == [3, 2, 1, 0]
    assert len(outcomes) == 9
    assert len({o.mae_by_votes for o in outcomes}) == 1
    train, test = balanced_split(y, 12, (1, 7))
    expected = errors_by_votes(X["raw"][train][:, :3], y[train], X["raw"][test][:, :3], y[test])
    np.testing.assert_allclose(outcomes[0].mae_by_votes, expected)


def test_a_method_may_reduce_features_draw_evenly_and_score_training_samples():
    rng = np.random.default_rng(0)
    y, subject = np.repeat([0, 1, 2], 20), np.arange(60) // 5
    X = {"raw": rng.normal(size=(60, 5))}
    sizes = []

    def learn(samples, labels, cell):
        sizes.append(samples.shape)
        return learn_identity(samples, labels, cell)

    methods = [
        PaperMethod("whole", learn, "raw", "", own_reduction=True),
        PaperMethod("even", learn, "raw", "", even_subjects=True, score_all=True),
        PaperMethod("all", learn, "raw", "", score_all=True),
    ]
    whole, even, everything = run_unit(Unit("umist", 12, 3, 7), X, y, [CELL], methods, 1, subject)
    assert sizes == [(12, 5), (12, 3), (12, 3)]
    train, test = balanced_split(y, 12, (1, 7))
    expected = errors_by_votes(X["raw"][train], y[train], X["raw"][test], y[test])
    np.testing.assert_allclose(whole.mae_by_votes, expected)
    for found, drawn in ((even, even_split(y, subject, 12, (1, 7))[0]), (everything, train)):
        Z = X["raw"][:, :3]
        np.testing.assert_allclose(found.mae_by_votes, errors_by_votes(Z[drawn], y[drawn], Z, y))


class TestJournal:
    def test_keeps_finished_units(self, tmp_path):
        file, unit = tmp_path / "deep" / "splits.jsonl", Unit("umist", 12, 3, 0)
        open_checkpoint(file, {"seed": 1}).add(unit, [outcome(0)])
        again = open_checkpoint(file, {"seed": 1})
        assert unit in again
        assert list(again.outcomes([unit])) == [outcome(0)]

    def test_discards_results_of_another_identity(self, tmp_path):
        file, unit = tmp_path / "splits.jsonl", Unit("umist", 12, 3, 0)
        open_checkpoint(file, {"seed": 1}).add(unit, [outcome(0)])
        other = open_checkpoint(file, {"seed": 2})
        assert unit not in other
        assert other.discarded
        assert unit not in open_checkpoint(file, {"seed": 1})  # the file was overwritten

    @pytest.mark.parametrize("cut", range(1, 60, 7))
    def test_a_truncated_line_is_discarded_alone(self, tmp_path, cut):
        file = tmp_path / "splits.jsonl"
        units = [Unit("umist", 12, 3, repeat) for repeat in range(3)]
        checkpoint = open_checkpoint(file, {"seed": 1})
        for i in (0, 1):
            checkpoint.add(units[i], [outcome(i)])
        file.write_bytes(file.read_bytes()[:-cut])
        resumed = open_checkpoint(file, {"seed": 1})
        assert units[0] in resumed
        assert (units[1] in resumed) == (cut == 1)  # only the line break is missing
        resumed.add(units[2], [outcome(2)])
        last = open_checkpoint(file, {"seed": 1})
        assert units[2] in last
        assert units[0] in last

    def test_malformed_lines_are_ignored(self, tmp_path):
        file, unit = tmp_path / "splits.jsonl", Unit("umist", 12, 3, 0)
        open_checkpoint(file, {"seed": 1}).add(unit, [outcome(0)])
        malformed = b'[1, 2]\nnonsense\n{}\n\xff\xfe\n{"unit": {}, "outcomes": [{}]}\n'
        file.write_bytes(file.read_bytes() + malformed)
        checkpoint = open_checkpoint(file, {"seed": 1})
        assert unit in checkpoint
        assert not checkpoint.discarded


def run_unit_quickly(unit):
    return [outcome(unit.repeat)]


def test_only_unfinished_units_are_run_with_progress(tmp_path):
    checkpoint = open_checkpoint(tmp_path / "splits.jsonl", {})
    units = [Unit("umist", 12, 3, repeat) for repeat in range(6)]
    run_all(units[:4], run_unit_quickly, checkpoint, n_jobs=1, progress=lambda *_: None)
    ticks = []
    run_all(units, run_unit_quickly, checkpoint, n_jobs=1, progress=lambda *tick: ticks.append(tick))
    assert ticks == [("splits", done, 6) for done in (4, 5, 6)]
    assert [o.repeat for o in checkpoint.outcomes(units)] == list(range(6))


KILLED = """
import sys, time
from pathlib import Path
from ordrank_experiments.checkpoint import Run
from ordrank_experiments.paper import Cell
from ordrank_experiments.protocol import Outcome, Unit, read_outcomes

def work(unit):
    time.sleep(0.05)
    return [Outcome(Cell("umist", 12, 3, 5, 2), "m", unit.repeat, 0.1, 0.2, 3, (0.5, 0.4, 0.3), {"ridge": 1.0})]

units = [Unit("umist", 12, 3, repeat) for repeat in range(1000)]
Run(Path(sys.argv[1]), n_jobs=int(sys.argv[2])).finish(units, work, {"seed": 1}, read_outcomes)
"""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_killed_run_resumes(tmp_path, n_jobs):
    """SIGKILL to all processes: finished units stay and are not run again."""
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), str(n_jobs)], start_new_session=True)
    file = tmp_path / "splits.jsonl"
    deadline = time.monotonic() + 60
    while not file.exists() or file.read_bytes().count(b"\n") < 4:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    finished = file.read_bytes().split(b"\n")[1:-1]
    units = [Unit("umist", 12, 3, repeat) for repeat in range(len(finished) + 5)]
    outcomes, new = Run(tmp_path, n_jobs=1).finish(units, run_unit_quickly, {"seed": 1}, read_outcomes)
    assert outcomes == [outcome(unit.repeat) for unit in units]
    lines = file.read_bytes().split(b"\n")[1:-1]
    assert lines[: len(finished)] == finished
    assert len(lines) >= len(finished) + new
    assert new <= len(units) - len(finished) + n_jobs  # units of the pool may finish out of order


def test_identity_depends_on_seed_and_data():
    arrays = [np.arange(3.0)]
    assert identify(0, arrays) == identify(0, arrays)
    assert identify(0, arrays) != identify(1, arrays)
    assert identify(0, arrays) != identify(0, [np.arange(3.0) + 1])


def test_a_run_does_not_overwrite_other_files(tmp_path):
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(InputError, match="is not empty and holds no run"):
        Run(tmp_path).finish([], list, {}, dict)
    (tmp_path / "splits.jsonl").write_text("mine\n")
    with pytest.raises(InputError, match="was not written by a run"):
        Run(tmp_path).finish([], list, {}, dict)
    assert (tmp_path / "splits.jsonl").read_text() == "mine\n"
