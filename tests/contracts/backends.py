"""Every installed array library on every available device."""

from importlib.util import find_spec

import numpy as np
import pytest

from ordrank.backend import backend_of

BACKENDS = {"numpy": np.asarray}
if find_spec("torch"):
    import torch

    BACKENDS["torch"] = torch.as_tensor
    if torch.cuda.is_available():
        BACKENDS["cuda"] = lambda array: torch.as_tensor(array, device="cuda")

every_backend = pytest.mark.parametrize("backend", BACKENDS)


def put(array, backend):
    """Convert a NumPy array to an array of the backend."""
    return BACKENDS[backend](array)


def host(array):
    """Convert an array of any backend, or a number, to NumPy."""
    return np.asarray(array) if isinstance(array, float) else backend_of(array).to_numpy(array)
