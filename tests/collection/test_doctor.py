"""Grades that are probably wrong, near copies and odd pictures are found, and nothing is changed."""

import json

import numpy as np
import pytest
from PIL import Image

from ordrank import Collection
from ordrank.collection.doctor import suspicion
from ordrank.collection.reports import advice_for, is_poor, verdict
from ordrank.datasets import make_fruit
from ordrank.errors import CollectionError
from tests.cli.running import document, done
from tests.collection.pictures import content

N = 150
FALSE = {10: 3, 31: 4, 52: 0, 73: 0, 94: 1, 111: 4}  # given instead of i % 5


@pytest.fixture(scope="module")
def examined(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doctor")
    (folder / "pictures").mkdir()
    fruit = make_fruit(N, size=32)
    for i, image in enumerate(fruit.images):
        Image.fromarray(image).save(folder / "pictures" / f"{i:03d}.png")
    copied = fruit.images[20].astype(int)
    copied[0, 0] = (copied[0, 0] + 3) % 256
    Image.fromarray(copied.astype(np.uint8)).save(folder / "pictures" / "copy.png")
    # Far from every fruit, and with room for it in the principal components.
    for i in range(3):
        stripes = np.zeros((32, 32, 3), dtype=np.uint8)
        stripes[:, (np.arange(32) // 8 + i) % 2 == 0] = (255, 0, 255)
        Image.fromarray(stripes).save(folder / "pictures" / f"odd{i}.png")
    grades = {f"{i:03d}.png": FALSE.get(i, int(fruit.grade[i])) for i in range(N)}
    grades["copy.png"] = (int(fruit.grade[20]) + 2) % 5
    collection = Collection.create(folder / "c", folder / "pictures", grades, features="pixels:8", n_jobs=1)
    before = content(folder / "c")
    report = collection.doctor()
    assert content(folder / "c") == before
    return folder / "c", report


def test_falsified_grades_are_listed_first_with_the_pictures_that_say_so(examined):
    _, report = examined
    wrong = [f"{i:03d}.png" for i in FALSE]
    listed = [suspect.name for suspect in report.suspects]
    assert len(set(listed[:8]) & set(wrong)) >= 5
    assert len(listed) <= 12
    for suspect in report.suspects:
        assert suspect.estimate != suspect.grade
        assert len(suspect.neighbors) == 3
    scores = [suspect.score for suspect in report.suspects]
    assert scores == sorted(scores, reverse=True)


def test_near_copies_and_odd_pictures_are_listed(examined):
    _, report = examined
    assert {"020.png", "copy.png"} in [{copy.first, copy.second} for copy in report.near_copies]
    copy = next(copy for copy in report.near_copies if "copy.png" in (copy.first, copy.second))
    assert copy.relative_distance < 0.2
    assert copy.grades[0] != copy.grades[1]
    assert not copy.leaks  # no groups are named
    assert report.advice


def test_command_prints_tables_and_json(examined):
    collection, report = examined
    text = done("doctor", collection)
    for part in ("Grades that may be wrong", "Near copies", report.suspects[0].name, "1. "):
        assert part in text
    found = document("doctor", collection)
    assert [suspect["name"] for suspect in found["suspects"]] == [suspect.name for suspect in report.suspects]
    json.dumps(found, allow_nan=False)


def test_suspects_are_a_table(examined):
    frame = examined[1].to_frame()
    assert list(frame["name"]) == [suspect.name for suspect in examined[1].suspects]


def test_the_likeliest_label_is_not_suspect():
    proba = np.array([[0.7, 0.3, 0.0], [0.7, 0.3, 0.0], [0.7, 0.3, 0.0]])
    scores = suspicion(proba, np.array([0, 1, 2]))
    assert scores[0] == 0
    assert scores[0] < scores[1] < scores[2]


@pytest.mark.parametrize(
    ("error", "word"), [(0.1, "very good"), (0.5, "good"), (0.7, "fair"), (0.9, "poor"), (1.0, "useless")]
)
def test_a_verdict_compares_with_the_median_grade(error, word):
    assert verdict(error, 1.0).startswith(word)
    assert is_poor(error, 1.0) == (word in ("poor", "useless"))


def test_advice_depends_on_what_is_missing():
    assert "grade more pictures" in advice_for({"0": 5, "1": 5}, "pixels:24")
    assert "other features" in advice_for({"0": 50, "1": 50}, "pixels:24")
    assert "of grade 1" in advice_for({"0": 50, "1": 5}, "hog:64")


def test_a_collection_without_a_model_has_no_report(examined, tmp_path):
    with pytest.raises(CollectionError):
        Collection.open(tmp_path).doctor()
