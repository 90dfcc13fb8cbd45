"""Tensors in, tensors out; the same metric on every device."""

import pickle
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from ordrank import LDMLR, CMDSMetric, OrdinalMetric, OrdinalRanker
from ordrank.errors import InputError
from ordrank.estimators._defaults import Defaults
from tests.contracts.backends import BACKENDS, host, put
from tests.estimators.test_many_samples import noisy

METRICS = {
    "paper": CMDSMetric(2, gamma=1e-2, mu=1e-4, scale="fixed", max_iter=50),
    "fast": CMDSMetric(2, solver="fast", scale="fixed", init="lstsq", mu=1e-3, alpha=1.0),
    "free scale": CMDSMetric(2, solver="fast", init=np.full((2, 6), 0.2), mu=1.0),
    "ldmlr, unit": LDMLR(mu=1e-5, max_iter=20),
    "ldmlr, exact": LDMLR(mu=1.0, step="exact", max_iter=500),
    "ordinal": OrdinalMetric(kernel="linear", alpha=0.1, locality=0.2),
    "ordinal, local term": OrdinalMetric(kernel="linear", alpha=0.1, locality=0.0, mu=0.1, tol=1e-10),
}
TENSORS = [backend for backend in BACKENDS if backend != "numpy"]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def _few_drawn(monkeypatch):
    """Let the default model fit on the device, which it does for many samples."""
    monkeypatch.setattr(OrdinalMetric, "_defaults", Defaults(selection_samples=60))


@pytest.fixture(params=METRICS)
def metric(request):
    return clone(METRICS[request.param])


@pytest.fixture(params=TENSORS)
def backend(request):
    return request.param


def fitted(metric, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return metric.fit(X, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tensors_give_the_same_metric_as_arrays(metric, backend, graded, dtype):
    X, y = graded[0].astype(dtype), graded[1]
    expected = fitted(clone(metric), X, y).get_mahalanobis_matrix()
    there = put(X, backend)
    found = fitted(metric, there, put(y, backend)).get_mahalanobis_matrix()
    assert found.dtype == there.dtype
    assert found.device == there.device
    tolerance = 1e-3 if dtype == np.float32 else 1e-8
    np.testing.assert_allclose(host(found), expected, atol=tolerance * np.abs(expected).max())


def test_outputs_are_on_the_device_of_the_inputs(metric, backend, graded):
    X, y = graded
    there = put(X, backend)
    fitted(metric, there, y)
    distances = metric.pair_distance(there[:8].reshape(4, 2, 6))
    for array in (metric.components_, metric.mean_, metric.transform(there), distances):
        assert array.device == there.device
    assert isinstance(metric.labels_, np.ndarray)
    Z = metric.transform(X)
    assert isinstance(Z, np.ndarray)
    np.testing.assert_allclose(host(metric.transform(there)), Z, atol=1e-9)
    by_pairs = metric.pair_distance(X[:8].reshape(4, 2, 6))
    np.testing.assert_allclose(host(distances), by_pairs)
    np.testing.assert_allclose(by_pairs, np.linalg.norm(Z[0:8:2] - Z[1:8:2], axis=1))
    assert metric.get_metric()(X[0], X[1]) == pytest.approx(by_pairs[0])


def test_the_device_parameter_does_not_change_the_kind_of_the_result(metric, backend, graded):
    X, y = graded
    device = "cuda" if backend == "cuda" else "cpu"
    expected = fitted(clone(metric), X, y).get_mahalanobis_matrix()
    found = fitted(metric.set_params(device=device), X, y).get_mahalanobis_matrix()
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


def test_inputs_are_not_modified(metric, backend, graded):
    X, y = put(graded[0], backend), put(graded[1], backend)
    fitted(metric, X, y).transform(X)
    np.testing.assert_array_equal(host(X), graded[0])
    np.testing.assert_array_equal(host(y), graded[1])


def test_survives_pickling(metric, backend, graded):
    X = put(graded[0], backend)
    again = pickle.loads(pickle.dumps(fitted(metric, X, graded[1])))
    np.testing.assert_array_equal(host(again.transform(X)), host(metric.transform(X)))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda X, y: (X[0], y), "Expected 2D array, got 1D tensor"),
        (lambda X, y: (X[:1], y[:1]), "1 sample"),
        (lambda X, y: (X[:, :0], y), "0 feature"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X / 0, y), "X contains NaN or infinity"),
        (lambda X, y: (X, y / 0), "y contains NaN or infinity"),
        (lambda X, y: (X, 0 * y), "all 90 samples have the same label"),
        (lambda X, y: (0 * X + 1, y), "all samples are identical"),
        (lambda X, y: (1e100 * X, y), "scale them"),
        (lambda X, y: (X.to_sparse(), y), "dense tensor"),
        (lambda X, y: (X + 1j, y), "real numbers"),
        (lambda X, y: (X, None), "y"),
    ],
)
@pytest.mark.parametrize("kind", ["fast", "ordinal"])
def test_invalid_tensors_have_a_clear_error(backend, graded, change, complaint, kind):
    X, y = change(put(graded[0], backend), put(graded[1], backend))
    with pytest.raises(ValueError, match=complaint):
        METRICS[kind].fit(X, y)


@pytest.mark.parametrize("kind", ["fast", "ordinal"])
def test_queries_with_other_features_are_rejected(backend, graded, kind):
    X = put(graded[0], backend)
    metric = fitted(clone(METRICS[kind]), X, graded[1])
    with pytest.raises(ValueError, match="expecting 6 features"):
        metric.transform(X[:, :5])
    with pytest.raises(InputError, match=r"pairs must have the shape \(n_pairs, 2, 6\)"):
        metric.pair_distance(X)
    with pytest.raises(InputError, match="NaN or infinity"):
        metric.pair_distance(X[:8].reshape(4, 2, 6) / 0)


@pytest.mark.parametrize("kind", ["fast", "ordinal"])
def test_other_dtypes_are_converted_as_for_arrays(backend, graded, kind):
    X = put(np.round(4 * graded[0]), backend)
    metric = clone(METRICS[kind])
    assert str(fitted(metric, X.int(), graded[1]).components_.dtype) == "torch.float64"
    assert str(fitted(metric, X.half(), graded[1]).components_.dtype) == "torch.float32"


# --- the default model --------------------------------------------------------------------------------------------

MAPS = {
    "chosen": OrdinalMetric(),
    "balanced": OrdinalMetric(kernel="linear", class_weight="balanced"),
    "local term": OrdinalMetric(kernel="linear", mu=0.1, tol=1e-10),
    "kernel": OrdinalMetric(kernel="rbf", sharpness=0.5, alpha=1e-3),
    "kernel, local term": OrdinalMetric(kernel="rbf", sharpness=0.5, alpha=1e-2, mu=0.1, tol=1e-10),
}


@pytest.fixture(params=MAPS)
def learned(request):
    return clone(MAPS[request.param])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", [8, 90])  # more than are drawn: a linear map then has coordinates in their span
def test_the_default_model_is_the_same_on_every_device(learned, backend, dtype, features):
    X, y = noisy(400, features, dtype)
    weights = np.random.default_rng(0).uniform(0, 2, len(X)).round()
    expected = fitted_with(clone(learned), X, y, weights)
    found = fitted_with(learned, put(X, backend), put(y, backend), put(weights, backend))
    for name in ("kernel_", "sharpness_", "locality_"):
        assert getattr(found, name) == getattr(expected, name)
    tolerance = 2e-4 if dtype == np.float32 else 1e-8
    there, Z = found.transform(put(X, backend)), expected.transform(X)
    assert there.dtype == put(X, backend).dtype
    np.testing.assert_allclose(host(there), Z, atol=tolerance * np.abs(Z).max())
    pairs = X[:8].reshape(4, 2, features)
    np.testing.assert_allclose(host(found.pair_distance(put(pairs, backend))), expected.pair_distance(pairs), rtol=1e-3)


def test_groups_may_be_tensors(backend):
    X, y = noisy(60, 8, np.float64)
    who = np.arange(60) // 4
    metric, ranker = OrdinalMetric(), OrdinalRanker()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it does not generalise to other groups
        expected = metric.fit(X, y, groups=who).transform(X)
        found = ranker.fit(put(X, backend), put(y, backend), groups=put(who, backend)).metric_
    np.testing.assert_allclose(host(found.transform(put(X, backend))), expected, atol=1e-8 * np.abs(expected).max())


def fitted_with(metric, X, y, weights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return metric.fit(X, y, sample_weight=weights)


def test_few_samples_are_fitted_on_the_host(learned, backend):
    X, y = noisy(50, 8)
    expected = fitted(clone(learned), X, y).transform(X)
    np.testing.assert_allclose(
        host(fitted(learned, put(X, backend), y).transform(put(X, backend))), expected, rtol=1e-9
    )


def test_unlabelled_samples_may_be_tensors(backend):
    X, y = noisy(300, 8)
    others = noisy(100, 8, seed=1)[0]
    metric = OrdinalMetric(kernel="rbf", sharpness=0.5, alpha=1e-3, nu=100.0)
    expected = clone(metric).fit(X, y, unlabeled=others).transform(X)
    found = metric.fit(put(X, backend), y, unlabeled=put(others, backend)).transform(put(X, backend))
    np.testing.assert_allclose(host(found), expected, atol=1e-8)
    with pytest.raises(ValueError, match="8 features"):
        metric.fit(put(X, backend), y, unlabeled=put(others[:, :5], backend))


def test_a_metric_fitted_on_arrays_maps_tensors(learned, backend):
    X, y = noisy(400, 8)
    fitted(learned, X, y)
    np.testing.assert_allclose(host(learned.transform(put(X, backend))), learned.transform(X), atol=1e-9)
    single = learned.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    there = learned.transform(put(X.astype(np.float32), backend))
    np.testing.assert_allclose(host(there), single, atol=1e-4)


# --- grading and ranking ------------------------------------------------------------------------------------------

RANKERS = {
    "default": OrdinalRanker(),
    "other metric": OrdinalRanker(METRICS["fast"]),
    "plain": OrdinalRanker("passthrough"),
    "mean": OrdinalRanker(MAPS["local term"], n_neighbors=5, weights="uniform"),
}


@pytest.mark.parametrize("ranker", RANKERS.values(), ids=RANKERS)
@pytest.mark.parametrize("within_grade", [False, True])
def test_rankers_return_tensors_for_tensors(ranker, backend, within_grade):
    X, y = noisy(300, 8)
    queries = noisy(40, 8, seed=1)[0]
    expected = fitted(clone(ranker), X, y)
    found = fitted(clone(ranker), put(X, backend), put(y, backend))
    assert (found.n_neighbors_, found.weights_) == (expected.n_neighbors_, expected.weights_)
    tensor_queries = put(queries, backend)
    assert found.predict(tensor_queries).device == tensor_queries.device
    np.testing.assert_allclose(host(found.predict(tensor_queries)), expected.predict(queries), atol=1e-6)
    assert found.score(tensor_queries, put(np.arange(40.0) % 5, backend)) == pytest.approx(
        expected.score(queries, np.arange(40.0) % 5)
    )
    ranking, known = (
        one.rank(X, 7, within_grade=within_grade) for one, X in ((found, tensor_queries), (expected, queries))
    )
    for name in ("indices", "distances", "labels"):
        assert getattr(ranking, name).device == tensor_queries.device
        np.testing.assert_allclose(host(getattr(ranking, name)), getattr(known, name), atol=1e-6)
    # Results are of the kind of the queries, whatever the ranker was fitted with.
    assert isinstance(found.predict(queries), np.ndarray)
    assert expected.predict(tensor_queries).device == tensor_queries.device
    np.testing.assert_array_equal(found.rank(queries, 7).indices, host(expected.rank(tensor_queries, 7).indices))


def test_named_grades_are_returned_as_arrays(backend):
    pandas = pytest.importorskip("pandas")
    X, y = noisy(200, 8)
    names = pandas.Categorical.from_codes(y.astype(int), list("abcde"), ordered=True)
    ranker = OrdinalRanker(n_neighbors=3).fit(put(X, backend), names)
    assert set(ranker.predict(put(X, backend))) <= set("abcde")
    assert ranker.rank(put(X, backend), 3).labels.shape == (200, 3)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda X, y: (X[0], y), "Expected 2D array, got 1D tensor"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X / 0, y), "NaN or infinity"),
        (lambda X, y: (X, 0 * y), "have the same label"),
        (lambda X, y: (X, None), "y"),
    ],
)
@pytest.mark.parametrize("ranker", [OrdinalRanker(), OrdinalRanker("passthrough")])
def test_rankers_have_clear_errors_for_invalid_tensors(backend, graded, ranker, change, complaint):
    X, y = change(put(graded[0], backend), put(graded[1], backend))
    with pytest.raises(ValueError, match=complaint):
        clone(ranker).fit(X, y)


def test_rankers_reject_queries_with_other_features(backend, graded):
    ranker = OrdinalRanker(n_neighbors=3).fit(put(graded[0], backend), graded[1])
    with pytest.raises(ValueError, match="expecting 6 features"):
        ranker.predict(put(graded[0][:, :5], backend))


def test_types_that_numpy_lacks_are_converted(backend, graded):
    X, y = graded
    arrays = {"y": y, "unlabeled": X + 0.5, "groups": np.arange(90) % 9}
    short = {name: put(array, backend).bfloat16() for name, array in arrays.items()}
    long = {name: host(array).astype(np.float64) for name, array in short.items()}
    np.testing.assert_array_equal(long["y"], y)
    weights = put(np.ones(90), backend).bfloat16()
    for samples in (X, put(X, backend)):
        found, expected = (OrdinalMetric().fit(samples, sample_weight=weights, **given) for given in (short, long))
        np.testing.assert_array_equal(host(found.transform(samples)), host(expected.transform(samples)))
        found, expected = (OrdinalRanker().fit(samples, **given) for given in (short, long))
        np.testing.assert_array_equal(host(found.predict(samples)), host(expected.predict(samples)))


def test_unlabelled_sparse_tensors_are_rejected(backend, graded):
    X, y = graded
    with pytest.raises(InputError, match="must be a dense tensor of real numbers"):
        OrdinalMetric().fit(X, y, unlabeled=put(X, backend).to_sparse())


# --- missing devices ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["gpu", 0, "cuda0"])
@pytest.mark.parametrize("metric", [CMDSMetric(), OrdinalMetric()])
def test_unknown_devices_are_rejected(graded, metric, device):
    with pytest.raises(InputError, match="device must be None, 'cpu' or 'cuda'"):
        clone(metric).set_params(device=device).fit(*graded)


@pytest.mark.skipif("cuda" in BACKENDS or not TENSORS, reason="needs torch and no CUDA device")
def test_a_missing_device_is_reported_first(graded):
    for metric in (LDMLR(device="cuda"), OrdinalMetric(device="cuda")):
        with pytest.raises(InputError, match="needs a CUDA device, and torch finds none"):
            metric.fit(*graded)


def test_without_torch_the_error_says_how_to_install_it(graded, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "ordrank.backend.torch", raising=False)
    with pytest.raises(InputError, match=r"pip install 'ordrank\[deep\]'"):
        CMDSMetric(device="cuda").fit(*graded)
