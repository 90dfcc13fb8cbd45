"""A write-ahead log that a killed process has left: committed changes are there, or an error says that they are not."""

import shutil
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from ordrank import Collection
from ordrank.cli import app
from ordrank.collection import write_ahead_log
from ordrank.collection.access import open_judgements
from ordrank.collection.database import connect_to_write
from ordrank.errors import CollectionError
from tests.collection.pictures import column
from tests.collection.processes import alive
from tests.collection.test_damage import flip

PAGE = 16384
HEADER, FRAME_HEADER = 32, 24
FRAME = FRAME_HEADER + PAGE
DAMAGED = r"collection\.sqlite-wal is damaged"


@pytest.fixture(autouse=True)
def _nothing_checked(monkeypatch):
    monkeypatch.setattr(write_ahead_log, "_checked", set())


@pytest.fixture
def killed(trained, tmp_path):
    """A collection as a process leaves it that is killed after three grades; how many frames each of them has."""
    log, sizes = trained / "collection.sqlite-wal", []
    with closing(open_judgements(trained, timeout=1)) as store:
        for picture in (1, 2, 3):
            store.give_grades([picture], 7.0)
            sizes.append(log.stat().st_size // FRAME)
        copied = shutil.copytree(trained, tmp_path / "killed")
    assert sizes[-1] > sizes[-2] > sizes[0]
    return copied, sizes


def grades(directory):
    with Collection.open(directory) as collection:
        return [float(collection.picture(number).grade) for number in (1, 2, 3)]


def index_of(directory):
    return directory / "collection.sqlite-shm"


def log_of(directory):
    return directory / "collection.sqlite-wal"


def test_an_undamaged_log_is_replayed(killed):
    directory, _ = killed
    assert grades(directory) == [7, 7, 7]


@pytest.mark.parametrize(
    "position", [0, 9, 17, 27, *(HEADER + at for at in (0, 5, 9, 17, 21, FRAME_HEADER, FRAME - 1))]
)
@pytest.mark.parametrize("has_index", [True, False])
def test_a_changed_byte_before_the_last_transaction_is_noticed(killed, position, has_index):
    directory, sizes = killed
    if not has_index:
        index_of(directory).unlink()
    frames = (0, sizes[0], sizes[1] - 1) if position >= HEADER else (0,)
    if not has_index and position in (HEADER + 17, HEADER + 21):  # a checksum on which the last transaction depends
        frames = frames[:2]
    intact = log_of(directory).read_bytes()
    for frame in frames:
        flip(log_of(directory), frame * FRAME + position)
        with pytest.raises(CollectionError, match=DAMAGED):
            Collection.open(directory)
        with pytest.raises(CollectionError, match=DAMAGED), closing(open_judgements(directory, timeout=1)):
            pass
        log_of(directory).write_bytes(intact)
    assert grades(directory) == [7, 7, 7]


@pytest.mark.parametrize("at", [0, 5, 9, 17, FRAME_HEADER, FRAME - 1])
def test_a_changed_byte_in_the_last_transaction_is_noticed_by_the_index(killed, at):
    directory, sizes = killed
    for frame in (sizes[1], sizes[2] - 1):
        copied = shutil.copytree(directory, directory.with_name(str(frame)))
        flip(log_of(copied), HEADER + frame * FRAME + at)
        with pytest.raises(CollectionError, match=DAMAGED):
            Collection.open(copied)


def test_a_log_that_was_cut_off_is_noticed_by_the_index(killed):
    directory, _ = killed
    log_of(directory).write_bytes(log_of(directory).read_bytes()[:-1])
    with pytest.raises(CollectionError, match=DAMAGED):
        Collection.open(directory)


def test_a_damaged_index_does_no_harm(killed):
    directory, _ = killed
    for position in (0, 17, 33, 41, 60):
        copied = shutil.copytree(directory, directory.with_name(str(position)))
        flip(index_of(copied), position)
        assert grades(copied) == [7, 7, 7]


def test_the_advice_leads_back_to_the_state_before(killed):
    directory, _ = killed
    flip(log_of(directory), HEADER + FRAME_HEADER)
    result = CliRunner().invoke(app, ["check", str(directory)])
    assert result.exit_code == 1
    assert "delete this one, which loses these changes, and run `ordrank check`" in " ".join(result.output.split())
    log_of(directory).unlink()
    assert CliRunner().invoke(app, ["check", str(directory)]).exit_code == 0
    assert 7 not in column(directory, "grade").values()


class TestIncompleteTransactions:
    """What SQLite rightly ignores is no damage."""

    @pytest.mark.parametrize("lost", [1, FRAME - 1, FRAME + 1])
    def test_a_transaction_cut_off_by_a_power_failure(self, killed, lost):
        directory, _ = killed
        index_of(directory).unlink()
        log_of(directory).write_bytes(log_of(directory).read_bytes()[:-lost])
        assert grades(directory)[:2] == [7, 7]

    def test_a_transaction_of_which_a_part_was_not_written(self, killed):
        directory, sizes = killed
        index_of(directory).unlink()
        with log_of(directory).open("r+b") as log:
            log.seek(HEADER + sizes[1] * FRAME + FRAME_HEADER)
            log.write(bytes(PAGE))
        assert grades(directory)[:2] == [7, 7]

    @pytest.mark.parametrize("has_index", [True, False])
    @pytest.mark.parametrize("follows", [False, True], ids=["at the end", "overwritten in part"])
    def test_frames_of_a_transaction_that_was_not_committed(self, trained, tmp_path, has_index, follows):
        with closing(connect_to_write(trained)) as connection:
            connection.execute("UPDATE pictures SET grade = 7 WHERE id <= 3")
            committed = log_of(trained).stat().st_size
            connection.execute("PRAGMA cache_size = 2")  # pages: others are written before the end of the transaction
            connection.execute("BEGIN")
            for _ in range(3):
                connection.execute("UPDATE thumbnails SET jpeg = randomblob(20000)")
                connection.execute("UPDATE pictures SET grade = 8 WHERE id <= 3")
            if follows:
                connection.execute("ROLLBACK")
                connection.execute("UPDATE pictures SET grade = 9 WHERE id = 3")
            assert log_of(trained).stat().st_size > committed + 10 * FRAME
            copied = shutil.copytree(trained, tmp_path / "killed")
        if not has_index:
            index_of(copied).unlink()
        assert grades(copied) == [7, 7, 9 if follows else 7]

    def test_a_log_that_was_begun_anew(self, killed):
        directory, sizes = killed
        with closing(sqlite3.connect(directory / "collection.sqlite", isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_checkpoint(RESTART)")
            connection.execute("PRAGMA user_version = 1")
            assert log_of(directory).stat().st_size // FRAME == sizes[-1]  # older frames are behind the new ones
            copied = shutil.copytree(directory, directory.with_name("copied"))
        assert grades(copied) == [7, 7, 7]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_log_that_is_begun_anew_while_it_is_read_is_not_damaged(killed, monkeypatch, is_committed):
    directory, _ = killed
    read_frames = write_ahead_log._read_frames

    def begin_anew_and_read(log, header):
        if is_committed:
            connection.execute("PRAGMA user_version = 1")
        else:  # the index was written before, and will be after the commit
            for salt in (16, HEADER + 8):
                flip(log_of(directory), salt)
        return read_frames(log, header)

    with closing(sqlite3.connect(directory / "collection.sqlite", isolation_level=None)) as connection:
        monkeypatch.setattr(write_ahead_log, "_read_frames", begin_anew_and_read)
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
        write_ahead_log.check_log(directory / "collection.sqlite")


def write_until_killed(pipe, directory):
    with closing(open_judgements(directory, timeout=30)) as store:
        store._connection.execute("PRAGMA wal_autocheckpoint = 5")
        for number in range(10**9):
            store.give_grades([1 + number % 3], float(number % 3))
            if number == 0:
                pipe.send("begun")


@pytest.mark.slow
def test_another_process_that_writes_is_no_damage(trained, monkeypatch):
    with alive(write_until_killed, trained) as child:
        assert child.receive() == "begun"
        for _ in range(100):
            write_ahead_log.check_log(trained / "collection.sqlite")
            write_ahead_log._checked.clear()
    grades(trained)
