"""Approximate neighbours reach the reported recall."""

import numpy as np
import pytest

from ordrank.neighbors import approximate, target_neighbors
from ordrank.neighbors.approximate import mean_lower_bound
from tests.contracts.backends import every_backend, host, put


@pytest.fixture(autouse=True)
def small_cells(monkeypatch):
    monkeypatch.setattr(approximate, "CELL_SIZE", 500)


def clustered(n, rng):
    return rng.normal(size=(n, 6)) + 20 * rng.normal(size=(40, 6))[rng.integers(0, 40, n)]


def recall_of(exact, found, k):
    rows = zip(host(exact.second).reshape(-1, k), host(found.second).reshape(-1, k), strict=True)
    return np.mean([len(set(a) & set(b)) for a, b in rows]) / k


@every_backend
@pytest.mark.parametrize("recall", [0.5, 0.9])
def test_recall_is_at_least_the_reported_bound(backend, recall):
    X = put(clustered(5000, np.random.default_rng(0)), backend)
    label = put((np.arange(5000) % 20 == 0).astype(int), backend)
    exact, found = target_neighbors(X, label, 4), target_neighbors(X, label, 4, recall=recall)
    assert exact.recall == 1.0
    assert recall <= found.recall < 1
    assert recall_of(exact, found, 4) >= found.recall
    np.testing.assert_array_equal(host(found.first), host(exact.first))
    a, b = host(X)[host(found.first)], host(X)[host(found.second)]
    np.testing.assert_allclose(host(found.squared_distances), ((a - b) ** 2).sum(axis=1))
    assert (host(found.first) != host(found.second)).all()
    assert (host(found.squared_distances) >= host(exact.squared_distances) - 1e-9).all()


def test_search_is_exact_where_cells_do_not_help():
    X, label = np.random.default_rng(0).normal(size=(2500, 40)), np.zeros(2500, dtype=int)
    exact, found = target_neighbors(X, label, 3), target_neighbors(X, label, 3, recall=0.99)
    assert found.recall == 1.0
    np.testing.assert_array_equal(found.second, exact.second)


def test_duplicates_are_found():
    X = np.repeat(clustered(120, np.random.default_rng(1)), 25, axis=0)
    found = target_neighbors(X, np.zeros(3000, dtype=int), 5, recall=0.9)
    assert (found.first != found.second).all()
    assert np.mean(found.squared_distances == 0) > 0.9


def test_mean_lower_bound_holds_with_its_confidence():
    rng = np.random.default_rng(0)
    for chance in (0.5, 0.9, 0.99):
        bounds = np.array([mean_lower_bound(rng.binomial(5, chance, size=300) / 5, 0.05) for _ in range(500)])
        assert np.mean(bounds <= chance) >= 0.95
        assert bounds.mean() > chance - 0.15
