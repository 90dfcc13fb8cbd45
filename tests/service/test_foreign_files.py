"""Training and making a collection delete and overwrite nothing that ordrank did not write."""

import pytest

from ordrank import service
from ordrank.errors import CollectionError, InputError
from tests.service.drawing import draw_files, files, write_grades


@pytest.fixture
def graded(drawn):
    return service.Grades(drawn / "grades.csv")


def train_differently(collection):
    """Train three different models, so that earlier ones are deleted."""
    for balanced in (True, False, True):
        service.fit(None, collection, balanced=balanced)


def test_training_deletes_only_models_of_the_collection(trained):
    foreign = ("model-t.png", "model-card.md", "model-0123456789abcdef.json", ".model-notes", ".collection.sqlite.bak")
    for name in foreign:
        (trained / name).write_text("mine")
    train_differently(trained)
    assert {name for name in files(trained) if name in foreign} == set(foreign)
    models = {name for name in files(trained) if name.startswith("model-")} - set(foreign)
    assert len(models) == 4  # the current model and the previous one, two files each


def test_files_of_an_interrupted_training_are_deleted_by_the_next(trained, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("ordrank.collection.training.read_model", interrupt)
        patched.setattr("ordrank.collection.training.remove_model", interrupt)
        with pytest.raises(KeyboardInterrupt):
            service.fit(None, trained, balanced=True)
    assert len({name for name in files(trained) if name.startswith("model-")}) == 4
    train_differently(trained)
    assert len({name for name in files(trained) if name.startswith("model-")}) == 4


def test_directory_with_other_files_is_rejected(drawn, graded, tmp_path):
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "chapter.tex").write_text("mine")
    with pytest.raises(CollectionError, match=r"is not empty and is not a collection .*'chapter.tex'"):
        service.fit(drawn / "pictures", out, grades=graded, features="pixels:4", n_jobs=1)
    assert files(out) == {"chapter.tex"}


def test_directory_with_leftovers_of_an_interrupted_creation_is_accepted(drawn, graded, tmp_path):
    out = tmp_path / "collection"
    out.mkdir()
    for name in (".collection.sqlite", ".collection.sqlite-journal"):
        (out / name).write_bytes(b"")
    assert service.fit(drawn / "pictures", out, grades=graded, features="pixels:4", n_jobs=1).pictures == 40


@pytest.mark.parametrize(("out", "relation"), [("pictures", "is"), ("pictures/c", "lies in"), (".", "holds")])
def test_collection_must_be_apart_from_its_pictures(out, relation, tmp_path):
    names = draw_files(tmp_path / "pictures", range(6))
    grades = service.Grades(write_grades(tmp_path / "grades.csv", names))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=rf" {relation} .*pictures; keep the collection apart"):
        service.fit(tmp_path / "pictures", tmp_path / out, grades=grades, n_jobs=1)
    assert sorted(tmp_path.rglob("*")) == before


def test_symbolic_links_to_the_pictures_are_resolved(tmp_path):
    names = draw_files(tmp_path / "pictures", range(6))
    grades = service.Grades(write_grades(tmp_path / "grades.csv", names))
    (tmp_path / "link").symlink_to(tmp_path / "pictures")
    with pytest.raises(InputError, match="lies in"):
        service.fit(tmp_path / "pictures", tmp_path / "link" / "c", grades=grades, n_jobs=1)
