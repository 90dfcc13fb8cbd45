"""A process that is ended by SIGKILL at any moment costs time and nothing else."""

import shutil
import time

import numpy as np
import pytest

from ordrank import service
from ordrank.collection.database import is_collection
from ordrank.errors import CollectionError
from tests.service.drawing import content, draw_files, files, names, rows, write_grades
from tests.service.processes import Child, call, call_and_die, call_and_die_at_tick, duration_of

KILLS, IN_A_ROW = 20, 4


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """300 pictures, every tenth with a grade."""
    folder = tmp_path_factory.mktemp("many")
    drawn = draw_files(folder / "pictures", range(100, 400))
    write_grades(folder / "grades.csv", drawn[::10])
    return folder


@pytest.fixture
def options(many):
    return {"grades": service.Grades(many / "grades.csv"), "n_jobs": 1}


def kill_again_and_again(collection, folder, arguments, options, duration, rng):
    """Kill a call at random moments; the collection must be sound after each of them."""
    wanted = {path.name for path in folder.iterdir()}
    for _ in range(IN_A_ROW):
        before = names(collection) if is_collection(collection) else set()
        child = Child(call, *arguments, **options)
        time.sleep(rng.uniform(0, duration))
        told = [number for number in child.kill() if isinstance(number, int)]
        assert_sound(collection, before | set(sorted(wanted - before)[: max(told, default=0)]))
        yield


def assert_sound(collection, kept):
    """All that was kept is there, and readers get an answer or are told that there is no model yet."""
    if not is_collection(collection):
        assert not kept
        return
    assert names(collection) >= kept
    description = service.describe(collection)
    assert description.pictures >= len(kept)
    if description.model is None:
        with pytest.raises(CollectionError, match="has no model yet"):
            service.ask(collection, ["000.png"])
    else:
        service.ask(collection, sorted(kept)[-3:])
    assert rows(collection, "PRAGMA integrity_check") == [("ok",)]
    assert rows(collection, "PRAGMA foreign_key_check") == []


def assert_same(collection, other):
    assert content(collection) == content(other)
    assert files(collection) == files(other)


def test_a_killed_first_fit_goes_on_to_the_very_same_collection(many, options, tmp_path):
    options["features"], undisturbed = "pixels:4", tmp_path / "undisturbed"
    duration = duration_of(call, "fit", many / "pictures", undisturbed, **options)
    rng = np.random.default_rng(0)
    for number in range(KILLS // IN_A_ROW):
        collection = tmp_path / str(number)
        arguments = ("fit", many / "pictures", collection)
        for _ in kill_again_and_again(collection, many / "pictures", arguments, options, duration, rng):
            pass
        duration_of(call, *arguments, **options)
        assert_same(collection, undisturbed)


def test_a_killed_retraining_leaves_the_old_model_at_work(many, options, trained, tmp_path):
    undisturbed = shutil.copytree(trained, tmp_path / "undisturbed")
    duration = duration_of(call, "fit", many / "pictures", undisturbed, **options)
    old, new = (service.ask(collection, ["005.png"]) for collection in (trained, undisturbed))
    assert old != new
    rng, answers = np.random.default_rng(1), []
    for number in range(2):
        collection = shutil.copytree(trained, tmp_path / str(number))
        arguments = ("fit", many / "pictures", collection)
        for _ in kill_again_and_again(collection, many / "pictures", arguments, options, duration, rng):
            answers.append(service.ask(collection, ["005.png"]))
        duration_of(call, *arguments, **options)
        assert content(collection) == content(undisturbed)
    assert old in answers
    assert all(answer in (old, new) for answer in answers)


def test_a_killed_add_goes_on_to_the_very_same_collection(many, options, trained, tmp_path):
    undisturbed = shutil.copytree(trained, tmp_path / "undisturbed")
    duration = duration_of(call, "add", undisturbed, many / "pictures", **options)
    rng = np.random.default_rng(2)
    for number in range(KILLS // IN_A_ROW):
        collection = shutil.copytree(trained, tmp_path / str(number))
        arguments = ("add", collection, many / "pictures")
        for _ in kill_again_and_again(collection, many / "pictures", arguments, options, duration, rng):
            pass
        duration_of(call, *arguments, **options)
        assert_same(collection, undisturbed)


def test_an_add_that_was_killed_after_graded_pictures_estimates_the_others_as_if_it_had_not_been(trained, tmp_path):
    # The first 256 pictures are kept together; all of them are graded, and those that follow look like them.
    folder = tmp_path / "pictures"
    drawn = draw_files(folder, range(100, 370))
    grades = service.Grades(write_grades(tmp_path / "grades.csv", drawn[:256], grade=lambda name: 7))
    undisturbed = shutil.copytree(trained, tmp_path / "undisturbed")
    duration_of(call, "add", undisturbed, folder, grades=grades, n_jobs=1)
    child = Child(call_and_die_at_tick, "add", trained, folder, grades=grades, n_jobs=1)
    assert child.was_killed
    assert len(names(trained)) == 40 + 256
    duration_of(call, "add", trained, folder, grades=grades, n_jobs=1)
    assert content(trained) == content(undisturbed)


def test_killed_right_before_a_deed_a_first_fit_goes_on_to_the_very_same_collection(tmp_path):
    drawn = draw_files(tmp_path / "pictures", range(9))
    grades = service.Grades(write_grades(tmp_path / "grades.csv", drawn))
    options = {"grades": grades, "features": "pixels:2", "n_jobs": 1}

    def arguments(name):
        return "fit", tmp_path / "pictures", tmp_path / str(name)

    done, count = Child(call_and_die, 0, *arguments("undisturbed"), **options).end()
    assert done == "done"
    # All of the first ones, which make the tables, and of the last ones, which change the model.
    for moment in (*range(1, 26), *range(26, count - 12, 15), *range(count - 12, count + 1)):
        assert Child(call_and_die, moment, *arguments(moment), **options).was_killed
        assert_sound(tmp_path / str(moment), set())
        duration_of(call, *arguments(moment), **options)
        assert_same(tmp_path / str(moment), tmp_path / "undisturbed")
