"""Drawn fruit, and a small untrained network in place of a pretrained one."""

import pytest

from ordrank.datasets import make_fruit


@pytest.fixture
def tiny(monkeypatch):
    from tests.deep.tiny import tiny_backbone  # needs torch

    monkeypatch.setattr("ordrank.deep.network.load_backbone", tiny_backbone)


@pytest.fixture(scope="module")
def fruit():
    fruit = make_fruit(80, size=40)
    return fruit.images, fruit.grade
