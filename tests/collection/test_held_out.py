"""The estimate of a graded picture does not depend on its own grade, and so contradicts a false one."""

import csv
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from ordrank import Collection
from ordrank.collection.access import read_store
from ordrank.collection.model_file import current_model
from ordrank.collection.train import _out_of_fold_positions
from ordrank.datasets import make_fruit
from ordrank.estimators import OrdinalMetric
from ordrank.estimators._defaults import DEFAULTS
from tests.collection.pictures import column, draw, draw_files, rows, write_grades

N_FRUIT, N_GRADED = 150, 120
# Grades 0 to 4 that were given to six pictures, wrong by at least two; picture i has the true grade i % 5.
FALSE = {10: 3, 31: 4, 52: 0, 73: 0, 94: 1, 111: 4}


def name_of(number):
    return f"{number:03d}.png"


def save_fruit(folder):
    folder.mkdir(parents=True)
    fruit = make_fruit(N_FRUIT, size=32)
    for number, image in enumerate(fruit.images):
        Image.fromarray(image).save(folder / name_of(number))
    return {name_of(number): int(fruit.grade[number]) for number in range(N_GRADED)}


@pytest.fixture(scope="module")
def fruit_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fruit")
    grades = save_fruit(folder / "pictures") | {name_of(number): grade for number, grade in FALSE.items()}
    Collection.create(folder / "collection", folder / "pictures", grades, features="pixels:8", n_jobs=1).close()
    return folder


@pytest.fixture
def fruit(fruit_once, tmp_path):
    """A copy of a collection of 150 drawn fruit, of which 120 are graded and six of these wrongly."""
    with Collection.open(shutil.copytree(fruit_once / "collection", tmp_path / "collection")) as collection:
        yield collection


def exported(collection, out):
    collection.export(out)
    with out.open(newline="", encoding="utf-8") as stream:
        return {row["name"]: row for row in csv.DictReader(stream)}


def probability_of(result, grade):
    return {each.grade: each.probability for each in result.probabilities}.get(str(grade), 0.0)


def assert_contradicts(estimate, number, false):
    true = number % 5
    assert abs(float(estimate) - true) < abs(float(estimate) - false)


class TestFalseGrades:
    @pytest.mark.parametrize(("number", "false"), FALSE.items())
    def test_a_ranking_by_name_contradicts_a_false_grade(self, fruit, number, false):
        result = fruit.rank(name_of(number))
        assert result.known_grade == str(false)
        assert_contradicts(result.value, number, false)
        assert probability_of(result, false) <= 0.3

    def test_pictures_and_tables_contradict_false_grades(self, fruit, tmp_path):
        shown = {picture.name: picture for picture in fruit.pictures(limit=1000).items}
        frame = fruit.to_frame().set_index("name")
        table = exported(fruit, tmp_path / "out.csv")
        for number, false in FALSE.items():
            name = name_of(number)
            assert float(table[name]["grade"]) == frame["grade"][name] == float(shown[name].grade) == false
            for estimate in (table[name]["estimate"], frame["estimate"][name], shown[name].estimate):
                assert_contradicts(estimate, number, false)

    def test_the_stored_estimate_is_that_of_a_query(self, fruit):
        stored = {picture.name: picture for picture in fruit.pictures(limit=1000).items}
        for name in map(name_of, range(N_FRUIT)):
            result, picture = fruit.rank(name, k=1), stored[name]
            assert (result.grade, result.lowest, result.highest) == (picture.estimate, picture.lowest, picture.highest)

    def test_a_copy_of_the_file_is_the_same_query(self, fruit, fruit_once, tmp_path):
        for number in FALSE:
            copy = shutil.copy(fruit_once / "pictures" / name_of(number), tmp_path / "copy.png")
            assert fruit.rank(copy).probabilities == fruit.rank(name_of(number)).probabilities


class TestEstimatesOfAllPictures:
    def test_every_row_has_an_estimate_in_its_interval(self, fruit, tmp_path):
        table = exported(fruit, tmp_path / "out.csv")
        assert len(table) == N_FRUIT
        for row in table.values():
            assert float(row["lowest"]) <= float(row["estimate"]) <= float(row["highest"])
        frame = fruit.to_frame()
        assert (frame["lowest"] <= frame["estimate"]).all()
        assert (frame["estimate"] <= frame["highest"]).all()

    @pytest.mark.parametrize("grade", ["0", "2", "4", "9", None])
    @pytest.mark.parametrize("name", [name_of(10), name_of(12)])
    def test_a_change_of_the_own_grade_changes_no_estimate(self, fruit, name, grade, tmp_path):
        def seen():
            result, picture = fruit.rank(name), fruit.picture(name)
            row = exported(fruit, tmp_path / "out.csv")[name]
            return (
                (result.value, result.lowest, result.highest, result.novelty),
                {each.grade: each.probability for each in result.probabilities if each.probability > 0},
                (picture.estimate, picture.lowest, picture.highest),
                (row["estimate"], row["lowest"], row["highest"]),
            )

        before = seen()
        assert fruit.grade(name, grade).grade == grade
        assert seen() == before
        fruit.undo()
        assert seen() == before

    def test_a_change_of_one_grade_changes_no_stored_estimate(self, fruit):
        statement = "SELECT name, estimate, lowest, highest FROM pictures"
        before = rows(fruit.directory, statement)
        fruit.grade(name_of(3), "0")
        fruit.grade(name_of(130), "4")
        assert rows(fruit.directory, statement) == before

    def test_a_new_grade_is_among_the_probabilities_of_the_next_query(self, fruit):
        query = name_of(130)
        assert [each.grade for each in fruit.rank(query).probabilities] == ["0", "1", "2", "3", "4"]
        nearest = fruit.rank(query, k=1).hits[0]
        fruit.grade(nearest.id, "2.5")
        result = fruit.rank(query)
        assert [each.grade for each in result.probabilities] == ["0", "1", "2", "2.5", "3", "4"]
        assert sum(each.probability for each in result.probabilities) == pytest.approx(1)
        assert probability_of(result, "2.5") > 0
        assert probability_of(fruit.rank(nearest.id), "2.5") == 0

    def test_copies_with_the_same_features_vote_and_have_finite_estimates(self, tmp_path):
        names = draw_files(tmp_path / "pictures", range(30))
        for number in range(4):  # the same pixels in other files
            text = PngImagePlugin.PngInfo()
            text.add_text("copy", str(number))
            names.append(f"9{number}5.png")
            draw(5).save(tmp_path / "pictures" / names[-1], pnginfo=text)
        grades = write_grades(tmp_path / "g.csv", names[:-1], grade=lambda name: int(name[2]) % 3)
        with Collection.create(
            tmp_path / "c", tmp_path / "pictures", grades, features="pixels:4", n_jobs=1
        ) as collection:
            assert len(collection) == 34
            for name in names:
                result = collection.rank(name, k=3)
                assert np.isfinite([each.probability for each in result.probabilities]).all()
                assert float(result.lowest) <= result.value <= float(result.highest)
            copies = {collection.rank(name, k=100).value for name in names[-4:]}
            assert copies == {2.0}


@pytest.fixture
def few_selected(monkeypatch):
    """Make 60 samples as many as 1500 are otherwise: of more, coordinates without the own grade are out of fold."""
    monkeypatch.setattr(OrdinalMetric, "_defaults", replace(DEFAULTS, selection_samples=60))


class TestManyPictures:
    def test_false_grades_are_contradicted_by_fits_without_their_fold(self, few_selected, fruit_once, tmp_path):
        grades = {
            name: grade for name, grade in column(fruit_once / "collection", "grade").items() if grade is not None
        }
        folder = fruit_once / "pictures"
        with Collection.create(tmp_path / "c", folder, grades, features="pixels:8", n_jobs=1) as collection:
            with read_store(tmp_path / "c") as store:
                model = current_model(tmp_path / "c", store.header)
                ids, held_out = store.held_out(model.n_held_out)
            assert len(ids) == N_GRADED
            assert np.isfinite(held_out[:, : model.n_order]).all()
            for number, false in FALSE.items():
                result, picture = collection.rank(name_of(number)), collection.picture(name_of(number))
                assert result.grade == picture.estimate
                assert_contradicts(result.value, number, false)
                assert probability_of(result, false) <= 0.3
            assert {picture.estimate is None for picture in collection.pictures(limit=1000).items} == {False}

    @pytest.mark.parametrize("counts", [(50, 40, 30, 20), (60, 59, 1), (119, 1), (50, 50, 18, 1, 1)], ids=str)
    def test_positions_without_a_fold_are_near_those_of_the_whole_fit(self, few_selected, counts):
        rng, grades = np.random.default_rng(0), np.repeat(np.arange(len(counts)), counts).astype(float)
        X = rng.normal(size=(len(grades), 6)).astype(np.float32)
        X[:, 0] += 5 * grades
        X[:, 1] += 3 * (grades - 1) ** 2
        metric = OrdinalMetric(locality=8.0).fit(X, grades)  # appearance coordinates are larger than ordinal ones
        assert metric.loo_positions_ is None
        positions = _out_of_fold_positions(metric, X, grades, None)
        frequent = np.isin(grades, np.flatnonzero(np.array(counts) > 1))
        assert positions.shape == (len(X), metric.n_components_)
        difference = positions - metric.transform(X)[:, : metric.n_components_]
        assert np.sqrt(np.mean(difference[frequent] ** 2)) < 0.25  # grades have a mean square of 1


@pytest.mark.slow
def test_a_cluster_estimates_graded_pictures_without_their_grades(fruit):
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'ordrank[dask]'")
    queries = [name_of(number) for number in (*FALSE, 3, 130)]
    assert fruit.rank_all(queries, workers=1) == fruit.rank_all(queries)
