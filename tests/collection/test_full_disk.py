"""A full disk gives an error message and loses no stored data."""

import os
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from ordrank.cli import app
from ordrank.collection.database import is_collection
from ordrank.errors import CollectionError
from tests.collection.commands import export, info, rank
from tests.collection.pictures import content, draw_files, names, rows
from tests.collection.processes import Child, call, limit_files, with_largest_file

KB = 1024
DATABASE_FILES = {"collection.sqlite", "writer.lock"}


def error_message(function, *arguments, **options):
    """Return the error message of a child process, or None if it succeeds."""
    outcome = Child(function, *arguments, **options).end()
    return outcome[2] if outcome[0] == "failed" else None


def leftovers(collection):
    """Return the files that belong to no collection or model."""
    found = {path.name for path in collection.iterdir()} if collection.exists() else set()
    model = rows(collection, "SELECT value FROM meta WHERE key = 'model'") if is_collection(collection) else []
    used = {f"{name}{suffix}" for (name,) in model for suffix in (".json", ".safetensors")}
    return {name for name in found - DATABASE_FILES - used if not name.startswith("collection.sqlite-")}


def fit_call(drawn, collection):
    """Return the arguments and options of a fit."""
    options = {"labels": drawn / "grades.csv", "features": "pixels:8", "n_jobs": 1}
    return ("fit", drawn / "pictures", collection), options


@pytest.fixture(scope="module")
def undisturbed(drawn, tmp_path_factory):
    collection = tmp_path_factory.mktemp("undisturbed") / "collection"
    arguments, options = fit_call(drawn, collection)
    assert error_message(call, *arguments, **options) is None
    return collection


class TestLargestFile:
    # The limit is reached at once, or in the lock, the tables, the pictures, the model or the embeddings.
    @pytest.mark.parametrize("size", [0, 8 * KB, 20 * KB, 40 * KB, 80 * KB])
    def test_fit_fails_and_finishes_once_space_is_free(self, drawn, undisturbed, tmp_path, size):
        collection = tmp_path / "collection"
        arguments, options = fit_call(drawn, collection)
        assert error_message(with_largest_file, size, *arguments, **options)
        assert leftovers(collection) == set()
        if is_collection(collection):
            assert rows(collection, "PRAGMA integrity_check") == [("ok",)]
            with pytest.raises(CollectionError, match="has no model yet"):
                rank(collection, ["000.png"])
        assert error_message(call, *arguments, **options) is None
        assert content(collection) == content(undisturbed)

    @pytest.mark.parametrize("size", [0, 4 * KB, 20 * KB, 60 * KB])
    def test_retraining_fails_and_keeps_the_old_model(self, trained, tmp_path, size):
        before, result = content(trained), rank(trained, ["005.png"])
        new = draw_files(tmp_path / "new", range(50, 60))
        assert error_message(with_largest_file, size, "fit", tmp_path / "new", trained, n_jobs=1)
        assert leftovers(trained) == set()
        assert names(trained) - set(new) == {row[1] for row in before["pictures"]}
        assert rank(trained, ["005.png"]) == result
        assert error_message(call, "fit", tmp_path / "new", trained, n_jobs=1) is None
        assert names(trained) >= set(new)

    @pytest.mark.parametrize("size", [0, 4 * KB, 20 * KB, 60 * KB])
    def test_add_fails_and_changes_nothing(self, trained, tmp_path, size):
        before = content(trained)
        new = draw_files(tmp_path / "new", range(50, 70))
        assert error_message(with_largest_file, size, "add", trained, tmp_path / "new", n_jobs=1)
        assert leftovers(trained) == set()
        assert content(trained) == before
        assert error_message(call, "add", trained, tmp_path / "new", n_jobs=1) is None
        assert names(trained) >= set(new)

    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    @pytest.mark.parametrize("size", [0, 1 * KB])
    def test_export_fails_and_keeps_the_old_file(self, trained, tmp_path, suffix, size):
        out = tmp_path / f"out{suffix}"
        export(trained, out)
        old = out.read_bytes()
        assert error_message(with_largest_file, size, "export", trained, out)
        assert out.read_bytes() == old
        assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == [out.name]


class TestFullFileSystem:
    @pytest.fixture
    def disk(self, tmp_path):
        """Mount a small file system; return its directory."""
        directory = tmp_path / "disk"
        directory.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=1024k", "tmpfs", str(directory)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("no file system can be mounted here")
        yield directory
        subprocess.run(["umount", "-l", str(directory)], check=True)

    @staticmethod
    def fill(disk, free):
        """Fill the disk up to the given number of free bytes."""
        filler = disk / "filler"
        space = os.statvfs(disk)
        filler.write_bytes(bytes(max(0, space.f_bavail * space.f_frsize - free)))
        return filler

    @pytest.mark.parametrize("free", [0, 16 * KB, 48 * KB, 160 * KB])
    def test_fit_fails_and_finishes_once_space_is_free(self, drawn, disk, free):
        collection = disk / "collection"
        arguments, options = fit_call(drawn, collection)
        filler = self.fill(disk, free)
        assert error_message(call, *arguments, **options)
        assert leftovers(collection) == set()
        filler.unlink()
        if is_collection(collection):
            assert rows(collection, "PRAGMA integrity_check") == [("ok",)]
        assert error_message(call, *arguments, **options) is None
        assert info(collection).pictures == 40

    @pytest.mark.parametrize("free", [0, 8 * KB, 40 * KB])
    def test_collection_on_a_full_disk_can_be_read(self, trained, tmp_path, disk, free):
        collection = shutil.copytree(trained, disk / "collection")
        result = rank(collection, ["005.png"])
        filler = self.fill(disk, free)
        draw_files(tmp_path / "new", range(50, 90))
        assert error_message(call, "add", collection, tmp_path / "new", n_jobs=1)
        assert rank(collection, ["005.png"]) == result
        assert info(collection).pictures == 40
        filler.unlink()
        assert error_message(call, "add", collection, tmp_path / "new", n_jobs=1) is None
        assert info(collection).pictures == 80

    def test_error_names_the_full_disk(self, trained, disk, tmp_path):
        collection = shutil.copytree(trained, disk / "collection")
        self.fill(disk, 0)
        draw_files(tmp_path / "new", [50])
        assert "full; free some space and run the same command again" in error_message(
            call, "add", collection, tmp_path / "new", n_jobs=1
        )
        for suffix in (".csv", ".parquet"):
            assert "No space left" in error_message(call, "export", collection, disk / f"out{suffix}")
        assert {path.name for path in disk.iterdir()} == {"filler", "collection"}


class TestCommandLine:
    @pytest.mark.parametrize("size", [0, 8 * KB, 40 * KB])
    def test_full_disk_exits_with_1_and_one_sentence(self, drawn, tmp_path, size):
        command = ["fit", drawn / "pictures", "--labels", drawn / "grades.csv", "--out", tmp_path / "collection"]
        done, (code, output) = Child(command_line, size, *map(str, command), "--jobs", "1").end()
        assert (done, code) == ("done", 1)
        assert output.splitlines()[-1].startswith("ordrank: ")
        assert "Traceback" not in output


def command_line(pipe, size, *command):
    limit_files(size)
    result = CliRunner().invoke(app, command)
    return result.exit_code, result.output
