"""Removing pictures deletes their rows and no files."""

import pytest

from ordrank.collection.reports import ImportReport
from ordrank.errors import InputError
from tests.collection.commands import add, remove
from tests.collection.pictures import content, rows


def test_remove_deletes_all_rows_of_a_picture(trained, drawn):
    assert remove(trained, ["000.png", "001.png", "000.png"]) == 38
    for table in ("pictures", "features", "embeddings", "thumbnails"):
        assert rows(trained, f"SELECT count(*) FROM {table}") == [(38,)]
    assert (drawn / "pictures" / "000.png").exists()


def test_remove_is_all_or_nothing(trained):
    before = content(trained)
    with pytest.raises(InputError, match=r"nothing was removed: .* has no picture named 'x\.png', '🍎'"):
        remove(trained, ["000.png", "x.png", "🍎"])
    assert content(trained) == before


def test_removed_pictures_can_be_added_again(trained, drawn):
    query = "SELECT name, sha256, estimate, size, mtime_ns FROM pictures ORDER BY name"
    before = rows(trained, query)
    remove(trained, ["000.png"])
    assert add(trained, drawn / "pictures", n_jobs=1) == ImportReport(read=1, known=39)
    assert rows(trained, query) == before
