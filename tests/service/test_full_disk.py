"""A disk without room: a sentence, and nothing lost of what was kept before."""

import os
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from ordrank import service
from ordrank.cli import app
from ordrank.collection.database import is_collection
from ordrank.errors import CollectionError
from tests.service.drawing import content, draw_files, names, rows
from tests.service.processes import Child, call, limit_files, with_largest_file

KB = 1024
TIDY = {"collection.sqlite", "writer.lock"}


def refusal(function, *arguments, **options):
    """The sentence with which a process refuses, or None if it does its work."""
    outcome = Child(function, *arguments, **options).end()
    return outcome[2] if outcome[0] == "refused" else None


def left_behind(collection):
    """Files that nobody will use."""
    there = {path.name for path in collection.iterdir()} if collection.exists() else set()
    model = rows(collection, "SELECT value FROM meta WHERE key = 'model'") if is_collection(collection) else []
    used = {f"{name}{suffix}" for (name,) in model for suffix in (".json", ".safetensors")}
    return {name for name in there - TIDY - used if not name.startswith("collection.sqlite-")}


def how_to_fit(drawn, collection):
    """Arguments and options."""
    options = {"grades": service.Grades(drawn / "grades.csv"), "features": "pixels:8", "n_jobs": 1}
    return ("fit", drawn / "pictures", collection), options


@pytest.fixture(scope="module")
def undisturbed(drawn, tmp_path_factory):
    collection = tmp_path_factory.mktemp("undisturbed") / "collection"
    arguments, options = how_to_fit(drawn, collection)
    assert refusal(call, *arguments, **options) is None
    return collection


class TestLargestFile:
    # Room for nothing, for a part of the lock, the tables, the pictures, the arrays of the model, the places.
    @pytest.mark.parametrize("size", [0, 8 * KB, 20 * KB, 40 * KB, 80 * KB])
    def test_a_fit_is_refused_and_finishes_when_there_is_room(self, drawn, undisturbed, tmp_path, size):
        collection = tmp_path / "collection"
        arguments, options = how_to_fit(drawn, collection)
        assert refusal(with_largest_file, size, *arguments, **options)
        assert left_behind(collection) == set()
        if is_collection(collection):
            assert rows(collection, "PRAGMA integrity_check") == [("ok",)]
            with pytest.raises(CollectionError, match="has no model yet"):
                service.ask(collection, ["000.png"])
        assert refusal(call, *arguments, **options) is None
        assert content(collection) == content(undisturbed)

    @pytest.mark.parametrize("size", [0, 4 * KB, 20 * KB, 60 * KB])
    def test_a_retraining_is_refused_and_the_old_model_stays(self, trained, tmp_path, size):
        before, answer = content(trained), service.ask(trained, ["005.png"])
        new = draw_files(tmp_path / "new", range(50, 60))
        assert refusal(with_largest_file, size, "fit", tmp_path / "new", trained, n_jobs=1)
        assert left_behind(trained) == set()
        assert names(trained) - set(new) == {row[1] for row in before["pictures"]}
        assert service.ask(trained, ["005.png"]) == answer
        assert refusal(call, "fit", tmp_path / "new", trained, n_jobs=1) is None
        assert names(trained) >= set(new)

    @pytest.mark.parametrize("size", [0, 4 * KB, 20 * KB, 60 * KB])
    def test_an_add_is_refused_and_all_is_as_before(self, trained, tmp_path, size):
        before = content(trained)
        new = draw_files(tmp_path / "new", range(50, 70))
        assert refusal(with_largest_file, size, "add", trained, tmp_path / "new", n_jobs=1)
        assert left_behind(trained) == set()
        assert content(trained) == before
        assert refusal(call, "add", trained, tmp_path / "new", n_jobs=1) is None
        assert names(trained) >= set(new)

    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    @pytest.mark.parametrize("size", [0, 1 * KB])
    def test_an_export_is_refused_and_the_old_file_stays(self, trained, tmp_path, suffix, size):
        out = tmp_path / f"out{suffix}"
        out.write_text("old")
        assert refusal(with_largest_file, size, "export", trained, out)
        assert out.read_text() == "old"
        assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == [out.name]


class TestFullFileSystem:
    @pytest.fixture
    def disk(self, tmp_path):
        """A small disk of its own."""
        directory = tmp_path / "disk"
        directory.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=640k", "tmpfs", str(directory)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("a file system of its own cannot be mounted here")
        yield directory
        subprocess.run(["umount", "-l", str(directory)], check=True)

    @staticmethod
    def fill(disk, leave):
        """Take all room but so many bytes."""
        ballast = disk / "ballast"
        room = os.statvfs(disk)
        ballast.write_bytes(bytes(max(0, room.f_bavail * room.f_frsize - leave)))
        return ballast

    @pytest.mark.parametrize("leave", [0, 16 * KB, 48 * KB, 160 * KB])
    def test_a_fit_is_refused_and_finishes_when_there_is_room(self, drawn, disk, leave):
        collection = disk / "collection"
        arguments, options = how_to_fit(drawn, collection)
        ballast = self.fill(disk, leave)
        assert refusal(call, *arguments, **options)
        assert left_behind(collection) == set()
        ballast.unlink()
        if is_collection(collection):
            assert rows(collection, "PRAGMA integrity_check") == [("ok",)]
        assert refusal(call, *arguments, **options) is None
        assert service.describe(collection).pictures == 40

    @pytest.mark.parametrize("leave", [0, 8 * KB, 40 * KB])
    def test_what_is_there_can_be_read_while_nothing_can_be_written(self, trained, tmp_path, disk, leave):
        collection = shutil.copytree(trained, disk / "collection")
        answer = service.ask(collection, ["005.png"])
        ballast = self.fill(disk, leave)
        draw_files(tmp_path / "new", range(50, 90))
        assert refusal(call, "add", collection, tmp_path / "new", n_jobs=1)
        assert service.ask(collection, ["005.png"]) == answer
        assert service.describe(collection).pictures == 40
        ballast.unlink()
        assert refusal(call, "add", collection, tmp_path / "new", n_jobs=1) is None
        assert service.describe(collection).pictures == 80

    def test_a_full_disk_is_named(self, trained, disk, tmp_path):
        collection = shutil.copytree(trained, disk / "collection")
        self.fill(disk, 0)
        draw_files(tmp_path / "new", [50])
        assert "full; make room and give the same command again" in refusal(
            call, "add", collection, tmp_path / "new", n_jobs=1
        )
        for suffix in (".csv", ".parquet"):
            assert "No space left" in refusal(call, "export", collection, disk / f"out{suffix}")
        assert {path.name for path in disk.iterdir()} == {"ballast", "collection"}


class TestCommandLine:
    @pytest.mark.parametrize("size", [0, 8 * KB, 40 * KB])
    def test_it_says_a_sentence_and_ends_with_one(self, drawn, tmp_path, size):
        command = ["fit", drawn / "pictures", "--labels", drawn / "grades.csv", "--out", tmp_path / "collection"]
        done, (code, said) = Child(command_line, size, *map(str, command), "--jobs", "1").end()
        assert (done, code) == ("done", 1)
        assert said.splitlines()[-1].startswith("ordrank: ")
        assert "Traceback" not in said


def command_line(pipe, size, *command):
    limit_files(size)
    result = CliRunner().invoke(app, command)
    return result.exit_code, result.output
