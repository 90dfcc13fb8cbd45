"""What every installed backend must satisfy."""

import numpy as np
import pytest

from ordrank.backend import NumpyBackend, backend_of

BACKENDS = [NumpyBackend()]


@pytest.fixture(params=BACKENDS, ids=lambda b: b.name)
def backend(request):
    return request.param


@pytest.fixture(params=[np.float32, np.float64])
def like(request):
    return np.zeros(1, dtype=request.param)


def test_dot_and_row_dots_accumulate_in_double_precision(backend, like):
    a = backend.asarray(np.full((2, 20000), 0.1), like)
    b = backend.asarray(np.tile([1.0, -1.0], (2, 10000)), like)
    assert abs(backend.dot(a, b)) < 1e-9
    a[0, 0] = 1.0
    exact = float(like.dtype.type(1.0)) - float(like.dtype.type(0.1))
    np.testing.assert_allclose(backend.row_dots(a, b), [exact, 0], atol=1e-9)
    assert backend.dot(a, b) == pytest.approx(exact, abs=1e-9)


def test_pairs_take_differences_and_their_transpose_scatters(backend, like):
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 6, 15), rng.integers(0, 6, 15)
    Z, V = (backend.asarray(rng.normal(size=shape), like) for shape in ((6, 2), (15, 2)))
    weights = backend.asarray(rng.normal(size=15), like)
    pairs = backend.pairs(first, second, 6, like)
    tolerance = 50 * backend.epsilon(like)
    np.testing.assert_allclose(pairs.differences(Z), Z[first] - Z[second], atol=tolerance)
    assert backend.dot(pairs.scatter(V), Z) == pytest.approx(backend.dot(V, pairs.differences(Z)), abs=tolerance)
    expected = pairs.scatter(weights[:, None] * pairs.differences(Z))
    np.testing.assert_allclose(pairs.laplacian_product(weights, Z), expected, atol=tolerance)
    assert pairs.differences(Z).dtype == like.dtype


def test_group_sums(backend, like):
    a = backend.asarray(np.arange(8.0).reshape(4, 2), like)
    sums = backend.group_sums(a, np.array([2, 0, 2, 0]), 3)
    np.testing.assert_array_equal(sums, [[8, 10], [0, 0], [4, 6]])


def test_eigh_rebuilds_the_matrix(backend, like):
    a = backend.asarray([[2.0, 1.0], [1.0, 3.0]], like)
    values, vectors = backend.eigh(a)
    assert values[0] <= values[1]
    np.testing.assert_allclose((vectors * values) @ vectors.T, a, atol=10 * backend.epsilon(like))


def test_finiteness(backend, like):
    assert backend.all_finite(backend.asarray([1.0, 2.0], like))
    assert not backend.all_finite(backend.asarray([1.0, np.inf], like))
    assert not backend.all_finite(backend.asarray([np.nan], like))


def test_backend_is_found_from_the_array():
    assert backend_of(np.zeros(1)).name == "numpy"
    with pytest.raises(TypeError, match=r"no backend computes with builtins\.list"):
        backend_of([1.0])
