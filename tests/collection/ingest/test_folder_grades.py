"""Grades that are the names of folders."""

import pytest

from ordrank.collection.ingest.folder_grades import read_folder_grades
from ordrank.collection.types import Header
from ordrank.errors import InputError

NUMBERS = Header("pixels", "pixels", 3)
WORDS = Header("pixels", "pixels", 3, ("mild", "very severe"))


def test_the_outermost_folder_is_the_grade():
    names = ["0/a.jpg", "0.5/a.jpg", "-1/session/2/b.jpg", "1e1/c.jpg"]
    assert read_folder_grades(names, NUMBERS) == dict(zip(names, (0.0, 0.5, -1.0, 10.0), strict=True))


def test_named_grades_are_positions_in_their_order():
    assert read_folder_grades(["very severe/a.jpg", "mild/b.jpg"], WORDS) == {
        "very severe/a.jpg": 1.0,
        "mild/b.jpg": 0.0,
    }


@pytest.mark.parametrize("header", [NUMBERS, WORDS])
@pytest.mark.parametrize("folder", ["ungraded", "Ungraded", "ungraded/mild", "ungraded/3"])
def test_pictures_outside_of_folders_and_in_the_folder_ungraded_have_no_grade(header, folder):
    assert read_folder_grades([f"{folder}/a.jpg", "b.jpg"], header) == {}


def test_words_without_an_order_are_listed_with_what_to_do():
    with pytest.raises(InputError) as error:
        read_folder_grades(["ripe/a.jpg", "green/a.jpg", "ungraded/b.jpg", "3/c.jpg", "green/d.jpg"], NUMBERS)
    assert str(error.value) == (
        "without a CSV file the folders are the grades, and 'green', 'ripe' are not numbers; name grades that are "
        "words with --order, lowest first, or a CSV file with --labels, and call the folder of pictures without a "
        "grade 'ungraded'"
    )


def test_a_folder_that_is_not_in_the_order_is_named():
    with pytest.raises(
        InputError, match="'severe' is not in the order of grades 'mild', 'very severe'; correct --order"
    ):
        read_folder_grades(["severe/a.jpg", "mild/a.jpg"], WORDS)


@pytest.mark.parametrize("folder", ["nan", "inf", "1_0"])
def test_what_is_no_finite_number_is_no_grade(folder):
    with pytest.raises(InputError, match=f"'{folder}' is not a number"):
        read_folder_grades([f"{folder}/a.jpg"], NUMBERS)
