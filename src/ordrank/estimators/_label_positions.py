"""Ideal positions of labels by classical MDS, from their values or from a matrix of distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ordrank._protocols import FloatArray
from ordrank.errors import InputError, RepairedDistancesWarning, warn_caller
from ordrank.geometry import Repair, check_distance_matrix, classical_mds, embed_labels, repair_distances

# Between labels: squares, and their sums over labels, must not overflow.
_MAX_DISTANCE = 1e60


@dataclass(frozen=True)
class LabelPositions:
    """Ideal positions of the labels."""

    points: FloatArray  # (m, s), of weighted mean zero
    repair: Repair | None = None  # what was changed in given distances
    negative_mass: float | None = None  # fraction of the spectrum of given distances that no points can realise

    def normalized(self, weights: FloatArray, n_components: int) -> LabelPositions:
        """Return the positions scaled to weighted mean square 1 and padded with zeros to ``n_components``."""
        points = self.points
        scale = np.sqrt(weights @ np.einsum("ij,ij->i", points, points) / weights.sum())
        padded = np.pad(points / scale, [(0, 0), (0, n_components - points.shape[1])])
        return LabelPositions(padded, self.repair, self.negative_mass)


def positions_from_distances(
    distances: ArrayLike,
    n_components: int,
    weights: NDArray[np.number],
    repair: Literal["error", "cailliez", "nearest"],
) -> LabelPositions:
    """Return positions of m labels by weighted classical MDS of their distances (m, m), repaired if not Euclidean."""
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
    return LabelPositions(embedding.points, repaired, given.negative_mass)


def positions_from_values(labels: FloatArray, n_components: int, beta: float, weights: FloatArray) -> LabelPositions:
    """Return positions of ascending labels (m,) with distances |a - b| + β, in units of their standard deviation."""
    reach = labels[-1] - labels[0]
    if not 1e-100 < reach < 1e100:
        raise InputError(f"labels with a range of {reach:.1g} overflow or underflow when squared; rescale them")
    if beta > _MAX_DISTANCE:
        raise InputError(f"beta={beta:g} overflows when squared; 1000 already makes labels all but equidistant")
    spread = np.sqrt(np.cov(labels, aweights=weights, ddof=0))
    return LabelPositions(embed_labels(labels / spread, n_components, beta=beta, weights=weights))


def _checked(distances: ArrayLike, m: int) -> FloatArray:
    matrix = check_distance_matrix(distances, "label_distances")
    if len(matrix) != m:
        raise InputError(f"label_distances is {len(matrix)} × {len(matrix)}, but y has {m} distinct labels")
    off_diagonal = matrix[~np.eye(m, dtype=bool)]
    if off_diagonal.min() <= 0:
        raise InputError("different labels are at distance zero; raise beta, or give them one label")
    if not 1 / _MAX_DISTANCE <= off_diagonal.max() <= _MAX_DISTANCE:
        raise InputError(f"label distances up to {off_diagonal.max():.1g} cannot be squared; scale the labels")
    return matrix
