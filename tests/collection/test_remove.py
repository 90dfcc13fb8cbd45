"""Removing pictures deletes their rows and no files."""

import pytest

from ordrank import Collection
from ordrank.collection.reports import ImportReport, RemovalReport
from ordrank.errors import InputError, UnknownError
from tests.collection.commands import add, fit, remove
from tests.collection.pictures import content, draw, names, rows


def test_remove_deletes_all_rows_of_a_picture(trained, drawn):
    assert remove(trained, ["000.png", "001.png", "000.png"]) == RemovalReport(removed=2, left=38)
    for table in ("pictures", "features", "embeddings", "thumbnails"):
        assert rows(trained, f"SELECT count(*) FROM {table}") == [(38,)]
    assert (drawn / "pictures" / "000.png").exists()


def test_remove_is_all_or_nothing(trained):
    before = content(trained)
    with pytest.raises(InputError, match=r"nothing was removed: .* has no picture named 'x\.png', '🍎'"):
        remove(trained, ["000.png", "x.png", "🍎"])
    assert content(trained) == before


def test_pictures_are_removed_by_id_whatever_their_names_match(trained):
    with Collection.open(trained) as collection:
        with pytest.raises(UnknownError, match="1000"):
            collection.remove([1, 1000])
        collection.remove([collection.picture("000.png").id, "001.png"])
    assert len(names(trained)) == 38


def test_removed_pictures_can_be_added_again(trained, drawn):
    query = "SELECT name, sha256, estimate, size, mtime_ns FROM pictures ORDER BY name"
    before = rows(trained, query)
    remove(trained, ["000.png"])
    assert add(trained, drawn / "pictures", n_jobs=1) == ImportReport(read=1, known=39)
    assert rows(trained, query) == before


@pytest.fixture
def folders(tmp_path):
    """A collection of pictures in folders, with wildcards in some names."""
    folder = tmp_path / "pictures"
    names = ["a.png", "b.png", "x/a.png", "x/b.png", "x/y/a.png", "[a].png", "*.png", "x/*.jpg.png"]
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        draw(number).save(folder / name)
    labels = {name: number % 2 for number, name in enumerate(names)}
    fit(folder, tmp_path / "c", labels=labels, features="pixels:2", n_jobs=1)
    return tmp_path / "c"


@pytest.mark.parametrize(
    ("patterns", "removed"),
    [
        (["x/*.png"], {"x/a.png", "x/b.png", "x/*.jpg.png"}),
        (["x/?.png"], {"x/a.png", "x/b.png"}),
        (["*/*/a.png"], {"x/y/a.png"}),
        (["[ab].png"], {"a.png", "b.png"}),
        (["?.png", "x/[!a].png", "a.png"], {"a.png", "b.png", "*.png", "x/b.png"}),
        (["*.png"], {"*.png"}),  # a name is taken as it is
        (["[a].png"], {"[a].png"}),
    ],
)
def test_patterns_match_names_folder_by_folder(folders, patterns, removed):
    before = names(folders)
    report = remove(folders, patterns)
    assert before - names(folders) == removed
    assert report == RemovalReport(removed=len(removed), left=8 - len(removed))


@pytest.mark.parametrize("pattern", ["y/*", "*.jpg", "X/*", "x/**/b.png", "[!a]"])
def test_a_pattern_without_a_match_removes_nothing(folders, pattern):
    before = content(folders)
    with pytest.raises(InputError, match=r"nothing was removed: .* has no picture whose name matches"):
        remove(folders, ["a.png", pattern])
    assert content(folders) == before
