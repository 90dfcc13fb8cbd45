"""Data sets that the package draws itself: no download, no licence, any number, any size."""

from ordrank.datasets.fruit import Fruit, make_fruit

__all__ = ["Fruit", "make_fruit"]
