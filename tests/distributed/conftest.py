"""Fixtures of all distributed tests."""

import pytest

from ordrank import OrdinalMetric
from ordrank.estimators._defaults import Defaults
from tests.distributed.clusters import client, in_shards, killable_client, killable_scheduler

__all__ = ["client", "in_shards", "killable_client", "killable_scheduler"]


@pytest.fixture
def small_model_selection(monkeypatch):
    """Draw fewer samples for model selection, and fewer landmarks, than the data have."""
    defaults = Defaults(selection_samples=200, exact_samples=200, n_landmarks=60)
    monkeypatch.setattr(OrdinalMetric, "_defaults", defaults)
