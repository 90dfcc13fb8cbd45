"""A fit over shards is the fit of one machine, however the samples are cut."""

from functools import cache

import numpy as np
import pytest
from sklearn.decomposition import PCA

from ordrank import OrdinalMetric
from ordrank.datasets import load_umist, make_fruit
from ordrank.distributed import DaskOrdinalMetric
from ordrank.estimators import order_fit, order_map
from tests.distributed.graded import assert_same, noisy

# Automatic choices are made on so many samples here, of which there are more: the fit does not fit into the sample.
DRAWN = 200
SETTINGS = {
    "auto": {},
    "linear": {"kernel": "linear"},
    "kernel": {"kernel": "rbf", "sharpness": 1.0, "class_weight": "balanced"},
    "local": {"kernel": "linear", "mu": 0.3, "n_neighbors": 3},
}


@pytest.fixture(autouse=True)
def few_drawn(monkeypatch):
    for module in (order_fit, order_map):
        monkeypatch.setattr(module, "SEARCH_SAMPLES", DRAWN)
    monkeypatch.setattr(order_fit, "EXACT_SAMPLES", DRAWN)
    monkeypatch.setattr(order_fit, "LANDMARKS", 60)


def umist():
    faces = load_umist()
    return PCA(30, random_state=0).fit_transform(faces.images.reshape(575, -1) / 255.0), faces.label


def fruit():
    pictures = make_fruit(400, size=8)
    return pictures.images.reshape(400, -1) / 255.0, pictures.grade


SETS = {"umist": umist, "fruit": fruit, "synthetic": lambda: noisy(3000, 16)}
MANY = {"many": lambda: noisy(200_000, 16)}


@cache
def samples(name):
    return (SETS | MANY)[name]()


@cache
def of_one_machine(name, setting):
    return OrdinalMetric(**SETTINGS[setting]).fit(*samples(name))


def cut(n, layout):
    """Rows at which n samples are cut."""
    if layout == "uneven":
        return [0, 7, 7, n // 3, n // 3 + 1, n]  # an empty shard, one with a single sample
    return np.linspace(0, n, layout + 1).astype(int).tolist()


# Sums, drawn rows and pairs are cut alike on all data: the dearest settings are tried with many shards on one set.
CASES = [
    (name, layout, setting)
    for name in SETS
    for layout in (1, 2, 5, 16, "uneven")
    for setting in SETTINGS
    if setting != "linear" and (layout not in (5, 16) or setting == "auto" or name == "umist")
]


@pytest.mark.parametrize(("name", "layout", "setting"), CASES)
def test_the_map_does_not_depend_on_the_shards(name, layout, setting, request, client, in_shards):
    if name == "umist":
        request.getfixturevalue("data_dir")
    X, y = samples(name)
    shards = in_shards(X, y, cut(len(X), layout))
    metric = DaskOrdinalMetric(**SETTINGS[setting]).fit(shards, client=client)
    assert_same(of_one_machine(name, setting), metric, X)
    assert set(metric.seconds_) >= {"survey", "statistics", "sample"}


@pytest.mark.parametrize("layout", [1, 2, 5, 16, "uneven"])
def test_many_samples_too(layout, client, in_shards):
    X, y = samples("many")
    metric = DaskOrdinalMetric(kernel="linear").fit(in_shards(X, y, cut(len(X), layout)), client=client)
    assert_same(of_one_machine("many", "linear"), metric, X)
