"""What to grade next in a collection: with and without a model, after grades, for several graders."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection import suggestions
from ordrank.collection.access import write_store
from ordrank.errors import InputError
from tests.collection.pictures import N_GRADES, draw_files, files, rows


@pytest.fixture
def collection(trained):
    with Collection.open(trained) as collection:
        yield collection


@pytest.fixture
def ungraded(drawn, tmp_path):
    with Collection.create_ungraded(
        tmp_path / "ungraded", drawn / "pictures", features="pixels:4", n_jobs=1
    ) as collection:
        yield collection


def names_of(found):
    return [suggestion.picture.name for suggestion in found]


def grade_of(name):
    return int(name[:3]) % N_GRADES


def without_grade(collection):
    return {picture.name for picture in collection.pictures(given=False, limit=1000).items}


class TestWithAModel:
    def test_pictures_without_a_grade_are_suggested_once(self, collection):
        found = names_of(collection.labeling.suggest(100))
        assert len(found) == 10
        assert set(found) == without_grade(collection)

    def test_a_shorter_list_is_the_beginning_of_a_longer_one(self, collection):
        assert collection.labeling.suggest(3) == collection.labeling.suggest(20)[:3]
        assert names_of(collection.labeling.suggest(3)) == names_of(collection.labeling.suggest(100)[:3])
        assert collection.labeling.suggest(0) == []

    def test_every_suggestion_says_why(self, collection):
        for suggestion in collection.labeling.suggest():
            assert suggestion.reason in ("uncertain", "representative", "novel")
            assert suggestion.explanation
            if suggestion.reason == "uncertain":
                lowest, highest = suggestion.picture.lowest, suggestion.picture.highest
                assert lowest != highest
                assert suggestion.explanation.startswith(f"its grade may be {lowest} to {highest}")

    def test_graded_pictures_are_not_suggested_until_their_grade_is_withdrawn(self, collection):
        first, *others = names_of(collection.labeling.suggest(100))
        collection.grade(first, grade_of(first))
        assert set(names_of(collection.labeling.suggest(100))) == set(others)
        collection.undo()
        assert names_of(collection.labeling.suggest(100)) == [first, *others]

    def test_a_picture_like_one_that_was_just_graded_is_suggested_later(self, collection, tmp_path):
        names = draw_files(tmp_path / "new", [40])
        (tmp_path / "new" / "copy.png").write_bytes((tmp_path / "new" / names[0]).read_bytes() + b"\0")
        collection.add(tmp_path / "new", n_jobs=1)
        collection.refresh()
        before = names_of(collection.labeling.suggest(100))
        assert before[-1] in ("040.png", "copy.png")  # of two copies one is suggested
        collection.grade("040.png", 1)
        assert names_of(collection.labeling.suggest(100))[-1] == "copy.png"

    def test_pictures_whose_grade_comparisons_imply_come_last(self, collection):
        first = collection.labeling.suggest(100)[0].picture
        snapshot = collection._live.current()
        implied = np.where(snapshot.images.ids == first.id, 1.0, np.nan)
        collection._live.snapshot = replace(snapshot, implied=implied)
        assert names_of(collection.labeling.suggest(100))[-1] == first.name

    def test_without_any_grade_the_pictures_are_still_suggested(self, collection):
        for picture in collection.pictures(given=True, limit=1000).items:
            collection.grade(picture.id, None)
        found = collection.labeling.suggest(100)
        assert len(found) == 40
        assert {suggestion.reason for suggestion in found} == {"representative"}

    def test_if_all_are_graded_nothing_is_suggested(self, collection):
        for name in without_grade(collection):
            collection.grade(name, grade_of(name))
        assert collection.labeling.suggest() == []

    def test_pictures_are_chosen_once_after_each_change(self, collection, monkeypatch):
        calls = []
        choose = suggestions.choose_samples
        monkeypatch.setattr(suggestions, "choose_samples", lambda *a, **o: calls.append(1) or choose(*a, **o))
        first = collection.labeling.suggest(5)
        assert collection.labeling.suggest(5) == first
        assert collection.labeling.suggest(2) == first[:2]
        assert len(calls) == 1
        collection.grade(first[0].picture.id, 1)
        collection.labeling.suggest(5)
        assert len(calls) == 2

    def test_replaced_snapshots_are_not_kept_in_memory(self, collection):
        collection.labeling.suggest()
        snapshot = weakref.ref(collection._live.snapshot)
        collection.grade("000.png", 1)
        gc.collect()
        assert snapshot() is None

    def test_nothing_is_written(self, collection):
        before = files(collection.directory), rows(collection.directory, "SELECT * FROM meta ORDER BY 1")
        collection.labeling.suggest()
        assert (files(collection.directory), rows(collection.directory, "SELECT * FROM meta ORDER BY 1")) == before

    @pytest.mark.parametrize("k", [-1, 1001])
    def test_an_unreasonable_number_is_an_input_error(self, collection, k):
        with pytest.raises(InputError, match="0 to 1000"):
            collection.labeling.suggest(k)


class TestWithoutAModel:
    def test_the_first_suggestions_stand_for_all_pictures(self, ungraded):
        found = ungraded.labeling.suggest()
        assert len(set(names_of(found))) == 20
        assert {suggestion.reason for suggestion in found} == {"representative"}
        counts = [int(one.explanation.split()[2]) for one in found if one.explanation.startswith("stands for")]
        assert sum(counts) == 40 - 20
        assert "without a grade" in found[0].explanation

    def test_they_do_not_depend_on_what_has_been_asked_before(self, ungraded):
        first = ungraded.labeling.suggest(5)
        with Collection.open(ungraded.directory) as other:
            assert other.labeling.suggest(10)[:5] == first

    def test_grades_count_before_the_first_training(self, ungraded):
        found = names_of(ungraded.labeling.suggest(5))
        for name in found:
            ungraded.grade(name, grade_of(name))
        following = names_of(ungraded.labeling.suggest(5))
        assert not set(found) & set(following)

    def test_suggestions_go_on_after_the_first_training(self, ungraded):
        for _ in range(2):
            for name in names_of(ungraded.labeling.suggest(6)):
                ungraded.grade(name, grade_of(name))
        ungraded.fit(n_jobs=1)
        found = ungraded.labeling.suggest(100)
        assert set(names_of(found)) == without_grade(ungraded)
        assert found[0].picture.estimate is not None

    def test_long_features_limit_the_number_of_pictures_considered(self, ungraded, monkeypatch):
        monkeypatch.setattr(suggestions, "_MAX_VALUES", 48 * 10)
        monkeypatch.setattr(suggestions, "_MIN_CANDIDATES", 1)
        monkeypatch.setattr(suggestions, "_BATCH", 5)
        assert len(ungraded.labeling.suggest(20)) == 10
        assert any("stands for about" in suggestion.explanation for suggestion in ungraded.labeling.suggest(5))

    def test_an_empty_collection_has_no_suggestions(self, ungraded):
        with write_store(ungraded.directory) as store:
            store.remove([name for _, name in rows(ungraded.directory, "SELECT id, name FROM pictures")])
        assert ungraded.labeling.suggest() == []


class TestSeveralGraders:
    def test_named_graders_get_different_pictures(self, collection):
        collection.grade("001.png", 1, grader="Ann")
        collection.grade("002.png", 2, grader="Ben")
        everything = names_of(collection.labeling.suggest(8))
        ann, ben = (names_of(collection.labeling.suggest(4, grader=name)) for name in ("Ann", "Ben"))
        assert set(ann) | set(ben) == set(everything)
        assert not set(ann) & set(ben)
        assert ann[0] == everything[0]

    def test_a_single_grader_gets_all(self, collection):
        assert collection.labeling.suggest(5, grader="Ann") == collection.labeling.suggest(5)

    def test_nobody_is_without_work_while_pictures_remain(self, collection):
        for name in ("Ann", "Ben", "Cem"):
            collection.grade("001.png", 1, grader=name)
        remaining = sorted(without_grade(collection))
        for name in remaining[1:]:
            collection.grade(name, grade_of(name))
        for grader in ("Ann", "Ben", "Cem", "Dan"):
            assert names_of(collection.labeling.suggest(5, grader=grader)) == remaining[:1]


def test_uncertain_pictures_are_said_to_be_so(tmp_path):
    """Pictures between two grades may have either."""
    rng = np.random.default_rng(0)
    names, labels = draw_files(tmp_path / "pictures", range(90)), {}
    for name in names[:60]:
        labels[name] = grade_of(name) if rng.random() < 0.6 else int(rng.integers(N_GRADES))  # people disagree
    with Collection.create(tmp_path / "c", tmp_path / "pictures", labels, features="pixels:2", n_jobs=1) as collection:
        found = collection.labeling.suggest(30)
    uncertain = [suggestion for suggestion in found if suggestion.reason == "uncertain"]
    assert uncertain
    for suggestion in uncertain:
        assert suggestion.explanation.startswith("its grade may be ")
