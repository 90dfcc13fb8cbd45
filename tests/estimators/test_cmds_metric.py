import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ordrank_experiments.reference_formulas import ReferenceObjective

from ordrank import CMDSMetric
from ordrank.errors import (
    CollapsedScaleWarning,
    InputError,
    NeighborsCappedWarning,
    NotEuclideanError,
    RepairedDistancesWarning,
)
from ordrank.geometry import classical_mds, label_distances, squared_distances
from ordrank.metrics import order_preservation
from ordrank.neighbors import target_neighbors
from ordrank.solvers import steepest_descent

CONVERGED = {"solver": "fast", "scale": "fixed", "init": "lstsq", "tol": 1e-13}


def test_defaults_are_the_published_parameters():
    published = {"n_components": 3, "n_neighbors": 5, "beta": 1.0, "mu": 1e-10, "gamma": 1e-9, "rho": 0.5}
    published |= {"sigma": 0.05, "max_line_search": 20, "solver": "paper", "scale": "free", "init": "identity"}
    assert published.items() <= CMDSMetric().get_params().items()
    assert CMDSMetric().alpha == 0


@settings(max_examples=15)
@given(st.integers(0, 1000), st.sampled_from(["free", "fixed"]))
def test_paper_solver_is_algorithm_2_on_the_papers_formulas(seed, scale):
    rng = np.random.default_rng(seed)
    X, label = rng.normal(size=(40, 6)), np.arange(40) % 4
    y = np.array([1, 2, 5, 6])[label]
    metric = CMDSMetric(3, gamma=0.05, mu=1e-3, scale=scale, max_iter=10, n_neighbors=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric.fit(X, y)

    centred = X - X.mean(axis=0)
    D = label_distances(y[:, None].ravel()[:4], 1.0) ** 2
    Y = classical_mds(D[np.ix_(label, label)], 3).points  # S1, S2: the n × n route
    Y = Y * np.sign((Y * metric.label_positions_[label]).sum(axis=0))  # eigenvectors have no sign
    literal = ReferenceObjective(centred, Y, target_neighbors(centred, label, 3), mu=1e-3, free_scale=scale == "free")
    start = np.eye(3, 6).reshape(-1)
    if scale == "free":
        start = np.append(start, 1.0)
    armijo = {"gamma": 0.05, "rho": 0.5, "sigma": 0.05, "max_line_search": 20, "max_iter": 10, "tol": 1e-6}
    expected = steepest_descent(literal, start, **armijo)
    np.testing.assert_allclose(metric.components_.ravel(), expected.x[:18], rtol=1e-7, atol=1e-9)
    assert metric.scale_ == pytest.approx(expected.x[18] if scale == "free" else 1.0)
    assert metric.objective_ == pytest.approx(expected.value)


def test_without_a_local_term_the_fit_is_ridge_regression(graded):
    X, y = graded
    metric = CMDSMetric(2, mu=0.0, alpha=3.0, **CONVERGED).fit(X, y)
    centred = X - X.mean(axis=0)
    Y = metric.label_positions_[np.searchsorted([1, 2, 5], y)]
    expected = np.linalg.solve(centred.T @ centred + 3 * np.eye(6), centred.T @ Y).T
    np.testing.assert_allclose(metric.components_, expected, atol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NeighborsCappedWarning)  # of target neighbours, which are not needed
        CMDSMetric(2, mu=0.0, alpha=3.0, **CONVERGED).fit(X, np.arange(90) // 2)


def test_positions_keep_the_label_distances_and_are_centred(graded):
    X, y = graded
    metric = CMDSMetric(3, beta=0.5, **CONVERGED).fit(X, y)
    np.testing.assert_allclose(
        squared_distances(metric.label_positions_), label_distances([1, 2, 5], 0.5) ** 2, atol=1e-9
    )
    np.testing.assert_allclose(metric.label_positions_[np.searchsorted([1, 2, 5], y)].mean(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("init", ["identity", "lstsq", np.full((2, 6), 0.3)])
def test_the_convex_solution_does_not_depend_on_the_start(graded, init):
    metric = CMDSMetric(2, **(CONVERGED | {"init": init, "mu": 0.0})).fit(*graded)
    expected = CMDSMetric(2, mu=0.0, **CONVERGED).fit(*graded)
    np.testing.assert_allclose(metric.components_, expected.components_, atol=1e-8)


def test_directions_without_variance_keep_their_initial_value_unless_there_is_a_ridge():
    """The gradient is zero in directions without training variance."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 30)), np.repeat([1, 2, 3], 4)
    X[:, 0] = 0.0
    plain = CMDSMetric(2, solver="fast", scale="fixed", n_neighbors=2, mu=1e-4).fit(X, y)
    np.testing.assert_allclose(plain.components_[:, 0], [1, 0], atol=1e-9)
    ridge = CMDSMetric(2, solver="fast", scale="fixed", n_neighbors=2, mu=1e-4, alpha=1e-3).fit(X, y)
    np.testing.assert_allclose(ridge.components_[:, 0], 0, atol=1e-4)


class TestDegenerateScale:
    def test_the_fast_solver_collapses_a_free_scale_with_a_warning(self, graded):
        with pytest.warns(CollapsedScaleWarning, match="scale='fixed'"):
            metric = CMDSMetric(2, solver="fast").fit(*graded)
        assert abs(metric.scale_) < 1e-3

    def test_the_paper_solver_collapses_it_after_many_iterations(self, graded):
        with pytest.warns(CollapsedScaleWarning):
            CMDSMetric(2, gamma=1e-2, max_iter=5000).fit(*graded)

    def test_a_fixed_scale_does_not_collapse(self, graded):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            metric = CMDSMetric(2, **CONVERGED).fit(*graded)
        assert metric.scale_ == 1.0

    @pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
    @pytest.mark.parametrize("mu", [1e-8, 1e-2, 1.0, 10.0])
    def test_a_free_scale_that_loses_the_order_warns(self, graded, size, mu):
        """In any units."""
        X, y = graded
        train, test = np.arange(90) % 3 > 0, np.arange(90) % 3 == 0
        X, mu = size * X, mu / size**2

        def order(scale):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                metric = CMDSMetric(2, solver="fast", mu=mu, scale=scale, max_iter=2000).fit(X[train], y[train])
            Z = metric.transform(X)
            kept = order_preservation(Z[train], y[train], queries=Z[test], query_labels=y[test])
            return kept, any(issubclass(w.category, CollapsedScaleWarning) for w in caught)

        (free, warned), (fixed, _) = order("free"), order("fixed")
        assert warned or free > fixed - 0.1

    def test_warnings_point_at_the_caller(self, graded):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            CMDSMetric(2, solver="fast", n_neighbors=40).fit(*graded)
        assert {w.category for w in caught} == {CollapsedScaleWarning, NeighborsCappedWarning}
        assert {w.filename for w in caught} == {__file__}


class TestOwnLabelDistances:
    triangle = np.array([[0, 1, 9.0], [1, 0, 1], [9, 1, 0]])

    def test_replace_the_default_distances(self, graded):
        own = np.array([[0, 3, 4], [3, 0, 5], [4, 5, 0.0]])
        metric = CMDSMetric(3, label_distances=own, **CONVERGED).fit(*graded)
        np.testing.assert_allclose(squared_distances(metric.label_positions_), own**2, atol=1e-9)
        assert metric.negative_mass_ == 0

    def test_are_rejected_if_not_euclidean(self, graded):
        with pytest.raises(NotEuclideanError, match="repair='cailliez'"):
            CMDSMetric(label_distances=self.triangle).fit(*graded)

    @pytest.mark.parametrize("repair", ["cailliez", "nearest"])
    def test_are_repaired_with_a_warning(self, graded, repair):
        with pytest.warns(RepairedDistancesWarning, match=f"repair='{repair}'"):
            metric = CMDSMetric(label_distances=self.triangle, repair=repair, **CONVERGED).fit(*graded)
        assert metric.label_repair_.method == repair
        assert metric.label_repair_.relative_change > 0
        assert metric.negative_mass_ > 0.05

    def test_of_another_size_are_rejected(self, graded):
        with pytest.raises(InputError, match="label_distances is 2 × 2, but y has 3 distinct labels"):
            CMDSMetric(label_distances=[[0, 1], [1, 0]]).fit(*graded)


def test_beta_that_gives_no_edm_is_rejected(graded):
    with pytest.raises(NotEuclideanError, match="Use beta >= 0"):
        CMDSMetric(beta=-0.5).fit(*graded)


def test_finds_the_informative_feature_among_noise():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5.0), 40)
    X = rng.normal(size=(200, 20)) * np.r_[1.0, np.full(19, 5.0)]
    X[:, 0] += 3 * y
    metric = CMDSMetric(2, mu=0.0, **CONVERGED).fit(X, y)
    assert abs(np.corrcoef(metric.transform(X)[:, 0], y)[0, 1]) > 0.9


@pytest.mark.parametrize(("n", "d", "labels", "s"), [(40, 60, 3, 2), (90, 6, 3, 3), (60, 5, 2, 3)])
@pytest.mark.parametrize("mu", [0.01, 1.0])
def test_the_least_squares_start_is_not_a_saddle_point(n, d, labels, s, mu):
    """With a perfect fit or a zero position target neighbours coincide, and the gradient of the local term vanishes."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % labels
    X = rng.normal(size=(n, d)) + y[:, None] * (np.arange(d) == 0)
    values = [
        CMDSMetric(s, solver="fast", scale="fixed", init=init, mu=mu, max_iter=5000, tol=1e-10).fit(X, y).objective_
        for init in ("lstsq", "identity")
    ]
    assert values[0] <= 1.1 * values[1]


def test_a_large_constant_does_not_stop_the_solver_early():
    """In large units the local term adds a constant relative to which every decrease is small."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 30)
    X = 1000 * (rng.normal(size=(120, 10)) + y[:, None] * (np.arange(10) == 0))
    settings = {"solver": "fast", "scale": "fixed", "init": "lstsq", "mu": 1e-10, "max_iter": 5000}
    default, exhaustive = (CMDSMetric(3, **settings, tol=tol).fit(X, y).objective_ for tol in (1e-6, 1e-15))
    assert default <= exhaustive * (1 + 1e-3)


def test_low_variance_directions_are_learned_in_single_precision():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4.0), 50)
    X = np.column_stack([300 * rng.normal(size=200), y + 0.1 * rng.normal(size=200)]).astype(np.float32)
    Z = CMDSMetric(1, mu=0.0, alpha=1e-3, solver="fast", scale="fixed").fit(X, y).transform(X)
    assert abs(np.corrcoef(Z[:, 0], y)[0, 1]) > 0.9
