import os

import pytest

from ordrank._io import write_files
from ordrank.collection.database import DATABASE, create
from ordrank.collection.types import Header


def write_a_file(directory):
    write_files(directory, {"a.txt": b"new"})
    return "a.txt"


def create_a_collection(directory):
    create(directory, Header("pixels:1", "pixels:1", 3))
    return DATABASE


@pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="directories cannot be opened")
@pytest.mark.parametrize("write", [write_a_file, create_a_collection])
def test_the_directory_is_synced_after_the_file_has_its_name(tmp_path, monkeypatch, write):
    synced, fsync = [], os.fsync

    def listing(descriptor):
        if os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
            synced.append({path.name for path in tmp_path.iterdir()})
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", listing)
    name = write(tmp_path)
    assert synced == [{name}]


def test_a_directory_that_cannot_be_synced_is_no_failure(tmp_path, monkeypatch):
    fsync = os.fsync

    def fails_for_directories(descriptor):
        if os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
            raise OSError(22, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", fails_for_directories)
    write_files(tmp_path, {"a.txt": b"new"})
    assert (tmp_path / "a.txt").read_bytes() == b"new"


def test_files_are_written_completely_or_not_at_all(tmp_path, monkeypatch):
    write_files(tmp_path, {"a.txt": b"old"})

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_files(tmp_path, {"a.txt": b"new", "b.txt": b"new"})
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_bytes() == b"old"
