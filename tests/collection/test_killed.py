"""A process killed by SIGKILL at any moment loses time but no data."""

import shutil
import time

import numpy as np
import pytest

from ordrank.collection.database import is_collection
from ordrank.errors import CollectionError
from tests.collection.commands import info, rank
from tests.collection.pictures import content, draw_files, files, names, rows, write_grades
from tests.collection.processes import Child, call, call_and_die, call_and_die_at_tick, duration_of

KILLS, IN_A_ROW = 20, 4


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Return a folder of 300 pictures, of which every tenth has a grade."""
    folder = tmp_path_factory.mktemp("many")
    drawn = draw_files(folder / "pictures", range(100, 400))
    write_grades(folder / "grades.csv", drawn[::10])
    return folder


@pytest.fixture
def options(many):
    return {"labels": many / "grades.csv", "n_jobs": 1}


def kill_repeatedly(collection, folder, arguments, options, duration, rng):
    """Kill an operation at random moments; the collection must be valid after each of them."""
    expected = {path.name for path in folder.iterdir()}
    for _ in range(IN_A_ROW):
        before = names(collection) if is_collection(collection) else set()
        child = Child(call, *arguments, **options)
        time.sleep(rng.uniform(0, duration))
        stored = [number for number in child.kill() if isinstance(number, int)]
        assert_valid(collection, before | set(sorted(expected - before)[: max(stored, default=0)]))
        yield


def assert_valid(collection, stored):
    """Check that the stored pictures are there and can be ranked, unless there is no model yet."""
    if not is_collection(collection):
        assert not stored
        return
    assert names(collection) >= stored
    summary = info(collection)
    assert summary.pictures >= len(stored)
    if summary.model is None:
        with pytest.raises(CollectionError, match="has no model yet"):
            rank(collection, ["000.png"])
    else:
        rank(collection, sorted(stored)[-3:])
    assert rows(collection, "PRAGMA integrity_check") == [("ok",)]
    assert rows(collection, "PRAGMA foreign_key_check") == []


def assert_same(collection, other):
    assert content(collection) == content(other)
    assert files(collection) == files(other)


def test_killed_first_fit_resumes_to_the_same_collection(many, options, tmp_path):
    options["features"], undisturbed = "pixels:4", tmp_path / "undisturbed"
    duration = duration_of(call, "fit", many / "pictures", undisturbed, **options)
    rng = np.random.default_rng(0)
    for number in range(KILLS // IN_A_ROW):
        collection = tmp_path / str(number)
        arguments = ("fit", many / "pictures", collection)
        for _ in kill_repeatedly(collection, many / "pictures", arguments, options, duration, rng):
            pass
        duration_of(call, *arguments, **options)
        assert_same(collection, undisturbed)


def test_killed_retraining_keeps_the_old_model(many, options, trained, tmp_path):
    undisturbed = shutil.copytree(trained, tmp_path / "undisturbed")
    duration = duration_of(call, "fit", many / "pictures", undisturbed, **options)
    old, new = (rank(collection, ["005.png"]) for collection in (trained, undisturbed))
    assert old != new
    rng, results = np.random.default_rng(1), []
    for number in range(2):
        collection = shutil.copytree(trained, tmp_path / str(number))
        arguments = ("fit", many / "pictures", collection)
        for _ in kill_repeatedly(collection, many / "pictures", arguments, options, duration, rng):
            results.append(rank(collection, ["005.png"]))
        duration_of(call, *arguments, **options)
        assert content(collection) == content(undisturbed)
    assert old in results
    assert all(result in (old, new) for result in results)


def test_killed_add_resumes_to_the_same_collection(many, options, trained, tmp_path):
    undisturbed = shutil.copytree(trained, tmp_path / "undisturbed")
    duration = duration_of(call, "add", undisturbed, many / "pictures", **options)
    rng = np.random.default_rng(2)
    for number in range(KILLS // IN_A_ROW):
        collection = shutil.copytree(trained, tmp_path / str(number))
        arguments = ("add", collection, many / "pictures")
        for _ in kill_repeatedly(collection, many / "pictures", arguments, options, duration, rng):
            pass
        duration_of(call, *arguments, **options)
        assert_same(collection, undisturbed)


def test_killed_add_resumes_to_the_same_estimates(trained, tmp_path):
    # The first 256 pictures are stored as one batch; all of them are graded, and the others look like them.
    folder = tmp_path / "pictures"
    drawn = draw_files(folder, range(100, 370))
    grades = write_grades(tmp_path / "grades.csv", drawn[:256], grade=lambda name: 7)
    undisturbed = shutil.copytree(trained, tmp_path / "undisturbed")
    duration_of(call, "add", undisturbed, folder, labels=grades, n_jobs=1)
    child = Child(call_and_die_at_tick, "add", trained, folder, labels=grades, n_jobs=1)
    assert child.was_killed
    assert len(names(trained)) == 40 + 256
    duration_of(call, "add", trained, folder, labels=grades, n_jobs=1)
    assert content(trained) == content(undisturbed)


def test_first_fit_killed_before_any_write_can_be_resumed(tmp_path):
    drawn = draw_files(tmp_path / "pictures", range(9))
    grades = write_grades(tmp_path / "grades.csv", drawn)
    options = {"labels": grades, "features": "pixels:2", "n_jobs": 1}

    def arguments(name):
        return "fit", tmp_path / "pictures", tmp_path / str(name)

    done, count = Child(call_and_die, 0, *arguments("undisturbed"), **options).end()
    assert done == "done"
    # Every one of the first writes, which create the tables, and of the last, which replace the model.
    for write in (*range(1, 26), *range(26, count - 12, 15), *range(count - 12, count + 1)):
        assert Child(call_and_die, write, *arguments(write), **options).was_killed
        assert_valid(tmp_path / str(write), set())
        duration_of(call, *arguments(write), **options)
        assert_same(tmp_path / str(write), tmp_path / "undisturbed")


def test_killed_switch_keeps_the_old_features_until_the_new_ones_are_complete(trained, tmp_path):
    options = {"features": "pixels:6", "n_jobs": 1}
    undisturbed = shutil.copytree(trained, tmp_path / "undisturbed")
    done, count = Child(call_and_die, 0, "fit", None, undisturbed, **options).end()
    assert done == "done"
    old, new = (rank(collection, ["005.png"]) for collection in (trained, undisturbed))
    results = []
    # Every one of the first writes, which stage the features, and of the last, which replace features and model.
    for write in (*range(1, 12), *range(12, count - 12, 15), *range(count - 12, count + 1)):
        collection = shutil.copytree(trained, tmp_path / str(write))
        assert Child(call_and_die, write, "fit", None, collection, **options).was_killed
        assert_valid(collection, names(trained))
        results.append(rank(collection, ["005.png"]))
        duration_of(call, "fit", None, collection, **options)
        assert content(collection) == content(undisturbed)
    assert old in results
    assert all(result in (old, new) for result in results)
