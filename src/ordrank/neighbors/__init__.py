"""Nearest neighbours, exact and in blocks, and the target neighbours of labelled samples."""

from ordrank.neighbors.exact import direct_squared_distances, k_nearest
from ordrank.neighbors.targets import TargetNeighbors, target_neighbors

__all__ = ["TargetNeighbors", "direct_squared_distances", "k_nearest", "target_neighbors"]
