"""Smooth maps from pictures to positions, with exact leave-one-out errors: kernels, a graph, ridge regression."""

from ordrank.smoothing.graph import graph_laplacian
from ordrank.smoothing.kernels import KernelMap, LinearMap
from ordrank.smoothing.ridge import RidgeFit, RidgePath
from ordrank.smoothing.smoother import Smoother, mean_smoother

__all__ = ["KernelMap", "LinearMap", "RidgeFit", "RidgePath", "Smoother", "graph_laplacian", "mean_smoother"]
