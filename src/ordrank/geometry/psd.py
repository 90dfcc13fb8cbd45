"""Projection onto the cone of positive semidefinite matrices."""

from ordrank._protocols import Array
from ordrank.backend import backend_of


def project_psd(A: Array) -> Array:
    r"""Return the nearest positive semidefinite matrix in Frobenius norm.

    .. math:: \Pi_+(A) = \sum_i \max(\lambda_i, 0)\, v_i v_i^T

    A (d, d) may be any square matrix: its symmetric part is projected. The result is exactly symmetric.
    """
    values, vectors = backend_of(A).eigh((A + A.T) / 2)
    kept = values > 0
    root = vectors[:, kept] * values[kept] ** 0.5
    projected = root @ root.T
    return (projected + projected.T) / 2
