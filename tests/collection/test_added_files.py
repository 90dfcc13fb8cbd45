"""Pictures that are added one by one from memory, and the files behind the pictures of a collection."""

import errno
import io
import os
import sqlite3
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ordrank import Collection
from ordrank.collection import added_files
from ordrank.collection.access import write_store
from ordrank.collection.added_files import safe_name
from ordrank.errors import (
    AccessDeniedError,
    CollectionError,
    DiskFullError,
    InputError,
    PictureTooLargeError,
    UnknownError,
    UnreadablePictureError,
)
from tests.collection.pictures import draw, files, names, rows
from tests.web.requests import png


@pytest.fixture
def collection(trained):
    with Collection.open(trained) as collection:
        yield collection


def new(number=77):
    return png(draw(number))


class TestAdding:
    def test_an_added_picture_is_like_any_other(self, collection):
        number, is_new = collection.files.add(new(), "ward 3/scan.png")
        assert is_new
        added = collection.picture(number)
        assert (added.name, added.grade, added.estimate) == ("ward 3/scan.png", None, str(77 % 3))
        (hit,) = collection.rank(number, k=1).hits
        assert hit.name != added.name
        collection.grade(number, 2)
        assert collection.fit().graded == 31
        assert (collection.directory / "pictures" / "ward 3" / "scan.png").read_bytes() == new()

    def test_the_same_content_is_kept_once(self, collection, drawn):
        number, _ = collection.files.add(new(), "a.png")
        assert collection.files.add(new(), "b.png") == (number, False)
        known = (drawn / "pictures" / "005.png").read_bytes()
        assert collection.files.add(known, "copy.png") == (collection.picture("005.png").id, False)
        assert len(names(collection.directory)) == 41

    def test_a_taken_name_gets_a_number(self, collection):
        found = [collection.picture(collection.files.add(new(77 + i), "005.png")[0]).name for i in range(2)]
        assert found == ["005 (2).png", "005 (3).png"]

    @pytest.mark.parametrize("data", [b"", b"no picture", new()[:200]])
    def test_what_is_no_picture_leaves_nothing(self, collection, data):
        before = files(collection.directory)
        with pytest.raises(UnreadablePictureError):
            collection.files.add(data, "a.png")
        assert len(names(collection.directory)) == 40
        assert not list(collection.directory.glob("pictures/*"))
        assert files(collection.directory) - {"pictures"} == before

    def test_before_the_first_training_it_is_not_embedded(self, drawn, tmp_path):
        with Collection.create_ungraded(tmp_path / "c", drawn / "pictures", features="pixels:4", n_jobs=1) as made:
            number, is_new = made.files.add(new(), "a.png")
            assert (is_new, made.picture(number).estimate) == (True, None)

    def test_while_others_write_it_says_so(self, collection, monkeypatch):
        monkeypatch.setattr("ordrank.collection.added_files._TIMEOUT", 0.1)
        with write_store(collection.directory), pytest.raises(CollectionError):
            collection.files.add(new(), "a.png")

    def test_after_waiting_for_a_training_it_has_the_new_model(self, collection, monkeypatch):
        @contextmanager
        def write_after_training(*arguments, **options):
            with Collection.open(collection.directory) as other:
                other.grade("005.png", 0)
                other.fit(n_jobs=1)
            with write_store(*arguments, **options) as store:
                yield store

        before = collection.model_name
        monkeypatch.setattr(added_files, "write_store", write_after_training)
        number, is_new = collection.files.add(new(), "a.png")
        assert is_new
        assert collection.model_name != before
        assert collection.picture(number).estimate == str(77 % 3)

    def test_a_picture_with_too_many_pixels_is_told_from_a_damaged_one(self, collection, monkeypatch):
        monkeypatch.setattr("ordrank.features.pictures.MAX_PIXELS", 10)
        with pytest.raises(PictureTooLargeError):
            collection.files.add(new(), "a.png")

    def test_its_path_is_stored_with_slashes(self, collection):
        collection.files.add(new(), "ward/a.png")
        assert rows(collection.directory, "SELECT path FROM pictures WHERE id = 41") == [("pictures/ward/a.png",)]

    def test_its_file_counts_as_part_of_the_collection(self, collection):
        before, data = collection.info().bytes, new()
        collection.files.add(data, "ward/a.png")
        assert collection.info().bytes >= before + len(data)
        (collection.directory / "pictures" / "ward" / "a.png").write_bytes(b"")
        files = sum(file.stat().st_size for file in collection.directory.iterdir() if file.is_file())
        assert collection.info().bytes == files + len(data)

    def test_a_moved_collection_takes_its_files_along(self, collection, tmp_path):
        number, _ = collection.files.add(new(), "a.png")
        with Collection.open(collection.directory.rename(tmp_path / "elsewhere")) as moved:
            assert Image.open(io.BytesIO(moved.files.large_version(number, 24))).size == (24, 24)

    def test_removal_deletes_added_files_and_no_others(self, collection, drawn):
        collection.files.add(new(), "a.png")
        collection.remove(["a.png", "005.png"])
        assert not (collection.directory / "pictures" / "a.png").exists()
        assert (drawn / "pictures" / "005.png").exists()

    def test_removal_deletes_the_file_of_that_picture_only(self, collection):
        first, _ = collection.files.add(new(77), "a.png")
        second, _ = collection.files.add(new(78), "b.png")
        with write_store(collection.directory) as store, store.transaction() as cursor:
            cursor.execute("UPDATE pictures SET name = 'x.png' WHERE id = ?", [first])
            cursor.execute("UPDATE pictures SET name = 'a.png' WHERE id = ?", [second])
        collection.remove(["a.png"])
        assert {path.name for path in (collection.directory / "pictures").iterdir()} == {"a.png"}

    def test_a_picture_of_the_same_name_from_a_folder_does_not_replace_it(self, collection, tmp_path):
        number, _ = collection.files.add(new(77), "a.png")
        draw(78).save(tmp_path / "a.png")
        for import_from in (collection.fit, collection.add):
            import_from(tmp_path / "a.png", n_jobs=1)
            assert collection.files.large_version(number, 24)
            assert collection.picture("a.png").id == number
            assert len(names(collection.directory)) == 41

    def test_a_copy_of_its_file_in_a_folder_does_not_take_its_place(self, collection, tmp_path):
        number, _ = collection.files.add(new(77), "a.png")
        (tmp_path / "a.png").write_bytes(new(77))
        collection.fit(tmp_path / "a.png", n_jobs=1)
        (tmp_path / "a.png").unlink()
        assert collection.files.large_version(number, 24)
        collection.remove([number])
        assert not list((collection.directory / "pictures").iterdir())

    def test_added_pictures_are_not_missing_in_a_folder(self, collection, pictures):
        collection.files.add(new(77), "a.png")
        (pictures / "005.png").unlink()
        assert collection.fit(pictures, n_jobs=1).imported.missing == 1

    def test_its_own_files_are_not_added_again(self, collection):
        collection.files.add(new(77), "a.png")
        with pytest.raises(InputError, match="keep the collection apart"):
            collection.add(collection.directory / "pictures")

    def test_a_picture_is_added_where_nobody_has_a_grade_left(self, collection, tmp_path):
        graded = [picture.id for picture in collection.pictures(given=True, limit=100).items]
        collection.labeling.grade(graded, None)
        number, _ = collection.files.add(new(77), "a.png")
        assert collection.picture(number).estimate is None
        draw(78).save(tmp_path / "b.png")
        assert collection.add(tmp_path / "b.png", n_jobs=1).read == 1
        with pytest.raises(InputError):
            collection.rank(number)
        collection.labeling.grade(graded, 1)
        assert collection.rank(number).hits[0].grade == "1"

    def test_a_crafted_path_deletes_nothing_outside(self, collection):
        number, _ = collection.files.add(new(77), "a.png")
        with write_store(collection.directory) as store, store.transaction() as cursor:
            cursor.execute("UPDATE pictures SET path = 'pictures/../collection.sqlite' WHERE id = ?", [number])
        collection.remove(["a.png"])
        assert (collection.directory / "collection.sqlite").exists()

    @pytest.mark.parametrize(
        "name",
        ["\u6843" * 300 + ".png", "x" * 300, "a/" * 300 + "b.png", "é" * 150 + "/" + "é" * 150 + ".jpeg", " . /.. /x."],
    )
    def test_a_picture_of_any_name_is_kept(self, collection, name):
        number, _ = collection.files.add(new(), name)
        assert collection.files.add(new(78), name)[1]
        assert collection.files.large_version(number, 24)

    def test_a_folder_with_the_name_of_a_file_is_not_needed(self, collection):
        collection.files.add(new(77), "ward")
        number, _ = collection.files.add(new(78), "ward/a.png")
        assert collection.picture(number).name == "ward_a.png"

    @given(name=st.text(st.characters(codec="utf-8"), max_size=300))
    def test_no_name_leaves_the_folder(self, name):
        parts = safe_name(name).split("/")
        assert len(parts) <= 8
        assert all(part and part == part.strip(" .") and len(part.encode()) <= 200 for part in parts)
        assert not set("\\:<>|?*\0") & set("".join(parts))


class TestFailures:
    """What cannot be written or deleted is said, and nothing is half done."""

    def fail_to_write(self, monkeypatch, number):
        def replace(self, target):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(Path, "replace", replace)

    @pytest.mark.parametrize(
        ("number", "kind"),
        [
            (errno.ENOSPC, DiskFullError),
            (errno.EACCES, AccessDeniedError),
            (errno.EROFS, AccessDeniedError),
            (errno.EIO, CollectionError),
        ],
    )
    def test_a_file_that_cannot_be_written_is_not_added(self, collection, monkeypatch, number, kind):
        with monkeypatch.context() as patched:
            self.fail_to_write(patched, number)
            with pytest.raises(CollectionError) as error:
                collection.files.add(new(), "a.png")
        assert type(error.value) is kind
        assert not [path for path in collection.directory.rglob("*a.png*") if path.is_file()]
        assert len(names(collection.directory)) == 40
        assert collection.files.add(new(), "a.png")[1]

    def test_a_folder_that_cannot_be_opened_is_named(self, collection):
        (collection.directory / "pictures").write_text("a file")
        with pytest.raises(CollectionError, match="pictures cannot be written"):
            collection.files.add(new(), "ward/a.png")

    def test_a_database_on_a_full_disk_gets_no_picture(self, collection, monkeypatch):
        full = sqlite3.OperationalError("database or disk is full")
        full.sqlite_errorcode = sqlite3.SQLITE_FULL

        def add_rows(*arguments):
            raise full

        monkeypatch.setattr(added_files, "add_rows", add_rows)
        with pytest.raises(DiskFullError):
            collection.files.add(new(), "a.png")
        assert not list((collection.directory / "pictures").iterdir())

    def test_nothing_is_removed_from_a_folder_that_is_not_writable(self, collection, monkeypatch):
        number, _ = collection.files.add(new(), "a.png")
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        with pytest.raises(AccessDeniedError, match="nothing was removed"):
            collection.remove([number, "005.png"])
        assert {"a.png", "005.png"} <= names(collection.directory)
        assert collection.remove(["005.png"]).removed == 1  # its file stays where it is

    def test_files_that_cannot_be_deleted_are_named_and_all_others_are_deleted(self, collection, monkeypatch):
        collection.files.add(new(77), "a.png")
        collection.files.add(new(78), "b.png")
        unlink = Path.unlink

        def fail_for_one(self, missing_ok=False):
            if self.name == "a.png":
                raise OSError(errno.EBUSY, "it is busy")
            unlink(self, missing_ok=missing_ok)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", fail_for_one)
            with pytest.raises(CollectionError, match=r"1 file could not .*a.png \(it is"):
                collection.remove(["a.png", "b.png"])
        assert [path.name for path in (collection.directory / "pictures").iterdir()] == ["a.png"]
        assert not {"a.png", "b.png"} & names(collection.directory)


class TestOriginals:
    def test_a_large_version_has_the_asked_size_and_no_metadata(self, collection, tmp_path):
        picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (90, 60, 3), dtype=np.uint8))
        exif = Image.Exif()
        exif[0x010F] = "secret camera"
        stream = io.BytesIO()
        picture.save(stream, "JPEG", exif=exif)
        number, _ = collection.files.add(stream.getvalue(), "photo.jpg")
        for side, size in ((30, (20, 30)), (500, (60, 90))):
            content = collection.files.large_version(number, side)
            assert Image.open(io.BytesIO(content)).size == size
            assert b"secret" not in content

    def test_a_changed_file_is_not_shown(self, collection, pictures):
        (pictures / "005.png").write_bytes(b"other")
        with pytest.raises(UnknownError, match=r"005.png has changed"):
            collection.files.large_version(6, 100)

    def test_a_missing_file_is_named(self, collection, pictures):
        (pictures / "005.png").unlink()
        with pytest.raises(UnknownError, match=r"005.png"):
            collection.files.large_version(6, 100)

    def test_a_database_that_names_another_file_reveals_nothing(self, collection, tmp_path):
        (tmp_path / "secret.txt").write_text("secret")
        with write_store(collection.directory) as store, store.transaction() as cursor:
            cursor.execute("UPDATE pictures SET path = ? WHERE id = 6", [str(tmp_path / "secret.txt")])
        with pytest.raises(UnknownError):
            collection.files.large_version(6, 100)
        archive = zipfile.ZipFile(io.BytesIO(b"".join(collection.files.zip([6]))))
        assert archive.namelist() == ["missing.txt"]
        assert b"secret\n" not in archive.read("missing.txt")

    def test_files_are_copied_to_an_archive_and_missing_ones_listed(self, collection, pictures):
        (pictures / "006.png").unlink()
        archive = zipfile.ZipFile(io.BytesIO(b"".join(collection.files.zip([6, 7, 8, 6]))))
        assert archive.testzip() is None
        assert archive.namelist() == ["005.png", "007.png", "missing.txt"]
        assert archive.read("005.png") == (pictures / "005.png").read_bytes()
        assert b"006.png" in archive.read("missing.txt")

    @pytest.mark.parametrize(
        ("name", "inside"),
        [
            ("../../etc/passwd", "etc/passwd"),
            ("/etc/passwd", "etc/passwd"),
            (r"\\server\share\a.png", "server/share/a.png"),
            (r"C:\a.png", "C_/a.png"),
            ("C:a.png", "C_a.png"),
            ("//server/a.png", "server/a.png"),
            ("missing.txt", "missing (2).txt"),
        ],
    )
    def test_names_in_an_archive_stay_inside_its_folder(self, collection, name, inside):
        with write_store(collection.directory) as store, store.transaction() as cursor:
            cursor.execute("UPDATE pictures SET name = ? WHERE id = 6", [name])
        archive = zipfile.ZipFile(io.BytesIO(b"".join(collection.files.zip([6]))))
        assert archive.namelist() == [inside]

    def test_no_file_of_an_archive_takes_the_place_of_another(self, collection):
        with write_store(collection.directory) as store, store.transaction() as cursor:
            for picture, name in ((6, "a:b.png"), (7, "a_b.png"), (8, "a?b.png")):
                cursor.execute("UPDATE pictures SET name = ? WHERE id = ?", [name, picture])
        archive = zipfile.ZipFile(io.BytesIO(b"".join(collection.files.zip([6, 7, 8]))))
        assert archive.namelist() == ["a_b.png", "a_b (2).png", "a_b (3).png"]
