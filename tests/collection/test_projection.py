import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA

from ordrank.collection.projection import MAX_COMPONENTS, components_of, fit_projection, moments_of
from ordrank.errors import InputError


def blocks_of(X, rows):
    """Blocks that can be taken once only."""
    yield from (X[start : start + rows] for start in range(0, len(X), rows))


def decaying(n, dim, *, offset=0.0, seed=0, base=0.8):
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    return (offset + 50 * rng.normal(size=(n, dim)) * base ** np.arange(dim) @ turn).astype(np.float32)


def assert_principal(X, projection, p):
    """The p leading components, and the variance along each of them, are those of scikit-learn."""
    exact = PCA(p, svd_solver="full").fit(X.astype(np.float64))
    assert projection.components.shape == (p, X.shape[1])
    np.testing.assert_allclose(projection.components @ projection.components.T, np.eye(p), atol=1e-5)
    np.testing.assert_allclose(projection.mean, exact.mean_, rtol=1e-5, atol=1e-3)
    coordinates = projection(X).astype(np.float64)
    np.testing.assert_allclose(coordinates.var(axis=0, ddof=1), exact.explained_variance_, rtol=1e-3)
    assert subspace_angles(projection.components[:5].T.astype(float), exact.components_[:5].T).max() < 1e-2
    signs = np.sign((projection.components * exact.components_).sum(axis=1))[:3]
    scale = np.sqrt(exact.explained_variance_[0])
    np.testing.assert_allclose(coordinates[:, :3] * signs, exact.transform(X)[:, :3], atol=5e-3 * scale)


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("rows", [7, 64, 1000])
def test_equals_that_of_scikit_learn(offset, rows):
    X = decaying(300, 40, offset=offset)
    assert_principal(X, fit_projection(blocks_of(X, rows), 12), 12)


def test_fewer_samples_than_features():
    X = decaying(20, 200, base=0.9)
    assert_principal(X, fit_projection(blocks_of(X, 6)), 19)


def test_more_samples_and_features_than_components_are_kept():
    X = decaying(180, 160, base=0.99)
    projection = fit_projection(blocks_of(X, 100))
    assert len(projection.components) == MAX_COMPONENTS
    exact = PCA(MAX_COMPONENTS, svd_solver="full").fit(X.astype(np.float64))
    kept = projection(X).astype(np.float64).var(axis=0, ddof=1)
    np.testing.assert_allclose(kept[:20], exact.explained_variance_[:20], rtol=1e-3)
    assert kept.sum() > 0.999 * exact.explained_variance_.sum()


def test_two_samples_lie_on_a_line():
    X = np.array([[1, 2, 3], [4, 6, 3]], dtype=np.float32)
    projection = fit_projection([X])
    np.testing.assert_allclose(np.abs(projection(X)), [[2.5], [2.5]], rtol=1e-6)
    np.testing.assert_allclose(np.abs(projection.components), [[0.6, 0.8, 0]], atol=1e-6)


def test_constant_columns_get_no_weight():
    X = decaying(100, 10)
    X[:, [2, 7]] = 255
    projection = fit_projection(blocks_of(X, 30))
    assert len(projection.components) == 8
    np.testing.assert_allclose(projection.components[:, [2, 7]], 0, atol=1e-6)


@pytest.mark.parametrize("dim", [20, 300])
def test_duplicates_do_not_raise_the_rank(dim):
    X = np.random.default_rng(0).integers(0, 256, size=(5, dim)).astype(np.float32)[np.arange(200) % 5]
    projection = fit_projection(blocks_of(X, 64))
    assert len(projection.components) == 4
    distances = np.linalg.norm(projection(X[0]) - projection(X[:5]), axis=1)
    np.testing.assert_allclose(distances, np.linalg.norm(X[0] - X[:5], axis=1), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("X", [np.full((5, 3), 7.0, dtype=np.float32), np.zeros((2, 3), dtype=np.float32)])
def test_equal_samples_are_rejected(X):
    with pytest.raises(InputError, match="all pictures give the same features"):
        fit_projection([X])


def test_a_single_sample_is_rejected():
    with pytest.raises(InputError, match="all pictures give the same features"):
        fit_projection([np.ones((1, 3), dtype=np.float32)])


def test_empty_input_is_rejected():
    with pytest.raises(InputError, match="there are no pictures"):
        fit_projection(iter([]))


@given(cuts=st.lists(st.integers(1, 119), max_size=8, unique=True), seed=st.integers(0, 100))
def test_result_does_not_depend_on_the_blocks(cuts, seed):
    X = decaying(120, 15, offset=100.0, seed=seed)
    whole, cut = fit_projection([X], 6), fit_projection(iter(np.split(X, sorted(cuts))), 6)
    signs = np.sign((whole.components * cut.components).sum(axis=1))
    np.testing.assert_allclose(cut(X) * signs, whole(X), atol=1e-2)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_moments_of_parts_add_up(offset):
    X = decaying(300, 40, offset=offset)
    center = X[:7].mean(axis=0)
    parts = [moments_of(blocks_of(part, 30), center) for part in np.split(X, [120, 121])]
    assert_principal(X, components_of(parts[0] + parts[1] + parts[2], 12), 12)


def test_memory_does_not_grow_with_the_number_of_rows():
    dim, rows = 100, 500

    def blocks(count):
        for seed in range(count):
            yield decaying(rows, dim, seed=seed)

    def peak(count):
        tracemalloc.start()
        try:
            fit_projection(blocks(count), 10)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(3)  # imports
    assert peak(20) < peak(3) + rows * dim * 4
