import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordrank.smoothing import graph_laplacian


@given(st.integers(0, 500), st.integers(2, 30))
def test_it_is_symmetric_with_eigenvalues_between_zero_and_two(seed, n):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    G = graph_laplacian(X).toarray()
    np.testing.assert_allclose(G, G.T)
    values = np.linalg.eigvalsh(G)
    assert values[0] > -1e-12
    assert values[-1] < 2 + 1e-12


def test_what_varies_little_between_neighbours_costs_little():
    X = np.sort(np.random.default_rng(0).uniform(size=200))[:, None]
    G = graph_laplacian(X)
    smooth, rough = X[:, 0] - X.mean(), np.random.default_rng(1).normal(size=200)
    assert smooth @ (G @ smooth) / (smooth @ smooth) < 0.1 * (rough @ (G @ rough)) / (rough @ rough)


def test_clusters_that_are_apart_are_separate_components():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 100])
    assert not graph_laplacian(X).toarray()[:20, 20:].any()
    assert (np.linalg.eigvalsh(graph_laplacian(X).toarray()) < 1e-9).sum() >= 2


def test_it_does_not_depend_on_units():
    X = np.random.default_rng(0).normal(size=(30, 4))
    np.testing.assert_allclose(graph_laplacian(X).toarray(), graph_laplacian(1000 * X).toarray(), atol=1e-9)


@pytest.mark.parametrize("copies", [2, 5, 30])
def test_copies_are_allowed(copies):
    X = np.vstack([np.zeros((copies, 2)), np.random.default_rng(0).normal(size=(10, 2))])
    G = graph_laplacian(X).toarray()
    assert np.isfinite(G).all()
    assert np.linalg.eigvalsh(G)[0] > -1e-12
