"""Smooth maps from pictures to positions, with exact leave-one-out errors: kernels, a graph, ridge regression."""

from ordrank.smoothing.grades_apart import lens_of
from ordrank.smoothing.graph import graph_laplacian
from ordrank.smoothing.kernels import KernelMap, LinearMap, squared_distances
from ordrank.smoothing.left_out import left_out_distances
from ordrank.smoothing.lens import Lens
from ordrank.smoothing.moments import Moments, combined, mean_and_size, moments_of, near_mean, row_blocks, size_about
from ordrank.smoothing.ridge import RidgeFit, RidgePath, SummedRegression

__all__ = [
    "KernelMap",
    "Lens",
    "LinearMap",
    "Moments",
    "RidgeFit",
    "RidgePath",
    "SummedRegression",
    "combined",
    "graph_laplacian",
    "left_out_distances",
    "lens_of",
    "mean_and_size",
    "moments_of",
    "near_mean",
    "row_blocks",
    "size_about",
    "squared_distances",
]
