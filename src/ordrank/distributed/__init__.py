"""The same fit beyond one machine: samples in shards, workers of a Dask cluster that read them and send sums."""

from ordrank.distributed.metric import DaskOrdinalMetric
from ordrank.distributed.pca import DaskPCA
from ordrank.distributed.shards import Shards

__all__ = ["DaskOrdinalMetric", "DaskPCA", "Shards"]
