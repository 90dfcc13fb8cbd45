"""The cache: files are made once, checked on every use, and whole or absent."""

import os
import sys
from pathlib import Path

import pytest

from ordrank.features.cache import cache_directory, cached


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("ORDRANK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Maker:
    """Counts how often the content is made."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return b"content"


@pytest.fixture
def make():
    return Maker()


def test_content_is_made_once(directory, make):
    assert [cached("net.onnx", "source", make) for _ in range(3)] == [b"content"] * 3
    assert make.calls == 1
    assert {file.name for file in directory.iterdir()} == {"net.onnx", "net.onnx.json"}


@pytest.mark.parametrize("name", ["net.onnx", "net.onnx.json"])
@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: b"", lambda content: b"[1]", None])
def test_damaged_files_are_made_again(directory, make, name, damage):
    cached("net.onnx", "source", make)
    file = directory / name
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    assert cached("net.onnx", "source", make) == b"content"
    assert cached("net.onnx", "source", make) == b"content"
    assert make.calls == 2


def test_content_from_another_source_is_made_again(directory, make):
    for source in ("first", "second", "second"):
        cached("net.onnx", source, make)
    assert make.calls == 2


def test_failure_leaves_nothing(directory):
    with pytest.raises(ZeroDivisionError):
        cached("net.onnx", "source", lambda: 1 // 0)
    assert not directory.exists()


def test_works_without_a_place_to_write(directory, make):
    directory.write_text("a file, so that no directory can be made")
    assert cached("net.onnx", "source", make) == b"content"
    assert directory.read_text().startswith("a file")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="permissions do not bind this user")
def test_works_without_permission_to_write(directory, make):
    directory.mkdir()
    directory.chmod(0o500)
    assert cached("net.onnx", "source", make) == b"content"
    assert not list(directory.iterdir())


def test_full_disk_leaves_nothing_behind(directory, make, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert cached("net.onnx", "source", make) == b"content"
    assert not list(directory.iterdir())


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "home/.cache/ordrank"),
        ("linux", {"XDG_CACHE_HOME": "/there"}, "/there/ordrank"),
        ("linux", {"XDG_CACHE_HOME": "not/absolute"}, "home/.cache/ordrank"),
        ("darwin", {"XDG_CACHE_HOME": "/there"}, "home/Library/Caches/ordrank"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/ordrank/Cache"),
        ("win32", {}, "home/AppData/Local/ordrank/Cache"),
        ("darwin", {"ORDRANK_CACHE": "/chosen"}, "/chosen"),
    ],
)
def test_the_directory_is_the_customary_one(monkeypatch, tmp_path, platform, variables, expected):
    for name in ("ORDRANK_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.platform", platform)
    assert cache_directory() == (Path(expected) if expected.startswith("/") else tmp_path / expected)
