"""``Collection.check`` finds what is damaged, and what it names restores it."""

import json
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from ordrank import Collection
from ordrank.cli import app
from ordrank.collection.check_report import OriginalFiles
from ordrank.collection.database import DATABASE
from ordrank.errors import CollectionError
from tests.collection.conftest import N_PICTURES
from tests.collection.pictures import draw_files
from tests.collection.test_damage import flip, model_file

ROW = "row of {} ({} 7)"


def damage(collection, statement):
    """Write as a failing disk would, without new checksums."""
    with closing(sqlite3.connect(collection / DATABASE)) as database, database:
        database.execute(statement)


def check(collection, *options):
    """The exit code of the command and its output, in one line."""
    result = CliRunner().invoke(app, ["check", str(collection), *options])
    return result.exit_code, result.output if options else " ".join(result.output.split())


def test_an_undamaged_collection(trained, pictures):
    report = Collection(trained).check()
    assert (report.damage, report.has_checksums) == ((), True)
    assert report.files == OriginalFiles(unchanged=N_PICTURES, changed=0, missing=0)
    code, output = check(trained)
    assert (code, "Nothing is damaged" in output) == (0, True)


@pytest.mark.parametrize(
    ("table", "change", "remedy"),
    [
        ("pictures", "grade = 1 - grade", "from a copy"),
        ("pictures", "path = path || 'x'", "from a copy"),
        ("features", "vector = zeroblob(length(vector))", "add their files again"),
        ("thumbnails", "jpeg = zeroblob(length(jpeg))", "add their files again"),
        ("embeddings", "vector = zeroblob(length(vector))", "ordrank fit"),
        ("embeddings", "held_out = NULL", "ordrank fit"),
    ],
)
def test_a_changed_row_is_named_with_what_restores_it(trained, table, change, remedy):
    damage(trained, f"UPDATE {table} SET {change} WHERE id = 7")
    code, output = check(trained)
    assert code == 1
    assert f"1 row of {table} (id 7)" in output
    assert remedy in output


def test_a_damaged_embedding_is_restored_by_training(trained):
    before = Collection.open(trained).rank("005.png")
    damage(trained, "UPDATE embeddings SET vector = zeroblob(length(vector)) WHERE id = 7")
    with Collection.open(trained) as collection:
        with pytest.raises(CollectionError, match="a row does not match its checksum"):
            collection.rank("005.png")
        collection.fit()
        assert collection.check().damage == ()
        assert collection.rank("005.png") == before


@pytest.mark.parametrize("table", ["features", "thumbnails"])
def test_damaged_parts_of_a_picture_are_restored_by_adding_it_again(trained, pictures, table):
    damage(trained, f"UPDATE {table} SET {'vector' if table == 'features' else 'jpeg'} = x'00' WHERE id = 7")
    with Collection.open(trained) as collection:
        name, grade = collection.picture(7).name, collection.picture(7).grade
        collection.remove([name])
        collection.add(pictures / name, {name: grade}, n_jobs=1)
        assert collection.check().damage == ()
        assert collection.picture(name).grade == grade


@pytest.mark.parametrize(
    "statement", ["UPDATE pictures SET grade = 9 WHERE id = 7", "DELETE FROM pictures WHERE id = 7"]
)
def test_a_damaged_row_is_never_given_a_valid_checksum(trained, statement):
    damage(trained, statement)
    with Collection.open(trained) as collection:
        for change in (collection.fit, lambda: collection.grade(7, 1)):
            with pytest.raises(CollectionError):
                change()
        assert collection.check().damage


@pytest.mark.parametrize("table", ["pictures", "embeddings", "thumbnails", "meta", "counters"])
def test_missing_rows_are_noticed(trained, table):
    key = {"meta": "key = 'balanced'", "counters": "key = 'changed'"}.get(table, "id = 7")
    damage(trained, f"DELETE FROM {table} WHERE {key}")
    assert f"{table} has " in check(trained)[1]


def damage_index(collection, name, text):
    """Change a byte of a text in an index, on the page of its root."""
    with closing(sqlite3.connect(collection / DATABASE)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = database.execute("PRAGMA page_size").fetchone()
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    file = collection / DATABASE
    at = file.read_bytes().index(text, size * (root - 1))
    assert at < size * root
    flip(file, at)


def test_a_damaged_index_is_named_and_rebuilt(trained):
    before = Collection.open(trained).pictures()
    damage_index(trained, "sqlite_autoindex_pictures_1", b"004.png")
    code, output = check(trained)
    assert code == 1
    assert "row 5 missing from index sqlite_autoindex_pictures_1" in output
    assert "rebuild it with `ordrank check --repair COLLECTION`" in output
    assert Collection.open(trained).pictures() == before
    code, output = check(trained, "--repair")
    assert (code, "Nothing is damaged" in output) == (0, True)
    assert Collection.open(trained).remove(["004.png"]).removed == 1


def test_nothing_is_changed_through_a_damaged_index(trained, pictures):
    with Collection.open(trained) as collection:
        collection.grade("004.png", 1, grader="Ann")
        collection.close()
        before = collection.pictures()
        damage_index(trained, "sqlite_autoindex_pictures_1", b"004.png")
        damage_index(trained, "grade_changes_key", b"Ann")
        changes = (
            lambda: collection.remove(["004.png"]),
            lambda: collection.add(pictures / "004.png", n_jobs=1),
            lambda: collection.fit(pictures, n_jobs=1),
            lambda: collection.undo(grader="Ann"),
        )
        message = r"is damaged \(row .* index .*; `ordrank check` says what restores it"
        for change in changes:
            with pytest.raises(CollectionError, match=message):
                change()
        assert collection.pictures() == before


def test_other_damage_is_not_repaired(trained):
    with closing(sqlite3.connect(trained / DATABASE)) as database:
        (size,) = database.execute("PRAGMA page_size").fetchone()
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'thumbnails'").fetchone()
    flip(trained / DATABASE, size * (root - 1) + 5)
    damaged = (trained / DATABASE).read_bytes()
    code, output = check(trained, "--repair")
    assert (code, "is damaged" in output) == (1, True)
    assert (trained / DATABASE).read_bytes() == damaged


def test_a_counter_with_a_damaged_key_is_noticed(trained):
    damage(trained, "UPDATE counters SET key = 'x' || key WHERE key = 'serial'")
    for use in (Collection.open, lambda directory: Collection(directory).grade("004.png", 1)):
        with pytest.raises(CollectionError, match="a row does not match its checksum"):
            use(trained)
    assert "1 row of counters (key xserial)" in check(trained)[1]


def test_files_that_are_gone_are_counted_and_no_damage(trained, pictures):
    (pictures / "003.png").unlink()
    draw_files(pictures, [4])
    (pictures / "005.png").write_bytes((pictures / "004.png").read_bytes())
    report = Collection(trained).check()
    assert (report.damage, report.files) == ((), OriginalFiles(N_PICTURES - 2, changed=1, missing=1))


def test_the_only_file_of_a_picture_is_missed(trained, pictures):
    with Collection.open(trained) as collection:
        data = (pictures / "003.png").read_bytes()
        collection.remove(["003.png"])
        collection.files.add(data, "new.png")
        (trained / "pictures" / "new.png").unlink()
        assert [found.what for found in collection.check().damage] == ["pictures/new.png is missing"]


def test_a_damaged_model_is_reported_as_json(trained):
    flip(model_file(trained, ".safetensors"), 100)
    code, output = check(trained, "--json")
    (found,) = json.loads(output)["damage"]
    assert code == 1
    assert "is damaged" in found["what"]
    assert "ordrank fit" in found["remedy"]
