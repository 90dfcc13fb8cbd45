"""Guards of speed: ratios of medians measured in turns, so that no limit depends on the machine.

Limits leave a factor of about two to what was measured. They need a machine that does nothing else: `make ratios` runs
this file alone, `make test-all` after all other tests.
"""

import statistics
import time

import numpy as np
import pytest
from joblib import cpu_count
from large_collection import create, draw_folder
from ordrank_experiments.reference_formulas import ReferenceObjective
from prediction import draw, peers
from scaling import graded
from sklearn.datasets import load_digits
from solvers import own_objective, problem
from threadpoolctl import threadpool_limits

from ordrank import Collection, OrdinalMetric, OrdinalRanker

SAMPLES, QUERIES = 60_000, 1000


@pytest.fixture(autouse=True)
def _all_cores(monkeypatch):
    """Give back the cores that tests in parallel do without."""
    monkeypatch.delenv("OMP_NUM_THREADS")
    with threadpool_limits(cpu_count()):
        yield


@pytest.fixture
def ratio(benchmark):
    """Return the function that measures the time of some work over that of other work, done before each round."""

    def measure(work, other, rounds=5):
        seconds = []

        def measure_other():
            begin = time.perf_counter()
            other()
            seconds.append(time.perf_counter() - begin)

        benchmark.pedantic(work, setup=measure_other, rounds=rounds, warmup_rounds=1)
        found = benchmark.stats["median"] / statistics.median(seconds[1:])
        benchmark.extra_info["ratio"] = found
        return found

    return measure


@pytest.fixture(scope="module")
def rankers():
    """A ranker of many samples with an index of them and one without, and queries."""
    X, y = draw(SAMPLES + QUERIES, 5)
    found = []
    for limit in (0, SAMPLES + 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ordrank.estimators.ranker._INDEXED_SAMPLES", limit)
            found.append(OrdinalRanker(OrdinalMetric(kernel="rbf")).fit(X[:SAMPLES], y[:SAMPLES]))
    return *found, X[SAMPLES:]


def test_a_query_among_many_samples_does_not_compare_all(ratio, rankers):
    indexed, comparing, queries = rankers
    assert ratio(lambda: indexed.predict(queries[:1]), lambda: comparing.predict(queries[:1])) < 1 / 10


def test_many_queries_are_faster_than_by_comparing_all(ratio, rankers):
    indexed, comparing, queries = rankers
    assert ratio(lambda: indexed.predict(queries), lambda: comparing.predict(queries)) < 1 / 1.8


@pytest.mark.parametrize("name", peers())
def test_the_default_fit_of_digits_takes_less_than_that_of_others(ratio, name):
    X, y = load_digits(return_X_y=True)
    assert ratio(lambda: OrdinalRanker().fit(X, y), lambda: peers()[name].fit(X, y), rounds=3) < 1


def test_a_fit_of_four_times_as_many_samples_takes_little_longer(ratio):
    X, y = graded(16_000, 64, 0)
    fit = OrdinalMetric(kernel="rbf").fit
    assert ratio(lambda: fit(X, y), lambda: fit(X[:4000], y[:4000])) < 3


def test_the_gradient_forms_no_differences_of_samples(ratio):
    data = problem(2000, 150, 3, 5, seed=0)
    own = own_objective(data, 1.0)
    literal = ReferenceObjective(data["X"], data["Y"], data["neighbors"], mu=1.0, free_scale=False)
    start = np.eye(3, 150).reshape(-1)

    def gradient(objective):
        return objective.value_and_gradient(start, objective.image(start))

    for value, expected in zip(gradient(own), gradient(literal), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-8, atol=1e-8)
    assert ratio(lambda: gradient(own), lambda: gradient(literal), rounds=20) < 1 / 2


def test_a_grade_does_not_read_the_collection_again(ratio, tmp_path):
    directory, grades = tmp_path / "collection", draw_folder(tmp_path / "drawn", 500, seed=0)
    create(directory, tmp_path / "drawn", grades, 20_000)
    collection = Collection(directory)
    collection.fit()
    name = collection.pictures(limit=1).items[0].name
    values = iter(range(1, 100))

    def grade_and_list():
        collection.grade(name, float(next(values)))
        return collection.pictures(limit=48)

    assert ratio(grade_and_list, lambda: Collection(directory).pictures(limit=48)) < 1 / 4
