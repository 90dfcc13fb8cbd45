"""What is found in folders as people have them: nested, linked, broken, locked and oddly named."""

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

from ordrank._types import BadPicture
from ordrank.datasets.image_folder import FoundPicture, list_pictures
from ordrank.errors import InputError

NOBODY = 65534


@pytest.fixture
def place(tmp_path):
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


def as_nobody(check):
    """Run a check as a user whom permissions hold back; root is told in a child what it is not allowed to do."""
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
        finally:  # also after a failure: the child must not go on with the other tests
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


class TestWhatIsFound:
    def test_recursive_with_posix_names_and_usable_paths(self, place):
        put(place / "deep" / "er" / "b.png", place / "deep" / "c.TIFF")
        listing = list_pictures(place)
        assert names(listing) == ["a.jpg", "deep/c.TIFF", "deep/er/b.png"]
        assert [file.path for file in listing.files] == [place / name for name in names(listing)]
        assert all(file.path.read_bytes() for file in listing.files)
        assert (listing.bad, listing.ignored) == ((), 0)

    @pytest.mark.parametrize("change", [str.lower, str.upper, str.title])
    def test_each_suffix_in_any_case(self, tmp_path, change):
        suffixes = re.findall(r"\w+", "jpg jpeg jpe jfif png gif bmp tif tiff webp ppm pgm pbm pnm avif jp2")
        files = sorted(f"x.{change(suffix)}" for suffix in suffixes)
        put(*(tmp_path / file for file in files))
        assert names(list_pictures(tmp_path)) == files

    def test_other_files_are_counted_and_hidden_ones_are_not(self, place):
        put(*(place / name for name in ("notes.txt", "jpg", "b.jpg.bak", "sub/grades.csv")))
        put(*(place / name for name in (".DS_Store", "._a.jpg", ".jpg", ".thumbs/b.jpg", "sub/.git/c.png")))
        listing = list_pictures(place)
        assert names(listing) == ["a.jpg"]
        assert (listing.bad, listing.ignored) == ((), 4)

    def test_sorted_whatever_order_the_file_system_has(self, tmp_path, monkeypatch):
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

    def test_a_folder_may_be_named_like_a_picture_or_be_hidden_itself(self, tmp_path):
        put(tmp_path / ".mine" / "album.jpg" / "a.jpg")
        assert names(list_pictures(tmp_path / ".mine")) == ["album.jpg/a.jpg"]

    @pytest.mark.parametrize("name", ["new\nline.jpg", 'quo"te.jpg', "com,ma.jpg", "😀.jpg", " .jpg", "back\\.jpg"])
    def test_odd_names_are_kept(self, tmp_path, name):
        put(tmp_path / name)
        assert names(list_pictures(tmp_path)) == [name]

    def test_deeper_than_python_recurses(self, tmp_path):
        depth, limit = 400, sys.getrecursionlimit()
        put(tmp_path / ("d/" * depth) / "a.jpg")
        sys.setrecursionlimit(len(inspect.stack(0)) + 100)  # pytest itself cannot remove what is deeper than usual
        try:
            assert names(list_pictures(tmp_path)) == ["d/" * depth + "a.jpg"]
        finally:
            sys.setrecursionlimit(limit)

    def test_single_file(self, place):
        listing = list_pictures(place / "a.jpg")
        assert listing.files == (FoundPicture("a.jpg", place / "a.jpg"),)
        assert (listing.bad, listing.ignored) == ((), 0)

    def test_relative_place(self, place, monkeypatch):
        monkeypatch.chdir(place)
        assert list_pictures(Path()).files == (FoundPicture("a.jpg", Path("a.jpg")),)


class TestLinks:
    def test_to_files_and_folders_are_followed_under_every_name(self, place, tmp_path):
        put(tmp_path / "elsewhere" / "b.jpg")
        (place / "one").symlink_to(tmp_path / "elsewhere")
        (place / "two").symlink_to("one")
        (place / "c.jpg").symlink_to("a.jpg")
        listing = list_pictures(place)
        assert names(listing) == ["a.jpg", "c.jpg", "one/b.jpg", "two/b.jpg"]
        assert listing.bad == ()

    @pytest.mark.parametrize("target", [".", "..", "../..", "/"])
    def test_upwards_are_named_and_not_entered(self, place, target):
        (place / "sub").mkdir()
        (place / "sub" / "back").symlink_to(target)
        listing = list_pictures(place)
        assert names(listing) == ["a.jpg"]
        assert listing.bad == (BadPicture("sub/back", "is a link that leads back to a folder above it"),)

    def test_upwards_from_a_linked_folder(self, place, tmp_path):
        put(tmp_path / "other" / "deep" / "b.jpg")
        (tmp_path / "other" / "deep" / "up").symlink_to("..")
        (place / "link").symlink_to(tmp_path / "other" / "deep")
        listing = list_pictures(place)
        assert names(listing) == ["a.jpg", "link/b.jpg"]
        assert list(reasons(listing)) == ["link/up"]

    def test_loop_over_two_folders_is_entered_once(self, place):
        put(place / "x" / "b.jpg", place / "y" / "c.jpg")
        (place / "x" / "to_y").symlink_to("../y")
        (place / "y" / "to_x").symlink_to("../x")
        listing = list_pictures(place)
        assert names(listing) == ["a.jpg", "x/b.jpg", "x/to_y/c.jpg", "y/c.jpg", "y/to_x/b.jpg"]
        assert list(reasons(listing)) == ["x/to_y/to_x", "y/to_x/to_y"]

    def test_neighbours_that_all_link_to_each_other_come_to_an_end(self, place):
        folders = [place / f"n{number}" for number in range(9)]  # about a million paths without a loop
        for folder in folders:
            put(folder / "b.jpg")
            for other in folders:
                if other != folder:
                    (folder / other.name).symlink_to(other)
        listing = list_pictures(place)
        assert len(listing.files) == 1 + 9 * 100
        assert {f"n{number}/b.jpg" for number in range(9)} < set(names(listing))
        assert "is a folder that links already gave 100 other names" in reasons(listing).values()

    def test_to_nothing(self, place):
        (place / "gone.jpg").symlink_to("nowhere.jpg")
        (place / "gone.txt").symlink_to("nowhere.txt")
        (place / "gone").symlink_to("nowhere")
        listing = list_pictures(place)
        assert listing.bad == (BadPicture("gone.jpg", "is a link to nothing"),)
        assert listing.ignored == 2

    def test_to_itself(self, place):
        (place / "self.jpg").symlink_to("self.jpg")
        (place / "self.txt").symlink_to("self.txt")
        listing = list_pictures(place)
        assert listing.bad == (BadPicture("self.jpg", "is a link that leads back to itself"),)
        assert listing.ignored == 1


class TestWhatIsNoFile:
    def test_fifo_socket_device_and_links_to_them_are_not_opened(self, place, monkeypatch):
        os.mkfifo(place / "fifo.jpg")
        os.mkfifo(place / "fifo")
        (place / "link.jpg").symlink_to("fifo.jpg")
        (place / "zero.png").symlink_to("/dev/zero")
        monkeypatch.chdir(place)  # the address of a socket has to be short
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket.jpg")
            listing = list_pictures(place)
        assert names(listing) == ["a.jpg"]
        assert reasons(listing) == dict.fromkeys(
            ("fifo.jpg", "link.jpg", "socket.jpg", "zero.png"), "is not a regular file"
        )
        assert listing.ignored == 1


class TestNamesThatAreNotText:
    @pytest.fixture
    def odd(self, place):
        """Puts a file of a name of bytes into the folder, where the file system allows it."""

        def put_bytes(name):
            path = os.path.join(os.fsencode(place), name)
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb"):
                    pass
            except OSError:
                pytest.skip("the file system takes names in UTF-8 only")
            return Path(os.fsdecode(path))

        return put_bytes

    def test_files_and_folders_are_named_so_that_they_can_be_printed(self, place, odd):
        for name in (b"caf\xe9.jpg", b"caf\xe9.txt", b"\xff/b.jpg", b"\xff/c.jpg"):
            odd(name)
        listing = list_pictures(place)
        assert names(listing) == ["a.jpg"]
        assert reasons(listing) == dict.fromkeys(
            ("\\xff", "caf\\xe9.jpg"), "has a name that is not valid UTF-8: rename it"
        )
        assert "".join(reasons(listing)).encode()
        assert listing.ignored == 1

    def test_the_place_itself(self, odd):
        file = odd(b"\xff/b.jpg")
        assert names(list_pictures(file.parent)) == ["b.jpg"]
        with pytest.raises(InputError, match=r"caf\\xe9\.jpg has a name that is not valid UTF-8: rename it"):
            list_pictures(odd(b"caf\xe9.jpg"))
        with pytest.raises(InputError, match=r"there is no folder or file .*\\xff/none"):
            list_pictures(file.parent / "none")


class TestPermissions:
    @pytest.fixture
    def place(self):
        """Outside of pytest's own folders, which only their owner may enter."""
        with tempfile.TemporaryDirectory(prefix="pictures") as folder:
            os.chmod(folder, 0o755)
            put(Path(folder, "a.jpg"))
            yield Path(folder)

    def test_folders_that_cannot_be_entered_are_named(self, place):
        put(place / "locked" / "b.jpg", place / "unsearchable" / "sub" / "c.jpg", place / "unsearchable" / "d.jpg")
        (place / "into.jpg").symlink_to("locked/b.jpg")

        def check():
            listing = list_pictures(place)
            assert names(listing) == ["a.jpg", "unsearchable/d.jpg"]  # its name can be seen; opening it will fail
            assert reasons(listing) == {
                "locked": "cannot be entered: Permission denied",
                "unsearchable/sub": "cannot be reached: Permission denied",
                "into.jpg": "cannot be reached: Permission denied",
            }

        with mode(place / "locked", 0o000), mode(place / "unsearchable", 0o744):
            as_nobody(check)

    def test_the_place_itself(self, place):
        def check():
            with pytest.raises(InputError, match=r"pictures\w+ cannot be entered: Permission denied; change its"):
                list_pictures(place)
            with pytest.raises(InputError, match=r"a\.jpg cannot be reached: Permission denied"):
                list_pictures(place / "a.jpg")

        with mode(place, 0o000):
            as_nobody(check)


class TestPlacesThatCannotBeUsed:
    def test_missing(self, place):
        (place / "gone").symlink_to("nowhere")
        for missing in ("none", "gone"):
            with pytest.raises(InputError, match=f"there is no folder or file .*{missing}; give the folder"):
                list_pictures(place / missing)

    def test_below_a_file_or_with_a_nul(self, place):
        with pytest.raises(InputError, match=r"cannot be reached: Not a directory"):
            list_pictures(place / "a.jpg" / "b")
        with pytest.raises(InputError, match=r"cannot be reached: .*null"):
            list_pictures(Path("a\0b"))

    def test_neither_folder_nor_file(self, place):
        os.mkfifo(place / "fifo.jpg")
        with pytest.raises(InputError, match=r"fifo\.jpg is neither a folder nor a regular file; give"):
            list_pictures(place / "fifo.jpg")

    def test_single_file_of_another_suffix(self, place):
        put(place / "notes.txt")
        with pytest.raises(InputError, match=r"notes\.txt is not named like a picture. Looked for .* jpg, jpeg"):
            list_pictures(place / "notes.txt")

    def test_without_a_picture(self, tmp_path):
        with pytest.raises(InputError, match=r"holds no picture that can be used \(other files: 0\)"):
            list_pictures(tmp_path)
        put(tmp_path / "a.txt", tmp_path / "sub" / "b.csv")
        with pytest.raises(InputError) as error:
            list_pictures(tmp_path)
        assert str(tmp_path) in str(error.value)
        assert "other files: 2" in str(error.value)
        assert "jpg, jpeg, jpe, jfif, png, gif, bmp, tif, tiff, webp" in str(error.value)

    def test_with_bad_pictures_only(self, tmp_path):
        for number in range(7):
            (tmp_path / f"{number}.jpg").symlink_to("nowhere")
        with pytest.raises(InputError, match=r"0\.jpg is a link to nothing\. .*4\.jpg .* nothing\. And so on: 7 in"):
            list_pictures(tmp_path)


def test_import_is_light():
    code = (
        "import sys, ordrank.datasets.image_folder, ordrank.datasets.grades_csv; "
        "sys.exit(', '.join({'sklearn', 'scipy', 'PIL'} & {*sys.modules}) or None)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
