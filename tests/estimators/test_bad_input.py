"""Invalid input has a clear error, unusual input a correct result, for every estimator."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from ordrank import LDMLR, CMDSMetric, OrdinalMetric, OrdinalRanker
from ordrank.errors import InputError, NeighborsCappedWarning

ESTIMATORS = [
    CMDSMetric(2, gamma=1e-2),
    CMDSMetric(2, solver="fast", scale="fixed"),
    LDMLR(mu=1.0, step="exact"),
    OrdinalMetric(),
    OrdinalMetric(kernel="linear", mu=0.1),
    OrdinalRanker(),
    OrdinalRanker("passthrough"),
]
METRICS = ESTIMATORS[:5]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def assert_rejects(estimator, X, y, match):
    before = np.array(X, copy=True)
    with pytest.raises(ValueError, match=match):
        estimator.fit(X, y)
    np.testing.assert_array_equal(np.asarray(X), before)


def ranker_of(estimator):
    return OrdinalRanker(estimator) if hasattr(estimator, "transform") else estimator


def assert_orders(estimator, X, y, queries, grades=None):
    """Assert that queries near, but not equal to, the training samples get their grade."""
    ranker = ranker_of(estimator).set_params(n_neighbors=1).fit(X, y)
    assert (ranker.predict(queries) == (y if grades is None else grades)).mean() > 0.9


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
class TestData:
    @pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
    def test_nan_and_infinity_in_features(self, estimator, graded, value, word):
        X, y = graded
        X = X.copy()
        X[3, 2] = value
        assert_rejects(estimator, X, y, word)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_nan_and_infinity_in_labels(self, estimator, graded, value):
        X, y = graded
        y = y.copy()
        y[3] = value
        assert_rejects(estimator, X, y, "NaN|infinity")

    def test_one_label(self, estimator, graded):
        assert_rejects(estimator, graded[0], np.ones(90), "all 90 samples have the same label")

    def test_text_labels(self, estimator, graded):
        assert_rejects(estimator, graded[0], np.array(["good", "bad", "ugly"] * 30), "ordered pandas categorical")

    def test_text_labels_of_digits(self, estimator, graded):
        assert_rejects(estimator, graded[0], np.array(["1", "2", "10"] * 30), "ordered pandas categorical")
        assert_rejects(estimator, graded[0], np.array([1, 2, "10"] * 30, dtype=object), "'10'")

    def test_no_labels_at_all(self, estimator, graded):
        for empty in (np.array([], dtype=str), np.array([], dtype=object), []):
            assert_rejects(estimator, graded[0], empty, "y is empty|inconsistent numbers of samples|0 sample")

    def test_categories_without_an_order(self, estimator, graded):
        names = pd.Categorical(["good", "bad", "ugly"] * 30)
        assert_rejects(estimator, graded[0], names, "categorical without an order")

    def test_missing_categories(self, estimator, graded):
        names = pd.Categorical(["good", "bad", None] * 30, categories=["bad", "good"], ordered=True)
        assert_rejects(estimator, graded[0], names, "30 missing grades")

    def test_mismatched_lengths(self, estimator, graded):
        X, y = graded
        assert_rejects(estimator, X, y[:-1], "inconsistent numbers of samples")

    def test_one_sample(self, estimator):
        assert_rejects(estimator, [[1.0, 2.0]], [1], "1 sample")

    def test_two_samples(self, estimator):
        X = np.array([[0.0, 0.0], [1.0, 0.0]])
        assert_orders(estimator, X, np.array([1, 2]), X + 0.1)

    def test_every_label_distinct(self, estimator, graded):
        X, _ = graded
        ranker = ranker_of(estimator).fit(X[:60], X[:60, 0])
        assert np.corrcoef(ranker.predict(X[60:]), X[60:, 0])[0, 1] > 0.5

    def test_fewer_samples_than_features(self, estimator):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(20, 50)), np.repeat([1, 2], 10)
        X[:, 0] += 10 * y
        assert_orders(estimator, X, y, X + 0.1 * rng.normal(size=X.shape))

    def test_constant_features_change_nothing(self, estimator, graded):
        X, y = graded
        with_constant = np.column_stack([X, np.full(90, 7.0)])
        plain = ranker_of(estimator).fit(X, y)
        expected = plain.predict(X + 0.1)
        again = plain.fit(with_constant, y).predict(np.column_stack([X + 0.1, np.full(90, 7.0)]))
        np.testing.assert_array_equal(again, expected)

    def test_duplicate_samples(self, estimator, graded):
        X, y = graded
        X = X * 0.2
        X[:, 0] += y
        assert_orders(estimator, np.repeat(X, 8, axis=0), np.repeat(y, 8), X + 0.01, y)


@pytest.mark.parametrize("estimator", METRICS, ids=repr)
class TestMetrics:
    def test_identical_samples(self, estimator):
        assert_rejects(estimator, np.ones((10, 3)), np.arange(10) % 2, "all samples are identical")

    def test_features_too_large_to_square(self, estimator, graded):
        X, y = graded
        assert_rejects(estimator, X * 1e100, y, "scale them")
        assert_rejects(estimator, X * 1e-100, y, "scale them")
        assert_rejects(estimator, (X * 1e20).astype(np.float32), y, "scale them")

    def test_few_samples_of_every_label_are_reported(self, estimator, graded):
        X, _ = graded
        if isinstance(estimator, OrdinalMetric) and estimator.mu == 0:
            pytest.skip("has no target neighbours")
        with pytest.warns(NeighborsCappedWarning, match="45 of 45 labels"):
            estimator.fit(X, np.arange(90) // 2)


@pytest.mark.parametrize(
    ("estimator", "complaint"),
    [
        (CMDSMetric(0), "n_components must be an integer of at least 1, got 0"),
        (CMDSMetric(2.5), "n_components must be an integer of at least 1, got 2.5"),
        (CMDSMetric(n_neighbors=0), "n_neighbors must be an integer of at least 1, got 0"),
        (CMDSMetric(mu=-1), "mu must be a number at least 0, got -1"),
        (CMDSMetric(mu=np.nan), "mu must be a number at least 0, got nan"),
        (CMDSMetric(gamma=0), "gamma must be a number above 0, got 0"),
        (CMDSMetric(rho=1.0), "rho must be a number above 0 and below 1, got 1.0"),
        (CMDSMetric(sigma="x"), "sigma must be a number above 0 and below 1, got 'x'"),
        (CMDSMetric(max_line_search=0), "max_line_search"),
        (CMDSMetric(max_iter=0), "max_iter"),
        (CMDSMetric(alpha=-1), "alpha"),
        (CMDSMetric(tol=-1), "tol"),
        (CMDSMetric(beta=np.inf), "beta must be a number, got inf"),
        (CMDSMetric(beta=-3.0), "beta=-3 makes some label distances negative"),
        (CMDSMetric(beta=-1.0), "different labels are at distance zero"),
        (CMDSMetric(label_distances=np.zeros((3, 3))), "different labels are at distance zero"),
        (CMDSMetric(label_distances=1e100 * (1 - np.eye(3))), "scale the labels"),
        (CMDSMetric(label_distances=[["a"]]), "label_distances must be a square matrix of numbers"),
        (CMDSMetric(init=[[1], [2, 3]]), "init must be"),
        (CMDSMetric(solver="quick"), "solver must be one of 'paper', 'fast', got 'quick'"),
        (CMDSMetric(scale=1), "scale must be one of 'free', 'fixed', got 1"),
        (CMDSMetric(repair="magic"), "repair must be one of"),
        (CMDSMetric(init="random"), "init must be one of 'identity', 'lstsq'"),
        (CMDSMetric(init=np.zeros((2, 2))), r"finite array of shape \(3, 6\), got shape \(2, 2\)"),
        (LDMLR(n_neighbors=0), "n_neighbors"),
        (LDMLR(mu=0), "mu must be a number above 0"),
        (LDMLR(p=-1), "p must be a number above 0"),
        (LDMLR(step="long"), "step must be one of 'unit', 'exact'"),
        (LDMLR(max_iter=None), "max_iter"),
        (LDMLR(tol=None), "tol"),
        (OrdinalRanker(n_neighbors=0), "n_neighbors"),
        (OrdinalRanker(class_prior=[0.5, 0.6]), "class_prior must be"),
        (OrdinalRanker(weights="heavy"), "weights must be one of 'auto', 'distance', 'uniform'"),
        (OrdinalRanker(metric="euclid"), "metric must be an estimator or 'passthrough', got 'euclid'"),
    ],
    ids=repr,
)
def test_invalid_parameters_are_named(estimator, complaint, graded):
    with pytest.raises(InputError, match=complaint):
        estimator.fit(*graded)


@pytest.mark.parametrize(
    ("estimator", "complaint"),
    [
        (CMDSMetric(10**6), "n_components=1000000 is too much for 3 labels"),
        (OrdinalMetric(10**30), "n_components=1000000000000000000000000000000 is too much for 3 labels"),
        (OrdinalMetric(mu=1e300), r"mu must be at most 1e\+100"),
        (OrdinalMetric(sharpness=1e300), r"sharpness must be at most 1e\+100"),
        (OrdinalMetric(locality=10**400), r"locality must be at most 1e\+100"),
        (LDMLR(mu=1e300), r"mu must be at most 1e\+100"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_parameters_that_would_overflow_or_fill_the_memory_are_named(estimator, complaint, graded):
    with pytest.raises(InputError, match=complaint):
        estimator.fit(*graded)


@pytest.mark.parametrize("estimator", METRICS, ids=repr)
@pytest.mark.parametrize("factor", [1e30, 1e100, 1e200])
def test_queries_too_large_to_square_are_named(estimator, factor, graded):
    X, y = graded
    fitted = estimator.fit(X, y)
    with pytest.raises(InputError, match="overflow when squared"):
        fitted.transform(factor * X)
    with pytest.raises(InputError, match="overflow when squared"):
        fitted.pair_distance(factor * X[:4].reshape(2, 2, -1))


@pytest.mark.parametrize("estimator", ESTIMATORS[5:], ids=repr)
def test_a_ranker_names_queries_too_large_to_square(estimator, graded):
    X, y = graded
    fitted = estimator.fit(X, y)
    for answer in (fitted.predict, fitted.predict_proba, fitted.predict_interval):
        with pytest.raises(InputError, match="overflow when squared"):
            answer(1e100 * X)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_durations_are_no_labels(estimator, graded):
    X, y = graded
    with pytest.raises(InputError, match="y holds durations; make them numbers"):
        estimator.fit(X, y.astype("timedelta64[D]"))


def test_ldmlr_says_that_a_matrix_of_its_features_is_too_large():
    X = np.random.default_rng(0).normal(size=(20, 10_001)).astype(np.float32)
    with pytest.raises(InputError, match="10001 × 10001 features"):
        LDMLR().fit(X, np.arange(20) % 2)


@pytest.mark.parametrize("estimator", [OrdinalMetric(beta=1e62), OrdinalMetric(beta=1e99)], ids=repr)
def test_a_beta_too_large_to_square_is_named(estimator, graded):
    with pytest.raises(InputError, match=r"beta=1e.* overflows when squared"):
        estimator.fit(*graded)
    with pytest.raises(InputError, match=r"beta=1e.* overflows when squared"):
        estimator.fit(np.random.default_rng(0).normal(size=(400, 2)), np.arange(400))


@pytest.mark.parametrize("weight", [2.0, np.float32(2), np.array(2.0)])
def test_a_single_number_is_no_sample_weight(weight, graded):
    with pytest.raises(InputError, match="one weight for each of the 90 samples, got one number"):
        OrdinalMetric().fit(*graded, sample_weight=weight)


def test_missing_groups_of_pandas_are_named(graded):
    groups = pd.array([None, *range(89)], dtype="Int64")
    for given in (groups, pd.Series(groups), np.asarray(groups, dtype=object)):
        with pytest.raises(InputError, match="groups has missing values"):
            OrdinalMetric().fit(*graded, groups=given)


def test_boolean_groups_are_allowed(graded):
    X, y = graded
    for groups in (np.arange(90) % 2 == 0, [bool(row % 2) for row in range(90)]):
        assert OrdinalMetric(kernel="linear").fit(X, y, groups=groups).loo_neighbors_.indices.shape[1] == 30


def test_more_dimensions_than_features_are_allowed_and_add_nothing():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 20)
    X = rng.normal(size=(100, 2)) + y[:, None]
    wide = CMDSMetric(6, solver="fast", scale="fixed", mu=0.0).fit(X, y)
    assert wide.components_.shape == (6, 2)
    assert np.linalg.matrix_rank(wide.components_) <= 2


def test_a_zero_metric_is_reported():
    rng = np.random.default_rng(0)
    X, y = 100 * rng.normal(size=(60, 3)), np.repeat([1, 2, 3], 20)
    with pytest.warns(ConvergenceWarning, match="overshoots"):
        metric = LDMLR(max_iter=2).fit(X, y)
    assert not metric.components_.any()
