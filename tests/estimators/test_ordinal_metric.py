import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from threadpoolctl import threadpool_info

from ordrank import OrdinalMetric, OrdinalRanker
from ordrank.errors import InputError, RepairedDistancesWarning
from ordrank.estimators import OrdinalEmbedding
from ordrank.estimators._defaults import DEFAULTS
from ordrank.kernel_ridge import graph_laplacian
from ordrank.kernel_ridge.kernels import kernel
from ordrank.neighbors import target_neighbors
from ordrank.solvers import StopReason

FIXED = {
    "linear": OrdinalMetric(kernel="linear", alpha=0.01, locality=0.3),
    "rbf": OrdinalMetric(kernel="rbf", sharpness=0.5, alpha=0.01, locality=0.3),
    "local": OrdinalMetric(kernel="linear", alpha=0.01, locality=0.3, mu=0.1, tol=1e-12),
}


@pytest.fixture(params=FIXED)
def fixed(request):
    return clone(FIXED[request.param])


def curved(n, labels, seed=0, noise=0.1, d=6):
    """Samples along a spiral, with labels that increase along it, and uninformative features."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(size=n)
    X = rng.normal(size=(n, d)) * np.sqrt(5.0 / d)
    X[:, :2] *= 0.1
    X[:, 0] += (1 + 2 * t) * np.cos(4 * t)
    X[:, 1] += (1 + 2 * t) * np.sin(4 * t)
    X += noise * rng.normal(size=X.shape)
    return X, labels(t)


def distances(metric, X):
    return np.linalg.norm(np.diff(metric.transform(X), axis=0), axis=1)


# --- the objective -------------------------------------------------------------------------------------------


def test_the_linear_map_minimises_the_stated_objective(graded):
    X, y = graded
    metric = OrdinalMetric(kernel="linear", alpha=0.05, locality=0.0).fit(X, y)
    unit = (X - metric.mean_) / metric.scale_
    Y = metric.label_positions_[np.searchsorted(metric.labels_, y)]
    assert (unit**2).sum(axis=1).mean() == pytest.approx(1)
    assert (Y**2).sum(axis=1).mean() == pytest.approx(1)

    def objective(L):
        # Relative to the scatter, which is 1 for normalised samples.
        return 0.5 * ((unit @ L.T - Y) ** 2).sum(axis=1).mean() + 0.5 * 0.05 * (L**2).sum()

    best = metric.ordinal_embedding_.linear * metric.scale_
    assert objective(best) == pytest.approx(metric.objective_)
    assert metric.history_[0].value == pytest.approx(0.5)  # of the zero map
    assert metric.history_[-1].gradient_norm < 1e-10
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert objective(best + 1e-3 * rng.normal(size=best.shape)) > metric.objective_


@pytest.mark.parametrize("discriminant", [False, True])
@pytest.mark.parametrize("nu", [0.0, 30.0])
def test_the_kernel_map_minimises_the_stated_objective(graded, nu, discriminant):
    X, y = graded
    others = X + 0.1
    given = {"kernel": "rbf", "sharpness": 0.5, "alpha": 0.05, "nu": nu, "locality": 0.0}
    metric = OrdinalMetric(discriminant=discriminant, **given).fit(X, y, unlabeled=others)
    landmarks = metric.ordinal_embedding_.landmarks
    unit = (np.vstack([X, others] if nu else [X]) - metric.mean_) / metric.scale_
    Y = metric.label_positions_[np.searchsorted(metric.labels_, y)]
    own = kernel(landmarks, landmarks, 0.5, 0.25)
    K, G = kernel(metric.ordinal_embedding_.rescaling(unit), landmarks, 0.5, 0.25), graph_laplacian(unit, 4)
    # Features in which the middle term is a ridge, and their mean square.
    root = np.linalg.cholesky(own + 1e-10 * np.eye(len(unit)))
    F = np.linalg.solve(root, K.T).T
    values, vectors = np.linalg.eigh(np.eye(len(unit)) + nu * F.T @ (G @ F))
    smooth = (F @ vectors / np.sqrt(values))[:90]
    t = ((smooth - smooth.mean(axis=0)) ** 2).sum(axis=1).mean()

    def objective(A):
        Z = K @ A
        norm = np.sum((own @ A) * A) + nu * np.sum(Z * (G @ Z))
        fitted = Z[:90] - Z[:90].mean(axis=0)
        return 0.5 * ((fitted - Y) ** 2).sum(axis=1).mean() + 0.5 * 0.05 * t * norm

    (best,) = metric.ordinal_embedding_.coefficients
    assert objective(best) == pytest.approx(metric.objective_, rel=1e-5)
    rng = np.random.default_rng(0)
    for _ in range(10):
        assert objective(best + 1e-3 * rng.normal(size=best.shape)) > metric.objective_


def test_the_local_term_keeps_distances_of_target_neighbours(graded):
    X, y = graded

    def excess(mu):
        metric = OrdinalMetric(kernel="linear", alpha=1e-4, locality=0.0, mu=mu, max_iter=500).fit(X, y)
        Z, unit = metric.transform(X), (X - metric.mean_) / metric.scale_
        pairs = target_neighbors(unit, np.searchsorted(metric.labels_, y), 5)
        mapped = ((Z[pairs.first] - Z[pairs.second]) ** 2).sum(axis=1)
        return np.mean((mapped - pairs.squared_distances) ** 2), metric

    without, plain = excess(0.0)
    with_term, local = excess(10.0)
    assert with_term < 0.7 * without
    assert plain.stop_reason_ == StopReason.CLOSED_FORM
    assert StopReason.CLOSED_FORM.converged
    assert local.n_iter_ > 1
    assert local.history_[-1].value == local.objective_ < local.history_[0].value
    assert local.loo_neighbors_ is None


@pytest.mark.parametrize("distance", [1e2, 1e4, 1e6])
def test_unlabelled_samples_may_be_far_from_the_labelled_ones(distance):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(310, 2)), np.arange(310) % 3
    X[:, 0] += y
    metric = OrdinalMetric().fit(X + distance, y, unlabeled=rng.normal(size=(200, 2)))
    assert np.isfinite(metric.transform(X + distance)).all()
    queries = rng.normal(size=(300, 2)) + np.stack([y[:300], np.zeros(300)], axis=1)
    with_others = OrdinalRanker(metric).fit(X + distance, y, unlabeled=rng.normal(size=(200, 2)))
    without = OrdinalRanker(metric).fit(X, y)
    assert with_others.score(queries + distance, y[:300]) > without.score(queries, y[:300]) - 0.05


def test_transform_concatenates_the_ordinal_map_and_weighted_features(fixed, graded):
    X, y = graded
    metric = fixed.fit(X, y)
    Z = metric.transform(X)
    assert Z.shape == (90, 2 + 6)
    np.testing.assert_allclose(Z[:, 2:], 0.3 * (X - metric.mean_) / metric.scale_)
    order = clone(fixed).set_params(locality=0.0).fit(X, y).transform(X)
    np.testing.assert_allclose(order, Z[:, :2], atol=1e-10)


def test_positions_of_labels_follow_their_distances(graded):
    X, y = graded
    positions = OrdinalMetric(alpha=0.1).fit(X, y).label_positions_
    a, b, c = positions
    assert np.linalg.norm(a - c) > np.linalg.norm(b - c) > np.linalg.norm(a - b)
    line = OrdinalMetric(alpha=0.1, beta=0.0, n_components=1).fit(X, y).label_positions_[:, 0]
    assert (line[2] - line[1]) / (line[1] - line[0]) == pytest.approx(3)  # gaps count: 1, 2, 5
    simplex = OrdinalMetric(alpha=0.1, beta=1e6).fit(X, y).label_positions_
    sides = [np.linalg.norm(simplex[i] - simplex[j]) for i, j in ((0, 1), (1, 2), (0, 2))]
    np.testing.assert_allclose(sides, sides[0], rtol=1e-4)


# --- invariances -----------------------------------------------------------------------------------------------


@pytest.fixture(params=["auto", *FIXED])
def metric(request):
    return OrdinalMetric() if request.param == "auto" else clone(FIXED[request.param])


def test_invariant_to_translation_scale_and_rotation(metric, graded):
    X, y = graded
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    moved = 1000 * (X @ rotation) + np.arange(6)
    expected = distances(clone(metric).fit(X, y), X)
    np.testing.assert_allclose(distances(metric.fit(moved, y), moved), expected, rtol=1e-5)


def test_invariant_to_shift_and_scale_of_labels(metric, graded):
    X, y = graded
    expected = distances(clone(metric).fit(X, y), X)
    np.testing.assert_allclose(distances(metric.fit(X, 7 * y - 100), X), expected, rtol=1e-6)


def test_invariant_to_the_order_of_samples(metric, graded):
    X, y = graded
    order = np.random.default_rng(1).permutation(len(X))
    expected = distances(clone(metric).fit(X, y), X)
    np.testing.assert_allclose(distances(metric.fit(X[order], y[order]), X), expected, rtol=1e-5)


def test_an_integer_weight_equals_duplicates(graded):
    X, y = graded
    counts = np.random.default_rng(0).integers(0, 4, size=90)
    for name in ("linear", "rbf"):
        weighted = clone(FIXED[name]).fit(X, y, sample_weight=counts)
        copied = clone(FIXED[name]).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        np.testing.assert_allclose(weighted.transform(X), copied.transform(X), atol=1e-6)


def test_neighbours_of_weighted_samples_are_rows_of_the_training_set(graded):
    X, y = graded
    weights = (np.arange(90) % 3 > 0).astype(float)
    kept = np.flatnonzero(weights)
    near = OrdinalMetric().fit(X, y, sample_weight=weights).loo_neighbors_
    without = OrdinalMetric().fit(X[kept], y[kept]).loo_neighbors_
    np.testing.assert_array_equal(near.rows, kept[without.rows])
    np.testing.assert_array_equal(near.indices, kept[without.indices])
    np.testing.assert_array_equal(near.distances, without.distances)


def test_balanced_weights_lower_the_error_of_rare_labels():
    rng = np.random.default_rng(0)
    y = np.repeat([0.0, 1.0, 2.0], [300, 40, 20])
    X = rng.normal(size=(360, 3))
    X[:, 0] += 0.8 * y
    queries, truth = rng.normal(size=(600, 3)), np.repeat([0.0, 1.0, 2.0], 200)
    queries[:, 0] += 0.8 * truth

    def errors(class_weight):
        metric = OrdinalMetric(class_weight=class_weight, kernel="linear").fit(X, y)
        positions = metric.transform(queries)[:, :2]
        gaps = np.linalg.norm(positions[:, None] - metric.label_positions_[None], axis=2)
        wrong = np.abs(gaps.argmin(axis=1) - truth)
        return wrong[truth == 2].mean()

    assert errors("balanced") < 0.7 * errors(None)


def test_single_precision_stays_single(fixed, graded):
    X, y = graded
    double, single = clone(fixed).fit(X, y), fixed.fit(X.astype(np.float32), y)
    Z = single.transform(X.astype(np.float32))
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z, double.transform(X), atol=1e-3)


# --- fitted attributes, invalid input --------------------------------------------------------------------------------


def test_candidates_are_recorded(graded):
    metric = OrdinalMetric().fit(*graded)
    assert metric.kernel_ in ("linear", "rbf")
    assert metric.locality_ in DEFAULTS.localities
    tried = [candidate.hyperparameters for candidate in metric.candidates_]
    (selected,) = (
        candidate
        for candidate, each in zip(metric.candidates_, tried, strict=True)
        if (each.sharpness, each.alpha) == (metric.sharpness_, metric.alpha_)
    )
    assert selected.score == min(c.score for c in metric.candidates_ if c.mae is not None)
    assert len(set(tried)) == len(tried) == 8 * 13
    both = OrdinalMetric().fit(*graded, unlabeled=graded[0] + 0.1)
    assert {candidate.hyperparameters.nu for candidate in both.candidates_} == {0.0, 10.0, 100.0, 1e3, 1e4}
    assert OrdinalMetric(kernel="linear", alpha=0.1).fit(*graded).candidates_ == []


def test_given_values_are_kept(graded):
    metric = OrdinalMetric(3, kernel="rbf", sharpness=0.7, alpha=0.02, locality=0.4).fit(*graded)
    assert (metric.kernel_, metric.sharpness_, metric.alpha_, metric.locality_) == ("rbf", 0.7, 0.02, 0.4)
    assert metric.label_positions_.shape == (3, 3)  # three labels fill two dimensions; the third is zero
    assert not metric.label_positions_[:, 2].any()


def test_a_kernel_map_has_no_mahalanobis_matrix(graded):
    X, y = graded
    with pytest.raises(InputError, match="kernel='linear'"):
        OrdinalMetric(kernel="rbf").fit(X, y).get_mahalanobis_matrix()
    assert not hasattr(OrdinalMetric(kernel="rbf").fit(X, y), "components_")
    metric = OrdinalMetric(kernel="linear", locality=0.5).fit(X, y)
    delta = X[0] - X[1]
    assert np.sqrt(delta @ metric.get_mahalanobis_matrix() @ delta) == pytest.approx(metric.get_metric()(X[0], X[1]))


def test_given_label_distances_are_used_and_repaired(graded):
    X, y = graded
    D = np.array([[0.0, 1, 10], [1, 0, 1], [10, 1, 0]])
    with pytest.raises(InputError, match="not Euclidean"):
        OrdinalMetric(label_distances=D, alpha=0.1).fit(X, y)
    with pytest.warns(RepairedDistancesWarning) as record:
        OrdinalMetric(label_distances=D, alpha=0.1, repair="nearest").fit(X, y)
    assert record[0].filename == __file__
    even = OrdinalMetric(label_distances=1 - np.eye(3), alpha=0.1).fit(X, y).label_positions_
    assert np.linalg.norm(even[0] - even[1]) == pytest.approx(np.linalg.norm(even[0] - even[2]))


def test_a_second_fit_replaces_the_first(graded):
    X, y = graded
    metric = OrdinalMetric(kernel="rbf").fit(X, y)
    distance = metric.get_metric()
    before = distance(X[0], X[1])
    metric.set_params(kernel="linear", mu=0.1).fit(X[:40], y[:40])
    assert (len(metric.ordinal_embedding_.landmarks), metric.loo_neighbors_) == (0, None)
    assert distance(X[0], X[1]) == before


def test_pair_distances_of_a_metric_with_feature_names_do_not_warn(graded, recwarn):
    X, y = graded
    for kind in ("linear", "rbf"):
        metric = OrdinalMetric(kernel=kind).fit(pd.DataFrame(X, columns=list("abcdef")), y)
        metric.pair_distance(np.stack([X[:5], X[5:10]], axis=1))
        metric.get_metric()(X[0], X[1])
    assert not recwarn.list


def test_concurrent_fits_restore_the_number_of_blas_threads(graded):
    before = [library["num_threads"] for library in threadpool_info()]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: OrdinalMetric(random_state=seed).fit(*graded), range(8)))
    assert [library["num_threads"] for library in threadpool_info()] == before


@pytest.mark.parametrize("bad", [{"y": np.ones(80)}, {"unlabeled": np.ones((3, 2))}, {"groups": np.zeros(80)}])
def test_a_failed_fit_changes_nothing(graded, bad):
    X, y = graded
    metric = OrdinalMetric().fit(pd.DataFrame(X, columns=list("abcdef")), y)
    before = dict(vars(metric))
    with pytest.raises(ValueError, match=r"same label|features|one group"):
        metric.fit(**{"X": X[:80, :5], "y": y[:80]} | bad)
    assert vars(metric).keys() == before.keys()
    assert all(vars(metric)[name] is before[name] for name in before)


@pytest.mark.parametrize("kind", ["linear", "rbf"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_embedding_is_bit_equal_after_a_round_trip_through_arrays(graded, kind, dtype):
    X, y = graded[0].astype(dtype), graded[1]
    embedding = OrdinalMetric(kernel=kind).fit(X, y).ordinal_embedding_
    arrays, numbers = embedding.to_arrays()
    again = OrdinalEmbedding.from_arrays(arrays, json.loads(json.dumps(numbers)))
    np.testing.assert_array_equal(again.transform(X), embedding.transform(X))
    np.testing.assert_array_equal(again.distances(X[:9], X[9:18]), embedding.distances(X[:9], X[9:18]))


@settings(max_examples=20)
@given(st.integers(2, 9), st.integers(1, 4), st.integers(0, 100))
def test_a_few_samples_can_be_fitted(n, d, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), np.arange(n) % 2
    metric = OrdinalMetric().fit(X, y)
    assert np.isfinite(metric.transform(X)).all()
    assert set(OrdinalRanker().fit(X, y).predict(X)) <= {0, 1}
