"""Label distances and Euclidean distance matrices (EDMs).

An EDM holds *squared* distances between points. A symmetric D with zero diagonal is one if and only if
B = -½ J D J is positive semidefinite, J = I - 11ᵀ/n (Schoenberg; Young and Householder).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist, squareform

from ordrank._protocols import FloatArray
from ordrank.errors import InputError


def label_distances(labels: ArrayLike, beta: float = 1.0) -> FloatArray:
    r"""Return distances between distinct ordinal labels, equation (5) of the paper before squaring.

    .. math:: \delta_{ij} = |a_i - a_j| + \beta \; (i \ne j), \qquad \delta_{ii} = 0

    Their squares are a Euclidean distance matrix for every beta >= 0.

    Parameters
    ----------
    labels : array-like of shape (m,)
    beta : float, default=1.0
    """
    a = np.asarray(labels, dtype=np.float64)
    distances = np.abs(a[:, None] - a[None, :]) + beta
    np.fill_diagonal(distances, 0.0)
    if distances.min(initial=0.0) < 0:
        raise InputError(
            f"beta={beta:g} makes some label distances negative; the closest labels differ by "
            f"{np.diff(np.sort(a)).min():g}, so beta must be above the negative of that"
        )
    return distances


def squared_distances(points: ArrayLike) -> FloatArray:
    """Return the EDM (n, n) of points (n, s), by direct differences, so that none is negative."""
    return np.asarray(squareform(pdist(np.asarray(points, dtype=np.float64), "sqeuclidean")))


def double_center(D: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return B = -½ J D Jᵀ with J = I - 1wᵀ, w = 1/n without weights, in O(n²)."""
    share = np.full(len(D), 1 / len(D)) if weights is None else weights / weights.sum()
    column_means = share @ D
    B = -0.5 * (D - column_means[None, :] - column_means[:, None] + column_means @ share)
    return np.asarray((B + B.T) / 2)


def check_distance_matrix(D: ArrayLike, name: str = "D") -> FloatArray:
    """Return D in float64; raise InputError unless it is square, finite, symmetric, >= 0, with zero diagonal."""
    try:
        matrix = np.array(D, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a square matrix of numbers") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{name} must be a square matrix, got shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise InputError(f"{name} contains NaN or infinity")
    if matrix.min(initial=0.0) < 0:
        raise InputError(f"{name} contains negative distances, the smallest is {matrix.min():g}")
    scale = matrix.max(initial=0.0)
    if np.abs(matrix - matrix.T).max(initial=0.0) > 1e-10 * scale:
        raise InputError(f"{name} must be symmetric")
    if np.abs(np.diag(matrix)).max(initial=0.0) > 1e-10 * scale:
        raise InputError(f"{name} must have a zero diagonal")
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 0.0)
    return matrix


def smallest_eigenvalue(D: FloatArray) -> float:
    """Return the smallest eigenvalue of -½ J D J; negative if and only if D is not an EDM (up to rounding)."""
    return float(np.linalg.eigvalsh(double_center(D))[0])


def is_edm(D: ArrayLike, rtol: float = 1e-10) -> bool:
    """Return whether D is an EDM; eigenvalues of -½ J D J down to ``-rtol * n * max(D)`` count as rounding."""
    matrix = check_distance_matrix(D)
    return bool(smallest_eigenvalue(matrix) >= -rtol * len(matrix) * matrix.max(initial=0.0))


def beta_bound(labels: ArrayLike) -> float:
    """Return the bound of Theorem 1, -4μ₀ with the smallest eigenvalue μ₀ of ``-½ J (|a_i - a_j|) J``.

    Distances ``|a - b| + β`` are Euclidean for every larger β. Since ``|a - b|`` is of negative type, the bound is 0
    for every label set, up to rounding.
    """
    return -4.0 * smallest_eigenvalue(label_distances(labels, beta=0.0))
