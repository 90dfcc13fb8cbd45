"""The benchmark of active choice: what is graded, with which error, and how strategies are compared."""

import types

import numpy as np
import pytest

from experiments.benchmarks import active_choice
from experiments.benchmarks.active_choice import FRACTIONS, STRATEGIES, Pool, compared, curve, measure, rows, split


@pytest.fixture(scope="module")
def separated():
    """120 samples on a line, by grade."""
    y = np.tile([0.0, 1.0, 2.0], 40)
    noise = np.random.default_rng(0).normal(0, 0.1, (120, 4))
    noise[:, 0] += y
    return noise.astype(np.float32), y


def test_pool_and_test_pictures_are_halves_without_a_common_picture(separated):
    X, y = separated
    pool = split(X, y, (900, 0))
    assert len(pool.y) == len(pool.y_test) == 60
    assert len(np.unique(np.round(np.vstack([pool.X, pool.X_test]), 4), axis=0)) == 120
    assert sorted(pool.order) == list(range(60))


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_chooses_ungraded_pictures_as_many_as_asked_for(separated, name):
    pool = split(*separated, (900, 1))
    asked = []

    def choose(pool, ranker, graded, k):
        chosen = STRATEGIES[name](pool, ranker, graded, k)
        assert len(np.unique(chosen)) == k
        assert not np.isin(chosen, graded).any()
        asked.append(k)
        return chosen

    errors = curve(pool, choose)
    assert np.cumsum(asked).tolist() == [round(fraction * 60) for fraction in FRACTIONS]
    assert len(errors) == len(FRACTIONS)
    assert errors[-1] < 0.2


def test_uncertainty_is_the_variance_of_the_grade():
    proba = np.array([[1.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5], [0.3, 0.4, 0.3]])
    X = np.zeros((5, 2), dtype=np.float32)
    pool = Pool(X, np.zeros(5), X, np.zeros(5), np.arange(5))
    ranker = types.SimpleNamespace(classes_=np.array([0, 1, 2]), predict_proba=lambda X: proba)
    assert active_choice.most_uncertain(pool, ranker, np.array([0]), 3).tolist() == [2, 4, 3]
    assert active_choice.most_uncertain(pool, None, np.array([0]), 3).tolist() == [1, 2, 3]  # random before a model


def test_one_grade_is_predicted_for_all(separated):
    pool = split(*separated, (900, 2))
    graded = np.flatnonzero(pool.y == 1)[:3]
    assert pool.fit(graded) is None
    assert pool.error(None, graded) == np.abs(1 - pool.y_test).mean()


def test_rows_and_comparisons_are_over_the_runs(separated):
    found = [measure(*separated, (900, run)) for run in range(2)]
    described = list(rows("line", found))
    assert len(described) == 3 * len(FRACTIONS) + 1
    assert all(row["runs"] == 2 and len(row["maes"]) == 2 for row in described)
    fixed = [
        {"ordrank": [0.9, 0.2], "random": [0.9, 0.4], "uncertainty": [0.9, 0.2], "all": [0.1]},
        {"ordrank": [0.9, 0.4], "random": [0.9, 0.4], "uncertainty": [0.9, 0.1], "all": [0.2]},
    ]
    by_name = {row["against"]: row for row in compared("line", fixed)}
    assert by_name["random"]["difference"] == pytest.approx(-0.1)
    assert by_name["random"]["standard_error"] == pytest.approx(0.1)
    assert (by_name["random"]["better"], by_name["random"]["worse"]) == (1, 0)
    assert (by_name["uncertainty"]["better"], by_name["uncertainty"]["worse"]) == (0, 1)
    assert by_name["all"]["ratio"] == pytest.approx(2.0)
