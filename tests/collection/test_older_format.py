"""Collections of format 4, without graders, are read as they are and upgraded when they are written."""

import sqlite3
from contextlib import closing

import pytest

from ordrank import Collection
from ordrank.collection.database import DATABASE
from tests.collection.pictures import files, rows


@pytest.fixture
def older(trained):
    """A collection of format 4 with one change of a grade."""
    with Collection.open(trained) as collection:
        collection.grade("005.png", 0)
    with closing(sqlite3.connect(trained / DATABASE)) as database, database:
        for table in ("gradings", "comparisons", "confirmed", "trainings"):
            database.execute(f"DROP TABLE {table}")
        for column in ("grader", "given", "batch", "key"):
            database.execute(f"ALTER TABLE grade_changes DROP COLUMN {column}")
        database.execute("UPDATE meta SET value = '4' WHERE key = 'format'")
    return trained


def format_of(directory):
    ((value,),) = rows(directory, "SELECT value FROM meta WHERE key = 'format'")
    return value


def test_reading_changes_nothing(older):
    before = files(older)
    with Collection.open(older) as collection:
        assert collection.rank("006.png", k=3).grade == "0"
        assert collection.info().graded == 30
        assert collection.doctor().graded == 30
        report = collection.quality()
        assert (report.trainings, report.running_errors) == ((), ())
        assert collection.labeling.graders().graders == ()
    assert (format_of(older), files(older)) == ("4", before)


def test_the_first_grade_upgrades_it_and_keeps_everything(older):
    with Collection.open(older) as collection:
        collection.grade("006.png", 2, grader="Ann")
        assert format_of(older) == "5"
        assert [given.grader for given in collection.labeling.grades_of("006.png")] == ["Ann"]
        assert collection.undo(grader="Ann")[0].grade == "0"
        assert collection.undo()[0].name == "005.png"  # a change from before the upgrade
        assert collection.picture("005.png").grade == "2"
        assert collection.fit().graded == 30
        assert len(collection.quality().trainings) == 1


def test_an_upgrade_happens_as_a_whole_or_not_at_all(older, monkeypatch):
    from ordrank.collection import judgements

    monkeypatch.setattr(judgements, "SCHEMA", judgements.SCHEMA + "; CREATE TABLE gradings (a)")
    with Collection.open(older) as collection, pytest.raises(Exception, match="gradings"):
        collection.grade("006.png", 2)
    monkeypatch.undo()
    assert format_of(older) == "4"
    assert "grader" not in {column for _, column, *_ in rows(older, "PRAGMA table_info(grade_changes)")}
    with Collection.open(older) as collection:
        assert collection.grade("006.png", 2).grade == "2"
