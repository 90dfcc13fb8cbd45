"""Kernel ridge regression with closed-form leave-one-out errors, a graph Laplacian and discriminant rescaling."""

from ordrank.kernel_ridge.discriminant import local_discriminant_metric
from ordrank.kernel_ridge.graph import graph_laplacian
from ordrank.kernel_ridge.kernels import KernelMap, LinearMap, pairwise_squared_distances
from ordrank.kernel_ridge.loo_distances import loo_squared_distances
from ordrank.kernel_ridge.moments import (
    Moments,
    approximate_mean,
    combine_moments,
    mean_and_scale,
    moments_of,
    root_mean_square,
    row_blocks,
)
from ordrank.kernel_ridge.rescaling import DiscriminantRescaling
from ordrank.kernel_ridge.ridge import GramRidge, RidgeFit, RidgePath

__all__ = [
    "DiscriminantRescaling",
    "GramRidge",
    "KernelMap",
    "LinearMap",
    "Moments",
    "RidgeFit",
    "RidgePath",
    "approximate_mean",
    "combine_moments",
    "graph_laplacian",
    "local_discriminant_metric",
    "loo_squared_distances",
    "mean_and_scale",
    "moments_of",
    "pairwise_squared_distances",
    "root_mean_square",
    "row_blocks",
]
