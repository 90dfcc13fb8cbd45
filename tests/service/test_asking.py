import shutil

import numpy as np
import pytest

from ordrank import service
from ordrank.collection.store import read_store
from ordrank.collection.training import fit_ranker, project
from ordrank.errors import InputError, UnreadablePictureError
from ordrank.features.reading import read_one
from ordrank.features.registry import find_extractor
from tests.service.drawing import draw, draw_files, names, write_grades

WORDS = ("green", "amber", "red")


@pytest.fixture
def strangers(tmp_path):
    """Files of pictures that are in no collection."""
    draw_files(tmp_path / "strangers", range(60, 66))
    return sorted(map(str, (tmp_path / "strangers").iterdir()))


@pytest.fixture
def named(drawn, tmp_path):
    """A collection whose grades are words."""
    collection, graded = tmp_path / "named", [f"{number:03d}.png" for number in range(30)]
    file = write_grades(tmp_path / "words.csv", graded, grade=lambda name: WORDS[int(name[:3]) % 3])
    service.fit(drawn / "pictures", collection, grades=service.Grades(file, order=WORDS), features="pixels:2", n_jobs=1)
    return collection


def found(answer):
    return [picture.name for picture in answer.results]


class TestGradesAndRanks:
    def test_are_those_of_a_ranker_fitted_on_the_same_features(self, drawn, strangers, tmp_path):
        # All pictures are graded, because a ranker ranks those it was fitted on.
        collection, order = tmp_path / "collection", sorted(path.name for path in (drawn / "pictures").iterdir())
        grades = service.Grades(write_grades(tmp_path / "grades.csv", order))
        service.fit(drawn / "pictures", collection, grades=grades, features="pixels:4", n_jobs=1)
        with read_store(collection) as store:
            projection, X = project(store)
            ranker = fit_ranker(X, store.grades(), balanced=False)
        extractor = find_extractor("pixels:4")
        queries = projection(np.stack([read_one(file, extractor).features for file in strangers]))
        ranking, answers = ranker.rank(queries, k=40), service.ask(collection, strangers, k=40)
        assert [answer.value for answer in answers] == ranker.predict(queries).tolist()
        for answer, indices, distances in zip(answers, ranking.indices, ranking.distances, strict=True):
            np.testing.assert_allclose([picture.distance for picture in answer.results], distances, rtol=1e-4)
            assert found(answer)[:10] == [order[index] for index in indices[:10]]
        within = ranker.rank(queries, k=5, within_grade=True)
        for answer, indices in zip(
            service.ask(collection, strangers, k=5, within_grade=True), within.indices, strict=True
        ):
            assert found(answer) == [order[index] for index in indices if index >= 0]

    def test_red_pictures_are_graded_high(self, trained, tmp_path):
        for grade in range(3):
            draw(99, grade).save(tmp_path / f"{grade}.png")
        answers = service.ask(trained, [str(tmp_path / f"{grade}.png") for grade in range(3)])
        assert [answer.grade for answer in answers] == ["0", "1", "2"]

    def test_distances_rise_and_are_made_of_order_and_appearance(self, trained, strangers):
        for answer in service.ask(trained, strangers, k=40):
            distances = [picture.distance for picture in answer.results]
            assert distances == sorted(distances)
            parts = [np.hypot(picture.order_distance, picture.appearance_distance) for picture in answer.results]
            np.testing.assert_allclose(parts, distances, rtol=1e-9)

    def test_shares_of_the_votes_are_of_all_grades_and_sum_to_one(self, trained, strangers):
        for answer in service.ask(trained, [*strangers, "005.png"]):
            assert [vote.grade for vote in answer.votes] == ["0", "1", "2"]
            assert sum(vote.share for vote in answer.votes) == pytest.approx(1)

    def test_more_answers_than_pictures_are_all_pictures(self, trained, strangers):
        assert {len(answer.results) for answer in service.ask(trained, strangers, k=1000)} == {40}
        assert sorted(found(service.ask(trained, strangers[:1], k=1000)[0])) == sorted(names(trained))

    def test_pictures_without_a_grade_are_found_and_marked(self, trained):
        (answer,) = service.ask(trained, ["005.png"], k=100)
        assert {picture.name for picture in answer.results if picture.estimated} == {
            name for name in names(trained) if int(name[:3]) % 4 == 0
        }
        assert all(picture.grade in ("0", "1", "2") for picture in answer.results)


class TestPicturesOfTheCollection:
    def test_are_not_their_own_answers(self, trained):
        for name, answer in zip(
            sorted(names(trained)), service.ask(trained, sorted(names(trained)), k=100), strict=True
        ):
            assert name not in found(answer)
            assert len(answer.results) == 39

    def test_have_no_vote_on_themselves(self, trained, drawn, tmp_path):
        odd = write_grades(tmp_path / "odd.csv", ["005.png"], grade=lambda name: 100)
        service.add(trained, drawn / "pictures" / "005.png", grades=service.Grades(odd), n_jobs=1)
        (answer,) = service.ask(trained, ["005.png"])
        assert answer.known_grade == "100"
        assert {vote.grade: vote.share for vote in answer.votes}["100"] == 0
        assert answer.value == 2

    def test_a_file_with_the_same_content_is_the_same_picture(self, trained, drawn, tmp_path):
        copy = shutil.copy(drawn / "pictures" / "005.png", tmp_path / "copy.png")
        (by_file,), (by_name,) = service.ask(trained, [str(copy)]), service.ask(trained, ["005.png"])
        assert by_file.known_grade == by_name.known_grade == "2"
        for part in ("value", "votes", "results", "thumbnail"):
            assert getattr(by_file, part) == getattr(by_name, part)

    def test_a_picture_without_a_grade_has_no_known_one(self, trained):
        assert service.ask(trained, ["004.png"])[0].known_grade is None


class TestBounds:
    @pytest.mark.parametrize(("lowest", "highest", "grades"), [("1", None, "12"), (None, "0", "0"), ("1", "1", "1")])
    def test_hold_for_given_and_estimated_grades(self, trained, lowest, highest, grades):
        (answer,) = service.ask(trained, ["005.png"], k=100, lowest=lowest, highest=highest)
        everything = service.ask(trained, ["005.png"], k=100)[0].results
        assert answer.results == tuple(picture for picture in everything if picture.grade in grades)
        assert any(picture.estimated for picture in answer.results)

    def test_within_grade_finds_pictures_of_that_grade_only(self, trained, strangers):
        for answer, everything in zip(
            service.ask(trained, strangers, k=100, within_grade=True),
            service.ask(trained, strangers, k=100),
            strict=True,
        ):
            assert answer.results == tuple(picture for picture in everything.results if picture.grade == answer.grade)
            assert answer.results

    def test_that_no_picture_meets_give_no_answers(self, trained):
        (answer,) = service.ask(trained, ["005.png"], lowest="7")
        assert answer.results == ()
        assert answer.grade == "2"

    def test_words_are_bounds_too(self, named):
        (answer,) = service.ask(named, ["005.png"], k=100, lowest="amber")
        assert {picture.grade for picture in answer.results} == {"amber", "red"}
        (answer,) = service.ask(named, ["005.png"], k=100, highest="green")
        assert {picture.grade for picture in answer.results} == {"green"}

    def test_what_is_no_grade_is_refused(self, named, trained):
        with pytest.raises(InputError, match="blue is no grade of this collection; its grades are green, amber, red"):
            service.ask(named, ["005.png"], lowest="blue")
        with pytest.raises(InputError, match="red is no grade: the grades of this collection are numbers"):
            service.ask(trained, ["005.png"], highest="red")


def test_grades_that_are_words_are_shown_as_such(named):
    (answer,) = service.ask(named, ["005.png"], k=100)
    assert (answer.grade, answer.known_grade, answer.value) == ("red", "red", 2.0)
    assert [vote.grade for vote in answer.votes] == list(WORDS)
    assert {picture.grade for picture in answer.results} == set(WORDS)
    assert service.describe(named).grades == {"green": 10, "amber": 10, "red": 10}


def test_no_answers_at_all_are_refused(trained):
    with pytest.raises(InputError, match="k must be at least 1"):
        service.ask(trained, ["005.png"], k=0)


def test_a_name_that_is_not_there_is_refused_with_the_nearest(trained):
    with pytest.raises(InputError, match=r"005\.pmg is neither a picture file nor a name in .*did you mean 005\.png\?"):
        service.ask(trained, ["005.pmg"])


def test_a_file_that_is_no_picture_is_refused(trained, tmp_path):
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(UnreadablePictureError, match=r"text\.png is not a picture"):
        service.ask(trained, [str(tmp_path / "text.png")])


def test_a_collection_without_graded_pictures_says_so(trained):
    service.remove(trained, [name for name in names(trained) if int(name[:3]) % 4])
    with pytest.raises(InputError, match="no picture of the collection has a grade to vote with"):
        service.ask(trained, ["004.png"])


def test_an_empty_collection_says_so(trained, strangers):
    assert service.remove(trained, sorted(names(trained))) == 0
    with pytest.raises(InputError, match="no picture of the collection has a grade to vote with"):
        service.ask(trained, strangers)
    assert service.describe(trained).pictures == 0
