"""The contract of every vector index, and of merged hits: search equals brute force."""

from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest

from ordrank.metrics import nearest_label
from ordrank.neighbors.index import ExactIndex
from ordrank.neighbors.search import ALL, GRADED_ONLY, Embeddings, Filter, Hits, InMemoryIndex, merge

N_ORDER = 1
BOUNDS = [0, 1, 150, 399, 400]
FILTERS = {
    "all": ALL,
    "graded only": GRADED_ONLY,
    "range": Filter(lowest=1, highest=2.2),
    "nearest label": Filter(nearest_to=(np.arange(4.0), 2)),
    "range and nearest label": Filter(lowest=1.8, nearest_to=(np.arange(4.0), 2)),
    "empty": Filter(lowest=9),
}


def tied_embeddings(n=400):
    """Return embeddings on a grid, so that distances tie; some have no grade, one has no estimate either."""
    rng = np.random.default_rng(1)
    grades, estimates = rng.integers(0, 4, size=n).astype(float), rng.uniform(0, 3, size=n)
    grades[rng.random(n) < 0.4] = np.nan
    grades[0] = estimates[0] = np.nan
    estimates[~np.isnan(grades)] = np.nan
    vectors = rng.integers(0, 3, size=(n, 3)).astype(np.float32)
    return Embeddings(np.cumsum(rng.integers(1, 4, size=n)), grades, estimates, vectors)


EMBEDDINGS = tied_embeddings()
QUERIES = np.random.default_rng(2).integers(0, 3, size=(6, 3)).astype(np.float32)


def parts():
    """Return the embeddings in consecutive parts, one of them a single row."""
    for start, stop in pairwise(BOUNDS):
        yield Embeddings(*(getattr(EMBEDDINGS, field.name)[start:stop] for field in fields(Embeddings)))


def in_memory(embeddings):
    return InMemoryIndex(embeddings, ExactIndex(embeddings.vectors, N_ORDER))


@pytest.fixture(scope="module")
def sharded():
    """Return an index whose shards are on a cluster of one thread of this process."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'ordrank[dask]'")
    from ordrank.distributed.engine import Engine
    from ordrank.distributed.index import ShardedIndex, index_shard_embeddings

    settings = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.Client(**settings, set_as_default=False) as client:
        engine = Engine(client)
        yield ShardedIndex(engine, engine.map(index_shard_embeddings, list(parts()), n_order=N_ORDER))


@pytest.fixture(params=["in memory", "sharded"])
def index(request):
    return in_memory(EMBEDDINGS) if request.param == "in memory" else request.getfixturevalue("sharded")


def passes(where):
    """Return the mask of embeddings that pass a filter, by its definition."""
    known = ~np.isnan(EMBEDDINGS.grades)
    if where.graded_only:
        return known
    grades = np.where(known, EMBEDDINGS.grades, EMBEDDINGS.estimates)
    mask = (grades >= where.lowest) & (grades <= where.highest)
    if where.nearest_to is not None:
        labels, required = where.nearest_to
        mask &= nearest_label(labels, grades) == required
    return mask


def brute_force(k, mask):
    """Return the hits among the embeddings of a mask, by distance and then id."""
    rows = np.flatnonzero(mask)
    distances = np.linalg.norm(QUERIES[:, None].astype(float) - EMBEDDINGS.vectors[rows], axis=2)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]  # ids ascend with the rows
    found = rows[order]
    nearest = np.take_along_axis(distances, order, axis=1)
    return Hits(len(rows), EMBEDDINGS.ids[found], EMBEDDINGS.grades[found], nearest)


def assert_same(found, expected):
    assert found.total == expected.total
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.grades, expected.grades)
    np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-12)


@pytest.mark.parametrize("where", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("k", [1, 30, 1000])  # the last is more than there are
def test_nearest_equals_brute_force_after_filtering_with_ties_by_id(index, k, where):
    assert_same(index.nearest(QUERIES, k, where), brute_force(k, passes(where)))


@pytest.mark.parametrize("where", FILTERS.values(), ids=FILTERS)
def test_exclude_removes_that_id_only(index, where):
    for row in (0, 7, 160):
        mask = passes(where)
        mask[row] = False
        found = index.nearest(QUERIES, 30, where, exclude=int(EMBEDDINGS.ids[row]))
        assert_same(found, brute_force(30, mask))


def test_an_absent_id_excludes_nothing(index):
    absent = int(np.setdiff1d(np.arange(EMBEDDINGS.ids[-1]), EMBEDDINGS.ids)[0])
    assert_same(index.nearest(QUERIES, 30, exclude=absent), brute_force(30, passes(ALL)))


@pytest.mark.parametrize("where", FILTERS.values(), ids=FILTERS)
def test_zero_neighbours_only_count(index, where):
    found = index.nearest(QUERIES, 0, where)
    assert found.total == passes(where).sum()
    assert found.ids.shape == found.grades.shape == found.distances.shape == (len(QUERIES), 0)


def test_labels_are_the_known_grades(index):
    np.testing.assert_array_equal(index.labels, np.unique(EMBEDDINGS.grades[~np.isnan(EMBEDDINGS.grades)]))


@pytest.mark.parametrize("rows", [[], [0], [399, 0, 160, 161, 160]])
def test_take_returns_the_vectors_of_the_ids_in_their_order(index, rows):
    taken = index.take(EMBEDDINGS.ids[rows])
    np.testing.assert_array_equal(taken, EMBEDDINGS.vectors[rows])


@pytest.mark.parametrize("where", FILTERS.values(), ids=FILTERS)
def test_merged_hits_of_parts_are_those_of_the_whole(where):
    whole, split = in_memory(EMBEDDINGS), [in_memory(part) for part in parts()]
    for k, exclude in ((0, None), (1, None), (30, int(EMBEDDINGS.ids[160])), (1000, int(EMBEDDINGS.ids[0]))):
        merged = merge(k, *(part.nearest(QUERIES, k, where, exclude=exclude) for part in split))
        expected = whole.nearest(QUERIES, k, where, exclude=exclude)
        assert_same(merged, expected)
        np.testing.assert_array_equal(merged.distances, expected.distances)
