"""Fits and answers beyond one machine: samples in shards, read by workers of a Dask cluster that send little else."""

from ordrank.distributed.metric import DaskOrdinalMetric
from ordrank.distributed.pca import DaskPCA
from ordrank.distributed.ranker import DaskRanker
from ordrank.distributed.shards import Shards

__all__ = ["DaskOrdinalMetric", "DaskPCA", "DaskRanker", "Shards"]
