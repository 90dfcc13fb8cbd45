"""Deterministic property tests, and data that several suites share."""

import os
from pathlib import Path

# scikit-learn's check of array-API input is skipped without it; it must be set before SciPy is imported.
os.environ["SCIPY_ARRAY_API"] = "1"
# Tests run in a process for each core; more threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ordrank",
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("ordrank")


@pytest.fixture
def graded():
    """90 samples of three gapped labels in 6 features, the first of which follows the label."""
    rng = np.random.default_rng(7)
    y = np.repeat([1.0, 2.0, 5.0], 30)
    X = rng.normal(size=(90, 6))
    X[:, 0] += y
    order = rng.permutation(90)
    return X[order], y[order]


@pytest.fixture(scope="session")
def data_dir():
    """The directory of real data, or a skip that says how to name it."""
    directory = os.environ.get("ORDRANK_DATA")
    if not directory or not Path(directory).is_dir():
        pytest.skip("real data not present: set ORDRANK_DATA to its directory")
    return Path(directory)
