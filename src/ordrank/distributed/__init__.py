"""Fit and search on a Dask cluster: samples stay in shards on the workers, only small results move."""

from ordrank.distributed.metric import DaskOrdinalMetric
from ordrank.distributed.pca import DaskPCA
from ordrank.distributed.ranker import DaskRanker
from ordrank.distributed.shards import Shards

__all__ = ["DaskOrdinalMetric", "DaskPCA", "DaskRanker", "Shards"]
