"""A grade that was set on a picture is not undone once that picture is gone."""

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection.access import write_store
from ordrank.errors import ConflictError
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


def test_the_id_of_a_removed_picture_is_never_used_again(collection, tmp_path):
    last = grade_last(collection)
    remove(collection.directory, [collection.picture(last).name])
    draw_files(tmp_path / "new", [50])
    add(collection.directory, tmp_path / "new", labels={"050.png": "1"}, n_jobs=1)
    assert collection.picture("050.png").id > last
    remove(collection.directory, ["050.png"])
    number, _ = collection.files.add((tmp_path / "new" / "050.png").read_bytes(), "050.png")
    assert number > last + 1
    assert collection.undo() == []


class TestByKey:
    """A change can be named by its caller, who may not know whether it has arrived."""

    def grade(self, collection, names, grade, key, **options):
        return collection.labeling.grade(names, grade, key=key, **options)

    def test_it_is_undone_whatever_came_after_it(self, collection):
        before = collection.picture("005.png").grade
        self.grade(collection, ["005.png"], 0, "a")
        self.grade(collection, ["006.png"], 2, "b")
        assert [picture.name for picture in collection.labeling.undo(key="a")] == ["005.png"]
        assert collection.picture("005.png").grade == before
        assert collection.picture("006.png").grade == "2"
        assert [picture.name for picture in collection.undo()] == ["006.png"]

    def test_it_is_made_and_undone_once(self, collection):
        self.grade(collection, ["005.png"], 0, "a")
        self.grade(collection, ["005.png"], 1, "b")
        self.grade(collection, ["005.png"], 0, "a")
        assert collection.picture("005.png").grade == "1"
        assert len(collection.labeling.undo(key="b")) == 1
        assert collection.labeling.undo(key="b") == []
        self.grade(collection, ["005.png"], 1, "b")
        assert collection.picture("005.png").grade == "0"

    @pytest.mark.parametrize(
        ("names", "grade"),
        [(["005.png"], 1), (["005.png"], None), (["006.png"], 0), (["005.png", "006.png"], 0), (["006.png"], 2)],
    )
    @pytest.mark.parametrize("meanwhile", [None, 1, "undone"])
    def test_its_key_is_not_that_of_another_change(self, collection, names, grade, meanwhile):
        self.grade(collection, ["005.png"], 0, "a")
        if meanwhile == "undone":
            collection.undo()
        elif meanwhile is not None:
            self.grade(collection, ["005.png"], meanwhile, "b")
        before = rows(collection.directory, "SELECT id, grade FROM pictures")
        with pytest.raises(ConflictError, match="key of its own"):
            self.grade(collection, names, grade, "a")
        self.grade(collection, ["005.png"], 0, "a")  # the same again is not another change
        assert rows(collection.directory, "SELECT id, grade FROM pictures") == before
        self.grade(collection, ["006.png"], 1, "a", grader="Ann")
        assert collection.picture("006.png").grade == "1"

    def test_what_others_gave_does_not_make_it_another_change(self, collection):
        collection.grade("005.png", 2, grader="Ben")
        collection.grade("005.png", 2, grader="Cid")
        for _ in range(2):
            self.grade(collection, ["005.png", "006.png"], 0, "a", grader="Ann")
        assert collection.picture("005.png").grade == "2"

    def test_what_never_arrived_is_not_undone_in_place_of_another(self, collection):
        self.grade(collection, ["005.png"], 0, "a")
        assert collection.labeling.undo(key="other") == []
        assert collection.labeling.undo(key="a", grader="Ann") == []
        assert collection.picture("005.png").grade == "0"

    def test_it_is_not_undone_once_a_picture_was_graded_again(self, collection):
        self.grade(collection, ["005.png", "006.png"], 0, "a")
        self.grade(collection, ["006.png"], 1, "b")
        with pytest.raises(ConflictError, match="graded again"):
            collection.labeling.undo(key="a")
        assert [collection.picture(name).grade for name in ("005.png", "006.png")] == ["0", "1"]
        collection.labeling.undo(key="b")
        assert len(collection.labeling.undo(key="a")) == 2

    def test_a_grade_that_changes_nothing_is_no_change(self, collection):
        self.grade(collection, ["005.png"], 0, None)
        self.grade(collection, ["005.png"], 0, None)
        assert collection.undo()[0].grade == "2"
        assert collection.undo() == []

    def test_a_grade_of_the_labels_is_given_by_the_first_grader_who_repeats_it(self, collection):
        self.grade(collection, ["005.png"], 2, None, grader="Ann")
        self.grade(collection, ["005.png"], 0, None, grader="Ben")
        assert [given.grader for given in collection.labeling.grades_of("005.png")] == ["Ann", "Ben"]


def test_the_earlier_grade_keeps_its_estimate_and_its_time(collection):
    directory, earlier = collection.directory, "SELECT * FROM gradings"
    collection.grade("005.png", 0, grader="Ann")
    before = rows(directory, earlier)
    with write_store(directory) as store:
        store.set_estimates([collection.picture("005.png").id], np.array([[1.0, 0.0, 2.0]]))  # as a training does
    collection.grade("005.png", 1, grader="Ann")
    assert rows(directory, earlier) != before
    collection.undo(grader="Ann")
    assert rows(directory, earlier) == before


class TestOtherGraders:
    def test_what_others_gave_meanwhile_stands(self, collection):
        collection.grade("005.png", 0, grader="Ann")
        collection.grade("005.png", 1, grader="Ben")
        collection.undo(grader="Ann")
        assert collection.picture("005.png").grade == "1"
        collection.undo(grader="Ben")
        assert collection.picture("005.png").grade == "2"  # of the labels

    def test_a_forgotten_change_takes_all_that_was_made_with_it_along(self, collection, monkeypatch):
        monkeypatch.setattr("ordrank.collection.change_log.MAX_LOGGED", 4)
        names = ["001.png", "002.png", "005.png"]
        collection.labeling.grade(names, 0, key="a")
        for name in ("006.png", "007.png"):
            collection.grade(name, 1)
        assert len(collection.labeling.undo(key="a")) in (0, 3)
        assert len({collection.picture(name).grade for name in names} - {"0"}) in (0, 2)


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
