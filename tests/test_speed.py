"""What must not become slow again: ratios of times, taken in turns in one process.

The figures for the record come from ``make bench``; here bounds are wide and sizes small.
"""

import time
import warnings

import numpy as np
import pytest
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from ordrank import OrdinalMetric
from ordrank.backend import backend_of
from ordrank.estimators.order_map import Samples
from ordrank.objectives import CMDSObjective
from ordrank.objectives.locality import LocalityTerm


@pytest.fixture
def ratio(benchmark):
    """Least time of some work over the least time of another, in turns; the first is recorded as a benchmark."""

    def compare(work, other, rounds=5):
        least = [np.inf, np.inf]
        for _ in range(rounds):
            for place, run in enumerate((work, other)):
                begin = time.perf_counter()
                run()
                least[place] = min(least[place], time.perf_counter() - begin)
        benchmark.extra_info["ratio"] = least[0] / least[1]
        benchmark.pedantic(work, rounds=1)
        return least[0] / least[1]

    return compare


def graded(n, d, dtype=np.float32):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=dtype)
    return X, np.digitize(X[:, 0] + rng.normal(size=n), [-1, 0, 1]).astype(float)


def test_all_sums_cost_little_more_than_one_product(ratio):
    X, y = graded(200_000, 128)
    positions, weights, index = np.random.default_rng(0).normal(size=(4, 2)), np.ones(len(X)), y.astype(int)
    assert ratio(lambda: Samples.measured(X, index, positions, weights, linear=True), lambda: X.T @ X) < 4


def test_choices_do_not_grow_with_the_number_of_samples(ratio):
    X, y = graded(64_000, 16)
    metric = OrdinalMetric(kernel="linear")
    assert ratio(lambda: metric.fit(X, y), lambda: metric.fit(X[:4000], y[:4000]), rounds=3) < 2


def test_a_fit_is_faster_than_a_few_iterations_of_another_learner(ratio):
    X, y = graded(4000, 32)
    metric, nca = OrdinalMetric(kernel="linear"), NeighborhoodComponentsAnalysis(max_iter=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ratio(lambda: metric.fit(X, y), lambda: nca.fit(X, y), rounds=1) < 1


@pytest.mark.parametrize("grown", ["n", "d", "s", "K"])
def test_a_gradient_grows_no_faster_than_its_sizes(ratio, grown):
    def gradient(n=20_000, d=64, s=8, K=8):
        rng = np.random.default_rng(0)
        X, Y = rng.standard_normal((n, d), dtype=np.float32), rng.standard_normal((n, s), dtype=np.float32)
        pairs = backend_of(X).pairs(np.repeat(np.arange(n), K), rng.integers(0, n, size=n * K), n, X)
        objective = CMDSObjective(X, Y, LocalityTerm(pairs, np.ones(n * K), 1.0), alpha=0.0, free_scale=False)
        L = rng.standard_normal(s * d, dtype=np.float32)
        return lambda: objective.value_and_gradient(L, objective.image(L))

    usual = {"n": 20_000, "d": 64, "s": 8, "K": 8}
    # Leaving the processor's cache costs something, too; what grows with the square would give 16.
    assert ratio(gradient(**usual | {grown: 4 * usual[grown]}), gradient(), rounds=15) < 10
