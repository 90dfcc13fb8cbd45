"""Classical multidimensional scaling: points from squared distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse.linalg
from numpy.typing import ArrayLike

from ordrank._types import FloatArray, IntArray
from ordrank.errors import InputError
from ordrank.geometry.edm import check_distance_matrix, double_center, label_distances

# Above so many labels their distance matrix is not formed.
_MANY_LABELS = 500


@dataclass(frozen=True)
class Embedding:
    """Points whose squared distances approximate a given D.

    Attributes
    ----------
    points : ndarray of shape (n, s)
        Coordinates, centred; columns in order of falling variance, zero beyond the rank.
    eigenvalues : ndarray of shape (n,)
        Spectrum of -½ J D J, falling.
    negative_mass : float
        Share of the absolute spectrum that is negative: 0 for an EDM, the part no points can realise.
    """

    points: FloatArray
    eigenvalues: FloatArray
    negative_mass: float


def classical_mds(D: ArrayLike, n_components: int, weights: ArrayLike | None = None) -> Embedding:
    r"""Embed squared distances in ``n_components`` dimensions.

    With :math:`B = -\tfrac12 JDJ = P\Lambda P^T` the points are the rows of :math:`P\Lambda_+^{1/2}`, the
    leading non-negative eigenvalues only; a negative one is never rooted.

    Parameters
    ----------
    D : array-like of shape (n, n)
        Squared distances; need not be an EDM, see ``negative_mass``.
    n_components : int
        Dimension s; columns beyond the number of positive eigenvalues are zero.
    weights : array-like of shape (n,), optional
        How many coinciding objects each row stands for. The result is that of the matrix in which every
        row is written out so many times, at the price of the small one.

    Returns
    -------
    Embedding
        Its points have weighted mean zero. Signs are fixed: the last object lies on the positive side.
    """
    matrix = check_distance_matrix(D)
    if n_components < 1:
        raise InputError(f"n_components must be at least 1, got {n_components}")
    counts = np.ones(len(matrix)) if weights is None else np.asarray(weights, dtype=np.float64)
    root = np.sqrt(counts)
    B = double_center(matrix, counts) * root[:, None] * root[None, :]
    values, vectors = np.linalg.eigh(B)
    values, vectors = values[::-1], vectors[:, ::-1]

    # Rounding leaves eigenvalues of either sign where exact arithmetic has zeros.
    noise = len(matrix) * np.finfo(np.float64).eps * np.abs(values).max(initial=0.0)
    kept = min(n_components, int((values > noise).sum()))
    points = np.zeros((len(matrix), n_components))
    points[:, :kept] = vectors[:, :kept] * np.sqrt(values[:kept]) / root[:, None]
    negative = np.abs(values[values < -noise]).sum()
    total = np.abs(values).sum()
    return Embedding(_fix_signs(points), values, float(negative / total) if total > 0 else 0.0)


def label_embedding(D: ArrayLike, label_index: IntArray, n_components: int) -> Embedding:
    """Algorithm 1 of the paper: place n samples by cMDS of their m labels, O(m³) instead of O(n³).

    Embeds the m × m matrix, gives every sample the point of its label and subtracts the mean over the
    samples (the paper's last step forgets the 1/n). Where all of the spectrum fits in ``n_components``
    the distances are those of the n × n route; a truncated embedding of unequally frequent labels
    differs, and ``classical_mds(D, s, weights=counts)`` gives the n × n route exactly.

    Parameters
    ----------
    D : array-like of shape (m, m)
        Squared distances between the labels.
    label_index : ndarray of shape (n,)
        Label of each sample, as a row of D.
    n_components : int
        Dimension s; padded with zeros beyond the rank.
    """
    of_labels = classical_mds(D, n_components)
    points = of_labels.points[label_index]
    return Embedding(points - points.mean(axis=0), of_labels.eigenvalues, of_labels.negative_mass)


def embed_labels(
    labels: FloatArray, n_components: int, *, beta: float, weights: FloatArray | None = None
) -> FloatArray:
    """Leading coordinates of distinct labels at the distances ``|a - b| + beta``.

    The same as :func:`classical_mds` of ``label_distances(labels, beta)**2``. For many labels the m × m matrix is
    never formed: its product with a vector takes O(m), and Lanczos finds the leading eigenpairs from that.

    Parameters
    ----------
    labels : ndarray of shape (m,)
        Distinct and rising.
    n_components : int
        Dimension s, less than m.
    beta : float
        At least 0, so that the distances are Euclidean.
    weights : ndarray of shape (m,), optional
        How many samples, or how much weight, each label stands for.

    Returns
    -------
    ndarray of shape (m, s)
        Weighted mean zero; the last label lies on the positive side.
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

    # Of the labels themselves, evenly spaced, every second eigenvector would have no part.
    start = np.random.default_rng(0).normal(size=len(labels))
    operator = scipy.sparse.linalg.LinearOperator((len(labels), len(labels)), matvec=product, dtype=np.float64)
    values, vectors = scipy.sparse.linalg.eigsh(operator, k=n_components, which="LA", v0=start)
    order = np.argsort(-values)
    points = vectors[:, order] * np.sqrt(np.maximum(values[order], 0.0)) / root[:, None]
    return _fix_signs(points)


def _squared_label_distances_times(a: FloatArray, beta: float, x: FloatArray) -> FloatArray:
    """Σ_j (|a_i - a_j| + β[i ≠ j])² x_j for rising a, in O(m) by cumulated sums."""
    total, moment = x.sum(), a @ x
    squares = a**2 * total - 2 * a * moment + (a**2) @ x
    absolute = a * (2 * np.cumsum(x) - total) - (2 * np.cumsum(a * x) - moment)
    return np.asarray(squares + 2 * beta * absolute + beta**2 * (total - x))


def _fix_signs(points: FloatArray) -> FloatArray:
    """Flip columns so that the last object off the origin lies on the positive side.

    Eigenvectors have no sign of their own; with labels in rising order the highest grade comes to lie at
    positive coordinates whenever it can.
    """
    off_origin = np.abs(points) > 1e-8 * np.abs(points).max(axis=0, initial=0.0)
    last = len(points) - 1 - off_origin[::-1].argmax(axis=0)
    signs = np.sign(points[last, np.arange(points.shape[1])])
    return points * np.where(signs == 0, 1.0, signs)
