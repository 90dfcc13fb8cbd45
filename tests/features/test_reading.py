import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ordrank._types import BadPicture
from ordrank.errors import InputError, UnreadablePictureError
from ordrank.features import Pixels, ReadPicture, read_one, read_pictures, reading
from tests.features.painting import encode, paint, write_pictures


@dataclass(frozen=True)
class Fussy:
    """An extractor that treats dark pictures as it is told to."""

    dark: str
    name: str = "fussy"
    dim: int = 2
    fingerprint: str = "fussy"
    side: int = 8

    def extract(self, pictures):
        means = np.array([np.asarray(picture).mean() for picture in pictures])
        if (means < 5).any():
            if self.dark == "fail":
                raise KeyError("too dark")
            if self.dark == "unreadable":
                raise UnreadablePictureError("is night")
            if self.dark == "complain":
                raise InputError("the network is gone")
            if self.dark == "die":
                os._exit(1)
            if self.dark == "more":
                return np.zeros((len(pictures), 3))
        return np.stack([means, np.where(means < 5, np.inf, 1)], axis=1)


@pytest.fixture
def files(tmp_path):
    return write_pictures(tmp_path, 12)


@pytest.fixture
def with_dark(files):
    files[7][1].write_bytes(encode(Image.new("RGB", (50, 50))))
    return files


def reasons(read):
    return {item.name: item.reason for item in read if isinstance(item, BadPicture)}


class TestOneFile:
    def test_everything_that_is_known_about_it(self, tmp_path):
        path = tmp_path / "a.jpg"
        data = encode(paint(300, 200), "JPEG")
        path.write_bytes(data)
        read = read_one(path, Pixels(16))
        assert isinstance(read, ReadPicture)
        assert (read.name, read.size, read.width, read.height) == (str(path), len(data), 300, 200)
        assert read.sha256 == hashlib.sha256(data).hexdigest()
        assert read.mtime_ns == path.stat().st_mtime_ns
        assert (read.features.shape, read.features.dtype) == ((768,), np.float32)
        assert read.thumbnail.startswith(b"\xff\xd8")

    def test_it_is_read_as_among_many(self, files):
        for alone, (_, path) in zip(read_pictures(files, Pixels()), files, strict=True):
            again = read_one(path, Pixels())
            np.testing.assert_array_equal(alone.features, again.features)
            assert alone.thumbnail == again.thumbnail

    def test_a_refusal_names_it(self, tmp_path):
        (tmp_path / "empty.jpg").touch()
        with pytest.raises(UnreadablePictureError, match=r"empty\.jpg is empty$"):
            read_one(tmp_path / "empty.jpg", Pixels())


class TestBadFiles:
    def test_they_are_named_in_their_place(self, files, tmp_path):
        (tmp_path / "text.jpg").write_text("no picture")
        (tmp_path / "folder.jpg").mkdir()
        os.mkfifo(tmp_path / "pipe.jpg")
        (tmp_path / "link.jpg").symlink_to(tmp_path / "nowhere.jpg")
        with (tmp_path / "large.jpg").open("wb") as stream:
            stream.truncate(reading.MOST_BYTES + 1)
        names = ["text.jpg", "folder.jpg", "pipe.jpg", "link.jpg", "gone.jpg", "large.jpg"]
        read = list(read_pictures([*files[:3], *((name, tmp_path / name) for name in names), *files[3:]], Pixels()))
        assert [item.name for item in read] == [*(n for n, _ in files[:3]), *names, *(n for n, _ in files[3:])]
        assert reasons(read) == {
            "text.jpg": "is not a picture that can be read",
            "folder.jpg": "is not a regular file",
            "pipe.jpg": "is not a regular file",
            "link.jpg": "vanished before it was read",
            "gone.jpg": "vanished before it was read",
            "large.jpg": "has 512 million bytes, more than 512 million",
        }

    def test_a_pipe_that_took_the_place_of_a_file_does_not_hang(self, files, monkeypatch):
        path = files[0][1]
        status = os.stat(path)
        path.unlink()
        os.mkfifo(path)
        monkeypatch.setattr(reading.os, "stat", lambda _: status)
        assert reasons(read_pictures(files[:1], Pixels())) == {"000.jpg": "is not a regular file"}

    def test_no_permission(self, files, monkeypatch):
        def deny(*_):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(reading, "_open_without_waiting", deny)
        assert reasons(read_pictures(files[:1], Pixels())) == {"000.jpg": "cannot be read: permission denied"}

    def test_no_warning_of_pillow_gets_through(self, tmp_path, recwarn):
        path = tmp_path / "a.jpg"
        path.write_bytes(encode(paint(), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff"))
        read_one(path, Pixels())
        assert not recwarn.list


class TestBadFeatures:
    def test_one_failure_is_found_in_its_batch(self, with_dark):
        read = list(read_pictures(with_dark, Fussy("fail")))
        assert reasons(read) == {"007.jpg": "gives no features: 'too dark'"}
        assert [item.name for item in read] == [name for name, _ in with_dark]

    def test_an_extractor_may_refuse_a_picture(self, with_dark):
        assert reasons(read_pictures(with_dark, Fussy("unreadable"))) == {"007.jpg": "gives no features: is night"}

    def test_infinite_features(self, with_dark):
        expected = {"007.jpg": "gives features that are not finite numbers"}
        assert reasons(read_pictures(with_dark, Fussy("infinite"))) == expected

    def test_what_is_wrong_with_the_extractor_is_no_picture_s_fault(self, with_dark):
        with pytest.raises(InputError, match=r"^the network is gone$"):
            list(read_pictures(with_dark, Fussy("complain")))
        with pytest.raises(InputError, match=r"fussy are of shape \(12, 3\) instead of \(12, 2\)"):
            list(read_pictures(with_dark, Fussy("more")))


class TestMany:
    @pytest.fixture
    def many(self, tmp_path):
        files = write_pictures(tmp_path, 80, width=40, height=30)
        files[33][1].write_bytes(b"damage")
        return files

    def test_processes_give_what_one_process_gives(self, many):
        alone, together = (list(read_pictures(many, Pixels(), n_jobs=n)) for n in (1, 2))
        assert [item.name for item in together] == [name for name, _ in many]
        for a, b in zip(alone, together, strict=True):
            assert type(a) is type(b)
            if isinstance(a, ReadPicture):
                np.testing.assert_array_equal(a.features, b.features)
                assert (a.sha256, a.thumbnail, a.mtime_ns) == (b.sha256, b.thumbnail, b.mtime_ns)
        assert reasons(alone) == reasons(together) == {"033.jpg": "is not a picture that can be read"}

    def test_large_pictures_are_not_held_together(self, many, monkeypatch):
        expected = [item.features for item in read_pictures(many[:33], Pixels())]
        sizes = []
        extract = Pixels.extract
        monkeypatch.setattr(Pixels, "extract", lambda self, p: (sizes.append(len(p)), extract(self, p))[1])
        monkeypatch.setattr(reading, "_PIXELS_AT_ONCE", 5 * 40 * 30)
        np.testing.assert_array_equal([item.features for item in read_pictures(many[:33], Pixels())], expected)
        assert max(sizes) == 6

    def test_the_first_can_be_had_without_the_last(self, many, recwarn):
        stream = read_pictures(many, Pixels(), n_jobs=2)
        assert next(stream).name == "000.jpg"
        stream.close()
        assert not recwarn.list
        assert len(list(read_pictures(many, Pixels(), n_jobs=2))) == 80

    def test_a_process_that_dies_is_reported(self, many):
        many[70][1].write_bytes(encode(Image.new("RGB", (20, 20))))
        with pytest.raises(InputError, match="the same command goes on where it was"):
            list(read_pictures(many, Fussy("die"), n_jobs=2))

    def test_a_number_of_processes(self, many):
        with pytest.raises(InputError, match="n_jobs is 0"):
            list(read_pictures(many, Pixels(), n_jobs=0))

    def test_no_files_at_all(self):
        assert list(read_pictures([], Pixels())) == []


def test_workers_import_little():
    heavy = "{'sklearn', 'scipy', 'skimage', 'onnxruntime', 'PIL', 'joblib'}"
    script = f"import sys, ordrank.features.reading; print(sorted({heavy} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
    assert Path(reading.__file__).name == "reading.py"
