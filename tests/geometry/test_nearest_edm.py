import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordrank.errors import NotEuclideanError
from ordrank.geometry import (
    cailliez_constant,
    double_center,
    is_edm,
    label_distances,
    nearest_edm,
    repair_distances,
    squared_distances,
)


@st.composite
def dissimilarities(draw, largest=8):
    m = draw(st.integers(3, largest))
    entries = draw(st.lists(st.floats(0, 10), min_size=m * (m - 1) // 2, max_size=m * (m - 1) // 2))
    W = np.zeros((m, m))
    W[np.triu_indices(m, 1)] = entries
    return W + W.T


@given(dissimilarities())
def test_nearest_edm_is_an_edm_and_idempotent(W):
    nearest = nearest_edm(W)
    assert is_edm(nearest, rtol=1e-9)
    np.testing.assert_allclose(nearest_edm(nearest), nearest, atol=1e-9 * max(W.max(), 1e-300))


@given(dissimilarities())
def test_nearest_edm_satisfies_the_optimality_conditions(W):
    """X is nearest if and only if X - W is normal to the cone: <X - W, X> = 0 and <X - W, E> >= 0 for EDMs E."""
    nearest = nearest_edm(W)
    normal = nearest - W
    scale = max(np.linalg.norm(W) ** 2, 1e-300)
    assert abs(np.vdot(normal, nearest)) <= 1e-9 * scale
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = squared_distances(rng.normal(size=(len(W), rng.integers(1, 4))))
        assert np.vdot(normal, other) >= -1e-9 * np.sqrt(scale) * np.linalg.norm(other)


@given(dissimilarities(), st.integers(0, 2**32 - 1), st.floats(1e-4, 1.0))
def test_no_perturbation_of_the_nearest_edm_is_closer(W, seed, size):
    nearest = nearest_edm(W)
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(double_center(nearest))
    points = vectors * np.sqrt(np.maximum(values, 0))
    moved = squared_distances(points + size * rng.normal(size=points.shape))
    distance = np.linalg.norm(nearest - W)
    assert np.linalg.norm(moved - W) >= distance - 1e-9 * np.linalg.norm(W)


@settings(max_examples=15)
@given(dissimilarities(largest=6))
def test_nearest_edm_agrees_with_a_conic_solver(W):
    cvxpy = pytest.importorskip("cvxpy")
    m = len(W)
    J = np.eye(m) - 1 / m
    X = cvxpy.Variable((m, m), symmetric=True)
    # The square: with the norm itself the solver fails where it does not converge, as on one matrix of 301.
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(X - W)), [cvxpy.diag(X) == 0, -J @ X @ J >> 0])
    problem.solve(solver="CLARABEL")
    np.testing.assert_allclose(nearest_edm(W), X.value, atol=2e-4 * max(W.max(), 1))
    assert np.linalg.norm(nearest_edm(W) - W) <= np.sqrt(max(problem.value, 0)) * (1 + 1e-6) + 1e-6


@given(dissimilarities())
def test_cailliez_constant_is_the_smallest(W):
    constant = cailliez_constant(W)

    def shifted(c):
        S = W + c
        np.fill_diagonal(S, 0)
        return S**2

    assert is_edm(shifted(constant * (1 + 1e-9) + 1e-7), rtol=1e-8)
    assert is_edm(shifted(2 * constant + 1), rtol=1e-8)
    if constant > 1e-3:
        assert not is_edm(shifted(constant * 0.99), rtol=1e-12)


def test_large_matrices_converge():
    rng = np.random.default_rng(1)
    W = rng.uniform(size=(60, 60))
    W = np.triu(W, 1) + np.triu(W, 1).T
    assert is_edm(nearest_edm(W), rtol=1e-9)


def test_too_few_iterations_raise(monkeypatch):
    monkeypatch.setattr(sys.modules["ordrank.geometry.nearest_edm"], "_MAX_STEPS", 1)  # the function has its name
    W = np.array([[0, 1, 9.0], [1, 0, 1], [9, 1, 0]])
    with pytest.raises(NotEuclideanError, match="not found in 1 steps"):
        nearest_edm(W)


def test_euclidean_distances_are_unchanged():
    repair = repair_distances(label_distances([1, 2, 5]), "error")
    assert (repair.method, repair.constant, repair.relative_change) == ("none", 0.0, 0.0)
    np.testing.assert_array_equal(repair.D, label_distances([1, 2, 5]) ** 2)


def test_non_euclidean_distances_are_rejected_or_repaired():
    broken = label_distances([1, 2, 3, 4, 5], beta=-0.5)
    with pytest.raises(NotEuclideanError, match=r"smallest eigenvalue .* is -0\.599"):
        repair_distances(broken, "error")
    by_constant = repair_distances(broken, "cailliez")
    assert by_constant.constant == pytest.approx(0.5)
    np.testing.assert_allclose(by_constant.D, label_distances([1, 2, 3, 4, 5], beta=0) ** 2, atol=1e-9)
    by_nearest = repair_distances(broken, "nearest")
    assert is_edm(by_nearest.D, rtol=1e-9)
    assert by_nearest.constant == 0
    assert 0 < by_nearest.relative_change < by_constant.relative_change


def test_nearest_edm_of_zero_is_zero():
    assert not nearest_edm(np.zeros((4, 4))).any()
