"""Samples are read from NumPy, Parquet and Zarr files and from Dask arrays, and validated first."""

import pickle
import re
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA

from ordrank import OrdinalMetric
from ordrank.distributed import DaskOrdinalMetric, DaskPCA, Shards
from ordrank.distributed.shard_stats import survey
from ordrank.errors import InputError
from tests.distributed.samples import assert_same_metric, make_ordinal

pytestmark = pytest.mark.usefixtures("small_model_selection")
LINEAR = {"kernel": "linear", "alpha": 1e-3}


@pytest.fixture
def da():
    return pytest.importorskip("dask.array")


# --- files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["columns", "lists"])
def test_fit_from_parquet_files(form, client, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    X, y = make_ordinal(700, 5)
    for number, rows in enumerate((slice(0, 300), slice(300, 700))):
        if form == "lists":
            columns = {"features": list(X[rows])}
        else:
            columns = {f"x{column}": X[rows, column] for column in range(5)}
        parquet.write_table(pa.table({**columns, "grade": y[rows]}), tmp_path / f"{number}.parquet", row_group_size=120)
    metric = DaskOrdinalMetric(**LINEAR).fit(Shards.from_parquet(tmp_path, "grade"), client=client)
    assert_same_metric(OrdinalMetric(**LINEAR).fit(X, y), metric, X)


@pytest.fixture
def write_parquet(tmp_path):
    """Return a function that writes columns to NAME.parquet; the folder is ``tmp_path``."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    return lambda name, **columns: parquet.write_table(pa.table(columns), tmp_path / f"{name}.parquet")


def loaded(folder, label="grade", **options):
    return [shard.load()[:2] for shard in Shards.from_parquet(folder, label, **options).shards]


def test_parquet_features_are_matched_by_name(write_parquet, tmp_path):
    write_parquet("a", x=[1.0, 2.0], y=[3, 4], grade=[0, 1])
    write_parquet("b", grade=[1, 0], y=[7, 8], x=[5.0, 6.0])
    X, grades = (np.concatenate(parts) for parts in zip(*loaded(tmp_path), strict=True))
    np.testing.assert_array_equal(X, [[1, 3], [2, 4], [5, 7], [6, 8]])
    np.testing.assert_array_equal(grades, [0, 1, 1, 0])
    for features in (["y"], "y"):
        np.testing.assert_array_equal(loaded(tmp_path, features=features)[1][0], [[7], [8]])


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"x": [1.0], "grade": [1]}, {}, "b.parquet has no column 'y'; it has x, grade"),
        ({"x": [1.0], "y": [1.0], "grades": [1]}, {}, "b.parquet has no column 'grade'; it has x, y, grades"),
        ({"x": [1.0], "y": [1.0], "grade": [1]}, {"weight": "w"}, "a.parquet has no column 'w'"),
        (
            {"x": [1.0], "y": [1.0], "z": [1.0], "grade": [1]},
            {},
            "b.parquet has a column 'z' that a.parquet has not; name the columns to use with features=",
        ),
        ({"x": ["left"], "y": [1.0], "grade": [1]}, {}, "column 'x' of b.parquet holds string values, not numbers"),
        ({"x": [1.0], "y": [[1.0, 2.0]], "grade": [1]}, {}, "column 'y' of b.parquet holds list<element: double> val"),
        ({"x": [1.0], "y": [1.0], "grade": ["good"]}, {}, "column 'grade' of b.parquet holds string values"),
        ({"x": [[1.0], [1.0, 2.0]], "grade": [1, 2]}, {"features": ["x"]}, "b.parquet has lists of different lengths"),
        ({"x": [["a"]], "grade": [1]}, {"features": ["x"]}, "column 'x' of b.parquet holds list<element: string> val"),
    ],
)
def test_error_names_file_and_column_of_parquet(columns, options, message, write_parquet, tmp_path):
    write_parquet("a", x=[1.0, 2.0], y=[3.0, 4.0], grade=[0, 1])
    write_parquet("b", **columns)
    with pytest.raises(InputError, match=re.escape(message)):
        loaded(tmp_path, **options)


def test_parquet_without_features_is_reported(write_parquet, tmp_path):
    write_parquet("a", grade=[0, 1])
    with pytest.raises(InputError, match=r"a.parquet has no columns besides 'grade'"):
        loaded(tmp_path)


def test_fit_from_rows_of_a_zarr_group(client, tmp_path):
    zarr = pytest.importorskip("zarr")
    X, y = make_ordinal(700, 5)
    group = zarr.open_group(str(tmp_path / "faces.zarr"), mode="w")
    for name, values in (("X", X), ("y", y)):
        group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=(64, *values.shape[1:]))[:] = values
    metric = DaskOrdinalMetric(**LINEAR).fit(Shards.from_zarr(tmp_path / "faces.zarr", 250), client=client)
    assert_same_metric(OrdinalMetric(**LINEAR).fit(X, y), metric, X)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_samples_of_weight_zero_are_ignored(class_weight, client, in_shards):
    X, y = make_ordinal(700, 5)
    weights = np.random.default_rng(3).uniform(0.5, 2, size=700) * (np.arange(700) % 7 > 0)
    settings = {**LINEAR, "mu": 0.1, "class_weight": class_weight}
    expected = OrdinalMetric(**settings).fit(X, y, sample_weight=weights)
    metric = DaskOrdinalMetric(**settings).fit(in_shards(X, y, [0, 90, 400, 700], weights), client=client)
    assert_same_metric(expected, metric, X)
    np.testing.assert_array_equal(metric.get_metric().components, metric.components_)


def test_integers_in_fortran_order_are_read(client, tmp_path):
    X, y = make_ordinal(700, 5)
    counts = np.rint(100 * X).astype(np.int16)
    np.save(tmp_path / "a.npy", np.asfortranarray(counts))
    np.save(tmp_path / "a.labels.npy", y.astype(int))
    metric = DaskOrdinalMetric(**LINEAR).fit(Shards.from_npy(tmp_path), client=client)
    assert_same_metric(OrdinalMetric(**LINEAR).fit(counts, y), metric, counts)


def test_single_precision_is_kept(client, in_shards):
    X, y = make_ordinal(2000, 8, np.float32)
    metric = DaskOrdinalMetric(**LINEAR).fit(in_shards(X, y, [0, 500, 2000]), client=client)
    assert metric.transform(X).dtype == np.float32
    assert_same_metric(OrdinalMetric(**LINEAR).fit(X, y), metric, X, tolerance=1e-4)


def test_survey_keeps_no_samples_in_memory(in_shards):
    X, y = make_ordinal(100_000, 5)
    shard = in_shards(X, y, [0, 100_000]).shards[0]
    tracemalloc.start()
    found = survey(shard)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.n_samples == 100_000
    assert kept < X.nbytes / 100
    assert len(pickle.dumps(found)) < 10_000, "a survey is sent to the client for every shard"


# --- Dask arrays ----------------------------------------------------------------------------------------------


def test_dask_arrays_are_fitted_and_transformed_lazily(da, client):
    X, y = make_ordinal(1200, 6)
    weights = np.linspace(0.5, 2, 1200)
    local = OrdinalMetric(**LINEAR).fit(X, y, sample_weight=weights)
    lazy = da.from_array(X, chunks=(250, 4))
    metric = clone(DaskOrdinalMetric(**LINEAR)).fit(
        lazy, da.from_array(y, chunks=400), sample_weight=da.from_array(weights, chunks=1200), client=client
    )
    assert_same_metric(local, metric, X)
    embedded = metric.transform(lazy)
    assert isinstance(embedded, da.Array)
    assert embedded.shape == (1200, metric.components_.shape[0])
    np.testing.assert_array_equal(embedded.compute(scheduler="synchronous"), metric.transform(X))
    assert type(metric.to_local()) is OrdinalMetric
    np.testing.assert_array_equal(metric.to_local().transform(X), metric.transform(X))


def test_default_client_is_the_current_one(da, client):
    X, y = make_ordinal(400, 4)
    with client.as_current():
        metric = DaskOrdinalMetric(**LINEAR).fit(da.from_array(X, chunks=(100, 4)), da.from_array(y, chunks=100))
    assert_same_metric(OrdinalMetric(**LINEAR).fit(X, y), metric, X)


def test_unlabelled_samples_of_the_client_are_used(da, client):
    X, y = make_ordinal(700, 5)
    settings = {"kernel": "rbf", "sharpness": 0.5, "nu": 100.0, "alpha": 1e-3}
    expected = OrdinalMetric(**settings).fit(X[:500], y[:500], X[500:])
    metric = DaskOrdinalMetric(**settings).fit(
        da.from_array(X[:500], chunks=(100, 5)), da.from_array(y[:500], chunks=100), X[500:], client=client
    )
    assert metric.nu_ == 100
    assert_same_metric(expected, metric, X)


# --- principal component analysis ----------------------------------------------------------------------------------


def test_pca_equals_scikit_learn(da, client, in_shards):
    X, y = make_ordinal(900, 12)
    expected = PCA(5, svd_solver="full").fit(X)
    shards = in_shards(X, y, [0, 10, 10, 500, 900])
    pca = DaskPCA(5).fit(shards, client=client)
    for found in (pca, DaskPCA(5).fit(da.from_array(X, chunks=(200, 12)), client=client)):
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-10)
        np.testing.assert_allclose(found.explained_variance_ratio_, expected.explained_variance_ratio_)
        np.testing.assert_allclose(found.transform(X), expected.transform(X), atol=1e-10)
    for dtype in (np.float32, np.float64, np.int16):
        lazy = pca.transform(da.from_array(X.astype(dtype), chunks=(300, 5)))
        assert lazy.dtype == lazy.compute(scheduler="synchronous").dtype
    with pytest.raises(InputError, match="X has 11 features, but the components have 12"):
        pca.transform(da.from_array(X[:, :11], chunks=(300, 5)))
    lazily = pca.transform(da.from_array(X, chunks=(300, 5))).compute(scheduler="synchronous")
    np.testing.assert_allclose(lazily, expected.transform(X), atol=1e-10)
    metric = DaskOrdinalMetric(**LINEAR).fit(pca.transform(shards), client=client)
    assert_same_metric(OrdinalMetric(**LINEAR).fit(pca.transform(X), y), metric, pca.transform(X))


def test_pca_of_weights_is_that_of_repeated_samples(client, in_shards):
    X, y = make_ordinal(400, 6)
    repeats = np.arange(400) % 3
    expected = PCA(3).fit(np.repeat(X, repeats, axis=0))
    # The scale of weights does not matter; variances are those of as many samples as have a weight.
    pca = DaskPCA(3).fit(in_shards(X, y, [0, 150, 400], 10.0 * repeats), client=client)
    np.testing.assert_allclose(np.abs(pca.components_), np.abs(expected.components_), atol=1e-10)
    np.testing.assert_allclose(pca.mean_, expected.mean_, atol=1e-12)
    np.testing.assert_allclose(pca.explained_variance_ratio_, expected.explained_variance_ratio_)
    n, n_repeated = np.count_nonzero(repeats), repeats.sum()
    variance = expected.explained_variance_ * (n_repeated - 1) / n_repeated * n / (n - 1)
    np.testing.assert_allclose(pca.explained_variance_, variance)


# --- validation -------------------------------------------------------------------------------------------------


def invalid(X, y, what):
    X, y = X.copy(), y.copy()
    if what == "NaN":
        X[350, 2] = np.nan
    elif what == "missing label":
        y[350] = np.nan
    elif what == "one label":
        y[:] = 3
    elif what == "identical":
        X[:] = 2.5
    elif what == "huge":
        X *= 1e160
    return X, y


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("NaN", "contains NaN or infinity, in 001.npy"),
        ("missing label", "001.npy has labels that are missing"),
        ("one label", "the same label"),
        ("identical", "all samples are identical"),
        ("huge", "overflow or underflow when squared; rescale them"),
    ],
)
def test_error_names_the_shard_with_invalid_samples(what, message, client, in_shards):
    X, y = invalid(*make_ordinal(400, 4), what)
    with pytest.raises(InputError, match=message):
        DaskOrdinalMetric(**LINEAR).fit(in_shards(X, y, [0, 200, 400]), client=client)


def test_pca_of_identical_samples_raises(client, in_shards):
    X, y = invalid(*make_ordinal(400, 4), "identical")
    with pytest.raises(InputError, match=r"all samples are identical: every feature is constant$"):
        DaskPCA(1).fit(in_shards(X, y, [0, 400]), client=client)


def test_error_names_inconsistent_shards(client, tmp_path):
    X, y = make_ordinal(400, 4)
    np.save(tmp_path / "a.npy", X[:200])
    with pytest.raises(InputError, match=r"no labels for .*a.npy"):
        Shards.from_npy(tmp_path)
    np.save(tmp_path / "a.labels.npy", y[:200])
    np.save(tmp_path / "b.npy", X[200:, :3])
    np.save(tmp_path / "b.labels.npy", y[200:])
    with pytest.raises(InputError, match=r"b.npy has 3 features, but a.npy has 4"):
        DaskOrdinalMetric(**LINEAR).fit(Shards.from_npy(tmp_path), client=client)
    np.save(tmp_path / "b.labels.npy", y[201:])
    with pytest.raises(InputError, match=r"b.npy has 199 labels, but a different number of samples"):
        DaskOrdinalMetric(**LINEAR).fit(Shards.from_npy(tmp_path), client=client)
    with pytest.raises(InputError, match="no files"):
        Shards.from_parquet(tmp_path)


def test_weights_of_another_shape_name_the_shard(in_shards):
    X, y = make_ordinal(40, 3)
    shards = in_shards(X, y, [0, 40], np.ones((40, 1)))
    with pytest.raises(InputError, match=r"the weights of 000.npy must be one number for each sample, got the shape"):
        shards.shards[0].load()


def test_invalid_arguments_raise(da, client, in_shards):
    X, y = make_ordinal(400, 4)
    lazy, labels = da.from_array(X, chunks=(100, 4)), da.from_array(y, chunks=100)
    metric = DaskOrdinalMetric(**LINEAR)
    for arguments, message in (
        ((X, y), "OrdinalMetric takes in-memory arrays"),
        ((lazy, y), "y must be a one-dimensional Dask array"),
        ((lazy, labels[:300]), "400 samples, but y has 300"),
        ((lazy[:, 0], labels), "two dimensions"),
        ((in_shards(X, y, [0, 400]), labels), "their own labels"),
    ):
        with pytest.raises(InputError, match=message):
            metric.fit(*arguments, client=client)
    with pytest.raises(InputError, match="must be a number"):
        DaskOrdinalMetric(alpha=-1.0).fit(lazy, labels, client=client)
    with pytest.raises(InputError, match="workers compute on their CPUs, not on device='cuda'; leave device at None"):
        DaskOrdinalMetric(device="cuda").fit(lazy, labels, client=client)
    with pytest.raises(InputError, match="OrdinalMetric on some of the groups"):
        DaskOrdinalMetric().fit(lazy, labels, groups=np.arange(len(labels)), client=client)
    with pytest.raises(InputError, match="4 features"):
        metric.fit(lazy, labels, client=client).transform(lazy[:, :2])
    with pytest.raises(InputError, match="exceeds"):
        DaskPCA(9).fit(lazy, client=client)


def test_error_without_a_client_says_how_to_connect(da):
    X, y = make_ordinal(400, 4)
    with pytest.raises(InputError, match="connect one first"):
        DaskOrdinalMetric().fit(da.from_array(X), da.from_array(y))
