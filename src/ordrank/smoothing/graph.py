"""The neighbour graph of all pictures, graded or not."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ordrank.neighbors import k_nearest

GRAPH_NEIGHBORS = 4


def graph_laplacian(X: NDArray[np.floating], n_neighbors: int = GRAPH_NEIGHBORS) -> scipy.sparse.csr_array:
    r"""Return the Laplacian :math:`G = D - W` of the graph of mutual nearest neighbours, in units of the mean degree.

    Two samples that are among each other's nearest are joined with weight :math:`\exp(-\|x_i - x_j\|^2 / (\sigma_i
    \sigma_j))`, σ_i the distance of i to its last neighbour: crowded and lonely regions are treated alike. A sample
    that others do not count among their nearest lies at the edge, and joins nothing that its grade would leak through.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    n_neighbors : int
        Neighbours of each sample among which mutual ones are looked for.

    Returns
    -------
    csr_array of shape (N, N)
        Symmetric, positive semidefinite, with rows of sum 0 and a mean diagonal of 1.
    """
    n_samples = len(X)
    k = min(n_neighbors, n_samples - 1)
    neighbors, distances = k_nearest(X, X, k, exclude_self=True)
    # Copies are at distance zero from each other; their own scale is then the smallest that is not zero.
    scale = np.maximum(distances[:, -1], distances[distances > 0].min(initial=1.0))
    weights = np.exp(-(distances**2) / (scale[:, None] * scale[neighbors]))
    rows = np.repeat(np.arange(n_samples), k)
    W = scipy.sparse.csr_array((weights.reshape(-1), (rows, neighbors.reshape(-1))), shape=(n_samples, n_samples))
    W = W.minimum(W.T)
    degrees = np.asarray(W.sum(axis=1)).reshape(-1)
    return scipy.sparse.csr_array((scipy.sparse.diags_array(degrees) - W) / degrees.mean())
