"""A grade that was set on a picture is not undone once that picture is gone."""

import pytest

from ordrank import Collection
from tests.collection.commands import add, remove
from tests.collection.pictures import draw_files, rows


@pytest.fixture
def collection(trained):
    with Collection.open(trained) as collection:
        yield collection


def grade_last(collection):
    (last,) = rows(collection.directory, "SELECT max(id) FROM pictures")[0]
    collection.grade(last, "1")
    return last


def test_nothing_is_undone_after_the_picture_was_removed(collection):
    collection.grade("039.png", "1")
    remove(collection.directory, ["039.png"])
    assert collection.undo() == []


def test_a_picture_with_the_id_of_a_removed_one_keeps_its_grade(collection, tmp_path):
    last = grade_last(collection)
    remove(collection.directory, [collection.picture(last).name])
    draw_files(tmp_path / "new", [50])
    add(collection.directory, tmp_path / "new", labels={"050.png": "1"}, n_jobs=1)
    assert collection.picture("050.png").id == last
    assert collection.undo() == []
    assert collection.picture("050.png").grade == "1"


def test_nothing_is_undone_after_the_file_became_a_copy_of_another(collection, pictures):
    name = collection.picture(grade_last(collection)).name
    (pictures / name).write_bytes((pictures / "001.png").read_bytes())
    add(collection.directory, pictures, n_jobs=1)
    assert collection.undo() == []


def test_earlier_changes_of_other_pictures_can_still_be_undone(collection):
    before = collection.picture("005.png").grade
    collection.grade("005.png", "0")
    collection.grade("006.png", "0")
    remove(collection.directory, ["006.png"])
    assert collection.undo()[0].grade == before
    assert collection.undo() == []
