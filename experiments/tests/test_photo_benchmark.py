"""The benchmark of features of photographs: splits, what the training part may see, features, shares and summaries."""

import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from ordrank_experiments.photo_splits import limit_training, split_photos
from PIL import Image

from experiments.benchmarks import photos as benchmark
from experiments.benchmarks.photos import (
    CONDITIONS,
    GradedPhotos,
    choose_features,
    compare_with_single,
    load_features,
    peer_errors,
    project,
    share_of,
)

RULES = [rule for _, rule in CONDITIONS]


@pytest.fixture(scope="module")
def photos():
    rng = np.random.default_rng(0)
    grade = np.repeat(np.arange(5.0), 40)
    features = {"noise": rng.normal(size=(200, 6)), "signal": grade[:, None] + rng.normal(size=(200, 6)) / 3}
    group = np.array([f"person {i % 20}" for i in range(200)])
    part = np.where(np.arange(200) % 4, "train", "test")
    return GradedPhotos({name: block.astype(np.float32) for name, block in features.items()}, grade, group, part)


@pytest.mark.parametrize("rule", RULES)
def test_no_picture_is_in_both_parts_and_repeats_differ(photos, rule):
    first, second = (split_photos(photos, rule, repeat) for repeat in (0, 1))
    assert not set(first.train) & set(first.test)
    assert set(first.train) != set(second.train)
    assert split_photos(photos, rule, 0).train.tolist() == first.train.tolist()


def test_a_balanced_split_has_25_training_pictures_of_every_grade(photos):
    drawn = split_photos(photos, "25 a grade", 3)
    assert np.unique(photos.grade[drawn.train], return_counts=True)[1].tolist() == [25] * 5
    assert len(drawn.train) + len(drawn.test) == 200


def test_ten_folds_of_people_test_every_picture_once_and_share_no_person(photos):
    folds = [split_photos(photos, "people", repeat) for repeat in range(10)]
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(200))
    for fold in folds:
        assert not set(photos.group[fold.train]) & set(photos.group[fold.test])
        assert len(fold.groups) == len(fold.train)


def test_a_published_test_part_is_kept(photos):
    drawn = split_photos(photos, "part", 0)
    assert drawn.test.tolist() == np.flatnonzero(photos.part == "test").tolist()
    assert len(drawn.train) == 120
    assert set(photos.part[drawn.train]) == {"train"}


def test_all_of_a_published_training_part_or_a_few_of_its_pictures(photos):
    drawn = split_photos(photos, "own parts", 0)
    assert drawn.train.tolist() == np.flatnonzero(photos.part == "train").tolist()
    assert limit_training(drawn, 150, 0) is drawn
    few = limit_training(split_photos(photos, "people", 0), 30, 0)
    assert len(few.train) == len(few.groups) == 30
    assert not set(photos.group[few.train]) & set(photos.group[few.test])
    assert few.train.tolist() != limit_training(split_photos(photos, "people", 0), 30, 1).train.tolist()


@pytest.mark.parametrize("rule", RULES)
def test_choice_and_components_depend_on_the_training_part_only(photos, rule):
    drawn = split_photos(photos, rule, 0)
    hidden = {name: block.copy() for name, block in photos.features.items()}
    for block in hidden.values():
        block[drawn.test] = np.nan
    grade = photos.grade.copy()
    grade[drawn.test] = np.nan
    trained = replace(photos, features=hidden, grade=grade)
    chosen = choose_features(trained, drawn)
    assert "signal" in chosen
    assert chosen == choose_features(photos, drawn)
    np.testing.assert_array_equal(project(trained, chosen, drawn).X, project(photos, chosen, drawn).X)


def test_other_learners_are_better_than_the_median_grade(photos):
    pytest.importorskip("mord", reason="mord is not installed: make baselines")
    samples = project(photos, ("signal",), split_photos(photos, "people", 0))
    errors = peer_errors(samples)
    assert set(errors) == {"ridge", "SVR", "k-NN", "LogisticAT"}
    assert max(errors.values()) < np.abs(samples.y_test - 2).mean() / 2


def test_missing_neighbours_are_not_counted():
    person, query = np.array(["a", "b", "b"]), np.array(["a", "b"])
    assert share_of(person, query, np.array([[0, 1], [2, -1]])) == pytest.approx(2 / 3)


def test_differences_are_paired_with_the_best_single_features(monkeypatch):
    monkeypatch.setattr(benchmark, "FEATURES", ("a", "b"))
    errors = [{"a": 3.0, "b": 2.0, "auto": 1.0}, {"a": 1.0, "b": 1.0, "auto": 0.5}]
    found = compare_with_single([{(name, benchmark.OURS): error for name, error in one.items()} for one in errors])
    assert found == {"single": "b", "difference": -0.75, "standard_error": 0.25, "repeats": 2}


def test_features_are_extracted_once(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "FEATURES", ("pixels",))
    (tmp_path / "photos").mkdir()
    with zipfile.ZipFile(tmp_path / "photos" / "leaves.zip", "w") as archive:
        for i in range(3):
            stream = io.BytesIO()
            Image.new("RGB", (40, 30), (80 * i, 0, 0)).save(stream, "PNG")
            archive.writestr(f"images/{i}.png", stream.getvalue())
        archive.writestr("grades.csv", "file,grade,group\n" + "".join(f"images/{i}.png,{i},p{i}\n" for i in (2, 0, 1)))
    photos = load_features("leaves", tmp_path, tmp_path / "work")
    assert photos.grade.tolist() == [2, 0, 1]
    assert photos.group.tolist() == ["p2", "p0", "p1"]
    assert np.argsort(photos.features["pixels"].sum(axis=1)).tolist() == [1, 2, 0]
    (tmp_path / "photos" / "leaves.zip").unlink()
    again = load_features("leaves", tmp_path, tmp_path / "work")
    np.testing.assert_array_equal(again.features["pixels"], photos.features["pixels"])
