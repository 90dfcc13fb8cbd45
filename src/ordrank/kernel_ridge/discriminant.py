"""Local discriminant metric: distances shrink along within-label differences and grow along between-label ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray
from ordrank.kernel_ridge.kernels import LinearMap, pairwise_squared_distances
from ordrank.kernel_ridge.rescaling import DiscriminantRescaling

# Squared distance, for samples of unit mean square, up to which two samples are duplicates.
_DUPLICATE = 1e-9


def local_discriminant_metric(
    X: NDArray[np.floating],
    labels: NDArray[np.number],
    weights: FloatArray,
    *,
    within: float,
    between: float,
    power: int,
) -> DiscriminantRescaling:
    r"""Return the square root of a regularised local discriminant metric.

    .. math:: c^2\ell^2 = (I + aW)^{-1/2}\,(I + bB)\,(I + aW)^{-1/2}

    W and B are the mean scatters of the differences between a sample and its nearest neighbours of the same label
    and of other labels. A neighbour at distance r has the weight :math:`r^{-2p}`, and each sample contributes a
    scatter of trace 1:

    .. math:: W = \frac1{\sum_i\omega_i}\sum_i\omega_i
              \frac{\sum_j\omega_j\|\delta_{ij}\|^{-2p}\delta_{ij}\delta_{ij}^T}
                   {\sum_j\omega_j\|\delta_{ij}\|^{2-2p}}

    and B likewise, so an outlier counts as much as any other sample and an integer weight equals that many
    duplicates. Duplicates of a sample are not its neighbours. Samples that are the only ones of their label are
    skipped; if all are, the result is the identity. X (n, d) has unit mean square, ω > 0; a and b are ``within`` and
    ``between``, p is ``power``. c is such that rescaled samples have unit mean square.

    It is a global variant of DANN (Hastie & Tibshirani), whose metric at each query is
    :math:`W^{-1/2}(W^{-1/2}BW^{-1/2} + \epsilon I)W^{-1/2}` with the scatters around that query. Here scatters of local
    differences are averaged over all samples, both are regularised, and B is whitened once.

    References
    ----------
    T. Hastie and R. Tibshirani, "Discriminant adaptive nearest neighbor classification", IEEE TPAMI 18(6), 1996.
    """
    span = LinearMap(X)
    T = span.features(X)
    squared, same = pairwise_squared_distances(T, T), labels[:, None] == labels
    squared[squared <= _DUPLICATE] = np.inf
    single = np.isinf(np.where(same, squared, np.inf)).all(axis=1)
    if single.all():
        return DiscriminantRescaling.identity(X.shape[1])
    relative = np.where(single, 0.0, weights / weights.sum())
    W, B = (_scatter(T, np.where(pairs, squared, np.inf), relative, weights, power) for pairs in (same, ~same))
    values, vectors = np.linalg.eigh(np.eye(T.shape[1]) + within * W)
    whitening = (vectors / np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(whitening @ (np.eye(T.shape[1]) + between * B) @ whitening)
    coordinates = T @ vectors
    scale = float(np.sqrt(np.average(coordinates**2 @ values, weights=weights)))
    return DiscriminantRescaling(span.input_coefficients(vectors).T, np.sqrt(values), scale)


def _scatter(T: FloatArray, squared: FloatArray, relative: FloatArray, weights: FloatArray, power: int) -> FloatArray:
    """Sum over samples (n, p), by their share, of the trace-1 scatter of the differences to their neighbours.

    Neighbours are the samples at finite squared distance (n, n).
    """
    nearest = squared.min(axis=1, keepdims=True)
    nearest[np.isinf(nearest)] = 1.0  # without neighbours all weights are zero, whatever the unit
    ratios = squared / nearest
    decay = np.where(np.isinf(ratios), 0.0, ratios ** (1 - power))  # inf⁰ is 1
    traces = nearest * (decay @ weights)[:, None]
    pairs = relative[:, None] * weights * ratios**-power / np.maximum(traces, np.finfo(np.float64).tiny)
    degrees = pairs.sum(axis=0) + pairs.sum(axis=1)
    mixed = T.T @ (pairs @ T)
    return np.asarray(T.T @ (degrees[:, None] * T) - mixed - mixed.T)
