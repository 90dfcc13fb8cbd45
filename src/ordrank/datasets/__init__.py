"""Pictures with ordered labels: drawn fruit, and readers of real data sets."""

from ordrank.datasets.fgnet import FGNET, align_faces, load_fgnet
from ordrank.datasets.fruit import Fruit, make_fruit
from ordrank.datasets.umist import UMIST, load_umist

__all__ = ["FGNET", "UMIST", "Fruit", "align_faces", "load_fgnet", "load_umist", "make_fruit"]
