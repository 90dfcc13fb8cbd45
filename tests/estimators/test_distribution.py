from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordrank import LDMLR, CMDSMetric, OrdinalMetric, OrdinalRanker
from ordrank.errors import InputError
from ordrank.estimators._distribution import GradeDistribution, _optimal_weight, extremeness
from ordrank.metrics import median_of_proba, ranked_probability_scores

proba = st.lists(
    st.lists(st.floats(0, 1), min_size=4, max_size=4).filter(lambda row: sum(row) > 0.1), min_size=1, max_size=8
).map(lambda rows: np.array(rows) / np.sum(rows, axis=1, keepdims=True))


def samples(seed, n=120, noise=0.6, m=4, d=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    latent = X[:, 0] + 0.5 * X[:, 1] + noise * rng.normal(size=n)
    return X, np.searchsorted([-1.0, 0.0, 1.0][: m - 1], latent).astype(float)


@pytest.fixture(scope="module")
def ranker():
    return OrdinalRanker().fit(*samples(0))


def test_rows_are_distributions_and_predict_is_their_median(ranker):
    queries = samples(1)[0]
    found = ranker.predict_proba(queries)
    assert found.shape == (len(queries), len(ranker.classes_))
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(ranker.predict(queries), ranker.classes_[median_of_proba(found)])


@given(proba)
def test_the_median_minimises_the_expected_absolute_error(p):
    labels = np.array([0.0, 1.0, 2.0, 5.0])
    expected = p @ np.abs(labels[:, None] - labels)
    assert np.allclose(expected[np.arange(len(p)), median_of_proba(p)], expected.min(axis=1))


@given(proba, st.integers(0, 3), st.floats(0, 1))
def test_the_weight_of_a_pool_is_optimal(p, label, other):
    labels, index = np.array([0.0, 1.0, 2.0, 5.0]), np.full(len(p), label)
    second = np.broadcast_to([0.1, 0.2, 0.3, 0.4], p.shape)

    def score(w):
        return ranked_probability_scores((1 - w) * p + w * second, labels, index).mean()

    assert score(_optimal_weight(p, second, labels, index)) <= score(other) + 1e-12


@given(proba)
def test_the_median_is_never_extreme(p):
    assert (extremeness(p)[np.arange(len(p)), median_of_proba(p)] <= 0.5 + 1e-8).all()


def test_held_out_probabilities_do_not_depend_on_the_own_label():
    X, y = samples(2, n=60)
    # Hyperparameters are given, and k: only the map depends on the labels.
    metric = OrdinalMetric(kernel="rbf", sharpness=1.0, alpha=0.01, locality=0.3, discriminant=False)
    changed = y.copy()
    changed[7] = 3.0 - y[7]
    one, other = (OrdinalRanker(metric, n_neighbors=9, weights="distance").fit(X, labels) for labels in (y, changed))
    votes = [replace(r.grade_distribution_, frequency_weight=0.0, threshold_weight=0.0) for r in (one, other)]
    neighbors = [r.metric_.loo_neighbors_ for r in (one, other)]
    shares = []
    for distribution, held_out, labels in zip(votes, neighbors, (y, changed), strict=True):
        row = int(np.flatnonzero(held_out.rows == 7)[0])
        cells = held_out.indices[row : row + 1, :9]
        index = np.searchsorted(distribution.labels, labels)
        shares.append(distribution.proba(index[cells], held_out.distances[row : row + 1, :9], None))
    np.testing.assert_allclose(shares[0], shares[1], atol=0.02)  # positions of the labels move a little


def test_a_falsified_label_is_contradicted():
    X, y = samples(3, n=150, noise=0.1)
    wrong = np.flatnonzero(y == 0)[:4]
    falsified = y.copy()
    falsified[wrong] = 3.0
    found = OrdinalRanker().fit(X, falsified)
    held_out = found.classes_[median_of_proba(found.loo_proba_)]
    assert (held_out[wrong] <= 1).all()
    assert found.loo_proba_[wrong, 3].max() < 0.3


@pytest.mark.parametrize("seed", range(3))
def test_intervals_cover_as_often_as_they_say(seed):
    X, y = samples(seed, n=1000, noise=1.0)
    fitted = OrdinalRanker().fit(X[:300], y[:300])
    for coverage in (0.6, 0.9):
        low, high = fitted.predict_interval(X[300:], coverage=coverage).T
        covered = (low <= y[300:]) & (y[300:] <= high)
        assert coverage - 0.05 < covered.mean() < coverage + 0.12  # sets of whole grades are larger than necessary


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95))
@settings(max_examples=20, deadline=None)
def test_intervals_are_nested_and_hold_the_estimate(ranker, one, other):
    queries = samples(4, n=30)[0]
    small, large = (ranker.predict_interval(queries, coverage=c) for c in sorted((one, other)))
    assert (large[:, 0] <= small[:, 0]).all()
    assert (small[:, 1] <= large[:, 1]).all()
    estimate = ranker.predict(queries)
    assert (small[:, 0] <= estimate).all()
    assert (estimate <= small[:, 1]).all()


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 2, float("nan")])
def test_an_impossible_coverage_is_rejected(ranker, coverage):
    with pytest.raises(InputError, match="coverage must be a number above 0 and below 1"):
        ranker.predict_interval(samples(0)[0], coverage=coverage)


def test_a_class_prior_is_bayes_rule(ranker):
    X, y = samples(0)
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    shifted = OrdinalRanker(class_prior=prior).fit(X, y)
    expected = ranker.predict_proba(X) * prior / ranker.grade_distribution_.frequencies
    np.testing.assert_allclose(shifted.predict_proba(X), expected / expected.sum(axis=1, keepdims=True))
    same = OrdinalRanker(class_prior=ranker.grade_distribution_.frequencies).fit(X, y)
    np.testing.assert_allclose(same.predict_proba(X), ranker.predict_proba(X))


@pytest.mark.parametrize("prior", [[0.5, 0.5], [0.5, 0.5, 0.5, 0.5], [1.0, 0.0, 0.0, 0.0], [2, -1, 0.5, -0.5]])
def test_an_impossible_prior_is_rejected(prior):
    with pytest.raises(InputError, match="class_prior must be 4 positive numbers with the sum 1"):
        OrdinalRanker(class_prior=prior).fit(*samples(0))


def test_novelty_is_uniform_for_samples_of_the_same_kind_and_small_for_others():
    X, y = samples(5, n=1200)
    fitted = OrdinalRanker().fit(X[:400], y[:400])
    same = fitted.novelty(X[400:])
    for level in (0.1, 0.5, 0.9):
        assert abs((same < level).mean() - level) < 0.08
    assert (fitted.novelty(X[:50] + 20) < 0.01).all()


@pytest.mark.parametrize("metric", ["passthrough", CMDSMetric(2, solver="fast", scale="fixed"), LDMLR(max_iter=10)])
def test_every_metric_has_a_distribution(metric):
    X, y = samples(6, n=80)
    fitted = OrdinalRanker(metric).fit(X, y)
    assert fitted.grade_distribution_.threshold_weight == 0
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1)
    np.testing.assert_allclose(fitted.loo_proba_.sum(axis=1), 1)
    assert ((fitted.novelty(X + 1) > 0) & (fitted.novelty(X + 1) <= 1)).all()


def test_a_linear_order_of_coarse_features_uses_the_threshold_model():
    rng = np.random.default_rng(7)
    X = rng.integers(0, 3, size=(460, 4)).astype(float)
    latent = X @ [1.0, -1.0, 0.7, 0.4] + 0.3 * rng.normal(size=460)
    y = np.searchsorted(np.quantile(latent, [1 / 3, 2 / 3]), latent).astype(float)
    fitted = OrdinalRanker().fit(X[:60], y[:60])
    assert fitted.grade_distribution_.threshold_weight > 0.3
    votes = replace(fitted.grade_distribution_, frequency_weight=0.0, threshold_weight=0.0)
    indices, distances = fitted._nearest(fitted._queries(X[60:]), fitted.n_neighbors_)
    by_votes = votes.median(votes.proba(fitted._labels.index[indices], distances, None))
    assert np.abs(fitted.predict(X[60:]) - y[60:]).mean() < 0.97 * np.abs(by_votes - y[60:]).mean()


def test_arrays_restore_the_distribution(ranker):
    arrays, values = ranker.grade_distribution_.to_arrays()
    restored = GradeDistribution.from_arrays(arrays, values)
    votes, distances = np.array([[0, 1, 1]]), np.array([[0.1, 0.2, 0.3]])
    vectors = np.ones((1, ranker.embedding_.shape[1]))
    p = ranker.grade_distribution_.proba(votes, distances, vectors)
    np.testing.assert_array_equal(restored.proba(votes, distances, vectors), p)
    np.testing.assert_array_equal(restored.interval(p, 0.8), ranker.grade_distribution_.interval(p, 0.8))


def test_too_few_samples_to_hold_out_any_have_only_votes():
    fitted = OrdinalRanker("passthrough", n_neighbors=1).fit([[0.0], [1.0]], [0, 1])
    assert fitted.predict([[0.1], [0.9]]).tolist() == [0, 1]
    assert fitted.predict_interval([[0.1]]).shape == (1, 2)


def test_without_held_out_samples_the_interval_is_all_grades_and_novelty_is_unknown():
    X, y = samples(0)
    fitted = OrdinalRanker(CMDSMetric(), n_neighbors=5, weights="distance").fit(X, y)
    assert np.isnan(fitted.loo_proba_).all()
    np.testing.assert_array_equal(fitted.predict_interval(X[:3]), [[0, 3]] * 3)
    assert np.isnan(fitted.novelty(X[:3])).all()
