"""A fit over shards equals the fit on one machine, for every layout of the shards."""

from functools import cache

import numpy as np
import pytest
from ordrank_experiments.datasets import load_umist
from sklearn.decomposition import PCA

from ordrank import OrdinalMetric
from ordrank.datasets import make_fruit
from ordrank.distributed import DaskOrdinalMetric
from tests.distributed.samples import assert_same_metric, make_ordinal

pytestmark = pytest.mark.usefixtures("small_model_selection")
SETTINGS = {
    "auto": {},
    "linear": {"kernel": "linear"},
    "kernel": {"kernel": "rbf", "sharpness": 1.0, "class_weight": "balanced"},
    "local": {"kernel": "linear", "mu": 0.3, "n_neighbors": 3},
}


def umist():
    faces = load_umist()
    return PCA(30, random_state=0).fit_transform(faces.images.reshape(575, -1) / 255.0), faces.label


def fruit():
    pictures = make_fruit(400, size=8)
    return pictures.images.reshape(400, -1) / 255.0, pictures.grade


DATASETS = {"umist": umist, "fruit": fruit, "synthetic": lambda: make_ordinal(3000, 16)}
MANY = {"many": lambda: make_ordinal(200_000, 16)}


@cache
def samples(name):
    return (DATASETS | MANY)[name]()


@cache
def single_machine_fit(name, setting):
    return OrdinalMetric(**SETTINGS[setting]).fit(*samples(name))


def bounds(n, layout):
    """Return the rows at which n samples are split into shards."""
    if layout == "uneven":
        return [0, 7, 7, n // 3, n // 3 + 1, n]  # an empty shard, one with a single sample
    return np.linspace(0, n, layout + 1).astype(int).tolist()


# The most expensive settings run with many shards on one data set only.
CASES = [
    (name, layout, setting)
    for name in DATASETS
    for layout in (1, 2, 5, 16, "uneven")
    for setting in SETTINGS
    if setting != "linear" and (layout not in (5, 16) or setting == "auto" or name == "umist")
]


@pytest.mark.parametrize(("name", "layout", "setting"), CASES)
def test_metric_is_independent_of_the_shard_layout(name, layout, setting, request, client, in_shards):
    if name == "umist":
        request.getfixturevalue("data_dir")
    X, y = samples(name)
    shards = in_shards(X, y, bounds(len(X), layout))
    metric = DaskOrdinalMetric(**SETTINGS[setting]).fit(shards, client=client)
    assert_same_metric(single_machine_fit(name, setting), metric, X)
    assert set(metric.seconds_) >= {"survey", "statistics", "sample"}


@pytest.mark.parametrize("layout", [1, 2, 5, 16, "uneven"])
def test_metric_of_many_samples_is_independent_of_the_shard_layout(layout, client, in_shards):
    X, y = samples("many")
    metric = DaskOrdinalMetric(kernel="linear").fit(in_shards(X, y, bounds(len(X), layout)), client=client)
    assert_same_metric(single_machine_fit("many", "linear"), metric, X)
