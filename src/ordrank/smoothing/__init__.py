"""Smooth maps from pictures to positions, with exact leave-one-out errors: kernels, a graph, ridge regression."""

from ordrank.smoothing.graph import graph_laplacian
from ordrank.smoothing.kernels import KernelMap, LinearMap
from ordrank.smoothing.moments import Moments, combined, mean_and_size, moments_of, near_mean, row_blocks, size_about
from ordrank.smoothing.ridge import RidgeFit, RidgePath

__all__ = [
    "KernelMap",
    "LinearMap",
    "Moments",
    "RidgeFit",
    "RidgePath",
    "combined",
    "graph_laplacian",
    "mean_and_size",
    "moments_of",
    "near_mean",
    "row_blocks",
    "size_about",
]
