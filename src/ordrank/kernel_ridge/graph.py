"""Graph Laplacian of labelled and unlabelled samples."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from ordrank.neighbors import k_nearest


def graph_laplacian(X: NDArray[np.floating], n_neighbors: int) -> scipy.sparse.csr_array:
    r"""Return the Laplacian :math:`G = D - W` of the mutual k-nearest-neighbour graph, divided by the mean degree.

    Two samples that are among each other's k nearest have the edge weight
    :math:`\exp(-\|x_i - x_j\|^2 / (\sigma_i \sigma_j))`, with σ_i the distance from i to its k-th neighbour
    (self-tuning: dense and sparse regions are treated alike). G is positive semidefinite with a mean diagonal of 1.

    References
    ----------
    L. Zelnik-Manor and P. Perona, "Self-tuning spectral clustering", NIPS 2004.
    M. Belkin, P. Niyogi and V. Sindhwani, "Manifold regularization", JMLR 7, 2006.
    """
    n_samples = len(X)
    k = min(n_neighbors, n_samples - 1)
    neighbors, distances = k_nearest(X, X, k, exclude_self=True)
    # Duplicates have distance zero; their scale is then the smallest positive distance.
    scale = np.maximum(distances[:, -1], distances[distances > 0].min(initial=1.0))
    weights = np.exp(-(distances**2) / (scale[:, None] * scale[neighbors]))
    rows = np.repeat(np.arange(n_samples), k)
    W = scipy.sparse.csr_array((weights.reshape(-1), (rows, neighbors.reshape(-1))), shape=(n_samples, n_samples))
    W = W.minimum(W.T)
    degrees = np.asarray(W.sum(axis=1)).reshape(-1)
    return scipy.sparse.csr_array((scipy.sparse.diags_array(degrees) - W) / degrees.mean())
