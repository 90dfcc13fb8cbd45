"""Grades by several people: who gave what, their consensus, what is undone, and what was confirmed."""

import multiprocessing
import os
import shutil
from contextlib import closing

import pytest

from ordrank import Collection
from ordrank.collection.access import open_judgements
from ordrank.errors import BadPicturesError, ConflictError, InputError, NewGradeError, UnknownError
from ordrank.labeling import agreement
from tests.collection.commands import fit, info
from tests.collection.pictures import draw, draw_files, rows, write_grades


@pytest.fixture
def collection(trained):
    with Collection.open(trained) as collection:
        yield collection


def fail(*args, **options):
    raise ZeroDivisionError


def grades_of(collection, name):
    return [(given.grader, given.grade) for given in collection.labeling.grades_of(name)]


class TestGraders:
    def test_the_grade_is_the_consensus_on_the_scale(self, collection):
        for grader, grade in (("Ann", 0), ("Ben", 1), ("Cem", 2)):
            collection.grade("001.png", grade, grader=grader)
        assert collection.picture("001.png").grade == "1"
        assert grades_of(collection, "001.png") == [("Ann", "0"), ("Ben", "1"), ("Cem", "2")]
        collection.grade("001.png", 2, grader="Ann")
        assert collection.picture("001.png").grade == "2"
        assert len(grades_of(collection, "001.png")) == 3

    def test_two_graders_who_differ_by_one_grade_get_the_lower(self, collection):
        collection.grade("001.png", 1, grader="Ann")
        collection.grade("001.png", 2, grader="Ben")
        assert collection.picture("001.png").grade == "1"  # between two grades of the scale

    def test_a_withdrawn_grade_leaves_that_of_the_others(self, collection):
        collection.grade("001.png", 0, grader="Ann")
        collection.grade("001.png", 2, grader="Ben")
        collection.grade("001.png", None, grader="Ann")
        assert collection.picture("001.png").grade == "2"
        collection.grade("001.png", None, grader="Ben")
        assert collection.picture("001.png").grade is None

    def test_each_grader_undoes_only_own_changes(self, collection):
        before = collection.picture("001.png").grade
        collection.grade("001.png", 0, grader="Ann")
        collection.grade("002.png", 0, grader="Ben")
        assert [picture.name for picture in collection.undo(grader="Ann")] == ["001.png"]
        assert collection.picture("001.png").grade == before
        assert collection.undo(grader="Ann") == []
        assert [picture.name for picture in collection.undo(grader="Ben")] == ["002.png"]

    def test_changes_made_together_are_undone_together(self, collection):
        names = ["001.png", "002.png", "005.png"]
        before = [collection.picture(name).grade for name in names]
        collection.labeling.grade(names, 0)
        assert {collection.picture(name).grade for name in names} == {"0"}
        assert sorted(picture.name for picture in collection.undo()) == names
        assert [collection.picture(name).grade for name in names] == before

    def test_an_unreliable_grader_counts_less_after_training(self, collection):
        names = [f"{number:03d}.png" for number in range(1, 31)]
        for number, name in enumerate(names, start=1):
            for grader in ("Ann", "Ben"):
                collection.grade(name, number % 3, grader=grader)
            collection.grade(name, 2 - number % 3, grader="Zoe")
        report = collection.labeling.graders()
        weights = {grader.name: grader.weight for grader in report.graders}
        assert weights["Zoe"] < 0.5 * weights["Ann"]
        assert {(pair.first, pair.second): pair.kappa for pair in report.pairs}["Ann", "Ben"] == pytest.approx(1)
        assert report.total_disagreements == len(report.disagreements) == 20  # Zoe agrees on the middle grade
        collection.fit()
        collection.grade("032.png", 0, grader="Ann")
        collection.grade("032.png", 2, grader="Zoe")
        assert collection.picture("032.png").grade == "0"

    def test_reliabilities_are_forgotten_with_the_grades_they_were_estimated_from(self, collection, pictures, tmp_path):
        names = [f"{number:03d}.png" for number in range(1, 31)]
        for number, name in enumerate(names, start=1):
            for grader in ("Ann", "Ben"):
                collection.grade(name, number % 3, grader=grader)
            collection.grade(name, 2 - number % 3, grader="Zoe")
        collection.fit()
        labels = write_grades(tmp_path / "new.csv", names, grade=lambda name: (int(name[:3]) + 2) % 3)
        collection.fit(pictures, labels, n_jobs=1)
        assert collection.labeling.graders().graders == ()
        collection.grade("032.png", 0, grader="Ann")
        collection.grade("032.png", 2, grader="Zoe")
        assert collection.picture("032.png").grade == "1"

    def test_pictures_that_were_removed_are_not_counted(self, collection):
        collection.grade("001.png", 0, grader="Ann")
        collection.grade("001.png", 2, grader="Ben")
        assert collection.labeling.graders().total_disagreements == 1
        collection.remove(["001.png"])
        collection.refresh()
        report = collection.labeling.graders()
        assert (report.graders, report.total_disagreements) == ((), 0)

    def test_the_same_grades_imported_again_keep_those_of_graders(self, collection, pictures, tmp_path):
        collection.grade("001.png", 0, grader="Ann")
        collection.grade("001.png", 1, grader="Ben")
        labels = write_grades(tmp_path / "same.csv", ["001.png"], grade=lambda name: 0)
        assert collection.picture("001.png").grade == "0"
        collection.fit(pictures, labels, n_jobs=1)
        assert grades_of(collection, "001.png") == [("Ann", "0"), ("Ben", "1")]

    def test_other_grades_imported_again_replace_those_of_graders(self, collection, pictures, tmp_path):
        collection.grade("001.png", 0, grader="Ann")
        collection.fit(pictures, write_grades(tmp_path / "new.csv", ["001.png"], grade=lambda name: 2), n_jobs=1)
        assert collection.picture("001.png").grade == "2"
        assert grades_of(collection, "001.png") == []

    @pytest.mark.parametrize("name", ["José", "Jose\u0301", " José "])
    def test_the_same_name_is_the_same_grader_however_it_is_typed(self, collection, name):
        collection.grade("001.png", 0, grader=name)
        assert grades_of(collection, "001.png") == [("José", "0")]

    @pytest.mark.parametrize("name", ["Anne\u00a0Marie", "\u0645\u06cc\u200c\u062e", "\U0001f469\u200d\U0001f52c"])
    def test_names_of_any_script_are_kept(self, collection, name):
        collection.grade("001.png", 0, grader=name)
        assert grades_of(collection, "001.png") == [(name, "0")]

    @pytest.mark.parametrize("name", ["x" * 101, "a\nb", "a\0b"])
    def test_impossible_names_are_rejected(self, collection, name):
        with pytest.raises(InputError, match="name of a grader"):
            collection.grade("001.png", 0, grader=name)

    def test_the_report_is_computed_once_after_each_change(self, collection, monkeypatch):
        calls, consensus = [], agreement.consensus
        monkeypatch.setattr(agreement, "consensus", lambda *found: calls.append(None) or consensus(*found))
        collection.labeling.grade(["005.png"], 1, grader="Ann")
        assert collection.labeling.graders() == collection.labeling.graders()
        assert len(calls) == 1
        collection.labeling.grade(["005.png"], 1, grader="Ben")
        assert {one.name for one in collection.labeling.graders().graders} == {"Ann", "Ben"}
        assert len(calls) == 2

    def test_nobody_graded_anything(self, collection):
        report = collection.labeling.graders()
        assert (report.graders, report.pairs, report.disagreements, report.total_disagreements) == ((), (), (), 0)


class TestScale:
    @pytest.mark.parametrize("grade", [42, -1, 0.5])
    def test_a_grade_off_the_scale_is_rejected_where_asked(self, collection, grade):
        before = collection.picture("001.png")
        with pytest.raises(NewGradeError, match="the grades go from 0 to 2"):
            collection.labeling.grade(["001.png"], grade, allow_new=False)
        assert collection.picture("001.png") == before
        collection.labeling.grade(["001.png"], grade)
        assert collection.picture("001.png").value == grade

    def test_an_unknown_picture_changes_nothing(self, collection):
        before = rows(collection.directory, "SELECT id, grade FROM pictures")
        with pytest.raises(InputError, match="999"):
            collection.labeling.grade(["001.png", "999.png"], 0)
        assert rows(collection.directory, "SELECT id, grade FROM pictures") == before


class TestRemovedMeanwhile:
    """Another process removes a picture between the look at it and what is said about it."""

    @pytest.mark.parametrize(
        "say",
        [
            lambda labeling: labeling.grade(["001.png"], 0),
            lambda labeling: labeling.confirm("001.png"),
            lambda labeling: labeling.compare("001.png", "002.png", 1),
            lambda labeling: labeling.compare("002.png", "001.png", 0),
        ],
    )
    def test_it_is_said_that_the_picture_was_removed(self, collection, say, monkeypatch):
        seen = collection._live.current()
        collection.remove(["001.png"])
        monkeypatch.setattr(collection._live, "current", lambda *pictures: seen)
        with pytest.raises(UnknownError, match="removed"):
            say(collection.labeling)


class TestConfirmation:
    @pytest.fixture
    def spoiled(self, drawn, tmp_path):
        names = sorted(path.name for path in (drawn / "pictures").iterdir())
        write_grades(tmp_path / "g.csv", names, lambda name: 2 if name == "003.png" else int(name[:3]) % 3)
        fit(drawn / "pictures", tmp_path / "c", labels=tmp_path / "g.csv", features="pixels:4", n_jobs=1)
        with Collection.open(tmp_path / "c") as collection:
            yield collection

    def suspects(self, collection):
        return [suspect.name for suspect in collection.doctor().suspects]

    def test_a_confirmed_grade_is_not_suspected_until_it_changes(self, spoiled):
        assert self.suspects(spoiled) == ["003.png"]
        spoiled.labeling.confirm("003.png")
        assert self.suspects(spoiled) == []
        assert not any("may be wrong" in text for text in spoiled.doctor().advice)
        spoiled.labeling.confirm("003.png", is_confirmed=False)
        assert self.suspects(spoiled) == ["003.png"]
        spoiled.labeling.confirm("003.png")
        spoiled.grade("003.png", 1)  # another grade that was never confirmed
        assert self.suspects(spoiled) == ["003.png"]

    def test_what_was_looked_at_must_be_the_present_grade(self, spoiled):
        spoiled.labeling.confirm("003.png", "2")
        with pytest.raises(ConflictError, match="another grade"):
            spoiled.labeling.confirm("003.png", "1")
        spoiled.grade("003.png", None)
        with pytest.raises(InputError, match="no grade"):
            spoiled.labeling.confirm("003.png")

    def test_it_leaves_what_was_found_and_chosen_as_it_is(self, spoiled):
        before = spoiled._live.current()
        spoiled.labeling.confirm("003.png")
        spoiled.labeling.compare("001.png", "002.png", 1)
        assert spoiled._live.current() is before
        spoiled.grade("003.png", 1)
        assert spoiled._live.current() is not before

    def test_a_confirmation_survives_training(self, spoiled):
        spoiled.labeling.confirm("003.png")
        spoiled.fit()
        assert self.suspects(spoiled) == []


class TestCollectionsWithoutGrades:
    @pytest.fixture
    def ungraded(self, tmp_path):
        draw_files(tmp_path / "pictures", range(12))
        with Collection.create_ungraded(
            tmp_path / "c", tmp_path / "pictures", features="pixels:4", n_jobs=1
        ) as collection:
            yield collection

    def test_it_is_graded_and_then_trained(self, ungraded):
        assert info(ungraded.directory).graded == 0
        with pytest.raises(InputError, match="grade"):
            ungraded.fit()
        for number in range(10):
            ungraded.grade(f"{number:03d}.png", number % 3)
        report = ungraded.fit()
        assert (report.pictures, report.graded) == (12, 10)
        assert ungraded.picture("011.png").estimate == "2"

    def test_words_are_grades_if_their_order_was_given(self, tmp_path):
        draw_files(tmp_path / "pictures", range(6))
        options = {"features": "pixels:4", "n_jobs": 1, "order": "green,amber,red"}
        with Collection.create_ungraded(tmp_path / "c", tmp_path / "pictures", **options) as collection:
            collection.grade("000.png", "red")
            assert collection.picture("000.png").grade == "red"
            with pytest.raises(InputError, match="blue"):
                collection.grade("001.png", "blue")

    def test_another_call_reads_what_is_new(self, ungraded, tmp_path):
        ungraded.grade("000.png", 2)
        draw_files(tmp_path / "pictures", range(12, 15))
        continued = Collection.create_ungraded(ungraded.directory, tmp_path / "pictures", n_jobs=1)
        assert (continued.import_report.read, continued.import_report.known) == (3, 12)
        assert continued.picture("000.png").grade == "2"

    def test_another_call_cannot_change_what_is_held(self, ungraded, tmp_path):
        for options in ({"features": "pixels:5"}, {"order": "green,red"}):
            with pytest.raises(InputError, match="another directory"):
                Collection.create_ungraded(ungraded.directory, tmp_path / "pictures", **options)

    def test_a_trained_collection_is_not_replaced(self, trained, pictures):
        with pytest.raises(InputError, match="is trained already"):
            Collection.create_ungraded(trained, pictures)

    def test_pictures_are_added_before_the_first_training(self, ungraded, tmp_path):
        draw_files(tmp_path / "more", range(12, 15))
        assert ungraded.add(tmp_path / "more", {"012.png": 1}, n_jobs=1).read == 3
        assert ungraded.picture("012.png").grade == "1"
        draw(99).save(tmp_path / "more" / "000.png")  # another picture has that name
        with pytest.raises(BadPicturesError, match="cannot be used"):
            ungraded.add(tmp_path / "more", strict=True, n_jobs=1)

    def test_a_folder_without_pictures_leaves_nothing(self, tmp_path):
        (tmp_path / "empty").mkdir()
        with pytest.raises(InputError):
            Collection.create_ungraded(tmp_path / "c", tmp_path / "empty", features="pixels:4")
        assert not (tmp_path / "c").exists()

    def test_what_needs_a_model_says_so(self, ungraded, tmp_path):
        with pytest.raises(InputError, match="no model yet"):
            ungraded.doctor()
        with pytest.raises(InputError):
            ungraded.rank("000.png")
        assert ungraded.quality().error is None
        assert ungraded.pictures(sort="spectrum").total == 12


class TestConnection:
    """Changes use the same connection as long as it leads to the collection."""

    def test_it_is_opened_once(self, collection, monkeypatch):
        opened = []
        monkeypatch.setattr(
            "ordrank.collection.labeling.open_judgements",
            lambda *args, **options: opened.append(args) or open_judgements(*args, **options),
        )
        for grade in (1, 2, 3):
            collection.grade("001.png", grade)
        assert len(opened) == 1
        collection.close()
        collection.grade("001.png", 2)
        assert len(opened) == 2

    def test_a_restored_collection_is_graded(self, collection, trained, tmp_path):
        collection.grade("001.png", 1)
        copied = shutil.copytree(trained, tmp_path / "copied")
        with Collection.open(copied) as other:
            other.grade("001.png", 2)
        for file in trained.glob("collection.sqlite*"):
            file.unlink()
        for file in copied.glob("collection.sqlite*"):
            shutil.copy(file, trained)
        assert collection.grade("002.png", 2).grade == "2"
        assert Collection.open(trained).picture("001.png").grade == "2"
        assert Collection.open(trained).picture("002.png").grade == "2"

    def test_a_change_that_fails_is_not_in_the_next_one(self, collection, monkeypatch):
        with monkeypatch.context() as patched:
            patched.setattr("ordrank.collection.change_log.change_grade", fail)
            with pytest.raises(ZeroDivisionError):
                collection.grade("001.png", 3)
        collection.grade("002.png", 3)
        found = [
            rows(collection.directory, f"SELECT grade FROM pictures WHERE name = '{n}.png'") for n in ("001", "002")
        ]
        assert found[0] != [(3.0,)]
        assert found[1] == [(3.0,)]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
    def test_a_forked_process_opens_another(self, collection):
        collection.grade("001.png", 1)
        process = multiprocessing.get_context("fork").Process(target=collection.grade, args=("002.png", 2))
        process.start()
        process.join()
        assert process.exitcode == 0
        assert collection.grade("003.png", 3).grade == "3"
        assert collection.picture("002.png").grade == "2"
        assert rows(collection.directory, "PRAGMA integrity_check") == [("ok",)]


class TestQueryPlans:
    """What one picture costs does not grow with the collection."""

    TABLES = ("pictures", "gradings", "comparisons", "confirmed", "trained", "grade_changes", "embeddings")

    def scans(self, connection, statement):
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        return [text for *_, text in plan if text.startswith(tuple(f"SCAN {table}" for table in self.TABLES))]

    def test_recording_what_someone_says_scans_no_table(self, trained):
        with closing(open_judgements(trained, timeout=1)) as store:
            connection, statements = store._connection, []
            connection.set_trace_callback(statements.append)
            store.give_grades([2, 3], 0.0, "Ann", "a")
            store.give_grades([2, 3], 1.0, "Ben", "b")  # rounded to the scale
            store.put_comparison(2, 3, 1, "Ann")
            store.confirm_grade(2, 0.0)
            connection.set_trace_callback(None)
            found = [text for text in statements if text.startswith(("SELECT", "INSERT", "UPDATE", "DELETE"))]
            assert len(found) > 20
            assert {text: scans for text in found if (scans := self.scans(connection, text))} == {}

    def test_removing_a_picture_scans_no_table_that_refers_to_it(self, trained):
        with closing(open_judgements(trained, timeout=1)) as store:
            connection = store._connection
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                for _, _, parent, column, *_ in connection.execute(f"PRAGMA foreign_key_list({table})").fetchall():
                    assert parent == "pictures"
                    assert self.scans(connection, f"DELETE FROM {table} WHERE {column} = 1") == [], (table, column)
