"""The neighbour graph of all pictures, graded or not."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ordrank.neighbors import k_nearest

GRAPH_NEIGHBORS = 3


def graph_laplacian(X: NDArray[np.floating], n_neighbors: int = GRAPH_NEIGHBORS) -> scipy.sparse.csr_array:
    r"""Return the normalised Laplacian :math:`G = I - D^{-1/2}WD^{-1/2}` of the nearest-neighbour graph.

    Neighbours i, j are joined with weight :math:`\exp(-\|x_i - x_j\|^2 / (\sigma_i\sigma_j))`, σ_i the distance
    of i to its last neighbour: crowded and lonely regions are treated alike.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    n_neighbors : int
        Neighbours of each sample; edges are kept in both directions.

    Returns
    -------
    csr_array of shape (N, N)
        Symmetric, eigenvalues in [0, 2].
    """
    n_samples = len(X)
    k = min(n_neighbors, n_samples - 1)
    neighbors, distances = k_nearest(X, X, k, exclude_self=True)
    # Copies are at distance zero from each other; their own scale is then the smallest that is not zero.
    scale = np.maximum(distances[:, -1], distances[distances > 0].min(initial=1.0))
    weights = np.exp(-(distances**2) / (scale[:, None] * scale[neighbors]))
    rows = np.repeat(np.arange(n_samples), k)
    W = scipy.sparse.csr_array((weights.reshape(-1), (rows, neighbors.reshape(-1))), shape=(n_samples, n_samples))
    W = W.maximum(W.T)
    # A sample so lonely that its weights vanish is joined to nothing, and nothing is asked of it.
    degrees = np.asarray(W.sum(axis=1)).reshape(-1)
    inverse_root = np.divide(1.0, np.sqrt(degrees), out=np.zeros(n_samples), where=degrees > 0)
    D = scipy.sparse.diags_array(inverse_root)
    joined = scipy.sparse.diags_array((degrees > 0).astype(np.float64))
    return scipy.sparse.csr_array(joined - D @ W @ D)
