"""Of many samples some are drawn to choose by, and all are learned from, a block at a time."""

import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error

from ordrank import OrdinalMetric, OrdinalRanker
from ordrank.errors import InputError
from ordrank.estimators import order_fit, order_map
from ordrank.estimators.order_solver import closed_form
from ordrank.smoothing import KernelMap, LinearMap, left_out_distances, moments
from tests.estimators.test_ordinal_metric import curved


def noisy(n, d, dtype=np.float64, seed=0):
    """Five grades that follow some of d features of falling size, far from the origin."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / np.sqrt(1 + np.arange(d))
    latent = X[:, ::3].sum(axis=1) + 0.3 * rng.normal(size=n)
    return (X + 20).astype(dtype), np.digitize(latent, np.quantile(latent, [0.2, 0.4, 0.6, 0.8])).astype(float)


@pytest.fixture
def few_drawn(monkeypatch):
    for module in (order_fit, order_map):
        monkeypatch.setattr(module, "SEARCH_SAMPLES", 300)


# --- some are drawn to choose by ----------------------------------------------------------------------------------


def test_landmarks_come_close_to_the_exact_kernel(monkeypatch):
    X, y = curved(900, lambda t: np.floor(5 * t), seed=4)
    metric = OrdinalMetric(kernel="rbf", sharpness=1.0, alpha=1e-3, locality=0.2)
    exact = clone(metric).fit(X[:600], y[:600])
    monkeypatch.setattr(order_fit, "EXACT_SAMPLES", 100)
    errors = {}
    for m in (30, 100, 300):
        monkeypatch.setattr(order_fit, "LANDMARKS", m)
        approximate = clone(metric).fit(X[:600], y[:600])
        assert len(approximate.landmarks_) == m
        Z, expected = (one.transform(X[600:])[:, :2] for one in (approximate, exact))
        errors[m] = np.linalg.norm(Z - expected) / np.linalg.norm(expected)
    assert errors[30] > errors[100] > errors[300]
    assert errors[300] < 0.02


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(moments, "BLOCK_ELEMENTS", 50)
    monkeypatch.setattr(moments, "LEAST_ROWS", 7)


@pytest.mark.parametrize(("others", "nu"), [(0, 0.0), (30, 100.0)])
@pytest.mark.parametrize("kind", ["linear", "span", "rbf"])
@pytest.mark.usefixtures("small_blocks")
def test_a_map_solved_in_blocks_is_the_one_solved_at_once(kind, others, nu):
    rng = np.random.default_rng(0)
    X, weights, index = rng.normal(size=(80, 4)) + 5, rng.uniform(0.5, 2, size=80), np.arange(80) % 3
    positions = rng.normal(size=(3, 2))
    positions -= np.average(positions[index], axis=0, weights=weights)
    everything = order_map.Samples.measured(X, index, positions, weights, linear=True)
    unlabeled, rows = rng.normal(size=(others, 4)), np.arange(80)
    features = {"linear": LinearMap(X), "span": LinearMap(X[:3]), "rbf": KernelMap(everything.unit(rows[:20]), 1.0)}
    design = order_map.Design(everything.draw(rows, unlabeled), features[kind])
    one, other = design.path(nu).at(0.01), design.path_of_all(everything, rows, nu).at(0.01)
    np.testing.assert_allclose(other.coefficients(), one.coefficients(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.path.feature_mean, one.path.feature_mean, atol=1e-12)
    np.testing.assert_allclose(other.errors, one.errors, rtol=1e-6, atol=1e-9)
    distances = [left_out_distances([fit], [1.0])(rows[:9]) for fit in (other, one)]
    np.testing.assert_allclose(*distances, rtol=1e-6, atol=1e-9)
    assert other.path.scatter == pytest.approx(one.path.scatter)
    assert design.scatter(nu) == pytest.approx(one.path.scatter)
    at_once, in_blocks = closed_form(one), closed_form(other)
    assert in_blocks.value == pytest.approx(at_once.value)
    assert in_blocks.history[0] == pytest.approx(at_once.history[0])
    assert in_blocks.history[1].gradient_norm < 1e-9


@pytest.mark.parametrize("others", [0, 300])
def test_what_is_chosen_on_a_sample_serves_all(others, request):
    X, y = curved(1600, lambda t: np.floor(5 * t), seed=5)
    unlabeled = X[1600 - others :] if others else None
    # As many as are drawn would be seen through a lens, more are not.
    at_once = OrdinalRanker(OrdinalMetric(lens=False)).fit(X[:900], y[:900], unlabeled=unlabeled)
    request.getfixturevalue("few_drawn")
    drawn = OrdinalRanker().fit(X[:900], y[:900], unlabeled=unlabeled)
    error, of_all = (mean_absolute_error(y[900:1300], ranker.predict(X[900:1300])) for ranker in (drawn, at_once))
    assert error < 1.15 * of_all
    assert error < 0.95 * mean_absolute_error(y[900:1300], OrdinalRanker().fit(X[:200], y[:200]).predict(X[900:1300]))
    left_out = drawn.metric_.neighborhoods_
    assert len(np.unique(left_out.rows)) > 100
    assert left_out.indices.max() > 800
    assert not (left_out.indices == left_out.rows[:, None]).any()


def test_the_same_random_state_gives_the_same_metric(monkeypatch):
    monkeypatch.setattr(order_fit, "EXACT_SAMPLES", 100)
    monkeypatch.setattr(order_fit, "LANDMARKS", 50)
    X, y = curved(700, lambda t: np.floor(5 * t))
    one, same, other = (OrdinalMetric(random_state=seed).fit(X, y) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.transform(X), same.transform(X))
    assert not np.array_equal(one.landmarks_, other.landmarks_)


# --- all are learned from ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["as drawn", "sorted by label"])
def test_the_linear_map_of_many_samples_is_ridge_regression(dtype, order):
    X, y = noisy(30_000, 12, dtype)
    if order != "as drawn":
        rows = np.argsort(y, kind="stable")
        X, y = X[rows], y[rows]
    metric = OrdinalMetric(kernel="linear", alpha=0.003, locality=0.0).fit(X, y)
    unit = (X.astype(np.float64) - metric.mean_) / metric.size_
    assert (unit**2).sum(axis=1).mean() == pytest.approx(1, rel=1e-5)
    Y = metric.label_positions_[y.astype(int)]
    expected = Ridge(alpha=0.003 * len(X)).fit(unit, Y)
    np.testing.assert_allclose(metric.order_components_ * metric.size_, expected.coef_, atol=1e-4, rtol=1e-4)
    residual = ((unit @ expected.coef_.T - Y) ** 2).sum(axis=1).mean()
    assert metric.objective_ == pytest.approx(0.5 * residual + 0.5 * 0.003 * (expected.coef_**2).sum(), rel=1e-5)
    assert metric.history_[0].value == pytest.approx(0.5)
    assert metric.history_[-1].gradient_norm < 1e-5


@pytest.mark.parametrize("kind", ["linear", "rbf"])
@pytest.mark.usefixtures("few_drawn")
def test_what_was_chosen_can_be_given(kind):
    X, y = noisy(2000, 8)
    chosen = OrdinalMetric(kernel=kind).fit(X, y)
    sharpness = {} if chosen.sharpness_ is None else {"sharpness": chosen.sharpness_}
    given = OrdinalMetric(kernel=kind, alpha=chosen.alpha_, **sharpness)
    # The landmarks that are drawn are others; where all samples are features, nothing differs.
    if kind == "linear":
        np.testing.assert_allclose(given.fit(X, y).order_components_, chosen.order_components_)
    assert given.fit(X, y).alpha_ == chosen.alpha_
    assert min(c.recipe.alpha for c in chosen.candidates_) * 300 / 2000 <= chosen.alpha_ * 1.2


@pytest.mark.usefixtures("few_drawn")
def test_the_ridge_of_a_sample_serves_all_and_its_share_does_not():
    X, y = noisy(6000, 100)
    train, test = slice(3000), slice(3000, 6000)
    chosen = OrdinalMetric(kernel="linear", locality=0.0).fit(X[train], y[train])
    share = chosen.alpha_ * 3000 / 300  # about that of the sample

    def displacement(alpha):
        metric = OrdinalMetric(kernel="linear", locality=0.0, alpha=alpha).fit(X[train], y[train])
        return np.linalg.norm(metric.transform(X[test]) - metric.label_positions_[y[test].astype(int)], axis=1).mean()

    best = min(displacement(10.0**power) for power in np.arange(-6, -1, 0.5))
    assert displacement(chosen.alpha_) < 1.01 * best
    assert displacement(share) > displacement(chosen.alpha_)


def test_the_local_term_sees_all_samples(request):
    X, y = noisy(900, 6)
    parameters = {"kernel": "linear", "alpha": 0.01, "locality": 0.3, "mu": 0.1, "tol": 1e-10}
    at_once = OrdinalMetric(**parameters).fit(X, y)
    request.getfixturevalue("few_drawn")
    drawn = OrdinalMetric(**parameters).fit(X, y)
    np.testing.assert_allclose(drawn.transform(X), at_once.transform(X), atol=1e-5)
    single = OrdinalMetric(**parameters | {"tol": 1e-6}).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.transform(X.astype(np.float32)), drawn.transform(X), atol=5e-3)


# --- a block at a time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "rbf"])
def test_a_fit_holds_no_copy_of_the_samples(kind, monkeypatch):
    monkeypatch.setattr(order_map, "MOST_THREADS", 2)  # each holds blocks of its own
    X, y = noisy(60_000, 64, np.float32)
    metric = OrdinalMetric(kernel=kind, sharpness="auto" if kind == "linear" else 1.0, alpha=1e-4, locality=0.2)
    if kind == "rbf":
        X, y = X[:20_000], y[:20_000]
    metric.fit(X[:2000], y[:2000])
    tracemalloc.start()
    metric.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 1500 samples to choose by, a few blocks of features, and a few numbers for each sample.
    assert peak < {"linear": 30e6, "rbf": 130e6}[kind] + 50 * len(X)


def test_a_file_of_samples_is_read_where_it_is(tmp_path):
    X, y = noisy(50_000, 32, np.float32)
    np.save(tmp_path / "samples.npy", X)
    mapped = np.load(tmp_path / "samples.npy", mmap_mode="r")
    metric = OrdinalMetric(kernel="linear").fit(X, y)
    tracemalloc.start()
    from_file = OrdinalMetric(kernel="linear").fit(mapped, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6 + 50 * len(X)
    np.testing.assert_array_equal(from_file.order_components_, metric.order_components_)
    np.testing.assert_array_equal(from_file.transform(mapped[:100]), metric.transform(X[:100]))


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_a_hole_in_the_last_block_is_found(value, word):
    X, y = noisy(50_000, 32, np.float32)
    X[-1, -1] = value
    with pytest.raises(ValueError, match=word):
        OrdinalMetric(kernel="linear").fit(X, y)


def test_many_copies_of_one_sample_are_refused():
    X, y = np.full((40_000, 30), 0.1, dtype=np.float32), np.arange(40_000) % 2
    with pytest.raises(InputError, match="identical"):
        OrdinalMetric().fit(X, y)
    X[0] = 1
    with pytest.raises(InputError, match="identical"):
        OrdinalMetric().fit(X, y, sample_weight=np.arange(40_000) > 0)


def test_transform_in_blocks_is_transform_at_once(monkeypatch):
    X, y = noisy(500, 6)
    for kind in ("linear", "rbf"):
        metric = OrdinalMetric(kernel=kind).fit(X, y)
        at_once = metric.transform(X)
        with monkeypatch.context() as patch:
            patch.setattr(moments, "BLOCK_ELEMENTS", 50)
            patch.setattr(moments, "LEAST_ROWS", 7)
            np.testing.assert_allclose(metric.transform(X), at_once, atol=1e-9)
