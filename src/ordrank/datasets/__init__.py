"""Pictures with ordered labels: drawn fruit, and readers of real data sets."""

from ordrank.datasets.fgnet import FGNET, align_faces, load_fgnet
from ordrank.datasets.fruit import Fruit, make_fruit
from ordrank.datasets.retinamnist import RetinaMNIST, load_retinamnist
from ordrank.datasets.tables import TABLES, Holdout, OrdinalTable, load_table
from ordrank.datasets.umist import UMIST, load_umist

__all__ = [
    "FGNET",
    "TABLES",
    "UMIST",
    "Fruit",
    "Holdout",
    "OrdinalTable",
    "RetinaMNIST",
    "align_faces",
    "load_fgnet",
    "load_retinamnist",
    "load_table",
    "load_umist",
    "make_fruit",
]
