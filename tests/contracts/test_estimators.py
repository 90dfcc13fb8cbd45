"""Contract of every estimator."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ordrank import LDMLR, CMDSMetric, OrdinalMetric, OrdinalRanker

METRICS = {
    "paper": CMDSMetric(2, gamma=1e-2, mu=1e-4, scale="fixed", max_iter=200),
    "fast": CMDSMetric(2, solver="fast", scale="fixed", mu=1e-4, alpha=1.0),
    "ldmlr": LDMLR(mu=1.0, step="exact", max_iter=500),
    "ordinal": OrdinalMetric(kernel="linear", alpha=0.01, locality=0.3, mu=0.1, n_neighbors=4),
}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        CMDSMetric(),
        CMDSMetric(solver="fast", scale="fixed", init="lstsq", alpha=0.1),
        LDMLR(),
        LDMLR(step="exact", mu=1.0),
        OrdinalMetric(),
        OrdinalMetric(kernel="rbf", sharpness=1.0, alpha=0.01, locality=0.5),
        OrdinalMetric(kernel="linear", alpha=0.01, locality=0.0, mu=0.01),
        OrdinalRanker(),
        OrdinalRanker(CMDSMetric(solver="fast", scale="fixed"), weights="uniform"),
        OrdinalRanker("passthrough"),
    ],
    expected_failed_checks=lambda estimator: (
        {
            "check_sample_weight_equivalence_on_dense_data": "leave-one-out and target neighbours depend on the "
            "number of samples, not only on weights"
        }
        if isinstance(estimator, OrdinalMetric) and (estimator.alpha == "auto" or estimator.mu > 0)
        else {}
    ),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(autouse=True)
def _ignore_early_stops():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.fixture(params=METRICS)
def metric(request):
    return clone(METRICS[request.param])


def test_works_in_pipelines_and_searches(metric, graded):
    X, y = graded
    ranker = OrdinalRanker(make_pipeline(StandardScaler(), PCA(4), metric))
    search = GridSearchCV(
        ranker, {"n_neighbors": [1, 5], f"metric__{type(metric).__name__.lower()}__mu": [1e-3, 1e-2]}, cv=3
    )
    search.fit(X, y)
    assert search.best_score_ > 0
    assert len(cross_val_score(ranker, X, y, scoring="neg_mean_absolute_error", cv=3)) == 3


def test_feature_names_in_and_out(metric, graded):
    X, y = graded
    frame = pd.DataFrame(X, columns=list("abcdef"))
    metric.fit(frame, y).set_output(transform="pandas")
    assert metric.feature_names_in_.tolist() == list("abcdef")
    names = [f"{type(metric).__name__.lower()}{i}" for i in range(len(metric.components_))]
    assert metric.get_feature_names_out().tolist() == names
    assert metric.transform(frame).columns.tolist() == names


def test_survives_pickling(metric, graded):
    X, y = graded
    metric.fit(X, y)
    again = pickle.loads(pickle.dumps(metric))
    np.testing.assert_array_equal(again.transform(X), metric.transform(X))
    distance = pickle.loads(pickle.dumps(metric.get_metric()))
    assert distance(X[0], X[1]) == pytest.approx(metric.pair_distance([[X[0], X[1]]])[0])


def test_all_forms_of_the_distance_agree(metric, graded):
    X, y = graded
    metric.fit(X, y)
    pairs = np.stack([X[:10], X[10:20]], axis=1)
    Z = metric.transform(X)
    by_transform = np.linalg.norm(Z[:10] - Z[10:20], axis=1)
    delta = X[:10] - X[10:20]
    by_matrix = np.sqrt(np.einsum("ij,jk,ik->i", delta, metric.get_mahalanobis_matrix(), delta))
    np.testing.assert_allclose(metric.pair_distance(pairs), by_transform)
    np.testing.assert_allclose(by_matrix, by_transform)


@pytest.mark.parametrize("shape", [(3, 6), (3, 3, 6), (3, 2, 5)])
def test_pairs_of_another_shape_are_rejected(metric, graded, shape):
    metric.fit(*graded)
    with pytest.raises(ValueError, match=r"pairs must have the shape \(n_pairs, 2, 6\)"):
        metric.pair_distance(np.zeros(shape))


def test_single_precision_stays_single(metric, graded):
    X, y = graded
    double, single = clone(metric).fit(X, y), metric.fit(X.astype(np.float32), y)
    assert single.components_.dtype == np.float32
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    A, B = double.get_mahalanobis_matrix(), single.get_mahalanobis_matrix()
    np.testing.assert_allclose(B, A, atol=2e-2 * np.abs(A).max())


def test_records_the_run_of_the_solver(metric, graded):
    metric.fit(*graded)
    assert metric.history_[-1].value == metric.objective_
    assert len(metric.history_) == metric.n_iter_ + 1
    assert isinstance(metric.stop_reason_, str)
    np.testing.assert_array_equal(metric.labels_, [1, 2, 5])


def test_early_stops_are_always_reported(metric, graded):
    metric.set_params(max_iter=1, tol=0.0)
    with pytest.warns(ConvergenceWarning, match=r"stopped after 1 iterations: the maximum number") as record:
        metric.fit(*graded)
    assert record[0].filename == __file__


def test_inputs_are_not_modified(metric, graded):
    X, y = graded
    before = X.copy(), y.copy()
    OrdinalRanker(metric).fit(X, y).predict(X)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])


def test_ordered_categories_equal_their_codes(metric, graded):
    X, y = graded
    codes = np.searchsorted([1, 2, 5], y)
    names = pd.Categorical.from_codes(codes, ["mild", "bad", "awful"], ordered=True)
    by_names = clone(metric).fit(X, names).get_mahalanobis_matrix()
    by_series = clone(metric).fit(X, pd.Series(names)).get_mahalanobis_matrix()
    by_codes = clone(metric).fit(X, codes).get_mahalanobis_matrix()
    np.testing.assert_array_equal(by_names, by_codes)
    np.testing.assert_array_equal(by_series, by_codes)


# Invariances of the learned distance. The paper's initial value [I 0] is not invariant to rotation, so init="lstsq".
INVARIANT = {
    "fast": CMDSMetric(2, solver="fast", scale="fixed", init="lstsq", mu=1e-3, tol=1e-14),
    "paper": CMDSMetric(2, gamma=1e-2, mu=1e-3, scale="fixed", max_iter=50, init="lstsq"),
    "ldmlr": LDMLR(mu=1.0, step="exact", max_iter=2000, tol=1e-12),
}


@pytest.fixture(params=INVARIANT)
def invariant(request):
    return clone(INVARIANT[request.param])


def distances(metric, X):
    return np.linalg.norm(np.diff(metric.transform(X), axis=0), axis=1)


def test_invariant_to_translation(invariant, graded):
    X, y = graded
    moved = X + np.array([5.0, -3.0, 10.0, 0.0, 7.0, 1.0])
    expected = distances(clone(invariant).fit(X, y), X)
    np.testing.assert_allclose(distances(invariant.fit(moved, y), moved), expected, rtol=1e-5)


def test_invariant_to_rotation(invariant, graded):
    X, y = graded
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    expected = distances(clone(invariant).fit(X, y), X)
    np.testing.assert_allclose(distances(invariant.fit(X @ rotation, y), X @ rotation), expected, rtol=1e-5)


def test_invariant_to_the_order_of_samples(invariant, graded):
    X, y = graded
    order = np.random.default_rng(1).permutation(len(X))
    expected = distances(clone(invariant).fit(X, y), X)
    np.testing.assert_allclose(distances(invariant.fit(X[order], y[order]), X), expected, rtol=1e-5)


def test_invariant_to_a_shift_of_labels(invariant, graded):
    X, y = graded
    expected = distances(clone(invariant).fit(X, y), X)
    np.testing.assert_allclose(distances(invariant.fit(X, y - 100), X), expected, rtol=1e-8)
