import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from ordrank import LDMLR
from ordrank.geometry import label_distances
from ordrank.neighbors import target_neighbors


def test_defaults_are_the_published_parameters():
    assert LDMLR().get_params() == {
        "n_neighbors": 5, "mu": 1e3, "p": 1.0, "step": "unit", "max_iter": 30, "tol": 1e-8, "device": None,
    }  # fmt: skip


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_converged_metric_agrees_with_a_conic_solver(graded, p):
    cvxpy = pytest.importorskip("cvxpy")
    X, y = graded
    X = X / np.sqrt((X**2).sum(axis=1).mean())
    mu = 50.0
    metric = LDMLR(mu=mu, p=p, step="exact", n_neighbors=3, max_iter=5000, tol=1e-12).fit(X, y)

    label = np.searchsorted([1, 2, 5], y)
    omega = (label_distances([1, 2, 5], beta=1.0) ** p)[np.ix_(label, label)]
    delta = X[:, None] - X[None, :]
    C = np.einsum("ij,ijk,ijl->kl", omega, delta, delta)
    pairs = target_neighbors(X, label, 3)
    d = X[pairs.first] - X[pairs.second]
    A = cvxpy.Variable((6, 6), PSD=True)
    excess = cvxpy.sum(cvxpy.multiply(d @ A, d), axis=1) - (d**2).sum(axis=1)
    problem = cvxpy.Problem(cvxpy.Minimize(-cvxpy.trace(C @ A) + mu * cvxpy.sum_squares(excess)))
    problem.solve(solver="CLARABEL")
    np.testing.assert_allclose(metric.get_mahalanobis_matrix(), A.value, atol=1e-4 * np.abs(A.value).max())
    assert metric.objective_ <= problem.value + 1e-6 * abs(problem.value)


def test_two_steps_of_the_literal_update(graded):
    X, y = graded
    X = 0.01 * (X - X.mean(axis=0))
    with pytest.warns(ConvergenceWarning):
        metric = LDMLR(max_iter=2, n_neighbors=3).fit(X, y)
    label = np.searchsorted([1, 2, 5], y)
    pairs = target_neighbors(X, label, 3)
    omega = label_distances([1, 2, 5], beta=1.0)[np.ix_(label, label)]
    A = np.eye(6)
    for _ in range(2):
        gradient = np.zeros((6, 6))
        for i in range(90):
            for j in range(90):
                gradient -= omega[i, j] * np.outer(X[i] - X[j], X[i] - X[j])
        for i, j in zip(pairs.first, pairs.second, strict=True):
            delta = X[i] - X[j]
            gradient += 2 * 1e3 * (delta @ A @ delta - delta @ delta) * np.outer(delta, delta)
        values, vectors = np.linalg.eigh(A - gradient)
        A = (vectors * np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(metric.get_mahalanobis_matrix(), A, rtol=1e-9, atol=1e-12)


def test_fewer_samples_than_features_warn_of_an_unbounded_objective():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 40)), np.repeat([1, 2], 10)
    with pytest.warns(ConvergenceWarning, match="no minimum on these data"):
        metric = LDMLR(step="exact", max_iter=20).fit(X, y)
    assert metric.bounded_ is False


def test_enough_samples_bound_the_objective(graded):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric = LDMLR(mu=1.0, step="exact", max_iter=5000).fit(*graded)
    assert metric.bounded_ is True
    assert metric.objective_ < metric.history_[0].value


def test_divergence_of_the_unit_step_is_reported(graded):
    with pytest.warns(ConvergenceWarning, match="step='exact'"):
        metric = LDMLR().fit(*graded)
    assert np.isfinite(metric.components_).all()


def test_separates_the_labels(graded):
    X, y = graded
    metric = LDMLR(mu=1.0, step="exact", max_iter=5000).fit(X, y)
    Z = metric.transform(X)

    def separation(points):
        between = np.linalg.norm(points[y == 1].mean(axis=0) - points[y == 5].mean(axis=0))
        return between / np.sqrt(np.mean([points[y == label].var(axis=0).sum() for label in (1, 2, 5)]))

    assert separation(Z) > 1.2 * separation(X)
