from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsRegressor

from ordrank.experiments.journal import Journal, run_all
from ordrank.experiments.paper import Cell
from ordrank.experiments.protocol import (
    Learned,
    Method,
    Outcome,
    Unit,
    balanced_split,
    errors_by_votes,
    read_outcomes,
    run_unit,
)

CELL = Cell("umist", 12, 3, 5, 2)
open_journal = partial(Journal, read=read_outcomes)


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


def test_different_repeats_are_different_splits():
    y = np.repeat([1, 2], 50)
    assert len({tuple(balanced_split(y, 20, (0, repeat))[0]) for repeat in range(20)}) == 20


def test_errors_are_those_of_nearest_neighbour_regression():
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(40, 3)), rng.integers(0, 5, 40)
    Q, t = rng.normal(size=(15, 3)), rng.integers(0, 5, 15)
    errors = errors_by_votes(Z, y, Q, t)
    for k in (1, 4, 9):
        expected = np.abs(KNeighborsRegressor(k).fit(Z, y).predict(Q) - t).mean()
        assert errors[k - 1] == pytest.approx(expected)


def test_an_outcome_votes_with_its_own_number():
    assert outcome(0).mae == 0.3


def learn_nothing(X, y, cell, calls=None):
    if calls is not None:
        calls.append(cell)
    return Learned(lambda Z: Z, 0.0, 0.0, 1, {})


def test_methods_share_the_split_and_repeat_nothing_that_does_not_depend_on_the_cell():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    X = {"raw": rng.normal(size=(60, 5)), "aligned": np.zeros((60, 5))}
    cells = [CELL, replace(CELL, K=4), replace(CELL, s=3)]
    calls = {name: [] for name in ("Ks", "K", "", "other")}
    methods = [Method(on, partial(learn_nothing, calls=calls[on]), "raw", on) for on in ("Ks", "K", "")]
    methods.append(Method("other", partial(learn_nothing, calls=calls["other"]), "aligned", "", only="fgnet"))
    outcomes = run_unit(Unit("umist", 12, 3, 7), X, y, cells, methods, seed=1)
    assert [len(calls[name]) for name in calls] == [3, 2, 1, 0]
    assert len(outcomes) == 9
    assert len({o.mae_by_votes for o in outcomes}) == 1
    train, test = balanced_split(y, 12, (1, 7))
    expected = errors_by_votes(X["raw"][train][:, :3], y[train], X["raw"][test][:, :3], y[test])
    np.testing.assert_allclose(outcomes[0].mae_by_votes, expected)


class TestJournal:
    def test_keeps_what_was_done(self, tmp_path):
        file, unit = tmp_path / "deep" / "splits.jsonl", Unit("umist", 12, 3, 0)
        open_journal(file, {"seed": 1}).add(unit, [outcome(0)])
        again = open_journal(file, {"seed": 1})
        assert unit in again
        assert list(again.outcomes([unit])) == [outcome(0)]

    def test_forgets_results_of_other_code(self, tmp_path):
        file, unit = tmp_path / "splits.jsonl", Unit("umist", 12, 3, 0)
        open_journal(file, {"seed": 1}).add(unit, [outcome(0)])
        other = open_journal(file, {"seed": 2})
        assert unit not in other
        assert other.discarded
        assert unit not in open_journal(file, {"seed": 1})  # the old file was begun anew

    @pytest.mark.parametrize("cut", range(1, 60, 7))
    def test_a_line_that_was_cut_off_is_not_done_and_spoils_no_other(self, tmp_path, cut):
        file = tmp_path / "splits.jsonl"
        units = [Unit("umist", 12, 3, repeat) for repeat in range(3)]
        journal = open_journal(file, {"seed": 1})
        for i in (0, 1):
            journal.add(units[i], [outcome(i)])
        file.write_bytes(file.read_bytes()[:-cut])
        resumed = open_journal(file, {"seed": 1})
        assert units[0] in resumed
        assert (units[1] in resumed) == (cut == 1)  # only the line break was lost
        resumed.add(units[2], [outcome(2)])
        last = open_journal(file, {"seed": 1})
        assert units[2] in last
        assert units[0] in last

    def test_strange_lines_are_passed_over(self, tmp_path):
        file, unit = tmp_path / "splits.jsonl", Unit("umist", 12, 3, 0)
        open_journal(file, {"seed": 1}).add(unit, [outcome(0)])
        strange = b'[1, 2]\nnonsense\n{}\n\xff\xfe\n{"unit": {}, "outcomes": [{}]}\n'
        file.write_bytes(file.read_bytes() + strange)
        journal = open_journal(file, {"seed": 1})
        assert unit in journal
        assert not journal.discarded


def slow_square(unit):
    return [outcome(unit.repeat)]


def test_only_open_units_are_run_and_progress_is_told(tmp_path):
    journal = open_journal(tmp_path / "splits.jsonl", {})
    units = [Unit("umist", 12, 3, repeat) for repeat in range(6)]
    run_all(units[:4], slow_square, journal, n_jobs=2, tick=lambda done, total: None)
    told = []
    run_all(units, slow_square, journal, n_jobs=1, tick=lambda done, total: told.append((done, total)))
    assert told == [(4, 6), (5, 6), (6, 6)]
    assert [o.repeat for o in journal.outcomes(units)] == list(range(6))
