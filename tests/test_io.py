import pytest

from ordrank._io import write_files


def test_files_are_written_completely_or_not_at_all(tmp_path, monkeypatch):
    write_files(tmp_path, {"a.txt": b"old"})

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_files(tmp_path, {"a.txt": b"new", "b.txt": b"new"})
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_bytes() == b"old"
