"""A collection may come from a stranger: no statement in its file is ever run."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from ordrank import Collection
from ordrank.collection.database import DATABASE
from ordrank.errors import CollectionError
from tests.collection.pictures import rows
from tests.web.conftest import API, client_of
from tests.web.requests import set_grade

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
HOSTILE = {
    "trigger": ["CREATE TRIGGER trap AFTER UPDATE ON pictures BEGIN UPDATE pictures SET grade = 0; END"],
    "view": ["ALTER TABLE meta RENAME TO old", f"CREATE VIEW meta AS SELECT key, value FROM old WHERE ({ENDLESS}) > 0"],
    "table": ["CREATE TABLE more (id INTEGER)"],
    "index": ["CREATE INDEX more ON pictures (abs(mtime_ns))"],
    "column": ["ALTER TABLE pictures ADD COLUMN more AS (abs(id))"],
    "default": ["ALTER TABLE pictures ADD COLUMN more DEFAULT 1"],
    "other table": ["DROP TABLE thumbnails", "CREATE TABLE thumbnails (id INTEGER PRIMARY KEY, jpeg TEXT)"],
    "collation": ["CREATE INDEX more ON pictures (name COLLATE NOCASE)"],
}


@pytest.fixture(params=HOSTILE)
def foreign(request, trained):
    with closing(sqlite3.connect(trained / DATABASE)) as database, database:
        for statement in HOSTILE[request.param]:
            database.execute(statement)
    return trained


def test_it_is_refused_by_everything_that_reads_or_writes(foreign, tmp_path):
    before = rows(foreign, "SELECT id, grade FROM pictures")
    operations = [
        lambda: Collection.open(foreign).rank("005.png"),
        lambda: Collection.open(foreign).info(),
        lambda: Collection.open(foreign).fit(),
        lambda: Collection.open(foreign).grade("005.png", 1),
        lambda: Collection.open(foreign).remove(["005.png"]),
        lambda: Collection.open(foreign).export(tmp_path / "out.csv"),
    ]
    for operation in operations:
        with pytest.raises(CollectionError, match="which is not that of a collection"):
            operation()
    assert rows(foreign, "SELECT id, grade FROM pictures") == before


def test_a_file_that_takes_the_place_of_another_is_refused_by_a_server(trained, tmp_path):
    other = shutil.copytree(trained, tmp_path / "other")
    with closing(sqlite3.connect(other / DATABASE)) as database, database:
        database.execute(HOSTILE["trigger"][0])
    with client_of(trained) as client:
        assert client.get(f"{API}/pictures/1").status_code == 200
        (other / DATABASE).replace(trained / DATABASE)
        assert client.get(f"{API}/pictures/1").status_code == 409
        assert set_grade(client, 1, "2").status_code == 409


def test_a_collection_of_this_version_is_accepted(trained):
    assert Collection.open(trained).info().pictures == len(rows(trained, "SELECT id FROM pictures"))
