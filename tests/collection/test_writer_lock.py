import os
import re
import sqlite3
from contextlib import closing

import pytest

from ordrank.collection.writer_lock import LOCK_FILE, only_writer
from ordrank.errors import CollectionBusyError, CollectionError


def test_there_is_one_writer_and_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/ordrank", "fit", "my pictures"])
    with only_writer(tmp_path), pytest.raises(CollectionBusyError) as error, only_writer(tmp_path):
        pass
    sentence = (
        rf"{tmp_path} is being written by process {os.getpid()} on \S+ \(`ordrank fit my pictures`, since .* UTC\)"
    )
    assert re.match(sentence, str(error.value))


def test_the_next_one_comes_after_the_first_however_it_ended(tmp_path):
    with pytest.raises(RuntimeError), only_writer(tmp_path):
        raise RuntimeError
    with only_writer(tmp_path):
        pass


def test_a_refused_writer_does_not_end_the_first_one_s_right(tmp_path):
    with only_writer(tmp_path):
        for _ in range(3):
            with pytest.raises(CollectionBusyError), only_writer(tmp_path):
                pass


def test_directories_have_writers_of_their_own(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with only_writer(tmp_path / "a"), only_writer(tmp_path / "b"):
        pass


def test_one_that_has_not_written_its_name_yet_is_another_process(tmp_path):
    with closing(sqlite3.connect(tmp_path / LOCK_FILE, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        with pytest.raises(CollectionBusyError, match="is being written by another process"), only_writer(tmp_path):
            pass


def test_a_damaged_lock_is_named(tmp_path):
    (tmp_path / LOCK_FILE).write_text("no database " * 500)
    with pytest.raises(CollectionError, match=r"writer\.lock is damaged; delete it if no other"), only_writer(tmp_path):
        pass


def test_an_empty_lock_is_as_good_as_none(tmp_path):
    (tmp_path / LOCK_FILE).touch()
    with only_writer(tmp_path):
        pass
