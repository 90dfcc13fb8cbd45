"""A generator of pictures with ordered labels."""

from ordrank.datasets.fruit import Fruit, make_fruit

__all__ = ["Fruit", "make_fruit"]
