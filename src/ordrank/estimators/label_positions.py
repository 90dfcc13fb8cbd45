"""Ideal positions of labels, by their values or by a matrix of distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ordrank._types import FloatArray
from ordrank.errors import InputError, RepairedDistancesWarning, warn_caller
from ordrank.geometry import Repair, check_distance_matrix, classical_mds, embed_labels, repair_distances


@dataclass(frozen=True)
class PlacedLabels:
    """Where the labels lie.

    Attributes
    ----------
    points : ndarray of shape (m, s)
        Positions with weighted mean zero.
    repair : Repair
        What was changed in the distances.
    negative_mass : float
        Share of the spectrum of the given distances that no points can realise.
    """

    points: FloatArray
    repair: Repair
    negative_mass: float


def place_labels(
    distances: ArrayLike,
    n_components: int,
    weights: NDArray[np.number],
    repair: Literal["error", "cailliez", "nearest"],
) -> PlacedLabels:
    """Place m labels by classical MDS of their distances, repaired if they are not Euclidean.

    Parameters
    ----------
    distances : array-like of shape (m, m)
    n_components : int
    weights : ndarray of shape (m,)
        Samples, or weight, of each label.
    repair : {"error", "cailliez", "nearest"}
    """
    checked = _checked(distances, len(weights))
    repaired = repair_distances(checked, repair)
    if repaired.method != "none":
        warn_caller(
            f"the label distances were not Euclidean and were repaired with repair={repaired.method!r}: "
            f"constant added {repaired.constant:.3g}, relative change of the squared distances "
            f"{repaired.relative_change:.3g}",
            RepairedDistancesWarning,
        )
    embedding = classical_mds(repaired.D, n_components, weights)
    given = embedding if repaired.method == "none" else classical_mds(checked**2, n_components, weights)
    return PlacedLabels(embedding.points, repaired, given.negative_mass)


def place_by_value(labels: FloatArray, n_components: int, beta: float, weights: FloatArray) -> FloatArray:
    """Place labels at the distances |a - b| + β, in units of their weighted standard deviation.

    Parameters
    ----------
    labels : ndarray of shape (m,)
        Distinct and rising.
    n_components : int
        Less than m.
    beta : float
    weights : ndarray of shape (m,)

    Returns
    -------
    ndarray of shape (m, n_components)
    """
    reach = labels[-1] - labels[0]
    if not 1e-100 < reach < 1e100:
        raise InputError(f"labels that reach over {reach:.1g} leave the range of arithmetic; scale them")
    spread = np.sqrt(np.cov(labels, aweights=weights, ddof=0))
    return embed_labels(labels / spread, n_components, beta=beta, weights=weights)


def _checked(distances: ArrayLike, m: int) -> FloatArray:
    matrix = check_distance_matrix(distances, "label_distances")
    if len(matrix) != m:
        raise InputError(f"label_distances is {len(matrix)} × {len(matrix)}, but y has {m} distinct labels")
    apart = matrix[~np.eye(m, dtype=bool)]
    if apart.min() <= 0:
        raise InputError("different labels are at distance zero; raise beta, or give them one label")
    if apart.max() > 1e60 or apart.max() < 1e-60:
        raise InputError(f"label distances up to {apart.max():.1g} cannot be squared; scale the labels")
    return matrix
