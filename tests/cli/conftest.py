"""Collections that are trained once per module."""

import shutil

import pytest

from tests.cli.running import done, run, write_folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a directory with pictures, grades and a trained collection, and the result of the fit; read-only."""
    directory = tmp_path_factory.mktemp("made")
    write_folder(directory / "pictures", table=directory / "grades.csv")
    options = ("--labels", directory / "grades.csv", "--features", "pixels:8", "--out", directory / "collection")
    result = run("fit", directory / "pictures", *options)
    assert result.exit_code == 0, result.output
    return directory, result


@pytest.fixture
def collection(made, tmp_path):
    """Return a copy of the collection that may be changed."""
    shutil.copytree(made[0] / "collection", tmp_path / "collection")
    return tmp_path / "collection"


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """Return a trained collection with named grades."""
    directory = tmp_path_factory.mktemp("named")
    write_folder(directory / "pictures", table=directory / "grades.csv", names=("mild", "moderate", "severe"))
    options = ("--order", "mild,moderate,severe", "--features", "pixels:8", "--out", directory / "knees")
    done("fit", directory / "pictures", "--labels", directory / "grades.csv", *options)
    return directory / "knees"
