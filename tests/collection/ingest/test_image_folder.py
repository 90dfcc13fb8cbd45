"""Folders that are nested, linked, broken, without permission or oddly named."""

import inspect
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from ordrank.collection.ingest.image_folder import FoundPicture, list_pictures
from ordrank.collection.types import BadPicture
from ordrank.errors import InputError

NOBODY = 65534


@pytest.fixture
def root(tmp_path):
    """A folder with one picture, so that it is never empty."""
    folder = tmp_path / "pictures"
    put(folder / "a.jpg")
    return folder


def put(*files):
    for file in files:
        os.makedirs(file.parent, exist_ok=True)
        file.write_bytes(b"never opened")


def names(listing):
    return [file.name for file in listing.files]


def reasons(listing):
    return {bad.name: bad.reason for bad in listing.bad}


def run_unprivileged(check):
    """Run a check as a user bound by permissions; for root, in a child process with another user id."""
    if os.geteuid() != 0:
        check()
        return
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            check()
            code = 0
        finally:  # the child must not continue with the other tests
            if code:
                sys.__stderr__.write(f"{sys.exc_info()[1]!r}\n")
                sys.__stderr__.flush()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@contextmanager
def mode(path, bits):
    before = path.stat().st_mode
    path.chmod(bits)
    try:
        yield
    finally:
        path.chmod(before)


class TestFiles:
    def test_subfolders_are_searched_and_names_have_slashes(self, root):
        put(root / "deep" / "er" / "b.png", root / "deep" / "c.TIFF")
        listing = list_pictures(root)
        assert names(listing) == ["a.jpg", "deep/c.TIFF", "deep/er/b.png"]
        assert [file.path for file in listing.files] == [root / name for name in names(listing)]
        assert all(file.path.read_bytes() for file in listing.files)
        assert (listing.bad, listing.ignored) == ((), 0)

    @pytest.mark.parametrize("change", [str.lower, str.upper, str.title])
    def test_suffixes_in_any_case(self, tmp_path, change):
        suffixes = re.findall(r"\w+", "jpg jpeg jpe jfif png gif bmp tif tiff webp ppm pgm pbm pnm avif jp2")
        files = sorted(f"x.{change(suffix)}" for suffix in suffixes)
        put(*(tmp_path / file for file in files))
        assert names(list_pictures(tmp_path)) == files

    def test_other_files_are_counted_and_hidden_files_are_not(self, root):
        put(*(root / name for name in ("notes.txt", "jpg", "b.jpg.bak", "sub/grades.csv")))
        put(*(root / name for name in (".DS_Store", "._a.jpg", ".jpg", ".thumbs/b.jpg", "sub/.git/c.png")))
        listing = list_pictures(root)
        assert names(listing) == ["a.jpg"]
        assert (listing.bad, listing.ignored) == ((), 4)

    def test_order_does_not_depend_on_the_file_system(self, tmp_path, monkeypatch):
        put(*(tmp_path / name for name in ("b/1.jpg", "a.jpg", "B.jpg", "b.jpg", "b-c/2.jpg", "é.jpg", "😀.jpg")))
        expected = names(list_pictures(tmp_path))
        assert expected == sorted(expected)
        system_order = os.scandir

        @contextmanager
        def shuffled(path):
            with system_order(path) as entries:
                yield iter(random.Random(3).sample(entries := list(entries), len(entries)))

        monkeypatch.setattr(os, "scandir", shuffled)
        assert names(list_pictures(tmp_path)) == expected

    def test_folder_may_have_the_suffix_of_a_picture_or_be_hidden_itself(self, tmp_path):
        put(tmp_path / ".mine" / "album.jpg" / "a.jpg")
        assert names(list_pictures(tmp_path / ".mine")) == ["album.jpg/a.jpg"]

    @pytest.mark.parametrize("name", ["new\nline.jpg", 'quo"te.jpg', "com,ma.jpg", "😀.jpg", " .jpg", "back\\.jpg"])
    def test_odd_names_are_kept(self, tmp_path, name):
        put(tmp_path / name)
        assert names(list_pictures(tmp_path)) == [name]

    def test_depth_beyond_the_recursion_limit(self, tmp_path):
        depth, limit = 400, sys.getrecursionlimit()
        put(tmp_path / ("d/" * depth) / "a.jpg")
        sys.setrecursionlimit(len(inspect.stack(0)) + 100)  # pytest cannot remove folders beyond the default limit
        try:
            assert names(list_pictures(tmp_path)) == ["d/" * depth + "a.jpg"]
        finally:
            sys.setrecursionlimit(limit)

    def test_single_file(self, root):
        listing = list_pictures(root / "a.jpg")
        assert listing.files == (FoundPicture("a.jpg", root / "a.jpg"),)
        assert (listing.bad, listing.ignored) == ((), 0)

    def test_relative_path(self, root, monkeypatch):
        monkeypatch.chdir(root)
        assert list_pictures(Path()).files == (FoundPicture("a.jpg", Path("a.jpg")),)


class TestLinks:
    def test_links_are_followed_under_every_name(self, root, tmp_path):
        put(tmp_path / "elsewhere" / "b.jpg")
        (root / "one").symlink_to(tmp_path / "elsewhere")
        (root / "two").symlink_to("one")
        (root / "c.jpg").symlink_to("a.jpg")
        listing = list_pictures(root)
        assert names(listing) == ["a.jpg", "c.jpg", "one/b.jpg", "two/b.jpg"]
        assert listing.bad == ()

    @pytest.mark.parametrize("target", [".", "..", "../..", "/"])
    def test_link_to_an_ancestor_is_reported_and_not_entered(self, root, target):
        (root / "sub").mkdir()
        (root / "sub" / "back").symlink_to(target)
        listing = list_pictures(root)
        assert names(listing) == ["a.jpg"]
        assert listing.bad == (BadPicture("sub/back", "is a link that leads back to a folder above it"),)

    def test_link_to_an_ancestor_of_a_linked_folder_is_reported(self, root, tmp_path):
        put(tmp_path / "other" / "deep" / "b.jpg")
        (tmp_path / "other" / "deep" / "up").symlink_to("..")
        (root / "link").symlink_to(tmp_path / "other" / "deep")
        listing = list_pictures(root)
        assert names(listing) == ["a.jpg", "link/b.jpg"]
        assert list(reasons(listing)) == ["link/up"]

    def test_cycle_of_two_folders_is_entered_once(self, root):
        put(root / "x" / "b.jpg", root / "y" / "c.jpg")
        (root / "x" / "to_y").symlink_to("../y")
        (root / "y" / "to_x").symlink_to("../x")
        listing = list_pictures(root)
        assert names(listing) == ["a.jpg", "x/b.jpg", "x/to_y/c.jpg", "y/c.jpg", "y/to_x/b.jpg"]
        assert list(reasons(listing)) == ["x/to_y/to_x", "y/to_x/to_y"]

    def test_number_of_names_of_a_folder_is_bounded(self, root):
        folders = [root / f"n{number}" for number in range(9)]  # about a million paths without a cycle
        for folder in folders:
            put(folder / "b.jpg")
            for other in folders:
                if other != folder:
                    (folder / other.name).symlink_to(other)
        listing = list_pictures(root)
        assert len(listing.files) == 1 + 9 * 100
        assert {f"n{number}/b.jpg" for number in range(9)} < set(names(listing))
        assert "is a folder that links already gave 100 other names" in reasons(listing).values()

    def test_link_to_nothing(self, root):
        (root / "gone.jpg").symlink_to("nowhere.jpg")
        (root / "gone.txt").symlink_to("nowhere.txt")
        (root / "gone").symlink_to("nowhere")
        listing = list_pictures(root)
        assert listing.bad == (BadPicture("gone.jpg", "is a link to nothing"),)
        assert listing.ignored == 2

    def test_link_to_itself(self, root):
        (root / "self.jpg").symlink_to("self.jpg")
        (root / "self.txt").symlink_to("self.txt")
        listing = list_pictures(root)
        assert listing.bad == (BadPicture("self.jpg", "is a link that leads back to itself"),)
        assert listing.ignored == 1


class TestSpecialFiles:
    def test_fifo_socket_and_device_are_not_opened(self, root, monkeypatch):
        os.mkfifo(root / "fifo.jpg")
        os.mkfifo(root / "fifo")
        (root / "link.jpg").symlink_to("fifo.jpg")
        (root / "zero.png").symlink_to("/dev/zero")
        monkeypatch.chdir(root)  # the address of a socket has to be short
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket.jpg")
            listing = list_pictures(root)
        assert names(listing) == ["a.jpg"]
        assert reasons(listing) == dict.fromkeys(
            ("fifo.jpg", "link.jpg", "socket.jpg", "zero.png"), "is not a regular file"
        )
        assert listing.ignored == 1


class TestInvalidUtf8:
    @pytest.fixture
    def put_bytes(self, root):
        """Creates a file with a name of arbitrary bytes, if the file system allows it."""

        def create(name):
            path = os.path.join(os.fsencode(root), name)
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb"):
                    pass
            except OSError:
                pytest.skip("the file system allows names in UTF-8 only")
            return Path(os.fsdecode(path))

        return create

    def test_reported_names_can_be_printed(self, root, put_bytes):
        for name in (b"caf\xe9.jpg", b"caf\xe9.txt", b"\xff/b.jpg", b"\xff/c.jpg"):
            put_bytes(name)
        listing = list_pictures(root)
        assert names(listing) == ["a.jpg"]
        assert reasons(listing) == dict.fromkeys(
            ("\\xff", "caf\\xe9.jpg"), "has a name that is not valid UTF-8: rename it"
        )
        assert "".join(reasons(listing)).encode()
        assert listing.ignored == 1

    def test_argument_with_an_invalid_name(self, put_bytes):
        file = put_bytes(b"\xff/b.jpg")
        assert names(list_pictures(file.parent)) == ["b.jpg"]
        with pytest.raises(InputError, match=r"caf\\xe9\.jpg has a name that is not valid UTF-8: rename it"):
            list_pictures(put_bytes(b"caf\xe9.jpg"))
        with pytest.raises(InputError, match=r"there is no folder or file .*\\xff/none"):
            list_pictures(file.parent / "none")


class TestPermissions:
    @pytest.fixture
    def root(self):
        """Outside of pytest's own folders, which other users cannot enter."""
        with tempfile.TemporaryDirectory(prefix="pictures") as folder:
            os.chmod(folder, 0o755)
            put(Path(folder, "a.jpg"))
            yield Path(folder)

    def test_folders_without_permission_are_reported(self, root):
        put(root / "locked" / "b.jpg", root / "unsearchable" / "sub" / "c.jpg", root / "unsearchable" / "d.jpg")
        (root / "into.jpg").symlink_to("locked/b.jpg")

        def check():
            listing = list_pictures(root)
            assert names(listing) == ["a.jpg", "unsearchable/d.jpg"]  # listed, although opening it will fail
            assert reasons(listing) == {
                "locked": "cannot be entered: Permission denied",
                "unsearchable/sub": "cannot be reached: Permission denied",
                "into.jpg": "cannot be reached: Permission denied",
            }

        with mode(root / "locked", 0o000), mode(root / "unsearchable", 0o744):
            run_unprivileged(check)

    def test_argument_without_permission(self, root):
        def check():
            with pytest.raises(InputError, match=r"pictures\w+ cannot be entered: Permission denied; change its"):
                list_pictures(root)
            with pytest.raises(InputError, match=r"a\.jpg cannot be reached: Permission denied"):
                list_pictures(root / "a.jpg")

        with mode(root, 0o000):
            run_unprivileged(check)


class TestInvalidArguments:
    def test_missing(self, root):
        (root / "gone").symlink_to("nowhere")
        for missing in ("none", "gone"):
            with pytest.raises(InputError, match=f"there is no folder or file .*{missing}; give the folder"):
                list_pictures(root / missing)

    def test_below_a_file_or_with_a_nul(self, root):
        with pytest.raises(InputError, match=r"cannot be reached: Not a directory"):
            list_pictures(root / "a.jpg" / "b")
        with pytest.raises(InputError, match=r"cannot be reached: .*null"):
            list_pictures(Path("a\0b"))

    def test_neither_folder_nor_file(self, root):
        os.mkfifo(root / "fifo.jpg")
        with pytest.raises(InputError, match=r"fifo\.jpg is neither a folder nor a regular file; give"):
            list_pictures(root / "fifo.jpg")

    def test_single_file_with_another_suffix(self, root):
        put(root / "notes.txt")
        with pytest.raises(InputError, match=r"notes\.txt is not named like a picture. Pictures have .* jpg, jpeg"):
            list_pictures(root / "notes.txt")

    def test_folder_without_pictures(self, tmp_path):
        with pytest.raises(InputError, match=r"holds no picture that can be used \(other files: 0\)"):
            list_pictures(tmp_path)
        put(tmp_path / "a.txt", tmp_path / "sub" / "b.csv")
        with pytest.raises(InputError) as error:
            list_pictures(tmp_path)
        assert str(tmp_path) in str(error.value)
        assert "other files: 2" in str(error.value)
        assert "jpg, jpeg, jpe, jfif, png, gif, bmp, tif, tiff, webp" in str(error.value)

    def test_folder_with_bad_pictures_only(self, tmp_path):
        for number in range(7):
            (tmp_path / f"{number}.jpg").symlink_to("nowhere")
        with pytest.raises(InputError, match=r"0\.jpg is a link to nothing\. .*4\.jpg .* nothing\. And so on: 7 in"):
            list_pictures(tmp_path)


def test_import_is_light():
    code = (
        "import sys, ordrank.collection.ingest.image_folder, ordrank.collection.ingest.grades_csv; "
        "sys.exit(', '.join({'sklearn', 'scipy', 'PIL'} & {*sys.modules}) or None)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
