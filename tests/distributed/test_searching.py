"""Questions to a cluster have the answers of one index of all samples, or of a collection on one machine."""

import shutil
from itertools import pairwise

import numpy as np
import pytest

from ordrank import OrdinalMetric, OrdinalRanker, service
from ordrank.collection.index import ExactIndex
from ordrank.collection.records import Places
from ordrank.collection.searching import ALL, GIVEN, Among, SearchedPlaces, merge
from ordrank.collection.store import write_store
from ordrank.distributed import DaskOrdinalMetric, DaskRanker, searching
from ordrank.distributed.searching import index_part
from ordrank.distributed.sizes import bytes_of
from ordrank.errors import ClusterError, CollectionError, InputError
from tests.cli.running import document, failed, paint, run, write_folder
from tests.distributed.graded import noisy
from tests.distributed.killing import make_mortal

sizeof = pytest.importorskip("dask.sizeof").sizeof

BOUNDS = [0, 300, 301, 900, 2100, 3000]


@pytest.fixture(scope="module")
def samples():
    """Samples with copies of each other in several shards, so that distances tie, and a metric."""
    X, y = noisy(3000, 8)
    X[2500:2600] = X[250:350]
    return X, y, OrdinalMetric(kernel="linear", alpha=1e-3).fit(X, y)


@pytest.fixture
def ranker(samples, in_shards, client):
    X, y, metric = samples
    return DaskRanker(metric).fit(in_shards(X, y, BOUNDS), client=client)


def one_index(samples):
    """All samples as the shards map them, in one index."""
    X, _, metric = samples
    Z = np.concatenate([metric.transform(X[start:stop]) for start, stop in pairwise(BOUNDS)])
    return ExactIndex(Z, metric.n_components_)


@pytest.mark.parametrize("k", [1, 7, 500, 4000])
def test_the_answers_are_those_of_one_index(samples, ranker, k):
    X, y, metric = samples
    queries = np.concatenate([X[2490:2510], X[:5] + 0.1])
    indices, distances = one_index(samples).nearest(metric.transform(queries), min(k, 3000))
    found = ranker.rank(queries, k)
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_array_equal(found.distances, distances)
    np.testing.assert_array_equal(found.labels, y[indices])


def test_only_some_grades(samples, ranker):
    X, y, metric = samples
    for lowest, highest in ((1, 2), (4, np.inf), (-np.inf, 0), (2.5, 2.6)):
        allowed = (y >= lowest) & (y <= highest)
        indices, distances = one_index(samples).nearest(metric.transform(X[:9]), 12, allowed=allowed)
        found = ranker.rank(X[:9], 12, lowest=lowest, highest=highest)
        np.testing.assert_array_equal(found.indices, indices)
        np.testing.assert_array_equal(found.distances, distances)
        assert np.isnan(found.labels).all() == (not allowed.any())


@pytest.mark.parametrize("aggregate", ["median", "mean"])
@pytest.mark.parametrize("weights", ["distance", "uniform"])
def test_the_grades_are_those_of_the_ordinary_ranker(samples, in_shards, client, aggregate, weights):
    X, y, metric = samples
    votes = {"n_neighbors": 15, "aggregate": aggregate, "weights": weights}
    alone = OrdinalRanker(OrdinalMetric(kernel="linear", alpha=1e-3), **votes).fit(X, y)
    ranker = DaskRanker(metric, **votes).fit(in_shards(X, y, BOUNDS), client=client)
    queries = X[::40] + 0.05
    np.testing.assert_allclose(ranker.predict(queries), alone.predict(queries), rtol=1e-9)
    inside, expected = (one.rank(queries, 20, within_grade=True) for one in (ranker, alone))
    np.testing.assert_array_equal(inside.indices, expected.indices)
    np.testing.assert_array_equal(inside.labels, expected.labels)
    np.testing.assert_allclose(inside.distances, expected.distances, rtol=1e-9)


def test_dask_arrays_and_a_metric_of_the_cluster(samples, client):
    da = pytest.importorskip("dask.array")
    X, y, _ = samples
    arrays = da.from_array(X.astype(np.float32), chunks=(700, 8)), da.from_array(y, chunks=700)
    learned = DaskOrdinalMetric(kernel="linear", alpha=1e-3).fit(*arrays, client=client)
    ranker = DaskRanker(learned).fit(*arrays, client=client)
    assert ranker.n_neighbors_ == 101
    for queries in (X[:20].astype(np.float32), arrays[0][:20]):
        assert (ranker.rank(queries, 5).indices[:, 0] == np.arange(20)).all()


def test_a_search_survives_its_workers(samples, in_shards, mortal_client, tmp_path):
    X, y, metric = samples
    ranker = DaskRanker(metric).fit(in_shards(X, y, BOUNDS), client=mortal_client)
    before = ranker.rank(X[:50], 30)
    flags = [str(tmp_path / name) for name in ("one", "two")]
    mortal_client.run(make_mortal, "ordrank.distributed.searching", "nearest_in", flags)
    after = ranker.rank(X[:50], 30)
    assert all((tmp_path / name).exists() for name in ("one", "two")), "nobody was killed"
    np.testing.assert_array_equal(after.indices, before.indices)
    np.testing.assert_array_equal(after.distances, before.distances)


def test_a_cluster_that_is_gone_is_said(samples, in_shards):
    from distributed import Client

    X, y, metric = samples
    with Client(processes=False, dashboard_address="127.0.0.1:0", set_as_default=False) as client:
        ranker = DaskRanker(metric).fit(in_shards(X, y, BOUNDS), client=client)
    with pytest.raises(ClusterError, match="lost during the search; nothing you had is gone, so start it and search"):
        ranker.rank(X[:2])


def test_wrong_input_is_refused(samples, ranker, in_shards, client):
    X, y, metric = samples
    with pytest.raises(InputError, match="the samples have 7 features, but the metric was fitted with 8"):
        DaskRanker(metric).fit(in_shards(X[:, :7], y, BOUNDS), client=client)
    with pytest.raises(ValueError, match="k must be"):
        ranker.rank(X[:2], 0)
    with pytest.raises(ValueError, match="7 features"):
        ranker.rank(X[:2, :7])
    with pytest.raises(ValueError, match="weights"):
        DaskRanker(metric, weights="loud").fit(in_shards(X, y, BOUNDS), client=client)
    with pytest.raises(ValueError, match="not fitted"):
        DaskRanker(OrdinalMetric()).fit(in_shards(X, y, BOUNDS), client=client)


def test_a_part_tells_dask_how_large_it_is():
    part = index_part(places_of(np.random.default_rng(0), 3000), 1)
    vectors = part.searched.places.vectors.nbytes
    assert 2 * vectors < bytes_of(part.searched.index) < sizeof(part) < 3 * vectors


# Graded places -------------------------------------------------------------------------------------------------------


def places_of(rng, n, width=20):
    """Places on a grid, so that distances tie; some have no grade, and one has not even an estimate."""
    grades, estimates = rng.integers(0, 4, size=n).astype(float), rng.uniform(0, 3, size=n)
    grades[rng.random(n) < 0.4] = np.nan
    grades[0] = estimates[0] = np.nan
    estimates[~np.isnan(grades)] = np.nan
    vectors = rng.integers(0, 3, size=(n, width)).astype(np.float32)
    return Places(np.cumsum(rng.integers(1, 4, size=n)), grades, estimates, vectors)


@pytest.mark.parametrize("among", [ALL, GIVEN, Among(lowest=1, highest=2.2), Among(nearest_to=(np.arange(4.0), 2))])
def test_parts_of_places_answer_as_the_whole(among):
    rng = np.random.default_rng(1)
    places = places_of(rng, 400, width=3)
    whole = SearchedPlaces(places, ExactIndex(places.vectors, 1))
    cuts = [0, 1, 150, 150, 399, 400]
    parts = []
    for start, stop in pairwise(cuts):
        rows = slice(start, stop)
        part = Places(places.ids[rows], places.grades[rows], places.estimates[rows], places.vectors[rows])
        if len(part.ids):
            parts.append(SearchedPlaces(part, ExactIndex(part.vectors, 1)))
    queries = rng.integers(0, 3, size=(6, 3)).astype(np.float32)
    for k, but in ((1, None), (30, 7), (30, int(places.ids[160])), (1000, int(places.ids[0]))):
        expected = whole.nearest(queries, k, among, but=but)
        found = merge(k, *(part.nearest(queries, k, among, but=but) for part in parts))
        assert found.total == expected.total
        assert but is None or but not in found.ids
        for name in ("ids", "grades", "distances"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


# Collections ---------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(searching, "PART_ROWS", 7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collection")
    write_folder(folder / "pictures", 90, table=folder / "grades.csv")
    document("fit", folder / "pictures", "--labels", folder / "grades.csv", "--out", folder / "c")
    document("remove", folder / "c", *(f"p{number:03d}.png" for number in range(40, 52)))  # numbers have gaps
    paint(1, 1000).save(folder / "new.png")
    return folder


@pytest.mark.parametrize(
    "options", [(), ("-k", 200), ("--within-grade",), ("--from", 1), ("--from", 1, "--to", 1, "-k", 40)]
)
def test_a_collection_answers_as_on_one_machine(folder, client, options):
    command = ("rank", folder / "c", "p003.png", "p005.png", folder / "new.png", *options)
    assert document(*command, "--scheduler", client.scheduler.address) == document(*command)


def test_workers_of_this_machine_search(folder):
    command = ("rank", folder / "c", folder / "new.png")
    assert document(*command, "--workers", 1) == document(*command)
    assert run(*command, "--workers", 1, "--scheduler", "tcp://127.0.0.1:9").exit_code == 2


def test_a_worker_that_dies_changes_no_answer(folder, mortal_client, tmp_path):
    flag = tmp_path / "flag"
    mortal_client.run(make_mortal, "ordrank.distributed.searching", "take_from", [str(flag)])
    command = ("rank", folder / "c", "p003.png", "p005.png")
    assert document(*command, "--scheduler", mortal_client.scheduler.address) == document(*command)
    assert flag.exists()


def test_a_collection_that_changes_meanwhile_is_said(folder, client, monkeypatch):
    from ordrank.service import asking

    plain = asking._query

    def change(store, model, text):
        with write_store(folder / "c") as other:
            other.set_estimates([], [])
        return plain(store, model, text)

    monkeypatch.setattr(asking, "_query", change)
    said = failed("rank", folder / "c", "p003.png", "--scheduler", client.scheduler.address)
    assert "was changed while it was being read; ask again" in said


def test_nobody_to_vote_is_said(folder, client, tmp_path):
    collection = shutil.copytree(folder / "c", tmp_path / "c")
    with write_store(collection) as store:
        names = [row.name for row in store.rows()]
        for row in store.rows():
            store.set_grade(row.id, None, 1.0)
    for cluster in ({}, {"scheduler": client.scheduler.address}):
        with pytest.raises(CollectionError, match="no picture of the collection has a grade to vote with"):
            service.ask(collection, ["p003.png"], **cluster)
    service.remove(collection, names)
    with pytest.raises(CollectionError, match="no picture of the collection has a grade to vote with"):
        service.ask(collection, [str(folder / "new.png")], scheduler=client.scheduler.address)
