"""Collections that were made once."""

import shutil

import pytest

from tests.cli.running import done, run, write_folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder, its grades and a trained collection, not to be changed."""
    place = tmp_path_factory.mktemp("made")
    write_folder(place / "pictures", table=place / "grades.csv")
    options = ("--labels", place / "grades.csv", "--features", "pixels:8", "--out", place / "collection")
    result = run("fit", place / "pictures", *options)
    assert result.exit_code == 0, result.output
    return place, result


@pytest.fixture
def collection(made, tmp_path):
    """A copy that may be changed."""
    shutil.copytree(made[0] / "collection", tmp_path / "collection")
    return tmp_path / "collection"


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A trained collection whose grades are words."""
    place = tmp_path_factory.mktemp("named")
    write_folder(place / "pictures", table=place / "grades.csv", names=("mild", "moderate", "severe"))
    options = ("--order", "mild,moderate,severe", "--features", "pixels:8", "--out", place / "knees")
    done("fit", place / "pictures", "--labels", place / "grades.csv", *options)
    return place / "knees"
