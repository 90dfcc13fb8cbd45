"""Scores of pictures from outside the collection."""

import shutil

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection.types import BadPicture
from ordrank.errors import BadPicturesError, GradesError, InputError
from tests.collection.pictures import content, draw, draw_files, write_grades


@pytest.fixture
def outside(tmp_path):
    """A folder of new pictures, and grades for most of them."""
    names = draw_files(tmp_path / "new", range(60, 84))
    write_grades(tmp_path / "new.csv", names[:21])
    return tmp_path / "new", tmp_path / "new.csv"


@pytest.fixture
def collection(trained):
    with Collection.open(trained) as collection:
        yield collection


def test_scores_are_those_of_the_ranked_pictures(collection, trained, outside):
    before = content(trained)
    scores = collection.evaluate_on(*outside, n_jobs=1)
    results = [collection.rank(outside[0] / f"{number:03d}.png") for number in range(60, 81)]
    true = np.array([number % 3 for number in range(60, 81)])
    values = np.array([result.value for result in results])
    inside = [
        float(result.lowest) <= grade <= float(result.highest) for result, grade in zip(results, true, strict=True)
    ]
    assert (scores.pictures, scores.folds, scores.mae_std, scores.in_collection) == (21, 0, None, ())
    assert scores.mae == pytest.approx(np.abs(values - true).mean())
    assert scores.accuracy == pytest.approx((values == true).mean())
    assert scores.coverage == pytest.approx(np.mean(inside))
    assert scores.mae_median == pytest.approx(np.abs(1 - true).mean())  # 1 is the median grade of the collection
    assert np.array(scores.confusion).sum(axis=1).tolist() == [7, 7, 7]
    assert scores.verdict.startswith("very good")
    assert scores.read.read == 21
    assert content(trained) == before


def test_pictures_of_the_collection_are_not_scored(collection, drawn, outside):
    expected = collection.evaluate_on(*outside, n_jobs=1)
    shutil.copy(drawn / "pictures" / "005.png", outside[0] / "copy.png")
    with outside[1].open("a") as stream:
        stream.write("copy.png,0\n")  # far from its grade in the collection
    scores = collection.evaluate_on(*outside, n_jobs=1)
    assert scores.in_collection == ("copy.png",)
    assert (scores.pictures, scores.mae, scores.confusion) == (21, expected.mae, expected.confusion)


def test_pictures_that_are_all_in_the_collection_are_rejected(collection, drawn):
    with pytest.raises(InputError, match=r"all 30 graded pictures of .* are in .*: `ordrank evaluate` holds out those"):
        collection.evaluate_on(drawn / "pictures", drawn / "grades.csv", n_jobs=1)


def test_pictures_that_the_model_still_knows_flatter(collection, outside):
    assert "flatters" not in collection.evaluate_on(*outside, n_jobs=1).verdict
    collection.remove(["005.png"])
    assert "removed since the model was trained" in collection.evaluate_on(*outside, n_jobs=1).verdict
    collection.fit()
    assert "flatters" not in collection.evaluate_on(*outside, n_jobs=1).verdict


def test_folders_are_the_grades_without_labels(collection, outside, tmp_path):
    for number in range(60, 81):
        (tmp_path / "sorted" / str(number % 3)).mkdir(parents=True, exist_ok=True)
        shutil.copy(outside[0] / f"{number:03d}.png", tmp_path / "sorted" / str(number % 3))
    scores, expected = collection.evaluate_on(tmp_path / "sorted", n_jobs=1), collection.evaluate_on(*outside, n_jobs=1)
    assert (scores.mae, scores.confusion) == (expected.mae, expected.confusion)
    with pytest.raises(InputError, match=r"no picture of .* has a grade; name a CSV file of grades with --labels"):
        collection.evaluate_on(outside[0])


def test_grades_that_the_collection_lacks_are_errors_of_their_distance(collection, tmp_path):
    names = draw_files(tmp_path / "new", (60, 61, 62))
    write_grades(tmp_path / "new.csv", names, grade=lambda name: {"060.png": 0, "061.png": 1, "062.png": 9}[name])
    scores = collection.evaluate_on(tmp_path / "new", tmp_path / "new.csv", n_jobs=1)
    assert scores.grades == ("0", "1", "2", "9")
    assert scores.mae == pytest.approx(7 / 3)  # the reddest are estimated as 2
    assert scores.mae_by_grade == (0.0, 0.0, None, 7.0)
    assert scores.confusion == ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 0), (0, 0, 1, 0))


def test_unusable_files_are_reported_and_missing_ones_are_an_error(collection, outside):
    (outside[0] / "060.png").write_text("no picture")
    scores = collection.evaluate_on(*outside, n_jobs=1)
    assert scores.read.bad == (BadPicture("060.png", "is not a picture that can be read"),)
    assert scores.pictures == 20
    with pytest.raises(BadPicturesError, match="1 file cannot be used"):
        collection.evaluate_on(*outside, n_jobs=1, strict=True)
    (outside[0] / "061.png").unlink()
    with pytest.raises(GradesError, match="with --skip-bad"):
        collection.evaluate_on(*outside, n_jobs=1)
    scores = collection.evaluate_on(*outside, n_jobs=1, strict=False)
    assert (scores.pictures, scores.read.not_found) == (19, ("061.png",))


def test_names_of_the_collection_are_not_those_of_the_folder(collection, tmp_path):
    draw(60).save(tmp_path / "one.png")
    (tmp_path / "t.csv").write_text("file,grade\n005.png,1\n")
    with pytest.raises(GradesError, match=r"'005\.png' is not among the pictures"):
        collection.evaluate_on(tmp_path / "one.png", tmp_path / "t.csv")


def test_many_pictures_are_graded_in_blocks(collection, outside, monkeypatch):
    expected = collection.evaluate_on(*outside, n_jobs=1)
    monkeypatch.setattr("ordrank.collection.evaluate._BLOCK", 5)
    found = collection.evaluate_on(*outside, n_jobs=1)
    assert found.mae == expected.mae
    assert found.rps == pytest.approx(expected.rps, abs=1e-5)
