"""Loaders of the data sets of the paper and of the comparison."""

from ordrank_experiments.datasets.fgnet import FGNET, align_faces, load_fgnet
from ordrank_experiments.datasets.photos import PhotoFiles, Photos, extract_photos, find_photos, load_photos
from ordrank_experiments.datasets.retinamnist import RetinaMNIST, load_retinamnist
from ordrank_experiments.datasets.tables import TABLES, Holdout, OrdinalTable, load_table
from ordrank_experiments.datasets.umist import UMIST, load_umist

__all__ = [
    "FGNET",
    "TABLES",
    "UMIST",
    "Holdout",
    "OrdinalTable",
    "PhotoFiles",
    "Photos",
    "RetinaMNIST",
    "align_faces",
    "extract_photos",
    "find_photos",
    "load_fgnet",
    "load_photos",
    "load_retinamnist",
    "load_table",
    "load_umist",
]
