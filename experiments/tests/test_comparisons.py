"""The benchmark of comparisons: who answers how, and what is measured."""

from itertools import pairwise

import numpy as np
import pytest

from experiments.benchmarks.comparisons import (
    Session,
    answers_of,
    chosen_curve,
    logistic_noise,
    measure_grades,
    order_row,
    tau,
)
from ordrank.datasets import make_fruit
from ordrank.labeling.comparisons import Grades
from ordrank.labeling.position_model import unscaled_model


@pytest.fixture
def ripeness():
    return np.random.default_rng(0).uniform(size=60)


@pytest.mark.parametrize(("kind", "share"), [("exact", 0.0), ("10 % wrong", 0.1), ("close pairs wrong", 0.1)])
def test_so_many_answers_about_random_pairs_are_wrong(ripeness, kind, share):
    answer = answers_of(kind, ripeness, np.random.default_rng(1))
    i, j = np.triu_indices(60, 1)
    wrong = [answer(a, b) != np.sign(ripeness[a] - ripeness[b]) for a, b in zip(i.tolist(), j.tolist(), strict=True)]
    assert np.mean(wrong) == pytest.approx(share, abs=0.02)


def test_close_pairs_are_more_often_wrong(ripeness):
    answer = answers_of("close pairs wrong", ripeness, np.random.default_rng(1))
    order = np.argsort(ripeness).tolist()
    wrong = [answer(b, a) != 1 for _ in range(10) for a, b in pairwise(order)]
    assert np.mean(wrong) > 0.3
    assert logistic_noise(2 * ripeness) == pytest.approx(2 * logistic_noise(ripeness))


def test_a_session_approaches_the_order_and_times_each_answer(ripeness):
    session = Session(unscaled_model(60), Grades.none())
    answer = answers_of("exact", ripeness, np.random.default_rng(1))
    before = tau(session.fit().mean + 1e-9 * np.arange(60), ripeness)
    for _ in range(240):
        session.ask(answer)
    assert tau(session.fit().mean, ripeness) > max(0.8, before)
    assert len(session.milliseconds) == len({frozenset(row[:2]) for row in session.rows}) == 240


def test_rows_hold_mean_and_lowest():
    assert order_row("exact|chosen|none", [[0.5, 0.7], [0.7, 0.9]]) == {
        "answers": "exact", "pairs": "chosen", "features": "none", "tau": [0.6, 0.8], "lowest": [0.5, 0.7],
    }  # fmt: skip


@pytest.mark.slow
def test_the_whole_benchmark_runs_on_fewer_pictures(monkeypatch):
    monkeypatch.setattr("experiments.benchmarks.comparisons.N", 40)
    fruit = make_fruit(80, size=24, random_state=3)
    curve, times = chosen_curve(unscaled_model(40), fruit.ripeness[:40], answers_of("exact", fruit.ripeness, None))
    assert (len(curve), len(times)) == (5, 200)
    rows = measure_grades(fruit, 0, 7)
    assert rows[0]["implied"] == 0
    assert rows[-1]["implied"] > 0
