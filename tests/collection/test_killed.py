"""A process killed by SIGKILL at any moment loses time but no data."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection.database import is_collection
from ordrank.errors import CollectionError
from tests.collection import kill_at_call
from tests.collection.commands import info, rank
from tests.collection.pictures import content, draw_files, files, names, rows, write_grades
from tests.collection.processes import Child, call, call_and_die, call_and_die_at_tick, duration_of

KILLS, IN_A_ROW = 20, 4
KILLS_AT_CALLS, PARTS = 100, 4


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


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Return a library that kills the process it is preloaded into at one of its calls that change files."""
    source, built = Path(kill_at_call.__file__).with_suffix(".c"), tmp_path_factory.mktemp("library") / "kill.so"
    command = ["cc", "-shared", "-fPIC", "-o", built, source, "-ldl"]
    if not sys.platform.startswith("linux") or shutil.which("cc") is None:
        pytest.skip("needs Linux and a C compiler")
    subprocess.run(command, check=True)
    return built


def facts(collection):
    """Return what people have said and done, as a set."""
    return {
        *rows(collection, "SELECT 'picture', name FROM pictures"),
        *rows(collection, "SELECT 'grade', name, grade FROM pictures"),
        *rows(collection, "SELECT 'given', picture, grader, grade FROM gradings"),
        *rows(collection, "SELECT 'compared', first, second, grader, outcome FROM comparisons"),
        *rows(collection, "SELECT 'confirmed', id, grade FROM confirmed"),
        *rows(collection, "SELECT 'trained', number, pictures FROM trainings"),
    }


@pytest.mark.parametrize("part", range(PARTS))
def test_acknowledged_changes_outlive_a_kill_at_any_call(library, trained, tmp_path, part):
    draw_files(tmp_path / "new", range(50, 55))

    def kill(*calls):
        command = [sys.executable, "-m", kill_at_call.__name__, library, trained, tmp_path / "new", tmp_path, *calls]
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        done = subprocess.run(
            list(map(str, command)), env=environment, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, check=True
        )
        return done.stdout.decode().splitlines()

    n_calls = int(kill(0)[0].lstrip("."))
    states = [facts(trained)]
    undisturbed = shutil.copytree(trained, tmp_path / "undisturbed")
    states += [facts(undisturbed) for _ in kill_at_call.work(undisturbed, tmp_path / "new")]
    numbers = np.linspace(1, n_calls, KILLS_AT_CALLS, endpoint=False).astype(int)[part::PARTS]
    for number, steps in zip(numbers, kill(*numbers), strict=True):
        assert steps.strip(".") == "", f"not killed at call {number} of {n_calls}"
        before, after = states[len(steps)], states[min(len(steps) + 1, len(states) - 1)]
        with Collection.open(tmp_path / str(number)) as collection:
            assert collection.check().damage == ()
            found = facts(tmp_path / str(number))
            assert found >= before & after
            assert found <= before | after
            assert collection.grade("000.png", 2).grade == "2"
            assert len(collection.rank("000.png").hits) == 10
