import json
import os
import re
import sqlite3
from contextlib import closing

import pytest

from ordrank.collection.writer_lock import LOCK_FILE, writer_lock
from ordrank.errors import CollectionBusyError, CollectionError


def test_second_writer_is_rejected_and_the_first_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/ordrank", "fit", "my pictures"])
    with writer_lock(tmp_path), pytest.raises(CollectionBusyError) as error, writer_lock(tmp_path):
        pass
    message = (
        rf"{tmp_path} is being written by process {os.getpid()} on \S+ \(`ordrank fit my pictures`, since .* UTC\)"
    )
    assert re.match(message, str(error.value))


def test_lock_is_released_after_an_error(tmp_path):
    with pytest.raises(RuntimeError), writer_lock(tmp_path):
        raise RuntimeError
    with writer_lock(tmp_path):
        pass


def test_rejected_writer_keeps_the_lock_of_the_first(tmp_path):
    with writer_lock(tmp_path):
        for _ in range(3):
            with pytest.raises(CollectionBusyError), writer_lock(tmp_path):
                pass


def test_each_directory_has_its_own_lock(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with writer_lock(tmp_path / "a"), writer_lock(tmp_path / "b"):
        pass


def test_unnamed_writer_is_reported_as_another_process(tmp_path):
    with closing(sqlite3.connect(tmp_path / LOCK_FILE, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        with pytest.raises(CollectionBusyError, match="is being written by another process"), writer_lock(tmp_path):
            pass


def test_damaged_lock_is_reported(tmp_path):
    (tmp_path / LOCK_FILE).write_text("no database " * 500)
    with pytest.raises(CollectionError, match=r"writer\.lock is damaged; delete it if no other"), writer_lock(tmp_path):
        pass


def test_empty_lock_file_is_ignored(tmp_path):
    (tmp_path / LOCK_FILE).touch()
    with writer_lock(tmp_path):
        pass


def test_a_link_is_not_followed(tmp_path):
    other = tmp_path / "other.sqlite"
    (tmp_path / "collection").mkdir()
    (tmp_path / "collection" / LOCK_FILE).symlink_to(other)
    with pytest.raises(CollectionError, match="is a link, which is not followed"), writer_lock(tmp_path / "collection"):
        pass
    assert not other.exists()


def test_statements_of_whoever_made_the_file_do_not_run(tmp_path):
    with closing(sqlite3.connect(tmp_path / LOCK_FILE)) as lock, lock:
        lock.execute("CREATE TABLE holder (text TEXT)")
        lock.execute("CREATE TABLE harm (text TEXT)")
        lock.execute("CREATE TRIGGER trap AFTER INSERT ON holder BEGIN INSERT INTO harm VALUES ('done'); END")
    with pytest.raises(CollectionError, match="is damaged; delete it"), writer_lock(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / LOCK_FILE)) as lock:
        assert lock.execute("SELECT * FROM harm").fetchall() == []


@pytest.mark.parametrize(
    "text", [None, "", "text", "[]", "{}", "[" * 100_000, '{"process": {}}', "\x1b[2J", 7, b"\xff"]
)
def test_a_holder_with_a_strange_name_is_another_process(tmp_path, text):
    with closing(sqlite3.connect(tmp_path / LOCK_FILE, isolation_level=None)) as lock:
        lock.execute("CREATE TABLE holder (text TEXT)")
        lock.execute("INSERT INTO holder VALUES (?)", [text])
        lock.execute("BEGIN IMMEDIATE")
        with pytest.raises(CollectionBusyError, match="is being written by another process"), writer_lock(tmp_path):
            pass


def test_the_name_of_a_holder_does_not_control_the_terminal(tmp_path):
    text = json.dumps({"process": 1, "machine": "a\x1b[2Jb", "command": "\n", "since": "x" * 10})
    with closing(sqlite3.connect(tmp_path / LOCK_FILE, isolation_level=None)) as lock:
        lock.execute("CREATE TABLE holder (text TEXT)")
        lock.execute("INSERT INTO holder VALUES (?)", [text])
        lock.execute("BEGIN IMMEDIATE")
        with pytest.raises(CollectionBusyError) as error, writer_lock(tmp_path):
            pass
    assert str(error.value).isprintable()
