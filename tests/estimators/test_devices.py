"""Tensors in, tensors out; the same distance wherever it is learned."""

import pickle
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from ordrank import LDMLR, CMDSMetric, OrdinalMetric, OrdinalRanker
from ordrank.errors import InputError
from tests.contracts.places import PLACES, host, put

METRICS = {
    "paper": CMDSMetric(2, gamma=1e-2, mu=1e-4, scale="fixed", max_iter=50),
    "fast": CMDSMetric(2, solver="fast", scale="fixed", init="lstsq", mu=1e-3, alpha=1.0),
    "free scale": CMDSMetric(2, solver="fast", init=np.full((2, 6), 0.2), mu=1.0),
    "ldmlr, unit": LDMLR(mu=1e-5, max_iter=20),
    "ldmlr, exact": LDMLR(mu=1.0, step="exact", max_iter=500),
}
TENSORS = [place for place in PLACES if place != "numpy"]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(params=METRICS)
def metric(request):
    return clone(METRICS[request.param])


@pytest.fixture(params=TENSORS)
def place(request):
    return request.param


def fitted(metric, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return metric.fit(X, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tensors_give_the_distance_that_arrays_give(metric, place, graded, dtype):
    X, y = graded[0].astype(dtype), graded[1]
    expected = fitted(clone(metric), X, y).get_mahalanobis_matrix()
    there = put(X, place)
    found = fitted(metric, there, put(y, place)).get_mahalanobis_matrix()
    assert found.dtype == there.dtype
    assert found.device == there.device
    tolerance = 1e-3 if dtype == np.float32 else 1e-8
    np.testing.assert_allclose(host(found), expected, atol=tolerance * np.abs(expected).max())


def test_what_comes_out_is_of_the_kind_that_went_in(metric, place, graded):
    X, y = graded
    there = put(X, place)
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


def test_the_device_says_where_a_fit_computes_not_what_it_returns(metric, place, graded):
    X, y = graded
    device = "cuda" if place == "cuda" else "cpu"
    expected = fitted(clone(metric), X, y).get_mahalanobis_matrix()
    found = fitted(metric.set_params(device=device), X, y).get_mahalanobis_matrix()
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


def test_inputs_are_not_modified(metric, place, graded):
    X, y = put(graded[0], place), put(graded[1], place)
    fitted(metric, X, y).transform(X)
    np.testing.assert_array_equal(host(X), graded[0])
    np.testing.assert_array_equal(host(y), graded[1])


def test_survives_pickling(metric, place, graded):
    X = put(graded[0], place)
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
def test_bad_tensors_have_a_clear_error(place, graded, change, complaint):
    X, y = change(put(graded[0], place), put(graded[1], place))
    with pytest.raises(ValueError, match=complaint):
        METRICS["fast"].fit(X, y)


def test_queries_of_another_width_are_refused(place, graded):
    X = put(graded[0], place)
    metric = fitted(clone(METRICS["fast"]), X, graded[1])
    with pytest.raises(ValueError, match="expecting 6 features"):
        metric.transform(X[:, :5])
    with pytest.raises(InputError, match=r"pairs must have the shape \(n_pairs, 2, 6\)"):
        metric.pair_distance(X)


def test_other_types_follow_the_rules_for_arrays(place, graded):
    X = put(np.round(4 * graded[0]), place)
    metric = clone(METRICS["fast"])
    assert str(fitted(metric, X.int(), graded[1]).components_.dtype) == "torch.float64"
    assert str(fitted(metric, X.half(), graded[1]).components_.dtype) == "torch.float32"


def test_the_default_model_takes_tensors_of_the_cpu_and_refuses_others(place, graded):
    X, y = graded
    there = put(X, place)
    metric = OrdinalMetric(kernel="linear", alpha=0.1, locality=0.2)
    if place == "cuda":
        with pytest.raises(InputError, match=r"OrdinalMetric computes on the CPU; give it X.cpu\(\)"):
            metric.fit(there, y)
        return
    expected = clone(metric).fit(X, y).transform(X)
    found = metric.fit(there, put(y, place)).transform(there)
    assert type(found) is type(there)
    np.testing.assert_array_equal(host(found), expected)
    assert type(metric.pair_distance(there[:8].reshape(4, 2, 6))) is type(there)


def test_a_ranker_takes_tensors_of_the_cpu(graded):
    if "torch" not in PLACES:
        pytest.skip("torch is not installed")
    X, y = graded
    ranker = OrdinalRanker(METRICS["fast"], n_neighbors=3, weights="distance")
    expected = clone(ranker).fit(X, y).predict(X + 0.1)
    np.testing.assert_array_equal(ranker.fit(put(X, "torch"), y).predict(put(X + 0.1, "torch")), expected)


@pytest.mark.parametrize("device", ["gpu", 0, "cuda0"])
def test_unknown_devices_are_named(graded, device):
    with pytest.raises(InputError, match="device must be None, 'cpu' or 'cuda'"):
        CMDSMetric(device=device).fit(*graded)


@pytest.mark.skipif("cuda" in PLACES or not TENSORS, reason="needs torch and no CUDA device")
def test_a_missing_device_is_said_before_anything_is_computed(graded):
    with pytest.raises(InputError, match="needs a CUDA device, and torch finds none"):
        LDMLR(device="cuda").fit(*graded)


def test_without_torch_the_way_to_install_it_is_said(graded, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "ordrank.backend.torch", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'ordrank\[torch\]'"):
        CMDSMetric(device="cuda").fit(*graded)
