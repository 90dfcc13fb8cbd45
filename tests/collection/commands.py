"""The operations on a collection as functions, for tests that also run them in other processes."""

from pathlib import Path

from ordrank import Collection
from ordrank.collection.types import RankRequest


def fit(images, directory, **options):
    """Create a collection, or train one again, as the command line does."""
    if Collection.exists(directory):
        return Collection.open(directory).fit(images, **options)
    return Collection.create(directory, images, **{"features": "pixels", **options}).fit_report


def add(directory, images, **options):
    return Collection.open(directory).add(images, **options)


def remove(directory, names):
    return Collection.open(directory).remove(names)


def rank(directory, queries, *, scheduler=None, workers=None, **request):
    collection = Collection.open(directory)
    return collection.rank_all(queries, RankRequest(**request), scheduler=scheduler, workers=workers)


def embed(directory, queries):
    return Collection.open(directory).embed(queries)


def info(directory):
    return Collection.open(directory).info()


def evaluate(directory, **options):
    return Collection.open(directory).evaluate(**options)


def export(directory, out):
    return Collection.open(directory).export(Path(out))


def finetune(directory, **options):
    """Fine-tune a small untrained network for a few steps."""
    from tests.deep.tiny import tiny_networks  # needs torch

    with tiny_networks(steps=8):
        return Collection.open(directory).finetune(backbone="tiny", n_jobs=1, **options)
