"""Nothing is kept longer than needed: open files and the list of models."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ordrank import Collection
from ordrank.collection.access import write_store
from ordrank.collection.database import DATABASE
from ordrank.collection.fit import fit_collection
from ordrank.collection.html_report import write_report
from ordrank.errors import CollectionError
from tests.collection.commands import add, remove
from tests.collection.pictures import draw_files, files, rows


@pytest.fixture
def collection(trained):
    with Collection.open(trained) as collection:
        yield collection


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not list open files")
def test_closing_closes_all_files(collection):
    def open_files():
        return [
            file
            for file in map(os.path.realpath, Path("/proc/self/fd").iterdir())
            if file.startswith(str(collection.directory))
        ]

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(collection.files.thumbnail, range(1, 41)))
    collection.rank(1)
    collection.grade(1, 2)
    assert open_files()
    collection.close()
    assert not open_files()


def test_only_models_with_files_stay_recorded(trained):
    for picture in range(2, 7):
        with Collection.open(trained) as collection:
            collection.grade(picture, "7")
            collection.fit()
    recorded = json.loads(rows(trained, "SELECT value FROM meta WHERE key = 'models'")[0][0])
    existing = {name.partition(".")[0] for name in files(trained) if name.startswith("model-")}
    assert existing <= set(recorded)
    assert len(recorded) <= 3


def test_a_picture_removed_after_the_ranking_does_not_look_like_damage(collection, tmp_path):
    results = [collection.rank(1)]
    remove(collection.directory, [results[0].hits[0].name])
    with pytest.raises(CollectionError, match="changed while it was being read; try again"):
        write_report(collection.directory, results, tmp_path / "report.html")
    assert (collection.directory / DATABASE).exists()
    assert not (tmp_path / "report.html").exists()


def test_a_picture_that_another_process_adds_before_the_lock_gets_its_grade(trained, pictures, tmp_path, monkeypatch):
    draw_files(tmp_path / "new", [50])
    (pictures / "050.png").write_bytes((tmp_path / "new" / "050.png").read_bytes())

    def add_then_write(directory, *arguments, **options):
        monkeypatch.setattr("ordrank.collection.fit.write_store", write_store)
        add(trained, pictures, n_jobs=1)
        return write_store(directory, *arguments, **options)

    monkeypatch.setattr("ordrank.collection.fit.write_store", add_then_write)
    fit_collection(trained, pictures, {"050.png": "2"}, n_jobs=1)
    assert rows(trained, "SELECT grade FROM pictures WHERE name = '050.png'") == [(2.0,)]
