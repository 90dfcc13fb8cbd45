"""Nothing is deleted or overwritten that ordrank did not write."""

import pytest

from ordrank import Collection
from ordrank.errors import CollectionError, InputError
from tests.cli.running import done, failed
from tests.collection.commands import export, fit, info
from tests.collection.pictures import draw_files, files, write_grades


@pytest.fixture
def graded(drawn):
    return drawn / "grades.csv"


def train_with_changed_grades(collection):
    """Train with changed grades, so that earlier models are deleted."""
    for grade in ("0", "1", "2"):
        with Collection.open(collection) as opened:
            opened.grade(1, grade)
        fit(None, collection)


def test_training_deletes_only_models_of_the_collection(trained):
    foreign = ("model-t.png", "model-card.md", "model-0123456789abcdef.json", ".model-notes", ".collection.sqlite.bak")
    for name in foreign:
        (trained / name).write_text("mine")
    train_with_changed_grades(trained)
    assert {name for name in files(trained) if name in foreign} == set(foreign)
    models = {name for name in files(trained) if name.startswith("model-")} - set(foreign)
    assert len(models) == 4  # the current model and the previous one, two files each


def test_files_of_an_interrupted_training_are_deleted_by_the_next(trained, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("ordrank.collection.train.read_model", interrupt)
        patched.setattr("ordrank.collection.train.remove_model", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fit(None, trained, balanced=True)
    leftovers = {name for name in files(trained) if name.startswith("model-")}
    assert len(leftovers) == 4
    train_with_changed_grades(trained)
    assert len({name for name in files(trained) if name.startswith("model-")}) == 4


def test_directory_with_other_files_is_rejected(drawn, graded, tmp_path):
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "chapter.tex").write_text("mine")
    with pytest.raises(CollectionError, match=r"is not empty and is not a collection .*'chapter.tex'"):
        fit(drawn / "pictures", out, labels=graded, features="pixels:4", n_jobs=1)
    assert files(out) == {"chapter.tex"}


def test_directory_with_leftovers_of_an_interrupted_creation_is_accepted(drawn, graded, tmp_path):
    out = tmp_path / "collection"
    out.mkdir()
    for name in (".collection.sqlite", ".collection.sqlite-journal"):
        (out / name).write_bytes(b"")
    fit(drawn / "pictures", out, labels=graded, features="pixels:4", n_jobs=1)
    assert info(out).pictures == 40


@pytest.mark.parametrize(("out", "relation"), [("pictures", "is"), ("pictures/c", "lies in"), (".", "holds")])
def test_collection_must_be_apart_from_its_pictures(out, relation, tmp_path):
    names = draw_files(tmp_path / "pictures", range(6))
    grades = write_grades(tmp_path / "grades.csv", names)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=rf" {relation} .*pictures; keep the collection apart"):
        fit(tmp_path / "pictures", tmp_path / out, labels=grades, n_jobs=1)
    assert sorted(tmp_path.rglob("*")) == before


def test_symbolic_links_to_the_pictures_are_resolved(tmp_path):
    names = draw_files(tmp_path / "pictures", range(6))
    grades = write_grades(tmp_path / "grades.csv", names)
    (tmp_path / "link").symlink_to(tmp_path / "pictures")
    with pytest.raises(InputError, match="lies in"):
        fit(tmp_path / "pictures", tmp_path / "link" / "c", labels=grades, n_jobs=1)


@pytest.mark.parametrize("name", ["grades.csv", "pictures.parquet"])
def test_export_replaces_exports_only(name, trained, tmp_path):
    out = tmp_path / name
    out.write_text("file,grade\na.jpg,1\n")
    with pytest.raises(InputError, match="exists and is not an export"):
        export(trained, out)
    assert out.read_text().startswith("file,grade")
    out.unlink()
    assert export(trained, out) == export(trained, out) == 40


def test_html_report_replaces_html_reports_only(trained, tmp_path):
    page, photo = tmp_path / "results.html", tmp_path / "photo.jpg"
    photo.write_bytes(b"mine")
    assert "must end in .html" in failed("rank", trained, "000.png", "--html", photo)
    page.write_text("<html>mine</html>")
    assert "was not written by ordrank" in failed("rank", trained, "000.png", "--html", page)
    assert (photo.read_bytes(), page.read_text()) == (b"mine", "<html>mine</html>")
    page.unlink()
    for _ in range(2):
        done("rank", trained, "000.png", "--html", page)
