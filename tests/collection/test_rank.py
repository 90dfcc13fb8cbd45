import shutil
from pathlib import Path

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection import queries as reader
from ordrank.collection import search
from ordrank.collection.access import read_store
from ordrank.collection.ingest import reading
from ordrank.collection.ingest.reading import read_pictures
from ordrank.collection.train import fit_ranker, project
from ordrank.errors import InputError, UnreadablePictureError
from ordrank.features.registry import find_extractor
from tests.collection.commands import add, fit, info, rank, remove
from tests.collection.pictures import draw, draw_files, names, write_grades

WORDS = ("green", "amber", "red")


@pytest.fixture
def new_files(tmp_path):
    """Return picture files that are not in the collection."""
    draw_files(tmp_path / "new", range(60, 66))
    return sorted(map(str, (tmp_path / "new").iterdir()))


@pytest.fixture
def named(drawn, tmp_path):
    """Return a collection with named grades."""
    collection, graded = tmp_path / "named", [f"{number:03d}.png" for number in range(30)]
    file = write_grades(tmp_path / "words.csv", graded, grade=lambda name: WORDS[int(name[:3]) % 3])
    fit(drawn / "pictures", collection, labels=file, order=WORDS, features="pixels:2", n_jobs=1)
    return collection


def names_of(result):
    return [picture.name for picture in result.hits]


class TestGradesAndRanks:
    def test_results_equal_those_of_a_ranker_on_the_same_features(self, drawn, new_files, tmp_path):
        # All pictures are graded because a ranker ranks only the samples it was fitted on.
        collection, order = tmp_path / "collection", sorted(path.name for path in (drawn / "pictures").iterdir())
        grades = write_grades(tmp_path / "grades.csv", order)
        fit(drawn / "pictures", collection, labels=grades, features="pixels:4", n_jobs=1)
        with read_store(collection) as store:
            projection, X = project(store)
            ranker = fit_ranker(X, store.grades(), None, balanced=False)
        extractor = find_extractor("pixels:4")
        read = read_pictures([(file, Path(file)) for file in new_files], extractor)
        queries = projection(np.stack([picture.features for picture in read]))
        ranking, results = ranker.rank(queries, k=40), rank(collection, new_files, k=40)
        assert [result.value for result in results] == ranker.predict(queries).tolist()
        for result, indices, distances in zip(results, ranking.indices, ranking.distances, strict=True):
            np.testing.assert_allclose([picture.distance for picture in result.hits], distances, rtol=1e-4)
            assert names_of(result)[:10] == [order[index] for index in indices[:10]]
        within = ranker.rank(queries, k=5, within_grade=True)
        for result, indices in zip(rank(collection, new_files, k=5, within_grade=True), within.indices, strict=True):
            assert names_of(result) == [order[index] for index in indices if index >= 0]

    def test_red_pictures_are_graded_high(self, trained, tmp_path):
        for grade in range(3):
            draw(99, grade).save(tmp_path / f"{grade}.png")
        results = rank(trained, [str(tmp_path / f"{grade}.png") for grade in range(3)])
        assert [result.grade for result in results] == ["0", "1", "2"]

    def test_distances_are_sorted_and_combine_order_and_appearance(self, trained, new_files):
        for result in rank(trained, new_files, k=40):
            distances = [picture.distance for picture in result.hits]
            assert distances == sorted(distances)
            parts = [np.hypot(picture.order_distance, picture.appearance_distance) for picture in result.hits]
            np.testing.assert_allclose(parts, distances, rtol=1e-9)

    def test_probabilities_cover_all_grades_and_sum_to_one(self, trained, new_files):
        for result in rank(trained, [*new_files, "005.png"]):
            assert [each.grade for each in result.probabilities] == ["0", "1", "2"]
            assert sum(each.probability for each in result.probabilities) == pytest.approx(1)

    def test_k_above_the_size_returns_all_pictures(self, trained, new_files):
        assert {len(result.hits) for result in rank(trained, new_files, k=1000)} == {40}
        assert sorted(names_of(rank(trained, new_files[:1], k=1000)[0])) == sorted(names(trained))

    def test_ungraded_pictures_are_marked_as_estimated(self, trained):
        (result,) = rank(trained, ["005.png"], k=100)
        assert {picture.name for picture in result.hits if picture.estimated} == {
            name for name in names(trained) if int(name[:3]) % 4 == 0
        }
        assert all(picture.grade in ("0", "1", "2") for picture in result.hits)


class TestManyQueries:
    """Queries in one call have the results that each has alone."""

    @pytest.fixture
    def queries(self, tmp_path, drawn):
        """New files, more than are read in one process, a copy and names of pictures in the collection, and an id."""
        draw_files(tmp_path / "many", range(100, 170))
        shutil.copy(drawn / "pictures" / "005.png", tmp_path / "many" / "copy.png")
        files = sorted(map(str, (tmp_path / "many").iterdir()))
        return [*files[:40], "004.png", 7, "005.png", *files[40:], files[0]]

    @pytest.mark.parametrize(
        "request_",
        [
            {"k": 7},
            {"k": 3, "within_grade": True},
            {"k": 5, "offset": 4, "lowest": "1", "with_position": True},
            {"k": 5, "offset": 1000},
        ],
    )
    def test_results_are_those_of_single_queries(self, trained, queries, request_, monkeypatch):
        monkeypatch.setattr(search, "_BATCH", 16)
        monkeypatch.setattr(reader, "_BLOCK", 11)
        together = rank(trained, queries, **request_)
        alone = [result for query in queries for result in rank(trained, [query], **request_)]
        assert len(together) == len(queries) == 75
        for one, other in zip(together, alone, strict=True):
            exact = ("query", "id", "grade", "lowest", "highest", "known_grade", "total", "thumbnail")
            assert all(getattr(one, part) == getattr(other, part) for part in exact)
            assert names_of(one) == names_of(other)
            # A matrix product rounds the same row differently in another matrix.
            for part in ("distance", "order_distance", "appearance_distance"):
                np.testing.assert_allclose(
                    [getattr(hit, part) for hit in one.hits], [getattr(hit, part) for hit in other.hits], atol=1e-5
                )
            proba = ([each.probability for each in result.probabilities] for result in (one, other))
            np.testing.assert_allclose(*proba, atol=1e-5)
            assert one.novelty == pytest.approx(other.novelty, abs=1e-5)
            assert one.position == pytest.approx(other.position, abs=1e-5)

    def test_files_are_read_in_processes_with_progress(self, trained, queries, monkeypatch):
        started, events = [], []
        call = reading.call_in_processes
        monkeypatch.setattr(reading, "call_in_processes", lambda *a, **k: (started.append(k), call(*a, **k))[1])
        Collection.open(trained).rank_all(queries, n_jobs=2, progress=lambda *event: events.append(event))
        assert started == [{"n_processes": 2}]
        assert events[0] == ("reading 72 pictures", 0, 0)
        assert events[1:] == [("reading 72 pictures", done, 72) for done in range(1, 73)]

    def test_one_file_is_read_without_progress_or_processes(self, trained, queries, monkeypatch):
        monkeypatch.setattr(reading, "call_in_processes", lambda *_, **__: pytest.fail("a process was started"))
        progress = lambda stage, done, total: total or pytest.fail(stage)  # noqa: E731
        Collection.open(trained).rank_all(queries[:1], progress=progress)

    def test_unknown_names_are_rejected_before_files_are_read(self, trained, queries, monkeypatch):
        monkeypatch.setattr(reader, "read_pictures", lambda *_, **__: pytest.fail("a file was read"))
        with pytest.raises(InputError, match="nobody is neither a picture file nor a name"):
            rank(trained, [*queries, "nobody"])

    def test_unreadable_file_is_named(self, trained, queries, tmp_path):
        (tmp_path / "text.png").write_text("no picture")
        with pytest.raises(UnreadablePictureError, match=r"text\.png is not a picture"):
            rank(trained, [*queries, str(tmp_path / "text.png")])

    def test_no_queries_have_no_results(self, trained):
        assert rank(trained, []) == []


class TestStoredQueries:
    def test_queries_are_not_their_own_hits(self, trained):
        for name, result in zip(sorted(names(trained)), rank(trained, sorted(names(trained)), k=100), strict=True):
            assert name not in names_of(result)
            assert len(result.hits) == 39

    def test_queries_do_not_vote_on_themselves(self, trained, drawn, tmp_path):
        odd = write_grades(tmp_path / "odd.csv", ["005.png"], grade=lambda name: 100)
        add(trained, drawn / "pictures" / "005.png", labels=odd, n_jobs=1)
        (result,) = rank(trained, ["005.png"])
        assert result.known_grade == "100"
        assert {each.grade: each.probability for each in result.probabilities}["100"] == 0
        assert result.value == 2

    def test_file_with_the_same_content_is_the_same_query(self, trained, drawn, tmp_path):
        copy = shutil.copy(drawn / "pictures" / "005.png", tmp_path / "copy.png")
        (by_file,), (by_name,) = rank(trained, [str(copy)]), rank(trained, ["005.png"])
        assert by_file.known_grade == by_name.known_grade == "2"
        for part in ("value", "lowest", "highest", "probabilities", "novelty", "hits", "thumbnail"):
            assert getattr(by_file, part) == getattr(by_name, part)

    def test_ungraded_query_has_no_known_grade(self, trained):
        assert rank(trained, ["004.png"])[0].known_grade is None


class TestGradeRange:
    @pytest.mark.parametrize(("lowest", "highest", "grades"), [("1", None, "12"), (None, "0", "0"), ("1", "1", "1")])
    def test_range_applies_to_given_and_estimated_grades(self, trained, lowest, highest, grades):
        (result,) = rank(trained, ["005.png"], k=100, lowest=lowest, highest=highest)
        everything = rank(trained, ["005.png"], k=100)[0].hits
        assert result.hits == tuple(picture for picture in everything if picture.grade in grades)
        assert any(picture.estimated for picture in result.hits)

    def test_within_grade_returns_pictures_of_that_grade_only(self, trained, new_files):
        for result, everything in zip(
            rank(trained, new_files, k=100, within_grade=True),
            rank(trained, new_files, k=100),
            strict=True,
        ):
            assert result.hits == tuple(picture for picture in everything.hits if picture.grade == result.grade)
            assert result.hits

    def test_empty_range_gives_no_hits(self, trained):
        (result,) = rank(trained, ["005.png"], lowest="7")
        assert result.hits == ()
        assert result.grade == "2"

    def test_named_grades_can_be_bounds(self, named):
        (result,) = rank(named, ["005.png"], k=100, lowest="amber")
        assert {picture.grade for picture in result.hits} == {"amber", "red"}
        (result,) = rank(named, ["005.png"], k=100, highest="green")
        assert {picture.grade for picture in result.hits} == {"green"}

    def test_unknown_grades_are_rejected(self, named, trained):
        with pytest.raises(
            InputError, match="blue is not a grade of this collection; its grades are green, amber, red"
        ):
            rank(named, ["005.png"], lowest="blue")
        with pytest.raises(InputError, match="red is not a grade: the grades of this collection are numbers"):
            rank(trained, ["005.png"], highest="red")


def test_named_grades_are_shown_by_name(named):
    (result,) = rank(named, ["005.png"], k=100)
    assert (result.grade, result.known_grade, result.value) == ("red", "red", 2.0)
    assert [each.grade for each in result.probabilities] == list(WORDS)
    assert {picture.grade for picture in result.hits} == set(WORDS)
    assert [(count.grade, count.pictures) for count in info(named).grades] == [(word, 10) for word in WORDS]


def test_k_of_zero_is_rejected(trained):
    with pytest.raises(InputError, match="k must be at least 1"):
        rank(trained, ["005.png"], k=0)


def test_unknown_name_is_rejected_with_the_closest_one(trained):
    with pytest.raises(InputError, match=r"005\.pmg is neither a picture file nor a name in .*did you mean 005\.png\?"):
        rank(trained, ["005.pmg"])


def test_unreadable_file_is_rejected(trained, tmp_path):
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(UnreadablePictureError, match=r"text\.png is not a picture"):
        rank(trained, [str(tmp_path / "text.png")])


def test_rank_without_graded_pictures_is_rejected(trained):
    remove(trained, [name for name in names(trained) if int(name[:3]) % 4])
    with pytest.raises(InputError, match="no picture of the collection has a grade to vote with"):
        rank(trained, ["004.png"])


def test_rank_in_an_empty_collection_is_rejected(trained, new_files):
    assert remove(trained, sorted(names(trained))).left == 0
    with pytest.raises(InputError, match="no picture of the collection has a grade to vote with"):
        rank(trained, new_files)
    assert info(trained).pictures == 0
