"""How good the estimates are, measured on graded pictures without their own grades."""

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection import quality
from ordrank.collection.judgements import Grading


@pytest.fixture
def collection(trained):
    with Collection.open(trained) as collection:
        yield collection


def graded(collection):
    found = [picture for picture in collection.pictures(limit=200).items if picture.grade is not None]
    return found, np.array([float(p.grade) for p in found]), np.array([float(p.estimate) for p in found])


def test_errors_are_those_of_the_listed_estimates(collection):
    for name in ("001.png", "002.png"):
        collection.grade(name, 0)  # estimates do not change with their own grades
    report, (found, grades, estimates) = collection.quality(), graded(collection)
    assert (report.pictures, report.graded) == (40, len(found))
    assert report.error == pytest.approx(np.abs(estimates - grades).mean())
    assert report.error_median == pytest.approx(np.abs(grades - np.median(grades)).mean())
    inside = [float(p.lowest) <= float(p.grade) <= float(p.highest) for p in found]
    assert report.coverage == pytest.approx(np.mean(inside))
    by_grade = {entry.grade: entry for entry in report.grades}
    zeros = grades == 0
    assert by_grade["0"].pictures == zeros.sum()
    assert by_grade["0"].error == pytest.approx(np.abs(estimates[zeros]).mean())
    assert by_grade["0"].bias == pytest.approx(estimates[zeros].mean())
    assert sum(cell.pictures for cell in report.confusions) == len(found)
    wrong = sum(cell.pictures for cell in report.confusions if cell.grade != cell.estimate)
    assert wrong == (grades != estimates).sum()


def test_wider_intervals_hold_more_grades(collection):
    shares = [level.share for level in collection.quality().calibration]
    assert shares == sorted(shares)
    assert [level.intended for level in collection.quality().calibration] == [0.5, 0.6, 0.7, 0.8, 0.9, 0.95]


def test_trainings_are_remembered(collection):
    collection.grade("000.png", 0)
    collection.fit()
    trainings = collection.quality().trainings
    assert [(training.pictures, training.graded) for training in trainings] == [(40, 30), (40, 31)]
    assert all(training.error is not None and training.features == "pixels:4" for training in trainings)
    assert [training.time for training in trainings] == sorted(training.time for training in trainings)


def test_running_errors_compare_grades_with_the_estimates_before_them(collection):
    assert collection.quality().running_errors == ()
    for number, grade in ((0, 0), (4, 1), (8, 0)):  # estimates are 0, 1, 2
        collection.grade(f"{number:03d}.png", grade)
    errors = collection.quality().running_errors
    assert [(error.grades, error.error) for error in errors] == [(1, 0), (2, 0), (3, pytest.approx(2 / 3))]


def test_ages_have_no_table_of_confusions(drawn, tmp_path):
    grades = {f"{number:03d}.png": number for number in range(40)}
    options = {"features": "pixels:4", "n_jobs": 1}
    with Collection.create(tmp_path / "c", drawn / "pictures", grades, **options) as collection:
        assert collection.quality().confusions is None


def test_it_is_measured_once_after_each_change(collection, monkeypatch):
    calls, assess = [], quality.estimate_held_out
    monkeypatch.setattr(quality, "estimate_held_out", lambda *found: calls.append(None) or assess(*found))
    assert collection.quality() == collection.quality()
    assert len(calls) == 1
    with Collection.open(collection.directory) as other:
        other.grade("000.png", 2)
    assert collection.quality().graded == 31
    assert len(calls) == 2


def test_the_running_error_of_many_grades_is_thinned():
    errors = np.random.default_rng(0).uniform(0, 2, 3000)
    gradings = [Grading(i, "", error, 0.0, "") for i, error in enumerate(errors)]
    whole, part = quality._running_errors(gradings[:500]), quality._running_errors(gradings)
    assert [one.grades for one in whole] == list(range(1, 501))
    assert len(part) == 500
    assert (part[0].grades, part[-1].grades) == (1, 3000)
    assert part[-1].error == pytest.approx(errors[-25:].mean())
    assert len({one.grades for one in part}) == 500
