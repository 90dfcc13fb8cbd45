import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordrank.errors import InputError
from ordrank.neighbors import _leaf_search
from ordrank.neighbors import index as index_module
from ordrank.neighbors.index import ExactIndex
from ordrank.neighbors.search import Filter


def brute_force(vectors, queries, k, allowed=None):
    squared = ((queries[:, None].astype(float) - vectors[None].astype(float)) ** 2).sum(-1)
    if allowed is not None:
        squared[:, ~allowed] = np.inf
    order = np.argsort(squared, axis=1, kind="stable")[:, :k]
    distances = np.sqrt(np.take_along_axis(squared, order, axis=1))
    missing = ((0, 0), (0, max(0, k - order.shape[1])))
    order = np.pad(np.where(np.isfinite(distances), order, -1), missing, constant_values=-1)
    return order, np.pad(distances, missing, constant_values=np.inf)


def assert_exact(vectors, queries, k, n_order=2, allowed=None):
    indices, distances = ExactIndex(vectors, n_order).nearest(queries, k, allowed=allowed)
    expected, expected_distances = brute_force(vectors, queries, k, allowed)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_allclose(distances, expected_distances, rtol=1e-12)


@pytest.fixture
def small_leaves(monkeypatch):
    """Small leaves make many leaves, regions and rounds."""
    monkeypatch.setattr(index_module, "_LEAF_ROWS", 8)
    monkeypatch.setattr(index_module, "_REGION_LEAVES", 4)
    monkeypatch.setattr(index_module, "_FEW_ROWS", 5)
    monkeypatch.setattr(index_module, "_GROWTH", 2)


def graded(rng, n, width, kind):
    vectors = rng.normal(size=(n, width))
    if kind == "grades":
        vectors[:, 0] += 30 * rng.integers(0, 5, size=n)
    elif kind == "ties":
        vectors = rng.integers(0, 3, size=(n, width)).astype(float)
    elif kind == "duplicates":
        vectors = vectors[rng.integers(0, max(1, n // 6), size=n)]
    elif kind == "constant":
        vectors[:] = vectors[0]
    elif kind == "clusters":
        vectors += 1e5 * rng.integers(0, 2, size=(n, 1))
    return vectors


KINDS = ("random", "grades", "ties", "duplicates", "constant", "clusters")


@pytest.mark.usefixtures("small_leaves")
@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 200),
    width=st.integers(1, 24),
    kind=st.sampled_from(KINDS),
    offset=st.sampled_from([0.0, 1e3, 1e6]),
    dtype=st.sampled_from([np.float32, np.float64]),
    share=st.sampled_from([None, 0.0, 0.1, 0.5, 0.95]),
    block=st.sampled_from([50, 4_000_000]),
    threads=st.sampled_from([1, 3]),
)
def test_equals_brute_force_in_float64(seed, n, width, kind, offset, dtype, share, block, threads):
    rng = np.random.default_rng(seed)
    vectors = (graded(rng, n, width, kind) + offset).astype(dtype)
    queries = np.concatenate(
        (vectors[rng.integers(0, n, size=3)], (graded(rng, 4, width, kind) + offset).astype(dtype))
    )
    allowed = None if share is None else rng.random(n) < share
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "_BLOCK_ELEMENTS", block)
        patch.setattr(_leaf_search, "_PRODUCT_ELEMENTS", block)
        patch.setattr(index_module, "_count_threads", lambda n_queries: threads)
        assert_exact(vectors, queries, int(rng.integers(1, n + 3)), int(rng.integers(0, width + 1)), allowed)


@pytest.mark.parametrize("n_queries", [1, 2, 3, 60, 400])
@pytest.mark.parametrize("n_vectors", [5, 4096, 9001])
def test_products_in_blocks_equal_the_product(n_vectors, n_queries):
    rng = np.random.default_rng(0)
    queries, vectors = (rng.integers(-9, 9, size=(rows, 50)).astype(np.float32) for rows in (n_queries, n_vectors))
    np.testing.assert_array_equal(_leaf_search._multiply(queries, vectors), vectors @ queries.T)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e4, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_on_many_rows_with_a_large_common_offset(offset, dtype):
    rng = np.random.default_rng(3)
    drawn = (graded(rng, 5020, 40, "grades") + offset).astype(dtype)
    assert_exact(drawn[:5000], drawn[5000:], 7)


def test_exact_with_rows_far_from_all_others():
    rng = np.random.default_rng(4)
    vectors = (rng.normal(size=(4000, 30)) + 1e4).astype(np.float32)
    vectors[::500] = 0
    vectors[7] = 1e12
    queries = np.concatenate((vectors[5:9], np.zeros((1, 30), dtype=np.float32), np.full((1, 30), -1e20)))
    assert_exact(vectors, queries, 12)


@pytest.mark.parametrize("size", [1e-150, 1e-30, 1e-20, 1e18, 1e120])
def test_exact_on_very_small_and_very_large_numbers(size):
    rng = np.random.default_rng(5)
    vectors = size * rng.normal(size=(3000, 12))
    assert_exact(vectors, np.concatenate((vectors[:3], size * rng.normal(size=(3, 12)))), 5)


@pytest.mark.parametrize("n_allowed", [20, 3000])
def test_exact_where_squares_overflow_in_single_precision(n_allowed):
    vectors = (1e30 * np.random.default_rng(5).normal(size=(3000, 12))).astype(np.float32)
    assert_exact(vectors, vectors[:4], 5, allowed=np.arange(3000) < n_allowed)


def test_all_rows_are_returned_by_distance():
    rng = np.random.default_rng(6)
    vectors = rng.normal(size=(3000, 5)).astype(np.float32)
    assert_exact(vectors, rng.normal(size=(2, 5)), len(vectors))


def test_index_of_one_row():
    indices, distances = ExactIndex(np.zeros((1, 3)), 2).nearest(np.array([[3.0, 4.0, 0.0]]), 2)
    assert indices.tolist() == [[0, -1]]
    assert distances.tolist() == [[5.0, np.inf]]


@pytest.mark.parametrize("n_allowed", [0, 1, 3, 30, 2100, 4999])
@pytest.mark.parametrize("kind", ["grades", "duplicates"])
def test_only_allowed_rows_are_returned(n_allowed, kind):
    rng = np.random.default_rng(n_allowed)
    vectors = graded(rng, 5000, 20, kind).astype(np.float32)
    allowed = np.zeros(5000, dtype=np.bool_)
    allowed[rng.choice(5000, size=n_allowed, replace=False)] = True
    assert_exact(vectors, vectors[:6], 10, allowed=allowed)


@pytest.mark.parametrize("n_order", [0, 2, 12, 40])
def test_exact_for_any_number_of_order_coordinates(n_order):
    rng = np.random.default_rng(8)
    vectors = rng.normal(size=(3000, 40)).astype(np.float32)
    assert_exact(vectors, vectors[:5] + np.float32(0.1), 10, n_order=n_order)


@pytest.mark.parametrize("kind", KINDS)
def test_single_queries_equal_a_batch(kind):
    rng = np.random.default_rng(9)
    vectors = graded(rng, 6000, 30, kind).astype(np.float32)
    queries = graded(rng, 40, 30, kind).astype(np.float32)
    index = ExactIndex(vectors, 2)
    indices, distances = index.nearest(queries, 9)
    for query, row, distance in zip(queries, indices, distances, strict=True):
        alone = index.nearest(query[None], 9)
        np.testing.assert_array_equal(alone[0][0], row)
        np.testing.assert_array_equal(alone[1][0], distance)


@pytest.mark.usefixtures("small_leaves")
@given(st.integers(0, 10**6), st.integers(1, 150), st.sampled_from(KINDS))
def test_distances_are_invariant_to_permutation_of_rows(seed, n, kind):
    rng = np.random.default_rng(seed)
    vectors, permutation = graded(rng, n, 6, kind), rng.permutation(n)
    queries = graded(rng, 3, 6, kind)
    found, distances = ExactIndex(vectors, 2).nearest(queries, 5)
    permuted, permuted_distances = ExactIndex(vectors[permutation], 2).nearest(queries, 5)
    np.testing.assert_array_equal(permuted_distances, distances)
    known = permuted >= 0
    np.testing.assert_array_equal(known, found >= 0)
    reached = np.linalg.norm(vectors[permutation[permuted]] - queries[:, None], axis=2)
    np.testing.assert_allclose(reached[known], distances[known])


@pytest.mark.usefixtures("small_leaves")
@given(st.integers(0, 10**6), st.integers(1, 120), st.integers(1, 20))
def test_first_k_of_more_neighbours_are_the_k_nearest(seed, n, k):
    rng = np.random.default_rng(seed)
    index = ExactIndex(graded(rng, n, 5, "ties"), 2)
    queries = graded(rng, 3, 5, "ties")
    np.testing.assert_array_equal(index.nearest(queries, k + 5)[0][:, :k], index.nearest(queries, k)[0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
def test_nonfinite_and_huge_numbers_are_rejected(value):
    vectors = np.zeros((4, 3))
    index = ExactIndex(vectors.copy(), 2)
    vectors[1, 2] = value
    with pytest.raises(InputError, match="queries hold NaN or numbers beyond"):
        index.nearest(vectors, 1)
    with pytest.raises(InputError, match="vectors hold NaN or numbers beyond"):
        ExactIndex(vectors, 2)


@pytest.mark.parametrize("shape", [(2, 4), (3,), (1, 1, 3)])
def test_queries_of_another_width_are_rejected(shape):
    with pytest.raises(InputError, match="3 columns"):
        ExactIndex(np.zeros((4, 3)), 2).nearest(np.zeros(shape), 1)


def test_invalid_parameters_are_rejected():
    vectors = np.zeros((4, 3))
    index = ExactIndex(vectors, 2)
    with pytest.raises(InputError, match="k must be at least 1"):
        index.nearest(vectors, 0)
    with pytest.raises(InputError, match="4 rows"):
        index.nearest(vectors, 1, allowed=np.ones(3, dtype=np.bool_))
    with pytest.raises(InputError, match="4 rows"):
        index.nearest(vectors, 1, allowed=np.arange(4))
    with pytest.raises(InputError, match="n_order"):
        ExactIndex(vectors, 4)
    with pytest.raises(InputError, match="two dimensions"):
        ExactIndex(np.zeros((0, 3)), 2)


def test_empty_queries_and_integer_vectors():
    index = ExactIndex(np.arange(12).reshape(4, 3), 2)
    assert len(index) == 4
    indices, distances = index.nearest(np.empty((0, 3)), 2)
    assert indices.shape == distances.shape == (0, 2)
    assert index.nearest(np.array([[3, 4, 5]]), 1)[0].tolist() == [[1]]


@pytest.mark.usefixtures("small_leaves")
@pytest.mark.parametrize("k", [1, 2, 3])
def test_squares_with_the_same_root_are_ties(k):
    rng = np.random.default_rng(0)
    queries = np.zeros((1, 3))
    found = 0
    while found < 20:
        vector = rng.uniform(1, 2, size=3)
        turned = np.array([np.roll(vector, turn) for turn in range(3)])
        squared = np.einsum("ij,ij->i", turned, turned)
        nearer_last = turned[np.argsort(-squared)]
        if len(np.unique(squared)) == 1 or len(np.unique(np.sqrt(squared))) > 1:
            continue
        found += 1
        others = rng.uniform(5, 6, size=(60, 3))
        indices, distances = ExactIndex(np.concatenate([others[:30], nearer_last, others[30:]]), 1).nearest(queries, k)
        assert indices[0].tolist() == [30, 31, 32][:k]
        assert len(np.unique(distances)) == 1


@pytest.mark.parametrize("other", [{"lowest": 1.0}, {"highest": 2.0}, {"nearest_to": (np.arange(3.0), 1)}])
def test_graded_only_excludes_other_conditions(other):
    with pytest.raises(InputError, match="graded_only excludes other conditions"):
        Filter(graded_only=True, **other)


def test_many_queries_are_searched_in_as_many_threads_as_allowed(monkeypatch):
    few, many = 2 * index_module._QUERIES_PER_THREAD - 1, 10**6
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert [index_module._count_threads(n) for n in (1, few, many)] == [1, 1, 3]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert index_module._count_threads(many) == 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert 1 <= index_module._count_threads(many) <= index_module._MAX_THREADS
