"""Many samples: model selection on some, the fit on all, one block at a time."""

import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error

from ordrank import OrdinalMetric, OrdinalRanker
from ordrank.errors import InputError
from ordrank.estimators._defaults import Defaults
from ordrank.estimators._ordinal import training_data
from ordrank.estimators._ordinal.design import DesignMatrix
from ordrank.estimators._ordinal.solve import closed_form
from ordrank.estimators._ordinal.training_data import InMemoryData
from ordrank.kernel_ridge import KernelMap, LinearMap, loo_squared_distances, moments
from tests.estimators.test_ordinal_metric import curved


def noisy(n, d, dtype=np.float64, seed=0):
    """Five grades that depend on some of d features of decreasing variance, far from the origin."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / np.sqrt(1 + np.arange(d))
    latent = X[:, ::3].sum(axis=1) + 0.3 * rng.normal(size=n)
    return (X + 20).astype(dtype), np.digitize(latent, np.quantile(latent, [0.2, 0.4, 0.6, 0.8])).astype(float)


@pytest.fixture
def few_drawn(monkeypatch):
    monkeypatch.setattr(OrdinalMetric, "_defaults", Defaults(selection_samples=300))


# --- model selection on some -------------------------------------------------------------------------------------


def test_landmarks_approximate_the_exact_kernel(monkeypatch):
    X, y = curved(900, lambda t: np.floor(5 * t), seed=4)
    metric = OrdinalMetric(kernel="rbf", sharpness=1.0, alpha=1e-3, locality=0.2)
    exact = clone(metric).fit(X[:600], y[:600])
    errors = {}
    for m in (30, 100, 300):
        monkeypatch.setattr(OrdinalMetric, "_defaults", Defaults(exact_samples=100, n_landmarks=m))
        approximate = clone(metric).fit(X[:600], y[:600])
        assert len(approximate.ordinal_embedding_.landmarks) == m
        Z, expected = (one.transform(X[600:])[:, :2] for one in (approximate, exact))
        errors[m] = np.linalg.norm(Z - expected) / np.linalg.norm(expected)
    assert errors[30] > errors[100] > errors[300]
    assert errors[300] < 0.02


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(moments, "BLOCK_ELEMENTS", 50)
    monkeypatch.setattr(moments, "MIN_ROWS", 7)


@pytest.mark.parametrize(("others", "nu"), [(0, 0.0), (30, 100.0)])
@pytest.mark.parametrize("kind", ["linear", "span", "rbf"])
@pytest.mark.usefixtures("small_blocks")
def test_a_map_solved_in_blocks_equals_the_one_solved_at_once(kind, others, nu):
    rng = np.random.default_rng(0)
    X, weights, index = rng.normal(size=(80, 4)) + 5, rng.uniform(0.5, 2, size=80), np.arange(80) % 3
    positions = rng.normal(size=(3, 2))
    positions -= np.average(positions[index], axis=0, weights=weights)
    data = InMemoryData.measure(X, index, positions, weights, linear=True, few=1500)
    unlabeled, rows = rng.normal(size=(others, 4)), np.arange(80)
    landmarks = data.normalized(rows[:20])
    features = {"linear": LinearMap(X), "span": LinearMap(X[:3]), "rbf": KernelMap(landmarks, 1.0, 0.25)}
    design = DesignMatrix(data.subset(rows).with_unlabeled(unlabeled, 4), features[kind])
    one, other = design.path(nu).at(0.01), design.gram_ridge(data, rows, nu).at(0.01)
    np.testing.assert_allclose(other.coefficients(), one.coefficients(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.problem.feature_mean, one.problem.feature_mean, atol=1e-12)
    np.testing.assert_allclose(other.loo_errors, one.loo_errors, rtol=1e-6, atol=1e-9)
    distances = [loo_squared_distances([fit], [1.0])(rows[:9]) for fit in (other, one)]
    np.testing.assert_allclose(*distances, rtol=1e-6, atol=1e-9)
    assert other.problem.scatter == pytest.approx(one.problem.scatter)
    assert design.scatter(nu) == pytest.approx(one.problem.scatter)
    np.testing.assert_allclose(design.problem(nu).at(0.01).coefficients(), one.coefficients(), rtol=1e-6, atol=1e-9)
    at_once, in_blocks = closed_form(one), closed_form(other)
    assert in_blocks.value == pytest.approx(at_once.value)
    assert in_blocks.history[0] == pytest.approx(at_once.history[0])
    assert in_blocks.history[1].gradient_norm < 1e-9


@pytest.mark.parametrize("others", [0, 300])
def test_hyperparameters_selected_on_a_subset_suit_all_samples(others, request):
    X, y = curved(1600, lambda t: np.floor(5 * t), seed=5)
    unlabeled = X[1600 - others :] if others else None
    # Without rescaling, which is for few samples only.
    at_once = OrdinalRanker(OrdinalMetric(discriminant=False)).fit(X[:900], y[:900], unlabeled=unlabeled)
    request.getfixturevalue("few_drawn")
    drawn = OrdinalRanker().fit(X[:900], y[:900], unlabeled=unlabeled)
    error, of_all = (mean_absolute_error(y[900:1300], ranker.predict(X[900:1300])) for ranker in (drawn, at_once))
    assert error < 1.15 * of_all
    assert error < 0.95 * mean_absolute_error(y[900:1300], OrdinalRanker().fit(X[:200], y[:200]).predict(X[900:1300]))
    held_out = drawn.metric_.loo_neighbors_
    assert len(np.unique(held_out.rows)) > 100
    assert held_out.indices.max() > 800
    assert not (held_out.indices == held_out.rows[:, None]).any()


def test_the_same_random_state_gives_the_same_metric(monkeypatch):
    monkeypatch.setattr(OrdinalMetric, "_defaults", Defaults(exact_samples=100, n_landmarks=50))
    X, y = curved(700, lambda t: np.floor(5 * t))
    one, same, other = (OrdinalMetric(random_state=seed).fit(X, y) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.transform(X), same.transform(X))
    assert not np.array_equal(one.ordinal_embedding_.landmarks, other.ordinal_embedding_.landmarks)


# --- the fit on all --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["as drawn", "sorted by label"])
def test_the_linear_map_of_many_samples_is_ridge_regression(dtype, order):
    X, y = noisy(30_000, 12, dtype)
    if order != "as drawn":
        rows = np.argsort(y, kind="stable")
        X, y = X[rows], y[rows]
    metric = OrdinalMetric(kernel="linear", alpha=0.003, locality=0.0).fit(X, y)
    unit = (X.astype(np.float64) - metric.mean_) / metric.scale_
    assert (unit**2).sum(axis=1).mean() == pytest.approx(1, rel=1e-5)
    Y = metric.label_positions_[y.astype(int)]
    expected = Ridge(alpha=0.003 * len(X)).fit(unit, Y)
    np.testing.assert_allclose(metric.ordinal_embedding_.linear * metric.scale_, expected.coef_, atol=1e-4, rtol=1e-4)
    residual = ((unit @ expected.coef_.T - Y) ** 2).sum(axis=1).mean()
    assert metric.objective_ == pytest.approx(0.5 * residual + 0.5 * 0.003 * (expected.coef_**2).sum(), rel=1e-5)
    assert metric.history_[0].value == pytest.approx(0.5)
    assert metric.history_[-1].gradient_norm < 1e-5


@pytest.mark.parametrize("kind", ["linear", "rbf"])
@pytest.mark.usefixtures("few_drawn")
def test_selected_values_can_be_given(kind):
    X, y = noisy(2000, 8)
    chosen = OrdinalMetric(kernel=kind).fit(X, y)
    sharpness = {} if chosen.sharpness_ is None else {"sharpness": chosen.sharpness_}
    given = OrdinalMetric(kernel=kind, alpha=chosen.alpha_, **sharpness)
    # A kernel map has other landmarks then.
    if kind == "linear":
        np.testing.assert_allclose(given.fit(X, y).ordinal_embedding_.linear, chosen.ordinal_embedding_.linear)
    assert given.fit(X, y).alpha_ == chosen.alpha_
    assert min(c.hyperparameters.alpha for c in chosen.candidates_) * 300 / 2000 <= chosen.alpha_ * 1.2


@pytest.mark.usefixtures("few_drawn")
def test_the_ridge_of_the_subset_suits_all_samples_and_its_alpha_does_not():
    X, y = noisy(6000, 100)
    train, test = slice(3000), slice(3000, 6000)
    chosen = OrdinalMetric(kernel="linear", locality=0.0).fit(X[train], y[train])
    subset_alpha = chosen.alpha_ * 3000 / 300  # approximately

    def distance(alpha):
        metric = OrdinalMetric(kernel="linear", locality=0.0, alpha=alpha).fit(X[train], y[train])
        return np.linalg.norm(metric.transform(X[test]) - metric.label_positions_[y[test].astype(int)], axis=1).mean()

    best = min(distance(10.0**power) for power in np.arange(-6, -1, 0.5))
    assert distance(chosen.alpha_) < 1.01 * best
    assert distance(subset_alpha) > distance(chosen.alpha_)


def test_the_local_term_uses_all_samples(request):
    X, y = noisy(900, 6)
    parameters = {"kernel": "linear", "alpha": 0.01, "locality": 0.3, "mu": 0.1, "tol": 1e-10}
    at_once = OrdinalMetric(**parameters).fit(X, y)
    request.getfixturevalue("few_drawn")
    drawn = OrdinalMetric(**parameters).fit(X, y)
    np.testing.assert_allclose(drawn.transform(X), at_once.transform(X), atol=1e-5)
    single = OrdinalMetric(**parameters | {"tol": 1e-6}).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.transform(X.astype(np.float32)), drawn.transform(X), atol=5e-3)


# --- one block at a time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "rbf"])
def test_a_fit_does_not_copy_the_samples(kind, monkeypatch):
    monkeypatch.setattr(training_data, "MAX_THREADS", 2)  # each holds its own blocks
    X, y = noisy(60_000, 64, np.float32)
    metric = OrdinalMetric(kernel=kind, sharpness="auto" if kind == "linear" else 1.0, alpha=1e-4, locality=0.2)
    if kind == "rbf":
        X, y = X[:20_000], y[:20_000]
    metric.fit(X[:2000], y[:2000])
    tracemalloc.start()
    metric.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 1500 samples for model selection, a few blocks of features, and a few numbers for each sample.
    assert peak < {"linear": 30e6, "rbf": 130e6}[kind] + 50 * len(X)


def test_a_memory_map_is_not_copied(tmp_path):
    X, y = noisy(50_000, 32, np.float32)
    np.save(tmp_path / "samples.npy", X)
    mapped = np.load(tmp_path / "samples.npy", mmap_mode="r")
    metric = OrdinalMetric(kernel="linear").fit(X, y)
    tracemalloc.start()
    from_file = OrdinalMetric(kernel="linear").fit(mapped, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6 + 50 * len(X)
    np.testing.assert_array_equal(from_file.components_, metric.components_)
    np.testing.assert_array_equal(from_file.transform(mapped[:100]), metric.transform(X[:100]))


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_nonfinite_values_in_the_last_block_are_found(value, word):
    X, y = noisy(50_000, 32, np.float32)
    X[-1, -1] = value
    with pytest.raises(ValueError, match=word):
        OrdinalMetric(kernel="linear").fit(X, y)


def test_many_duplicates_of_one_sample_are_rejected():
    X, y = np.full((40_000, 30), 0.1, dtype=np.float32), np.arange(40_000) % 2
    with pytest.raises(InputError, match="identical"):
        OrdinalMetric().fit(X, y)
    X[0] = 1
    with pytest.raises(InputError, match="identical"):
        OrdinalMetric().fit(X, y, sample_weight=np.arange(40_000) > 0)


def test_transform_in_blocks_equals_transform_at_once(monkeypatch):
    X, y = noisy(500, 6)
    for kind in ("linear", "rbf"):
        metric = OrdinalMetric(kernel=kind).fit(X, y)
        at_once = metric.transform(X)
        with monkeypatch.context() as patch:
            patch.setattr(moments, "BLOCK_ELEMENTS", 50)
            patch.setattr(moments, "MIN_ROWS", 7)
            np.testing.assert_allclose(metric.transform(X), at_once, atol=1e-9)


# --- queries --------------------------------------------------------------------------------------------------------


@pytest.fixture
def indexed(monkeypatch):
    monkeypatch.setattr("ordrank.estimators.ranker._INDEXED_SAMPLES", 15_000)


def test_a_query_does_not_copy_the_training_samples(indexed):
    X, y = noisy(20_000, 32)
    ranker = OrdinalRanker("passthrough", n_neighbors=5, weights="uniform").fit(X, y)
    ranker.predict(X[:1])
    tracemalloc.start()
    ranker.predict(X[:1] + 0.01)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * X.nbytes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_nearest_of_many_samples_are_exact_with_ties_by_index(indexed, dtype):
    X, y = noisy(15_000, 6, dtype)
    X = np.round(2 * X)  # many equal distances and duplicates
    ranker = OrdinalRanker("passthrough", n_neighbors=5, weights="uniform").fit(X, y)
    queries = np.vstack([X[:20], X[:20] + 0.5]).astype(dtype)
    grades = ranker.predict(queries)
    for within_grade in (False, True):
        ranking = ranker.rank(queries, k=30, within_grade=within_grade)
        for row, query in enumerate(queries):
            distances = np.sqrt(((X.astype(float) - query) ** 2).sum(axis=1))
            distances[within_grade & (y != grades[row])] = np.inf
            expected = np.argsort(distances, kind="stable")[:30]
            np.testing.assert_array_equal(ranking.indices[row], expected)
            np.testing.assert_allclose(ranking.distances[row], distances[expected])
