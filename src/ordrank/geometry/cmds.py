"""Classical multidimensional scaling: points from squared distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse.linalg
from numpy.typing import ArrayLike

from ordrank._protocols import FloatArray, IntArray
from ordrank.errors import InputError
from ordrank.geometry.edm import check_distance_matrix, double_center, label_distances

# Above this many labels their distance matrix is not formed.
_MANY_LABELS = 500


@dataclass(frozen=True)
class Embedding:
    """Points whose squared distances approximate a given D."""

    points: FloatArray  # (n, s), centred; columns by descending variance, zero beyond the rank
    eigenvalues: FloatArray  # (n,), spectrum of -½ J D J, descending
    negative_mass: float  # share of the absolute spectrum that is negative; 0 for an EDM


def classical_mds(D: ArrayLike, n_components: int, weights: ArrayLike | None = None) -> Embedding:
    r"""Embed squared distances in ``n_components`` dimensions.

    With :math:`B = -\tfrac12 JDJ = P\Lambda P^T` the points are the rows of :math:`P\Lambda_+^{1/2}`, restricted to
    the leading positive eigenvalues (Torgerson 1952).

    Parameters
    ----------
    D : array-like of shape (n, n)
        Squared distances; need not be an EDM, see ``negative_mass``.
    n_components : int
        Dimension s; columns beyond the number of positive eigenvalues are zero.
    weights : array-like of shape (n,), optional
        Multiplicity of each row. The result equals that of the matrix with repeated rows, at the cost of the small one.

    Returns
    -------
    Embedding
        With weighted mean zero and the last object on the positive side.
    """
    matrix = check_distance_matrix(D)
    if n_components < 1:
        raise InputError(f"n_components must be at least 1, got {n_components}")
    counts = np.ones(len(matrix)) if weights is None else np.asarray(weights, dtype=np.float64)
    root = np.sqrt(counts)
    B = double_center(matrix, counts) * root[:, None] * root[None, :]
    values, vectors = np.linalg.eigh(B)
    values, vectors = values[::-1], vectors[:, ::-1]

    # Rounding turns zero eigenvalues into small ones of either sign.
    noise = len(matrix) * np.finfo(np.float64).eps * np.abs(values).max(initial=0.0)
    kept = min(n_components, int((values > noise).sum()))
    points = np.zeros((len(matrix), n_components))
    points[:, :kept] = vectors[:, :kept] * np.sqrt(values[:kept]) / root[:, None]
    negative = np.abs(values[values < -noise]).sum()
    total = np.abs(values).sum()
    return Embedding(_fix_signs(points), values, float(negative / total) if total > 0 else 0.0)


def label_embedding(D: ArrayLike, label_index: IntArray, n_components: int) -> Embedding:
    """Embed n samples by cMDS of their m labels, Algorithm 1 of the paper, O(m³) instead of O(n³).

    Embed the m × m matrix, give every sample the point of its label and subtract the mean over the samples (the
    paper's last step omits the 1/n). If ``n_components`` covers the whole spectrum, the distances are those of the
    n × n matrix; a truncated embedding of unequally frequent labels differs, and
    ``classical_mds(D, s, weights=counts)`` is exact.

    Parameters
    ----------
    D : array-like of shape (m, m)
        Squared distances between the labels.
    label_index : ndarray of shape (n,)
        Label of each sample, as a row of D.
    n_components : int
    """
    of_labels = classical_mds(D, n_components)
    points = of_labels.points[label_index]
    return Embedding(points - points.mean(axis=0), of_labels.eigenvalues, of_labels.negative_mass)


def embed_labels(
    labels: FloatArray, n_components: int, *, beta: float, weights: FloatArray | None = None
) -> FloatArray:
    """Return the leading coordinates of distinct labels at distances ``|a - b| + beta``.

    Equals :func:`classical_mds` of ``label_distances(labels, beta)**2``. For many labels the m × m matrix is never
    formed: its product with a vector takes O(m), and Lanczos iterations find the leading eigenpairs.

    Parameters
    ----------
    labels : ndarray of shape (m,)
        Distinct, ascending.
    n_components : int
        Dimension s, less than m.
    beta : float
        At least 0, so that the distances are Euclidean.
    weights : ndarray of shape (m,), optional
        Number or total weight of the samples of each label.

    Returns
    -------
    ndarray of shape (m, s)
        With weighted mean zero and the last label on the positive side.
    """
    counts = np.ones(len(labels)) if weights is None else weights
    if len(labels) <= _MANY_LABELS:
        return classical_mds(label_distances(labels, beta) ** 2, n_components, counts).points
    root, share = np.sqrt(counts), counts / counts.sum()
    centred = labels - labels @ share

    def product(vector: FloatArray) -> FloatArray:
        x = root * np.reshape(vector, -1)
        x = x - share * x.sum()
        y = _squared_label_distances_times(centred, beta, x)
        return np.asarray(-0.5 * root * (y - share @ y))

    # A random start: the labels themselves are orthogonal to every second eigenvector if evenly spaced.
    start = np.random.default_rng(0).normal(size=len(labels))
    operator = scipy.sparse.linalg.LinearOperator((len(labels), len(labels)), matvec=product, dtype=np.float64)
    values, vectors = scipy.sparse.linalg.eigsh(operator, k=n_components, which="LA", v0=start)
    order = np.argsort(-values)
    points = vectors[:, order] * np.sqrt(np.maximum(values[order], 0.0)) / root[:, None]
    return _fix_signs(points)


def _squared_label_distances_times(a: FloatArray, beta: float, x: FloatArray) -> FloatArray:
    """Return Σ_j (|a_i - a_j| + β[i ≠ j])² x_j for ascending a, in O(m) by cumulative sums."""
    total, moment = x.sum(), a @ x
    squares = a**2 * total - 2 * a * moment + (a**2) @ x
    absolute = a * (2 * np.cumsum(x) - total) - (2 * np.cumsum(a * x) - moment)
    return np.asarray(squares + 2 * beta * absolute + beta**2 * (total - x))


def _fix_signs(points: FloatArray) -> FloatArray:
    """Flip columns so that the last object off the origin has positive coordinates."""
    off_origin = np.abs(points) > 1e-8 * np.abs(points).max(axis=0, initial=0.0)
    last = len(points) - 1 - off_origin[::-1].argmax(axis=0)
    signs = np.sign(points[last, np.arange(points.shape[1])])
    return points * np.where(signs == 0, 1.0, signs)
