"""Nearest neighbours, exact and approximate, target neighbours, k-NN votes and search."""

from ordrank.neighbors.exact import direct_squared_distances, k_nearest
from ordrank.neighbors.targets import TargetNeighbors, target_neighbors
from ordrank.neighbors.voting import median_vote

__all__ = ["TargetNeighbors", "direct_squared_distances", "k_nearest", "median_vote", "target_neighbors"]
