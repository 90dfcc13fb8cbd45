"""Every array library, and every device of it, that is installed here."""

from importlib.util import find_spec

import numpy as np
import pytest

from ordrank.backend import backend_of

PLACES = {"numpy": np.asarray}
if find_spec("torch"):
    import torch

    PLACES["torch"] = torch.as_tensor
    if torch.cuda.is_available():
        PLACES["cuda"] = lambda array: torch.as_tensor(array, device="cuda")

every_place = pytest.mark.parametrize("place", PLACES)


def put(array, place):
    """A NumPy array as an array of the place."""
    return PLACES[place](array)


def host(array):
    """An array of any place, or a number, as NumPy's."""
    return np.asarray(array) if isinstance(array, float) else backend_of(array).to_numpy(array)
