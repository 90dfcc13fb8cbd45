"""Projection onto the cone of positive semidefinite matrices."""

from ordrank._types import Array
from ordrank.backend import backend_of


def project_psd(A: Array) -> Array:
    r"""Nearest positive semidefinite matrix in Frobenius norm.

    .. math:: \Pi_+(A) = \sum_i \max(\lambda_i, 0)\, v_i v_i^T

    Parameters
    ----------
    A : array of shape (d, d)
        Any square matrix; its symmetric part is projected.

    Returns
    -------
    array of shape (d, d)
        Symmetric to the last bit.
    """
    values, vectors = backend_of(A).eigh((A + A.T) / 2)
    kept = values > 0
    root = vectors[:, kept] * values[kept] ** 0.5
    projected = root @ root.T
    return (projected + projected.T) / 2
