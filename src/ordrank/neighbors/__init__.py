"""Nearest neighbours, exact and approximate, target neighbours, k-NN votes and search."""

from ordrank.neighbors.exact import direct_squared_distances, k_nearest
from ordrank.neighbors.targets import TargetNeighbors, target_neighbors
from ordrank.neighbors.voting import count_votes

__all__ = ["TargetNeighbors", "count_votes", "direct_squared_distances", "k_nearest", "target_neighbors"]
