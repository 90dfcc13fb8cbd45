"""Collections of format 4, without graders, are read as they are and upgraded when they are written."""

import sqlite3
from contextlib import closing

import pytest

from ordrank import Collection
from ordrank.collection.database import DATABASE, create
from ordrank.collection.types import Header
from tests.collection.pictures import draw_files, files, rows

OPTIONAL = ("staged_features", "network_samples")
_GRADE_CHANGES = """CREATE TABLE grade_changes (
    serial INTEGER PRIMARY KEY, id INTEGER NOT NULL, before REAL, grade REAL, undoes INTEGER
)"""


@pytest.fixture
def older(trained):
    """A collection of format 4 with one change of a grade."""
    with Collection.open(trained) as collection:
        collection.grade("005.png", 0)
    with closing(sqlite3.connect(trained / DATABASE)) as database, database:
        changes = database.execute("SELECT serial, id, before, grade, undoes FROM grade_changes").fetchall()
        for table in ("grade_changes", "gradings", "comparisons", "confirmed", "implied", "trainings", *OPTIONAL):
            database.execute(f"DROP TABLE {table}")
        database.execute("DROP INDEX pictures_grade")
        database.execute(_GRADE_CHANGES)
        database.executemany("INSERT INTO grade_changes VALUES (?, ?, ?, ?, ?)", changes)
        database.execute("DELETE FROM counters WHERE key NOT IN ('serial', 'changed')")
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%, crc INTEGER)%'").fetchall():
            database.execute(f"ALTER TABLE {table} DROP COLUMN crc")
        database.execute("UPDATE meta SET value = '4' WHERE key = 'format'")
    return trained


def schema(directory):
    return set(rows(directory, "SELECT type, name, tbl_name, sql FROM sqlite_master"))


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


def test_an_upgraded_collection_has_the_schema_of_a_new_one(older, tmp_path):
    (tmp_path / "new").mkdir()
    create(tmp_path / "new", Header("pixels:4", "pixels:4", 48))
    assert schema(older) != schema(tmp_path / "new")
    with Collection.open(older) as collection:
        collection.labeling.confirm("005.png")
    assert schema(older) == schema(tmp_path / "new")
    assert rows(older, "PRAGMA foreign_key_check") == []


def test_an_upgrade_gives_every_row_a_checksum(older):
    with Collection.open(older) as collection:
        assert not collection.check().has_checksums
        collection.labeling.confirm("005.png")
        report = collection.check()
        assert (report.has_checksums, report.damage) == (True, ())


def test_the_id_of_a_picture_that_is_removed_later_is_never_used_again(older, tmp_path):
    ((last,),) = rows(older, "SELECT max(id) FROM pictures")
    with Collection.open(older) as collection:
        collection.remove([last])
        draw_files(tmp_path / "new", [50])
        collection.add(tmp_path / "new", n_jobs=1)
        assert collection.picture("050.png").id > last


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
