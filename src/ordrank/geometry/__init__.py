"""Distances between ordered labels, Euclidean distance matrices and classical scaling."""

from ordrank.geometry.cmds import Embedding, classical_mds, embed_labels, label_embedding
from ordrank.geometry.edm import (
    beta_bound,
    check_distance_matrix,
    double_center,
    is_edm,
    label_distances,
    smallest_eigenvalue,
    squared_distances,
)
from ordrank.geometry.nearest_edm import Repair, cailliez_constant, nearest_edm, repair_distances
from ordrank.geometry.psd import project_psd

__all__ = [
    "Embedding",
    "Repair",
    "beta_bound",
    "cailliez_constant",
    "check_distance_matrix",
    "classical_mds",
    "double_center",
    "embed_labels",
    "is_edm",
    "label_distances",
    "label_embedding",
    "nearest_edm",
    "project_psd",
    "repair_distances",
    "smallest_eigenvalue",
    "squared_distances",
]
