"""A folder with every kind of file that cannot be used."""

import json
import os
import shutil
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from ordrank.collection import fit as fitting
from tests.cli.running import document, done, failed, paint, run, write_folder


def png_with_header_size(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


STRANGE = "new\nline 'and' \"quotes\" \x1b[31m 🍏.png"


BAD = {
    "empty.jpg": "is empty",
    "cut.jpg": "is cut off",
    "checksum.png": "is damaged: a checksum is wrong",
    "text.jpg": "is not a picture that can be read",
    "bomb.png": "3600 million pixels",
    "pipe.png": "is not a regular file",
    "nowhere.png": "is a link to nothing",
    "itself.png": "is a link that leads back to itself",
    "back": "is a link that leads back to a folder above it",
    "q-copy.png": "has the same content as 'p000.png'",
    "vanishing.png": "vanished before it was read",
}


GOOD = ("dot.png", "wide.png", "cmyk.jpg", "deep.tif", "moving.gif", STRANGE)


def write_hostile(folder):
    write_folder(folder, table=folder.parent / "grades.csv")
    paint(1, 500).save(folder / "cut.jpg")
    whole = (folder / "cut.jpg").read_bytes()
    (folder / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    damaged = bytearray((folder / "p001.png").read_bytes())
    damaged[-20] ^= 1
    (folder / "checksum.png").write_bytes(damaged)
    (folder / "empty.jpg").touch()
    (folder / "text.jpg").write_text("no picture")
    (folder / "bomb.png").write_bytes(png_with_header_size(60000, 60000))
    os.mkfifo(folder / "pipe.png")
    (folder / "nowhere.png").symlink_to("gone.png")
    (folder / "itself.png").symlink_to("itself.png")
    (folder / "back").symlink_to(folder, target_is_directory=True)
    shutil.copy(folder / "p000.png", folder / "q-copy.png")
    paint(1, 501).save(folder / "vanishing.png")
    (folder / "notes.txt").write_text("ignored")
    write_odd_but_good(folder)


def write_odd_but_good(folder):
    Image.new("RGB", (1, 1), "red").save(folder / "dot.png")
    Image.new("RGB", (20000, 3), "blue").save(folder / "wide.png")
    paint(2, 502).convert("CMYK").save(folder / "cmyk.jpg")
    Image.fromarray((np.arange(400, dtype=np.uint16) * 160).reshape(20, 20)).save(folder / "deep.tif")
    paint(0, 503).save(folder / "moving.gif", save_all=True, append_images=[paint(2, 504)])
    paint(0, 505).save(folder / STRANGE)


class TestHostileFolder:
    @pytest.fixture
    def fit(self, tmp_path, monkeypatch):
        """Return a function that fits such a folder, of which one file is deleted after it was listed."""
        write_hostile(tmp_path / "folder")

        def vanishing(directory):
            listing = list_pictures(directory)
            (directory / "vanishing.png").unlink(missing_ok=True)
            return listing

        list_pictures = fitting.list_pictures
        monkeypatch.setattr(fitting, "list_pictures", vanishing)
        options = ("--labels", tmp_path / "grades.csv", "--features", "pixels:8", "--out", tmp_path / "out")
        return lambda *more: run("fit", tmp_path / "folder", *options, *more)

    def test_bad_files_are_reported_with_reasons_and_the_others_are_used(self, fit, tmp_path):
        result = fit()
        assert result.exit_code == 0
        lines = [line for line in result.stderr.splitlines() if not line.endswith("…")]
        assert len(lines) == len(BAD)
        for name, reason in BAD.items():
            assert any(line.startswith(f"{name}: ") and reason in line for line in lines), name
        printed = " ".join(result.stdout.split())
        assert "1 copy of another, 10 could not be used, 1 ignored (no suffix of a picture)" in printed
        assert document("info", tmp_path / "out")["pictures"] == 36 + len(GOOD)

    def test_control_characters_in_names_are_escaped(self, fit, tmp_path):
        assert fit("--json").exit_code == 0
        text = done("rank", tmp_path / "out", STRANGE, "-k", "50")
        assert "new\\nline" in text
        assert "\x1b[31m" not in text
        assert document("rank", tmp_path / "out", STRANGE)["results"][0]["query"] == STRANGE

    def test_json_lists_all_bad_files(self, fit):
        result = fit("--json")
        assert result.exit_code == 0
        found = json.loads(result.stdout)
        assert {bad["name"] for bad in found["imported"]["bad"]} == set(BAD)
        assert result.stderr == ""

    def test_strict_fails_and_lists_all_bad_files(self, fit, tmp_path):
        result = fit("--strict")
        assert result.exit_code == 1
        assert result.stdout == ""
        assert result.stderr.splitlines()[-1] == "ordrank: 10 files cannot be used"
        for name in BAD:
            assert (f"{name}: " in result.stderr) == (name != "q-copy.png")  # nothing is lost without a copy
        assert "no model yet" in failed("rank", tmp_path / "out", "p000.png")
        assert fit().exit_code == 0  # resumes

    def test_folder_without_readable_files_creates_no_collection(self, tmp_path):
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "a.jpg").touch()
        (tmp_path / "folder" / "b.jpg").touch()
        (tmp_path / "grades.csv").write_text("file,grade\na.jpg,1\nb.jpg,2\n")
        options = ("--labels", tmp_path / "grades.csv", "--out", tmp_path / "out")
        assert "none of the files could be read" in failed("fit", tmp_path / "folder", *options)
        assert not (tmp_path / "out").exists()

    def test_long_list_of_bad_files_is_truncated(self, collection, tmp_path):
        (tmp_path / "folder").mkdir()
        for i in range(60):
            (tmp_path / "folder" / f"{i}.jpg").touch()
        lines = run("add", collection, tmp_path / "folder").stderr.splitlines()
        assert lines[-1] == "… and 10 more"
        assert len(document("add", collection, tmp_path / "folder")["bad"]) == 60
        strict = failed("add", collection, tmp_path / "folder", "--strict", "--json").splitlines()
        assert len(strict) == 61
