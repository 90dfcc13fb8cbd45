"""Comparisons in a collection: which pair is next, the order they imply, and what the training makes of them."""

import re
import time

import numpy as np
import pytest
from PIL import Image
from scipy.stats import kendalltau

from ordrank import Collection
from ordrank.collection import comparing
from ordrank.collection.access import read_store
from ordrank.datasets import make_fruit
from ordrank.errors import CollectionError, InputError, UnknownError
from ordrank.labeling.position_model import PositionModel
from tests.collection.commands import fit
from tests.collection.pictures import N_GRADES, column, draw, redness, rows, write_grades


def answer(collection, count, grader=None, of=redness):
    """Compare the suggested pairs; return them."""
    labeling, asked = collection.labeling, []
    for _ in range(count):
        pair = labeling.next_pair(grader=grader)
        outcome = int(np.sign(of(pair.first.name) - of(pair.second.name)))
        labeling.compare(pair.first.id, pair.second.id, outcome, grader=grader)
        asked.append(frozenset((pair.first.id, pair.second.id)))
    return asked


@pytest.fixture
def collection(trained):
    with Collection.open(trained) as collection:
        yield collection


@pytest.fixture
def ungraded(drawn, tmp_path):
    with Collection.create_ungraded(tmp_path / "c", drawn / "pictures", features="pixels:4", n_jobs=1) as collection:
        yield collection


def tau_of(collection):
    found = collection.labeling.compared()
    return kendalltau([one.value for one in found], [redness(one.picture.name) for one in found]).statistic


class TestRecording:
    def test_a_comparison_is_replaced_and_withdrawn(self, collection, trained):
        labeling = collection.labeling
        assert labeling.compare("001.png", "002.png", -1) == 1
        assert labeling.compare("002.png", "001.png", 0) == 1
        assert labeling.compare(2, 3, 1, grader="Ann") == labeling.count_comparisons() == 2
        assert rows(trained, "SELECT grader, outcome FROM comparisons ORDER BY grader") == [("", 0), ("Ann", 1)]
        assert labeling.compare(3, 2, None, grader="Ann") == 1
        assert labeling.compare(3, 2, None) == 0

    def test_what_is_no_comparison_is_rejected(self, collection):
        with pytest.raises(InputError, match="with itself"):
            collection.labeling.compare("001.png", 2, 1)
        with pytest.raises(InputError, match="1, -1 or 0, not 2"):
            collection.labeling.compare(1, 2, 2)
        with pytest.raises(UnknownError, match="id 99"):
            collection.labeling.compare(1, 99, 1)
        assert collection.labeling.count_comparisons() == 0

    def test_the_snapshot_in_memory_stays(self, collection):
        snapshot = collection._live.current()
        collection.labeling.compare(1, 2, 1)
        assert collection._live.current().images is snapshot.images
        assert collection._live.current().grades is snapshot.grades

    def test_comparisons_go_with_a_removed_picture(self, collection):
        answer(collection, 10)
        collection.labeling.compare("001.png", "004.png", 0)
        left = [c for c in _stored(collection) if 2 not in (c.first, c.second)]
        collection.remove(["001.png"])
        assert _stored(collection) == left
        found = collection.labeling.compared()
        assert 2 not in {one.picture.id for one in found}
        assert sum(one.comparisons for one in found) == 2 * len(left)
        assert collection.labeling.next_pair() is not None

    def test_what_was_said_of_a_file_that_holds_another_picture_by_now_is_forgotten(self, collection, pictures):
        labeling = collection.labeling
        labeling.compare("001.png", "002.png", -1)
        labeling.compare("000.png", "001.png", 1)
        labeling.compare("002.png", "003.png", 1)
        labeling.confirm("001.png")
        labeling.confirm("002.png")
        grade = collection.picture("001.png").grade
        draw(70).save(pictures / "001.png")
        collection.add(pictures, n_jobs=1)
        assert [(one.first, one.second) for one in _stored(collection)] == [(3, 4)]
        assert rows(collection.directory, "SELECT id FROM confirmed") == [(3,)]
        assert collection.picture("001.png").grade == grade
        assert collection.info().added == 1


def _stored(collection):
    with read_store(collection.directory) as store:
        return store.comparisons()


class TestNextPair:
    def test_pairs_are_not_repeated_for_the_same_grader(self, collection):
        asked = answer(collection, 40, grader="Ann")
        assert len(set(asked)) == 40

    def test_skipped_pairs_are_not_returned(self, ungraded):
        first = ungraded.labeling.next_pair()
        skip = [(first.second.id, first.first.id), (10**6, 1)]
        second = ungraded.labeling.next_pair(skip=skip)
        assert {first.first.id, first.second.id} != {second.first.id, second.second.id}
        assert ungraded.labeling.next_pair() == first

    def test_there_is_none_when_all_pairs_are_answered(self, drawn, tmp_path):
        grades = write_grades(tmp_path / "g.csv", ["000.png", "001.png", "002.png"])
        fit(drawn / "pictures", tmp_path / "c", labels=grades, features="pixels:4", n_jobs=1)
        with Collection.open(tmp_path / "c") as collection:
            collection.remove([f"{number:03d}.png" for number in range(3, 40)])
            answer(collection, 3)
            assert collection.labeling.next_pair() is None
            assert collection.labeling.next_pair(grader="Ann") is not None
            collection.remove(["000.png", "001.png"])
            assert collection.labeling.next_pair() is None

    def test_the_explanation_says_what_is_known(self, collection, ungraded):
        grade = r"(0|1|2)"
        doubt = r"(nothing says which is higher|it is not certain that the (first|second) is higher: \d+\s%)"
        for _ in range(30):
            pair = collection.labeling.next_pair()
            pattern = (
                rf"(both are estimated near {grade}, and|they are estimated near {grade} and {grade}, but) {doubt}"
            )
            assert re.fullmatch(pattern, pair.explanation), pair.explanation
            answer(collection, 1)
        assert ungraded.labeling.next_pair().explanation == "neither has been compared yet"
        answer(ungraded, 60)
        assert re.fullmatch(doubt, ungraded.labeling.next_pair().explanation)

    def test_another_process_and_another_order_of_answers_lead_to_the_same_positions(self, collection, trained):
        answer(collection, 30)
        with Collection.open(trained) as other:
            again = other.labeling.compared()
        found = collection.labeling.compared()
        values = {one.picture.id: one.value for one in again}
        assert kendalltau([one.value for one in found], [values[one.picture.id] for one in found]).statistic > 0.8

    def test_it_is_fast_once_it_has_started(self, collection):
        answer(collection, 30)
        begin = time.perf_counter()
        for _ in range(10):
            collection.labeling.next_pair()
        assert time.perf_counter() - begin < 2

    def test_a_fit_after_a_new_grade_begins_near_its_positions(self, collection, monkeypatch):
        begins, fit = [], PositionModel.fit

        def note(self, comparisons, hyperparameters, grades=None, start=None):
            begins.append(start)
            return fit(self, comparisons, hyperparameters, grades, start)

        answer(collection, 40)
        first = collection.labeling.compared()[0].picture
        collection.grade(first.id, 2 if first.grade == "0" else 0)
        monkeypatch.setattr(PositionModel, "fit", note)
        collection.labeling.compared()
        fitted = collection.labeling._comparing._session.fitted
        (begin,) = begins
        spread = np.std(fitted.positions.mean)
        assert np.sqrt(np.mean((begin - fitted.positions.mean) ** 2)) < 0.3 * spread


class TestCompared:
    def test_it_is_empty_before_any_comparison(self, collection, ungraded):
        assert collection.labeling.compared() == ungraded.labeling.compared() == ()

    def test_without_grades_positions_are_standardised_and_follow_the_order(self, ungraded):
        answer(ungraded, 160)
        found = ungraded.labeling.compared()
        values = np.array([one.value for one in found])
        assert (values.mean(), values.std()) == pytest.approx((0, 1))
        assert (np.diff(values) >= 0).all()
        assert all(one.grade is None and one.deviation > 0 for one in found)
        assert sum(one.comparisons for one in found) == 320
        assert tau_of(ungraded) > 0.9

    def test_with_grades_they_are_on_their_scale_and_imply_grades(self, collection):
        answer(collection, 200)
        found = collection.labeling.compared()
        assert tau_of(collection) > 0.9
        assert all(-1.5 < one.value < 3.5 for one in found)
        implied = [one for one in found if one.grade is not None]
        assert implied
        assert all(one.picture.grade is None for one in implied)
        assert np.mean([one.grade == str(int(redness(one.picture.name))) for one in implied]) >= 0.8

    def test_equal_pictures_get_closer(self, ungraded):
        answer(ungraded, 60)
        before = {one.picture.id: one.value for one in ungraded.labeling.compared()}
        lowest, highest = min(before, key=before.get), max(before, key=before.get)
        ungraded.labeling.compare(lowest, highest, 0)
        after = {one.picture.id: one.value for one in ungraded.labeling.compared()}
        assert after[highest] - after[lowest] < before[highest] - before[lowest]

    def test_grades_that_are_given_later_count(self, ungraded):
        answer(ungraded, 60)
        ungraded.grade("000.png", 0)
        assert abs(np.mean([one.value for one in ungraded.labeling.compared()])) < 1e-9  # one grade is no scale
        for name, grade in (("001.png", 1), ("002.png", 2), ("038.png", 2), ("003.png", 0)):
            ungraded.grade(name, grade)
        assert 0.3 < np.mean([one.value for one in ungraded.labeling.compared()]) < 1.7

    def test_a_large_collection_is_asked_about_in_part(self, ungraded, monkeypatch):
        monkeypatch.setattr(comparing, "_MIN_POOL", 8)
        monkeypatch.setattr(comparing, "_COMPARISONS_PER_PICTURE", 2)
        asked = answer(ungraded, 12)
        assert len(frozenset().union(*asked)) == 8
        answer(ungraded, 18)
        assert 8 < len(ungraded.labeling.compared()) <= 18

    def test_of_too_many_compared_pictures_the_last_ones_count(self, ungraded, monkeypatch):
        monkeypatch.setattr(comparing, "_MIN_POOL", 8)
        monkeypatch.setattr(comparing, "_MAX_POOL", 8)
        for picture in range(4, 40):
            ungraded.labeling.compare(picture, picture + 1, 1)
        ungraded.labeling.compare(1, 2, 1)
        ungraded.labeling.compare(2, 3, 1)
        assert {1, 2, 3} <= {one.picture.id for one in ungraded.labeling.compared()}
        assert len(ungraded.labeling.compared()) <= 8


class TestPool:
    def test_pictures_that_were_removed_meanwhile_are_not_asked_about(self, ungraded, monkeypatch):
        comparing = ungraded.labeling._comparing
        assert ungraded.labeling.next_pair() is not None
        ungraded.remove([picture.id for picture in ungraded.pictures(limit=1000).items[2:]])
        comparing._session = None
        monkeypatch.setattr(ungraded._live, "current", lambda: ungraded._live.snapshot)  # as while another refreshes
        pair = ungraded.labeling.next_pair()
        assert {pair.first.id, pair.second.id} == {1, 2}

    @pytest.mark.parametrize("far", [1e9, -1e300])
    def test_a_grade_that_is_far_from_all_others_is_named(self, collection, far):
        collection.grade("001.png", far)
        with pytest.raises(InputError, match="far from the others"):
            collection.labeling.next_pair()


class TestTraining:
    def few_grades(self, drawn, tmp_path):
        """A collection with six of forty pictures graded."""
        grades = write_grades(tmp_path / "few.csv", [f"{number:03d}.png" for number in (0, 1, 2, 33, 34, 35)])
        fit(drawn / "pictures", tmp_path / "few", labels=grades, features="pixels:4", n_jobs=1)
        return Collection.open(tmp_path / "few")

    def test_comparisons_lower_the_error_on_drawn_fruit_but_not_the_leave_one_out_error(self, tmp_path):
        fruit, folder = make_fruit(90, size=24, random_state=1), tmp_path / "fruit"
        folder.mkdir()
        for number, image in enumerate(fruit.images):
            Image.fromarray(image).save(folder / f"{number:03d}.png")
        grades = {f"{number:03d}.png": int(fruit.grade[number]) for number in range(0, 90, 6)}
        fit(folder, tmp_path / "c", labels=grades, features="pixels:12", n_jobs=1)
        with Collection.open(tmp_path / "c") as collection:

            def error():
                others = [p for p in collection.pictures(limit=200).items if p.grade is None]
                return np.mean([abs(float(p.estimate) - fruit.grade[int(p.name[:3])]) for p in others])

            before = error()
            answer(collection, 300, of=lambda name: fruit.ripeness[int(name[:3])])
            report = collection.fit()
            assert error() < 0.8 * before
            first, second = collection.quality().trainings
            assert report.error == second.error == first.error == collection.doctor().error

    def test_no_grade_is_changed(self, drawn, tmp_path):
        with self.few_grades(drawn, tmp_path) as collection:
            grades = column(collection.directory, "grade")
            answer(collection, 150)
            collection.fit()
            assert column(collection.directory, "grade") == grades
            assert rows(collection.directory, "SELECT count(*) FROM gradings") == [(0,)]
            with read_store(collection.directory) as store:
                assert store.implied_grades()
                assert store.count_changed() == 0
            assert collection.info().graded == 6
            assert collection.pictures(given=True).total == 6

    def test_implied_grades_are_mostly_right_and_vote(self, drawn, tmp_path):
        with self.few_grades(drawn, tmp_path) as collection:
            answer(collection, 200)
            collection.fit()
            with read_store(collection.directory) as store:
                implied, embeddings = store.implied_grades(), store.embeddings()
            true = {i: int(collection.picture(i).name[:3]) % N_GRADES for i in implied}
            assert np.mean([implied[i] == true[i] for i in implied]) >= 0.8
            assert (~np.isnan(embeddings.grades)).sum() == 6 + len(implied)
            assert (~np.isnan(collection._live.current()._index.embeddings.grades)).sum() == 6 + len(implied)

    def test_training_twice_gives_the_same(self, drawn, tmp_path):
        with self.few_grades(drawn, tmp_path) as collection:
            answer(collection, 100)
            collection.fit()
            first = (column(collection.directory, "estimate"), collection.model_name)
            collection.fit()
            assert (column(collection.directory, "estimate"), collection.model_name) == first

    def test_withdrawn_comparisons_leave_no_trace(self, drawn, tmp_path):
        with self.few_grades(drawn, tmp_path) as collection:
            before = (column(collection.directory, "estimate"), collection.model_name)
            answer(collection, 100)
            collection.fit()
            for one in _stored(collection):
                collection.labeling.compare(one.first, one.second, None)
            collection.fit()
            assert (column(collection.directory, "estimate"), collection.model_name) == before

    def test_a_grade_given_since_the_training_replaces_the_implied_one(self, drawn, tmp_path):
        with self.few_grades(drawn, tmp_path) as collection:
            answer(collection, 200)
            collection.fit()
            with read_store(collection.directory) as store:
                picture, grade = next(iter(store.implied_grades().items()))
            other = (grade + 1) % N_GRADES
            collection.grade(picture, other)
            with read_store(collection.directory) as store:
                found = store.embeddings()
            assert found.grades[found.row_of(picture)] == other
            assert collection.picture(picture).grade == f"{other:g}"

    def test_the_implied_grade_of_a_removed_picture_is_forgotten(self, drawn, tmp_path):
        with self.few_grades(drawn, tmp_path) as collection:
            answer(collection, 200)
            collection.fit()
            with read_store(collection.directory) as store:
                picture = max(store.implied_grades())
            collection.remove([collection.picture(picture).name])
            with read_store(collection.directory) as store:
                assert picture not in store.implied_grades()

    def test_implied_grades_vote_alone_once_all_given_ones_are_withdrawn(self, drawn, tmp_path):
        with self.few_grades(drawn, tmp_path) as collection:
            answer(collection, 200)
            collection.fit()
            collection.labeling.grade([picture.id for picture in collection.pictures(given=True).items], None)
            result = collection.rank("004.png", within_grade=True)
            assert result.total > 0
            assert {hit.grade for hit in result.hits} == {result.grade}
            assert collection.quality().error is None
            with pytest.raises(CollectionError, match="no picture of the collection has a grade"):
                collection.doctor()
            draw(55).save(tmp_path / "055.png")
            with pytest.raises(CollectionError, match="no picture of the collection has a grade"):
                collection.evaluate_on(tmp_path, {"055.png": 1}, n_jobs=1)
            with read_store(collection.directory) as store:
                implied = list(store.implied_grades())
            collection.remove(implied)
            with pytest.raises(CollectionError, match="no picture of the collection has a grade"):
                collection.doctor()

    def test_new_pictures_are_added_and_ranked_after_it(self, drawn, tmp_path):
        with self.few_grades(drawn, tmp_path) as collection:
            answer(collection, 150)
            collection.fit()
            draw(55).save(tmp_path / "055.png")
            collection.add(tmp_path / "055.png", n_jobs=1)
            assert collection.rank("055.png").grade == "1"

    def test_two_grades_are_needed_whatever_was_compared(self, ungraded):
        answer(ungraded, 30)
        with pytest.raises(InputError, match=r"^0 pictures have a grade; an order needs two different grades$"):
            ungraded.fit()
        for name in ("000.png", "001.png", "002.png"):
            ungraded.grade(name, int(name[:3]))
        ungraded.fit()
        assert ungraded.info().graded == 3
