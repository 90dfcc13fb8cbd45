import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordrank.kernel_ridge import graph_laplacian as laplacian


def graph_laplacian(X):
    return laplacian(X, 4)


@given(st.integers(0, 500), st.integers(2, 30))
def test_is_symmetric_positive_semidefinite_with_zero_row_sums(seed, n):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    G = graph_laplacian(X).toarray()
    np.testing.assert_allclose(G, G.T)
    np.testing.assert_allclose(G.sum(axis=1), 0, atol=1e-12)
    assert np.linalg.eigvalsh(G)[0] > -1e-12
    assert G.diagonal().mean() == pytest.approx(1)


@given(st.integers(0, 500), st.integers(6, 30))
def test_edges_join_mutual_nearest_neighbours(seed, n):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    gaps = np.linalg.norm(X[:, None] - X[None], axis=2)
    near = gaps.argsort(axis=1).argsort(axis=1) <= 4
    np.testing.assert_array_equal(graph_laplacian(X).toarray() < 0, near & near.T & ~np.eye(n, dtype=bool))


def test_an_outlier_has_no_edges():
    X = np.vstack([np.random.default_rng(0).normal(size=(20, 2)), [[50.0, 50.0]]])
    assert not graph_laplacian(X).toarray()[-1].any()


def test_smooth_functions_have_a_small_penalty():
    X = np.sort(np.random.default_rng(0).uniform(size=200))[:, None]
    G = graph_laplacian(X)
    smooth, rough = X[:, 0] - X.mean(), np.random.default_rng(1).normal(size=200)
    assert smooth @ (G @ smooth) / (smooth @ smooth) < 0.1 * (rough @ (G @ rough)) / (rough @ rough)


def test_distant_clusters_are_separate_components():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 100])
    assert not graph_laplacian(X).toarray()[:20, 20:].any()
    assert (np.linalg.eigvalsh(graph_laplacian(X).toarray()) < 1e-9).sum() >= 2


def test_is_invariant_to_scale():
    X = np.random.default_rng(0).normal(size=(30, 4))
    np.testing.assert_allclose(graph_laplacian(X).toarray(), graph_laplacian(1000 * X).toarray(), atol=1e-9)


@pytest.mark.parametrize("copies", [2, 5, 30])
def test_duplicates_are_allowed(copies):
    X = np.vstack([np.zeros((copies, 2)), np.random.default_rng(0).normal(size=(10, 2))])
    G = graph_laplacian(X).toarray()
    assert np.isfinite(G).all()
    assert np.linalg.eigvalsh(G)[0] > -1e-12
