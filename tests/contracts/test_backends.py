"""The contract of every installed backend, on every device."""

import numpy as np
import pytest

from ordrank.backend import backend_of, convert_like, is_tensor, to_device
from ordrank.errors import InputError
from tests.contracts.backends import BACKENDS, host, put


@pytest.fixture(params=BACKENDS)
def backend_name(request):
    return request.param


@pytest.fixture(params=[np.float32, np.float64])
def like(request, backend_name):
    return put(np.zeros(1, dtype=request.param), backend_name)


@pytest.fixture
def backend(like):
    return backend_of(like)


def tolerance_of(like):
    return 50 * backend_of(like).finfo_eps(like)


def test_dot_accumulates_in_double_precision_and_stays_on_the_device(backend, like):
    a = backend.asarray(np.full((2, 20000), 0.1), like)
    b = backend.asarray(np.tile([1.0, -1.0], (2, 10000)), like)
    assert abs(float(backend.dot(a, b))) < 1e-9
    assert float(backend.dot(a, a)) == pytest.approx(40000 * float(a[0, 0]) ** 2, rel=1e-12)
    found = backend.dot(a, b)
    assert not is_tensor(like) or found.device == like.device


def test_scalars_are_copied_to_the_host_together(backend, like):
    a = backend.asarray([3.0, 4.0], like)
    found = backend.to_host_scalars([backend.dot(a, a), 3.0, a[1]])
    np.testing.assert_array_equal(found, [25.0, 3.0, 4.0])
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(backend.to_host_scalars([1.0, 2.0]), [1.0, 2.0])


def incidence(first, second, n):
    E = np.zeros((len(first), n))
    np.add.at(E, (np.arange(len(first)), first), 1)
    np.add.at(E, (np.arange(len(first)), second), -1)
    return E


@pytest.mark.parametrize("cached", [40, 39])  # above this NumPy permutes the samples
@pytest.mark.parametrize("width", [1, 2, 16, 70])
def test_pair_operator_equals_the_incidence_matrix(backend, like, width, cached, monkeypatch):
    monkeypatch.setattr("ordrank.backend.numpy._CACHED_SAMPLES", cached)
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 40, 150), rng.integers(0, 40, 150)
    E = incidence(first, second, 40)
    A, B = (backend.asarray(rng.normal(size=(40, width)), like) for _ in range(2))
    pairs = backend.pairs(first, second, 40, like)
    of_a, of_b = E @ host(A), E @ host(B)
    scale = tolerance_of(like) * width
    np.testing.assert_allclose(host(pairs.dots(A, B)), (of_a * of_b).sum(axis=1), atol=scale)
    np.testing.assert_allclose(host(pairs.dots(A, A)), (of_a**2).sum(axis=1), atol=scale)
    for Z, image in ((A, of_a), (A, of_a), (B, of_b), (A, of_a)):  # nothing of a product is left for the next
        weights = backend.double(backend.asarray(rng.normal(size=150), like))
        found = pairs.laplacian_product(weights, Z)
        np.testing.assert_allclose(host(found), E.T @ (host(weights)[:, None] * image), atol=4 * tolerance_of(like))
        assert found.dtype == like.dtype


@pytest.mark.parametrize("cached", [3, 2])
def test_pair_operator_without_pairs(backend, like, cached, monkeypatch):
    monkeypatch.setattr("ordrank.backend.numpy._CACHED_SAMPLES", cached)
    none = np.empty(0, dtype=np.int64)
    pairs = backend.pairs(none, none, 3, like)
    Z = backend.asarray(np.ones((3, 2)), like)
    assert pairs.dots(Z, Z).shape == (0,)
    assert not host(pairs.laplacian_product(backend.double(backend.asarray([], like)), Z)).any()


@pytest.mark.parametrize("shape", [(3, 2, 1), (300, 70, 3), (9000, 40, 16), (200, 30, 80)])
def test_thin_products(backend, like, shape):
    n, d, s = shape
    rng = np.random.default_rng(0)
    X, L, W = (backend.asarray(rng.normal(size=size), like) for size in ((n, d), (s, d), (n, s)))
    tolerance = backend.finfo_eps(like) * (8 + n**0.5)
    np.testing.assert_allclose(
        host(backend.inner(X, L)), host(X) @ host(L).T, atol=tolerance * np.abs(host(X) @ host(L).T).max()
    )
    expected = host(W).astype(float).T @ host(X)
    np.testing.assert_allclose(host(backend.transposed_product(W, X)), expected, atol=tolerance * n**0.5)


def test_inner_keeps_the_dtype_of_its_first_argument(backend, like):
    X = backend.asarray([[1.0, 2.0], [3.0, 4.0]], like)
    found = backend.inner(X, backend.double(backend.asarray([[5.0, 6.0]], like)))
    assert found.dtype == like.dtype
    np.testing.assert_array_equal(host(found), [[17.0], [39.0]])


def test_product_has_the_higher_precision(backend, like):
    a, double = backend.asarray([[1.0, 2.0]], like), backend.double(backend.asarray([[3.0], [4.0]], like))
    found = backend.product(a, double)
    assert found.dtype == double.dtype
    assert backend.product(a, backend.asarray([[3.0], [4.0]], like)).dtype == like.dtype
    np.testing.assert_array_equal(host(found), [[11.0]])


def test_results_are_written_to_out(backend, like):
    a, out = backend.asarray(np.arange(6.0).reshape(3, 2), like), backend.empty((3, 4), like)
    assert out.dtype == like.dtype
    backend.subtract(a, a[0], out[:, :2])
    backend.multiply(a, 2.0, out[:, 2:])
    np.testing.assert_array_equal(host(out), [[0, 0, 0, 2], [2, 2, 4, 6], [4, 4, 8, 10]])
    powers, out = backend.asarray([0.0, 1.0], like), backend.empty((2,), like)
    np.testing.assert_allclose(host(backend.exp(powers, out=out)), [1, np.e], rtol=1e-6)
    np.testing.assert_array_equal(host(powers), [0, 1])
    backend.exp(powers, out=powers)
    np.testing.assert_array_equal(host(powers), host(out))


def test_squared_norm(backend, like):
    a = backend.double(backend.asarray(np.random.default_rng(0).normal(size=(6, 4)), like))
    np.testing.assert_allclose(host(backend.squared_norm(a)), (host(a) ** 2).sum(axis=1))


def test_products_of_a_block_are_accurate(backend, like):
    rows = 2048 * backend.block_multiplier(like)
    a = backend.to_sum_precision(backend.asarray(np.random.default_rng(0).normal(size=(rows, 3)), like))
    exact = host(a).astype(np.float64)
    np.testing.assert_allclose(host(a.T @ a), exact.T @ exact, atol=1e-6 * rows)


def test_transposed_products_of_many_float32_rows_are_accurate(backend_name):
    """Solvers need this where terms cancel; sums in float32 would be more than twice as wrong."""
    n, rng = 200_000, np.random.default_rng(0)
    W, X = (put(rng.normal(size=(n, width)).astype(np.float32), backend_name) for width in (4, 6))
    exact = host(W).astype(np.float64).T @ host(X)
    np.testing.assert_allclose(host(backend_of(W).transposed_product(W, X)), exact, atol=1e-5 * n**0.5)


def test_segment_sum(backend, like):
    a = backend.asarray(np.arange(8.0).reshape(4, 2), like)
    sums = backend.segment_sum(a, backend.indices([2, 0, 2, 0], like), 3)
    np.testing.assert_array_equal(host(sums), [[8, 10], [0, 0], [4, 6]])


def test_mean_and_gram_are_in_double_precision(backend, like):
    a = backend.asarray(1000 + np.random.default_rng(0).normal(size=(5000, 3)), like)
    exact = host(a).astype(np.float64)
    np.testing.assert_allclose(host(backend.mean(a)), exact.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(host(backend.gram(a)), exact.T @ exact, rtol=1e-12)


def test_eigh_reconstructs_the_matrix(backend, like):
    a = backend.asarray([[2.0, 1.0], [1.0, 3.0]], like)
    values, vectors = backend.eigh(a)
    assert values[0] <= values[1]
    np.testing.assert_allclose(host((vectors * values) @ vectors.T), host(a), atol=10 * backend.finfo_eps(like))


def test_all_finite(backend, like):
    assert backend.all_finite(backend.asarray([1.0, 2.0], like))
    assert not backend.all_finite(backend.asarray([1.0, np.inf], like))
    assert not backend.all_finite(backend.asarray([np.nan], like))


def test_unique(backend, like):
    distinct, index = backend.unique(backend.asarray([3.0, 1.0, 3.0, 2.0], like))
    np.testing.assert_array_equal(distinct, [1, 2, 3])
    np.testing.assert_array_equal(host(index), [2, 0, 2, 1])
    assert isinstance(distinct, np.ndarray)


def test_nsmallest_sort_and_indexing_along_rows(backend, like):
    a = backend.asarray([[3.0, 1.0, 2.0, 1.5], [0.0, 5.0, -1.0, 4.0]], like)
    values, columns = backend.nsmallest(a, 2)
    np.testing.assert_array_equal(host(values), [[1, 1.5], [-1, 0]])
    np.testing.assert_array_equal(host(columns), [[1, 3], [2, 0]])
    np.testing.assert_array_equal(host(backend.nsmallest(a, 4)[0]), np.sort(host(a), axis=1))
    ties = backend.asarray([[2.0, 1.0, 2.0, 1.0]], like)
    np.testing.assert_array_equal(host(backend.sort(ties)[1]), [[1, 3, 0, 2]])
    np.testing.assert_array_equal(host(backend.take_along_axis(a, columns)), host(values))
    np.testing.assert_array_equal(host(backend.amin(a, 1)), [1, -1])
    filled = backend.put_along_axis(a, backend.indices([[0], [3]], like), np.inf)
    np.testing.assert_array_equal(host(filled), [[np.inf, 1, 2, 1.5], [0, 5, -1, np.inf]])


def test_low_precision_product_is_accumulated_in_float32(backend, like):
    rng = np.random.default_rng(0)
    a, b = (backend.to_low_precision(backend.asarray(rng.normal(size=(64, 40)), like)) for _ in range(2))
    exact = host(a).astype(np.float64) @ host(b).astype(np.float64).T
    np.testing.assert_allclose(
        host(backend.low_precision_product(a, b)), exact, atol=40 * np.finfo(np.float32).eps * 40
    )


def test_backend_follows_the_array_type(backend_name):
    given = put(np.zeros(1), backend_name)
    assert is_tensor(backend_of(given).asarray([0.0], given)) == (backend_name != "numpy")
    with pytest.raises(TypeError, match=r"no backend computes with builtins\.list"):
        backend_of([1.0])


def test_arrays_are_moved_to_a_device_and_back(backend_name):
    given = put(np.arange(3.0), backend_name)
    np.testing.assert_array_equal(host(to_device(given, None)), [0, 1, 2])
    for other in BACKENDS:
        there = put(np.arange(3.0), other)
        back = convert_like(there, given)
        assert type(back) is type(given)
        assert not is_tensor(given) or back.device == given.device
    if backend_name != "numpy":
        with pytest.raises(InputError, match="device must be None, 'cpu' or 'cuda', got 'nowhere'"):
            to_device(given, "nowhere")
        if "cuda" not in BACKENDS:
            with pytest.raises(InputError, match="torch finds none"):
                to_device(given, "cuda")
