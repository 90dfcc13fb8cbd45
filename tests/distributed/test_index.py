"""Search on a cluster equals search in one index of all samples."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator

from ordrank import OrdinalMetric, OrdinalRanker
from ordrank.distributed import DaskOrdinalMetric, DaskRanker
from ordrank.distributed._sizeof import nbytes
from ordrank.distributed.index import index_shard_embeddings
from ordrank.distributed.ranker import index_shard
from ordrank.errors import ClusterError, InputError, NeighborsCappedWarning
from ordrank.neighbors.index import ExactIndex
from ordrank.neighbors.search import Embeddings
from ordrank.neighbors.voting import median_vote
from tests.distributed.fault_injection import kill_workers_at
from tests.distributed.samples import make_ordinal

sizeof = pytest.importorskip("dask.sizeof").sizeof

BOUNDS = [0, 300, 301, 900, 2100, 3000]


@pytest.fixture(scope="module")
def samples():
    """Return samples with duplicates in several shards, so that distances tie, and a metric."""
    X, y = make_ordinal(3000, 8)
    X[2500:2600] = X[250:350]
    return X, y, OrdinalMetric(kernel="linear", alpha=1e-3).fit(X, y)


@pytest.fixture
def ranker(samples, in_shards, client):
    X, y, metric = samples
    return DaskRanker(metric).fit(in_shards(X, y, BOUNDS), client=client)


def one_index(samples):
    """Return one index of all samples, embedded shard by shard."""
    X, _, metric = samples
    Z = np.concatenate([metric.transform(X[start:stop]) for start, stop in pairwise(BOUNDS)])
    return ExactIndex(Z, metric.n_components_)


@pytest.mark.parametrize("k", [1, 7, 500, 4000])
def test_ranking_equals_that_of_one_index(samples, ranker, k):
    X, y, metric = samples
    queries = np.concatenate([X[2490:2510], X[:5] + 0.1])
    indices, distances = one_index(samples).nearest(metric.transform(queries), min(k, 3000))
    ranking = ranker.rank(queries, k)
    np.testing.assert_array_equal(ranking.indices, indices)
    np.testing.assert_array_equal(ranking.distances, distances)
    np.testing.assert_array_equal(ranking.labels, y[indices])


def test_ranking_between_grades_equals_that_of_one_index(samples, ranker):
    X, y, metric = samples
    for lowest, highest in ((1, 2), (4, np.inf), (-np.inf, 0), (2.5, 2.6)):
        allowed = (y >= lowest) & (y <= highest)
        indices, distances = one_index(samples).nearest(metric.transform(X[:9]), 12, allowed=allowed)
        ranking = ranker.rank(X[:9], 12, lowest=lowest, highest=highest)
        np.testing.assert_array_equal(ranking.indices, indices)
        np.testing.assert_array_equal(ranking.distances, distances)
        assert np.isnan(ranking.labels).all() == (not allowed.any())


@pytest.mark.parametrize("weights", ["distance", "uniform"])
def test_predictions_are_the_votes_in_ordinal_ranker(samples, in_shards, client, weights):
    X, y, metric = samples
    votes = {"n_neighbors": 15, "weights": weights}
    alone = OrdinalRanker(OrdinalMetric(kernel="linear", alpha=1e-3), **votes).fit(X, y)
    ranker = DaskRanker(metric, **votes).fit(in_shards(X, y, BOUNDS), client=client)
    queries = X[::40] + 0.05
    nearest, grades = alone.rank(queries, 15), ranker.predict(queries)
    np.testing.assert_array_equal(grades, median_vote(nearest.labels, nearest.distances, weights))
    same = grades == alone.predict(queries)  # which is not the vote alone
    assert same.mean() > 0.8
    inside, expected = (one.rank(queries[same], 20, within_grade=True) for one in (ranker, alone))
    np.testing.assert_array_equal(inside.indices, expected.indices)
    np.testing.assert_array_equal(inside.labels, expected.labels)
    np.testing.assert_allclose(inside.distances, expected.distances, rtol=1e-9)


def test_more_neighbours_than_samples_are_capped_with_a_warning(samples, in_shards, client):
    X, y, metric = samples
    X, y = X[::75], y[::75]
    with pytest.warns(NeighborsCappedWarning, match="n_neighbors=50 is more than the 40 samples"):
        ranker = DaskRanker(metric, n_neighbors=50).fit(in_shards(X, y, [0, 15, 40]), client=client)
    assert ranker.predict(X[:3]).shape == (3,)


def test_ranker_of_dask_arrays_and_dask_metric(samples, client):
    da = pytest.importorskip("dask.array")
    X, y, _ = samples
    arrays = da.from_array(X.astype(np.float32), chunks=(700, 8)), da.from_array(y, chunks=700)
    learned = DaskOrdinalMetric(kernel="linear", alpha=1e-3).fit(*arrays, client=client)
    ranker = DaskRanker(learned).fit(*arrays, client=client)
    assert ranker.n_neighbors_ == 101
    for queries in (X[:20].astype(np.float32), arrays[0][:20]):
        assert (ranker.rank(queries, 5).indices[:, 0] == np.arange(20)).all()


def test_search_survives_killed_workers(samples, in_shards, killable_client, tmp_path):
    X, y, metric = samples
    ranker = DaskRanker(metric).fit(in_shards(X, y, BOUNDS), client=killable_client)
    before = ranker.rank(X[:50], 30)
    flags = [str(tmp_path / name) for name in ("one", "two")]
    killable_client.run(kill_workers_at, "ordrank.distributed.index", "search_shard", flags)
    after = ranker.rank(X[:50], 30)
    assert all((tmp_path / name).exists() for name in ("one", "two")), "no worker was killed"
    np.testing.assert_array_equal(after.indices, before.indices)
    np.testing.assert_array_equal(after.distances, before.distances)


def test_lost_cluster_is_reported(samples, in_shards):
    Client = pytest.importorskip("distributed").Client
    X, y, metric = samples
    with Client(processes=False, dashboard_address="127.0.0.1:0", set_as_default=False) as client:
        ranker = DaskRanker(metric).fit(in_shards(X, y, BOUNDS), client=client)
    with pytest.raises(ClusterError, match="lost during the search; no data was lost, so restart it and search"):
        ranker.rank(X[:2])


def test_invalid_input_raises(samples, ranker, in_shards, client):
    X, y, metric = samples
    with pytest.raises(InputError, match="the samples have 7 features, but the metric was fitted with 8"):
        DaskRanker(metric).fit(in_shards(X[:, :7], y, BOUNDS), client=client)
    with pytest.raises(ValueError, match="k must be"):
        ranker.rank(X[:2], 0)
    with pytest.raises(ValueError, match="7 features"):
        ranker.rank(X[:2, :7])
    with pytest.raises(ValueError, match="weights"):
        DaskRanker(metric, weights="loud").fit(in_shards(X, y, BOUNDS), client=client)
    for unfitted in (DaskRanker(OrdinalMetric()), clone(ranker)):
        with pytest.raises(InputError, match=r"the metric is not fitted; .* wrap it in sklearn.frozen.FrozenEstimator"):
            unfitted.fit(in_shards(X, y, BOUNDS), client=client)


def test_a_frozen_metric_survives_cloning(samples, ranker, in_shards, client):
    X, y, metric = samples
    assert ranker.n_features_in_ == 8
    copied = clone(DaskRanker(FrozenEstimator(metric))).fit(in_shards(X, y, BOUNDS), client=client)
    np.testing.assert_array_equal(copied.rank(X[:9] + 0.1, 5).indices, ranker.rank(X[:9] + 0.1, 5).indices)


class FirstComponent(PCA):
    """A transformer whose n_components_ is not the number of leading ordinal coordinates."""

    def transform(self, X):
        return super().transform(X)[:, :1]


def test_components_of_other_transformers_are_not_taken_for_ordinal_ones(samples, in_shards):
    X, y, _ = samples
    other = FirstComponent(3).fit(X)
    shard = index_shard(in_shards(X, y, BOUNDS).shards[0], 0, other)
    found = shard.nearest(other.transform(X[:4]), 1)
    np.testing.assert_array_equal(found.ids[:, 0], np.arange(4))


def test_shard_index_reports_its_size_to_dask():
    vectors = np.random.default_rng(0).normal(size=(3000, 20)).astype(np.float32)
    embeddings = Embeddings(np.arange(3000), np.zeros(3000), np.zeros(3000), vectors)
    shard = index_shard_embeddings(embeddings, 1)
    assert 2 * vectors.nbytes < nbytes(shard.index) < sizeof(shard) < 3 * vectors.nbytes
