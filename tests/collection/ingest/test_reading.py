import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image

from ordrank.collection.ingest import reading
from ordrank.collection.ingest.reading import ReadPicture, read_content, read_pictures
from ordrank.collection.types import BadPicture
from ordrank.errors import InputError, UnreadablePictureError
from ordrank.features import Pixels
from tests.features.painting import encode, paint, write_pictures


@dataclass(frozen=True)
class DarkSensitive:
    """An extractor that fails on dark pictures, in a selectable way."""

    dark: str
    name: str = "dark-sensitive"
    dim: int = 2
    fingerprint: str = "dark-sensitive"
    side: int = 8

    def extract(self, pictures):
        means = np.array([np.asarray(picture).mean() for picture in pictures])
        if (means < 5).any():
            if self.dark == "fail":
                raise KeyError("too dark")
            if self.dark == "unreadable":
                raise UnreadablePictureError("is night")
            if self.dark == "input error":
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


class TestQuery:
    @pytest.fixture
    def path(self, tmp_path):
        (tmp_path / "a.jpg").write_bytes(encode(paint(300, 200), "JPEG"))
        return tmp_path / "a.jpg"

    def test_content_gives_the_same_query_as_its_file(self, path):
        data = path.read_bytes()
        sha256 = hashlib.sha256(data).hexdigest()
        query = read_content(data, Pixels(16), name="a", sha256=sha256)
        assert (query.features.shape, query.features.dtype) == ((768,), np.float32)
        (picture,) = read_pictures([("a", path)], Pixels(16))
        np.testing.assert_array_equal(query.features, picture.features)
        assert (query.name, query.sha256, query.thumbnail) == ("a", picture.sha256, picture.thumbnail)

    def test_error_continues_the_name(self):
        with pytest.raises(UnreadablePictureError, match=r"^is empty$"):
            read_content(b"", Pixels(), name="empty.jpg", sha256="")

    @pytest.mark.parametrize(
        ("dark", "reason"),
        [
            ("fail", "gives no features: 'too dark'"),
            ("unreadable", "gives no features: is night"),
            ("infinite", "gives features that are not finite numbers"),
        ],
    )
    def test_picture_without_features_is_unreadable(self, dark, reason):
        with pytest.raises(UnreadablePictureError, match=f"^{reason}$"):
            read_content(encode(Image.new("RGB", (50, 50))), DarkSensitive(dark), name="a.jpg", sha256="")

    def test_error_of_the_extractor_is_raised_unchanged(self):
        with pytest.raises(InputError, match=r"^the network is gone$") as error:
            read_content(encode(Image.new("RGB", (50, 50))), DarkSensitive("input error"), name="a.jpg", sha256="")
        assert not isinstance(error.value, UnreadablePictureError)

    def test_warnings_of_pillow_are_ignored(self, path, recwarn):
        path.write_bytes(encode(paint(), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff"))
        list(read_pictures([("a.jpg", path)], Pixels()))
        assert not recwarn.list


class TestBadFiles:
    def test_bad_files_are_reported_in_order(self, files, tmp_path):
        (tmp_path / "text.jpg").write_text("no picture")
        (tmp_path / "folder.jpg").mkdir()
        os.mkfifo(tmp_path / "pipe.jpg")
        (tmp_path / "link.jpg").symlink_to(tmp_path / "nowhere.jpg")
        with (tmp_path / "large.jpg").open("wb") as stream:
            stream.truncate(reading.MAX_BYTES + 1)
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

    def test_file_replaced_by_a_pipe_does_not_block(self, files, monkeypatch):
        path = files[0][1]
        status = os.stat(path)
        path.unlink()
        os.mkfifo(path)
        monkeypatch.setattr(reading.os, "stat", lambda _: status)
        assert reasons(read_pictures(files[:1], Pixels())) == {"000.jpg": "is not a regular file"}

    def test_permission_denied(self, files, monkeypatch):
        def deny(*_):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(reading, "_open_nonblocking", deny)
        assert reasons(read_pictures(files[:1], Pixels())) == {"000.jpg": "cannot be read: permission denied"}


class TestBadFeatures:
    def test_failure_of_the_extractor_is_attributed_to_one_picture(self, with_dark):
        read = list(read_pictures(with_dark, DarkSensitive("fail")))
        assert reasons(read) == {"007.jpg": "gives no features: 'too dark'"}
        assert [item.name for item in read] == [name for name, _ in with_dark]

    def test_extractor_may_reject_a_picture(self, with_dark):
        assert reasons(read_pictures(with_dark, DarkSensitive("unreadable"))) == {
            "007.jpg": "gives no features: is night"
        }

    def test_infinite_features_are_reported(self, with_dark):
        expected = {"007.jpg": "gives features that are not finite numbers"}
        assert reasons(read_pictures(with_dark, DarkSensitive("infinite"))) == expected

    def test_error_of_the_extractor_itself_is_raised(self, with_dark):
        with pytest.raises(InputError, match=r"^the network is gone$"):
            list(read_pictures(with_dark, DarkSensitive("input error")))
        with pytest.raises(InputError, match=r"dark-sensitive are of shape \(12, 3\) instead of \(12, 2\)"):
            list(read_pictures(with_dark, DarkSensitive("more")))


class TestParallel:
    @pytest.fixture
    def many(self, tmp_path):
        files = write_pictures(tmp_path, 80, width=40, height=30)
        files[33][1].write_bytes(b"damage")
        return files

    def test_result_does_not_depend_on_n_jobs(self, many):
        serial, parallel = (list(read_pictures(many, Pixels(), n_jobs=n)) for n in (1, 2))
        assert [item.name for item in parallel] == [name for name, _ in many]
        for a, b in zip(serial, parallel, strict=True):
            assert type(a) is type(b)
            if isinstance(a, ReadPicture):
                np.testing.assert_array_equal(a.features, b.features)
                assert (a.sha256, a.thumbnail, a.mtime_ns) == (b.sha256, b.thumbnail, b.mtime_ns)
        assert reasons(serial) == reasons(parallel) == {"033.jpg": "is not a picture that can be read"}

    def test_number_of_pixels_in_memory_is_bounded(self, many, monkeypatch):
        expected = [item.features for item in read_pictures(many[:33], Pixels())]
        sizes = []
        extract = Pixels.extract
        monkeypatch.setattr(Pixels, "extract", lambda self, p: (sizes.append(len(p)), extract(self, p))[1])
        monkeypatch.setattr(reading, "_MAX_BATCH_PIXELS", 5 * 40 * 30)
        np.testing.assert_array_equal([item.features for item in read_pictures(many[:33], Pixels())], expected)
        assert max(sizes) == 6

    def test_iteration_can_stop_early(self, many, recwarn):
        stream = read_pictures(many, Pixels(), n_jobs=2)
        assert next(stream).name == "000.jpg"
        stream.close()
        assert not recwarn.list
        assert len(list(read_pictures(many, Pixels(), n_jobs=2))) == 80

    def test_killed_process_is_reported(self, many):
        many[70][1].write_bytes(encode(Image.new("RGB", (20, 20))))
        with pytest.raises(InputError, match="run the same command again to continue"):
            list(read_pictures(many, DarkSensitive("die"), n_jobs=2))

    def test_n_jobs_of_zero_is_rejected(self, many):
        with pytest.raises(InputError, match="n_jobs is 0"):
            list(read_pictures(many, Pixels(), n_jobs=0))

    def test_no_files(self):
        assert list(read_pictures([], Pixels())) == []


def test_import_is_light():
    heavy = "{'sklearn', 'scipy', 'skimage', 'onnxruntime', 'PIL', 'joblib'}"
    script = f"import sys, ordrank.collection.ingest.reading; print(sorted({heavy} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
