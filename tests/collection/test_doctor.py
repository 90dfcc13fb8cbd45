"""Grades that are probably wrong, near copies and odd pictures are found, and nothing is changed."""

import gc
import json
import shutil
import weakref

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection.doctor import suspicion
from ordrank.collection.reports import PictureGrade, advice_for, is_poor, verdict
from ordrank.errors import CollectionError
from tests.cli.running import document, done
from tests.collection.pictures import content
from tests.collection.spoiled import FALSE, create_spoiled


@pytest.fixture(scope="module")
def examined(tmp_path_factory):
    collection = create_spoiled(tmp_path_factory.mktemp("doctor"))
    before = content(collection.directory)
    report = collection.doctor()
    assert content(collection.directory) == before
    return collection.directory, report


@pytest.fixture
def changeable(examined, tmp_path):
    """A copy of the collection that the test may change."""
    return Collection.open(shutil.copytree(examined[0], tmp_path / "collection"))


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
    copy = next(copy for copy in report.near_copies if "copy.png" in (copy.first.name, copy.second.name))
    assert {copy.first.name, copy.second.name} == {"020.png", "copy.png"}
    assert copy.relative_distance < 0.2
    assert copy.has_different_grades
    assert not copy.leaks  # no groups are named
    assert report.advice


def test_every_listed_picture_has_its_id_and_its_given_grade(examined):
    directory, report = examined
    copies = [picture for copy in report.near_copies for picture in (copy.first, copy.second)]
    neighbors = [picture for suspect in report.suspects for picture in suspect.neighbors]
    with Collection.open(directory) as collection:
        for listed in (*report.suspects, *copies, *neighbors, *report.novel):
            found = collection.picture(listed.id)
            assert (listed.name, listed.grade) == (found.name, found.grade)
    assert {type(picture) for picture in (*copies, *neighbors)} == {PictureGrade}


def test_a_corrected_grade_is_not_suspect_any_more(changeable):
    with changeable as collection:
        first = collection.doctor().suspects[0]
        collection.grade(first.id, first.estimate)
        assert first.id not in [suspect.id for suspect in collection.doctor().suspects]
        collection.undo()
        assert collection.doctor().suspects[0] == first


def test_a_collection_is_examined_once_after_each_change(changeable):
    stages = []
    with changeable as collection:
        report = collection.doctor()
        assert collection.doctor(progress=lambda *step: stages.append(step)) == report
        assert not stages
        with Collection.open(collection.directory) as other:
            other.grade("000.png", 4)
        changed = collection.doctor(progress=lambda *step: stages.append(step))
        assert stages
        assert "000.png" in [suspect.name for suspect in changed.suspects]


def test_pictures_are_compared_once_after_each_training(changeable):
    stages = []
    with changeable as collection:
        collection.doctor()
        collection.grade("000.png", 4)
        changed = collection.doctor(progress=lambda stage, *step: stages.append(stage))
        assert "checking grades" in stages
        assert "comparing pictures" not in stages
    with changeable as again:
        assert again.doctor().near_copies == changed.near_copies


def test_a_report_does_not_keep_replaced_snapshots_in_memory(changeable):
    with changeable as collection:
        collection.doctor()
        snapshot = weakref.ref(collection._live.snapshot)
        collection.grade("000.png", 4)
        gc.collect()
        assert snapshot() is None


def test_an_examination_ends_with_the_exception_of_its_progress(changeable):
    def stop(*step):
        raise InterruptedError

    with changeable as collection:
        with pytest.raises(InterruptedError):
            collection.doctor(progress=stop)
        assert collection.doctor().suspects  # the next one starts afresh


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
