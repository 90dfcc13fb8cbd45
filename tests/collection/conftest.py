"""Pictures, and a collection of them that is trained once and copied for every test."""

import shutil
from contextlib import closing

import pytest

from ordrank.collection.database import connect_to_write
from tests.collection.commands import fit
from tests.collection.crafted import judge
from tests.collection.pictures import draw_files, write_grades
from tests.distributed.clusters import client, killable_client, killable_scheduler

__all__ = ["client", "killable_client", "killable_scheduler"]

N_PICTURES = 40


@pytest.fixture(scope="session")
def drawn(tmp_path_factory):
    """A folder of 40 pictures, and grades for three in four of them."""
    folder = tmp_path_factory.mktemp("drawn")
    names = draw_files(folder / "pictures", range(N_PICTURES))
    write_grades(folder / "grades.csv", [name for name in names if int(name[:3]) % 4])
    return folder


@pytest.fixture(scope="session")
def _trained_once(drawn, tmp_path_factory):
    collection = tmp_path_factory.mktemp("trained") / "collection"
    grades = drawn / "grades.csv"
    fit(drawn / "pictures", collection, labels=grades, features="pixels:4", n_jobs=1)
    return collection


@pytest.fixture
def trained(_trained_once, tmp_path):
    """A collection of the drawn pictures."""
    return shutil.copytree(_trained_once, tmp_path / "collection")


@pytest.fixture(scope="session")
def _judged_once(_trained_once, tmp_path_factory):
    collection = shutil.copytree(_trained_once, tmp_path_factory.mktemp("judged") / "collection")
    judge(collection)
    return collection


@pytest.fixture
def judged(_judged_once, tmp_path):
    """A trained collection with several graders, comparisons and what else there may be."""
    return shutil.copytree(_judged_once, tmp_path / "collection")


@pytest.fixture
def pictures(drawn, tmp_path, request):
    """A copy of the drawn pictures that may be changed, from which the trained collection was read."""
    copied = shutil.copytree(drawn / "pictures", tmp_path / "pictures")
    if "trained" in request.fixturenames:
        with closing(connect_to_write(request.getfixturevalue("trained"))) as database:
            database.execute("UPDATE pictures SET path = ? || name", (f"{copied}/",))
    return copied


@pytest.fixture
def always_better(monkeypatch):
    """Adopt every network, however badly a few steps have trained it."""
    errors = iter([2.0, 1.0] * 9)
    monkeypatch.setattr("ordrank.collection.finetune._held_out_error", lambda store, progress: next(errors))
