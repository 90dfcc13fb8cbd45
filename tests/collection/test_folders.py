"""A collection whose grades are the names of its folders."""

import shutil

import pytest

from ordrank import Collection
from ordrank.collection import fit as fitting
from ordrank.errors import CollectionError, InputError
from tests.collection.commands import fit, info
from tests.collection.pictures import column, content, draw, draw_files, write_grades

WORDS = ("green", "amber", "red")
OPTIONS = {"features": "pixels:4", "n_jobs": 1}


def sort_into_folders(folder, names=("0", "1", "2")):
    """Draw 36 pictures into a folder for each grade; return the folder."""
    for number in range(36):
        target = folder / names[number % 3]
        target.mkdir(parents=True, exist_ok=True)
        draw(number).save(target / f"{number:03d}.png")
    return folder


@pytest.fixture
def folders(tmp_path):
    """Pictures in folders that are named after their grades, and some that are not graded."""
    folder = sort_into_folders(tmp_path / "pictures")
    draw_files(folder / "ungraded", range(40, 44))
    draw(50).save(folder / "outside.png")
    return folder


@pytest.fixture
def collection(folders, tmp_path):
    fit(folders, tmp_path / "c", **OPTIONS)
    return tmp_path / "c"


def test_folders_are_the_grades_of_a_new_collection(collection):
    grades = column(collection, "grade")
    assert len(grades) == 41
    for name, grade in grades.items():
        folder = name.partition("/")[0]
        assert grade == (float(folder) if folder in ("0", "1", "2") else None)


def test_fit_is_that_of_the_same_grades_in_a_csv_file(folders, collection, tmp_path):
    graded = [name for name, grade in column(collection, "grade").items() if grade is not None]
    grades = write_grades(tmp_path / "grades.csv", graded, grade=lambda name: name.partition("/")[0])
    fit(folders, tmp_path / "by-csv", labels=grades, **OPTIONS)
    by_folder, by_csv = content(collection), content(tmp_path / "by-csv")
    by_folder["meta"].remove(("grades by folder", "True"))
    assert by_folder == by_csv


def test_named_folders_need_their_order(tmp_path):
    folder = sort_into_folders(tmp_path / "pictures", WORDS)
    with pytest.raises(
        InputError, match="'amber', 'green', 'red' are not numbers; name grades that are words with --order"
    ):
        fit(folder, tmp_path / "c", **OPTIONS)
    assert not (tmp_path / "c").exists()
    fit(folder, tmp_path / "c", order=WORDS, **OPTIONS)
    assert [(count.grade, count.pictures) for count in info(tmp_path / "c").grades] == [(word, 12) for word in WORDS]
    fit(folder, tmp_path / "c", order=WORDS, **OPTIONS)  # the same command again
    with pytest.raises(CollectionError, match="another order needs another directory"):
        fit(folder, tmp_path / "c", order=WORDS[::-1], **OPTIONS)


@pytest.mark.parametrize("folder", ["0", "ungraded"])
def test_one_folder_is_too_few(tmp_path, folder):
    draw_files(tmp_path / folder, range(5))
    with pytest.raises(InputError, match=r"needs two different grades .* folders that are named after their grades"):
        fit(tmp_path, tmp_path.parent / "c", **OPTIONS)
    assert not (tmp_path.parent / "c").exists()


def test_groups_need_a_csv_file(folders, tmp_path):
    with pytest.raises(InputError, match="name that file with --labels"):
        fit(folders, tmp_path / "c", group_column="person", **OPTIONS)


def test_new_pictures_get_the_grade_of_their_folder(folders, collection):
    draw(60).save(folders / "2" / "new.png")
    draw(61).save(folders / "ungraded" / "new.png")
    (folders / "7").mkdir()
    draw(62).save(folders / "7" / "new.png")
    fit(folders, collection)
    grades = column(collection, "grade")
    assert (grades["2/new.png"], grades["ungraded/new.png"], grades["7/new.png"]) == (2.0, None, 7.0)


def test_pictures_that_stay_in_their_folder_keep_corrected_grades(folders, collection):
    with Collection.open(collection) as opened:
        opened.grade("0/000.png", 2)
        opened.grade("1/001.png", None)
    draw(90, 0).save(folders / "0" / "003.png")  # other content
    assert fit(folders, collection).imported.regraded == 0
    grades = column(collection, "grade")
    assert (grades["0/000.png"], grades["1/001.png"], grades["0/003.png"]) == (2.0, None, 0.0)


def test_a_picture_that_was_moved_to_another_folder_is_regraded(folders, collection):
    shutil.move(folders / "0" / "000.png", folders / "2" / "000.png")
    assert fit(folders, collection).imported.regraded == 1
    grades = column(collection, "grade")
    assert grades["2/000.png"] == 2.0
    assert "0/000.png" not in grades


def test_a_collection_with_a_csv_file_is_not_graded_by_folders(folders, tmp_path):
    names = [f"{grade}/{number:03d}.png" for number in range(36) for grade in [number % 3] if number < 30]
    fit(folders, tmp_path / "c", labels=write_grades(tmp_path / "g.csv", names, grade=lambda name: name[0]), **OPTIONS)
    before = column(tmp_path / "c", "grade")
    assert before["0/033.png"] is None
    draw(60).save(folders / "2" / "new.png")
    fit(folders, tmp_path / "c")
    assert column(tmp_path / "c", "grade") == before | {"2/new.png": None}
    with pytest.raises(InputError, match="name their CSV file with --labels"):
        fit(folders, tmp_path / "c", order=WORDS)


def test_added_pictures_are_not_graded_by_folders(collection, tmp_path):
    (tmp_path / "more" / "2024").mkdir(parents=True)
    draw(60).save(tmp_path / "more" / "2024" / "new.png")
    Collection.open(collection).add(tmp_path / "more", n_jobs=1)
    assert column(collection, "grade")["2024/new.png"] is None


def test_an_interrupted_fit_continues_with_the_grades_of_folders(folders, collection, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(fitting, "check_report", lambda *_, **__: interrupt())
        with pytest.raises(KeyboardInterrupt):
            fit(folders, tmp_path / "again", **OPTIONS)
    assert info(tmp_path / "again").model is None
    fit(folders, tmp_path / "again", **OPTIONS)
    assert content(tmp_path / "again") == content(collection)
