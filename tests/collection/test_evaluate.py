import numpy as np
import pytest
from PIL import Image

from ordrank.collection import evaluate as evaluation
from ordrank.datasets.fruit import make_fruit
from ordrank.errors import InputError
from tests.collection.commands import evaluate, fit
from tests.collection.pictures import content, draw_files, write_grades


@pytest.fixture(scope="module")
def fruit(tmp_path_factory):
    """120 pictures of fruit, and a function that makes a collection of them with given grades."""
    folder, drawn = tmp_path_factory.mktemp("fruit"), make_fruit(120, random_state=0, size=24)
    (folder / "pictures").mkdir()
    for number, image in enumerate(drawn.images):
        Image.fromarray(image).save(folder / "pictures" / f"{number:03d}.png")

    def make(name, grades):
        names = [f"{number:03d}.png" for number in range(len(grades))]
        file = write_grades(folder / f"{name}.csv", names, grade=lambda name: grades[int(name[:3])])
        fit(folder / "pictures", folder / name, labels=file, features="pixels:4", n_jobs=1)
        return folder / name

    return make, drawn.grade


def test_ripeness_is_recognised(fruit):
    make, ripeness = fruit
    before = content(collection := make("ripeness", ripeness))
    events = []
    score = evaluate(collection, folds=3, progress=lambda *event: events.append(event))
    assert score.mae < 0.6 * score.mae_median
    assert score.tau > 0.5
    assert score.kappa > 0.5
    assert (score.pictures, score.folds) == (120, 3)
    assert events == [("evaluating 3 folds", 0, 0), *(("evaluating", fold, 3) for fold in range(4))]
    assert content(collection) == before
    assert_consistent(score, ripeness)


def assert_consistent(score, grades):
    confusion, (labels, counts) = np.array(score.confusion), np.unique(grades, return_counts=True)
    assert score.grades == tuple(f"{label:g}" for label in labels)
    assert confusion.sum(axis=1).tolist() == counts.tolist()
    assert score.accuracy == pytest.approx(np.trace(confusion) / confusion.sum())
    assert score.mae == pytest.approx(np.average(score.mae_by_grade, weights=counts))


def test_random_grades_are_predicted_no_better_than_by_the_median(fruit):
    make, ripeness = fruit
    shuffled = np.random.default_rng(0).permutation(ripeness)
    score = evaluate(make("shuffled", shuffled), folds=3)
    assert score.mae >= 0.8 * score.mae_median
    assert abs(score.tau) < 0.3
    assert_consistent(score, shuffled)


def test_held_out_pictures_are_not_shown_to_the_fit(trained, monkeypatch):
    shown, fit_ranker = [], evaluation.fit_ranker

    def look(X, grades, groups, *, balanced):
        ranker = fit_ranker(X, grades, groups, balanced=balanced)
        shown.append((X, grades))
        predict = ranker.predict
        ranker.predict = lambda held: shown.append(held) or predict(held)
        return ranker

    monkeypatch.setattr(evaluation, "fit_ranker", look)
    evaluate(trained, folds=3)
    held = shown[1::2]
    for (X, grades), rows in zip(shown[::2], held, strict=True):
        assert len(X) + len(rows) == 40
        assert np.isnan(grades).sum() == 10
        assert not {row.tobytes() for row in X} & {row.tobytes() for row in rows}
    assert len({row.tobytes() for rows in held for row in rows}) == 30


@pytest.mark.parametrize(
    ("folds", "sentence"),
    [
        (1, "1 folds: at least 2 are needed"),
        (0, "0 folds: at least 2 are needed"),
        (16, "16 folds need at least 32 graded pictures; there are 30"),
    ],
)
def test_invalid_numbers_of_folds_are_rejected(trained, folds, sentence):
    with pytest.raises(InputError, match=sentence):
        evaluate(trained, folds=folds)


def test_a_fold_with_all_but_one_grade_is_rejected(tmp_path):
    names = draw_files(tmp_path / "pictures", range(8))
    grades = write_grades(tmp_path / "g.csv", names, grade=lambda name: int(name == "000.png"))
    fit(tmp_path / "pictures", tmp_path / "c", labels=grades, features="pixels:2", n_jobs=1)
    with pytest.raises(InputError, match="2 grades are too few to hold out a fold"):
        evaluate(tmp_path / "c", folds=3)
