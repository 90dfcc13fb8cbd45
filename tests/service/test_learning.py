import os
import shutil
from functools import partial

import numpy as np
import pytest

from ordrank import service
from ordrank.collection import training
from ordrank.collection.store import read_store
from ordrank.errors import BadPicturesError, CollectionError, GradesError, InputError
from ordrank.estimators import OrdinalMetric
from tests.service.drawing import content, draw, draw_files, files, names, rows, write_grades


def grades_of(file, graded, **how):
    return service.Grades(write_grades(file, graded, **how))


def column(collection, name):
    return dict(rows(collection, f"SELECT name, {name} FROM pictures"))


class TestFit:
    def test_says_what_it_did(self, drawn, pictures, tmp_path):
        (pictures / "notes.txt").write_text("no picture")
        told, ticks = [], []
        watch = service.Watch(tell=told.append, tick=lambda done, total: ticks.append((done, total)))
        grades = service.Grades(drawn / "grades.csv")
        fitted = service.fit(pictures, tmp_path / "c", grades=grades, features="pixels:4", n_jobs=1, watch=watch)
        assert (fitted.pictures, fitted.graded) == (40, 30)
        assert fitted.intake == service.Intake(read=40, known=0, bad=(), ignored=1)
        assert fitted.error == pytest.approx(0, abs=0.2)
        assert fitted.chosen == service.describe(tmp_path / "c").model
        assert told == ["reading 40 pictures", "learning a distance"]
        assert ticks == [(40, 40)]

    def test_pictures_without_a_grade_get_an_estimate_and_others_do_not(self, trained):
        for name, estimate in column(trained, "estimate").items():
            assert (estimate is None) == (int(name[:3]) % 4 != 0)
            assert estimate in (None, int(name[:3]) % 3)

    def test_all_is_placed(self, trained):
        assert rows(trained, "SELECT count(*) FROM embeddings") == [(40,)]
        assert service.describe(trained).waiting == 0

    def test_pictures_without_a_grade_take_part_in_learning(self, trained, drawn, tmp_path):
        folder = tmp_path / "graded"
        folder.mkdir()
        for name in names(trained):
            if int(name[:3]) % 4:
                shutil.copy2(drawn / "pictures" / name, folder)
        service.fit(folder, tmp_path / "c", grades=service.Grades(drawn / "grades.csv"), features="pixels:4", n_jobs=1)
        assert len(names(tmp_path / "c")) == 30
        model = "SELECT value FROM meta WHERE key = 'model'"
        assert rows(tmp_path / "c", model) != rows(trained, model)

    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    def test_places_are_to_the_last_bit_what_a_reader_of_the_model_computes(self, trained, kernel, monkeypatch):
        monkeypatch.setattr(training, "OrdinalMetric", partial(OrdinalMetric, kernel=kernel))
        monkeypatch.setattr(training, "_ROWS_PER_BLOCK", 1)  # of a single row a product may be computed otherwise
        assert service.fit(None, trained).chosen["kernel"] == kernel
        with read_store(trained) as store:
            model, (_, X) = training.model_of(store), training.project(store)
            placed = [model.place_projected(row[None])[0] for row in X]
            assert np.stack(placed).tobytes() == store.places().vectors.tobytes()

    def test_again_changes_nothing(self, trained, drawn):
        before = content(trained), files(trained)
        fitted = service.fit(drawn / "pictures", trained, n_jobs=1)
        assert (fitted.intake.read, fitted.intake.known) == (0, 40)
        assert (content(trained), files(trained)) == before

    def test_needs_no_pictures_to_train_again(self, trained):
        before = content(trained)
        assert service.fit(None, trained).intake == service.Intake()
        assert content(trained) == before

    def test_does_not_read_unchanged_files_again(self, trained, pictures):
        for name in names(trained):
            status = (pictures / name).stat()
            (pictures / name).write_bytes(bytes(status.st_size))
            os.utime(pictures / name, ns=(status.st_atime_ns, status.st_mtime_ns))
        fitted = service.fit(pictures, trained, n_jobs=1)
        assert fitted.intake == service.Intake(read=0, known=40)

    def test_reads_a_changed_file_again_and_keeps_its_grade(self, trained, pictures):
        before = {part: column(trained, part) for part in ("id", "grade", "sha256", "estimate")}
        draw(500, 0).save(pictures / "005.png")
        fitted = service.fit(pictures, trained, n_jobs=1)
        assert (fitted.intake.read, fitted.intake.known, fitted.pictures) == (1, 39, 40)
        after = {part: column(trained, part) for part in before}
        assert after["sha256"].pop("005.png") != before["sha256"].pop("005.png")
        assert after == before | {"estimate": after["estimate"]}
        assert after["grade"]["005.png"] == 2

    def test_changes_the_grades_that_are_named_and_no_others(self, trained, drawn, tmp_path):
        before = column(trained, "grade")
        service.fit(None, trained, grades=grades_of(tmp_path / "g.csv", ["000.png", "001.png"], grade=lambda name: 2))
        assert column(trained, "grade") == before | {"000.png": 2, "001.png": 2}
        assert column(trained, "estimate")["000.png"] is None

    def test_keeps_copies_once_and_names_them(self, pictures, drawn, tmp_path):
        shutil.copy(pictures / "005.png", pictures / "copy.png")
        fitted = service.fit(
            pictures, tmp_path / "c", grades=service.Grades(drawn / "grades.csv"), features="pixels:4", n_jobs=1
        )
        ((name, reason),) = ((bad.name, bad.reason) for bad in fitted.intake.bad)
        assert (name, reason) == ("copy.png", "has the same content as '005.png' and is kept once")
        assert (fitted.pictures, fitted.intake.read) == (40, 40)

    def test_goes_on_without_bad_files_and_names_them(self, trained, pictures):
        (pictures / "bad.png").write_text("no picture")
        fitted = service.fit(pictures, trained, n_jobs=1)
        assert [(bad.name, bad.reason) for bad in fitted.intake.bad] == [
            ("bad.png", "is not a picture that can be read")
        ]
        assert fitted.pictures == 40

    def test_refuses_bad_files_if_it_is_strict_and_keeps_the_model(self, trained, pictures):
        (pictures / "bad.png").write_text("no picture")
        model = rows(trained, "SELECT * FROM meta")
        with pytest.raises(BadPicturesError, match="1 file cannot be used") as error:
            service.fit(pictures, trained, n_jobs=1, strict=True)
        assert [bad.name for bad in error.value.bad] == ["bad.png"]
        assert rows(trained, "SELECT * FROM meta") == model

    def test_balanced_grades_give_another_model(self, drawn, tmp_path):
        uneven = [f"{number:03d}.png" for number in range(40) if number % 3 or number < 9]
        models = set()
        for balanced in (False, True):
            grades = grades_of(tmp_path / "g.csv", uneven)
            collection = tmp_path / str(balanced)
            service.fit(drawn / "pictures", collection, grades=grades, features="pixels:2", n_jobs=1, balanced=balanced)
            models |= set(rows(collection, "SELECT value FROM meta WHERE key = 'model'"))
        assert len(models) == 2

    def test_on_many_cores_gives_the_same_collection(self, trained, drawn, tmp_path):
        # The first 64 pictures are read by the process itself.
        draw_files(tmp_path / "more", range(50, 120))
        other = shutil.copytree(trained, tmp_path / "other")
        service.add(trained, tmp_path / "more", n_jobs=1)
        service.add(other, tmp_path / "more", n_jobs=2)
        assert content(trained) == content(other)


class TestRefusedFits:
    def test_leave_no_directory(self, drawn, tmp_path):
        one = grades_of(tmp_path / "one.csv", ["000.png", "001.png"], grade=lambda name: 1)
        (tmp_path / "none.csv").write_text("file,grade\n")
        bad = tmp_path / "bad"
        bad.mkdir()
        (bad / "000.png").write_text("no picture")
        (bad / "001.png").write_text("no picture")
        refusals = (
            (drawn / "pictures", one, GradesError, "all grades are the same: an order needs two different grades"),
            (
                drawn / "pictures",
                service.Grades(tmp_path / "none.csv"),
                GradesError,
                "there is no line below the names",
            ),
            (drawn / "pictures", None, InputError, "a new collection needs grades to learn from"),
            (None, one, CollectionError, "is not a collection yet; name the folder of pictures"),
            (tmp_path / "nowhere", one, InputError, "there is no folder or file"),
            (
                bad,
                grades_of(tmp_path / "two.csv", ["000.png", "001.png"]),
                BadPicturesError,
                r"none of the files could be read as a picture\. 000\.png is not a picture",
            ),
        )
        for images, grades, kind, sentence in refusals:
            with pytest.raises(kind, match=sentence):
                service.fit(images, tmp_path / "collection", grades=grades, n_jobs=1)
            assert not (tmp_path / "collection").exists()

    def test_an_existing_directory_stays(self, tmp_path):
        draw_files(tmp_path / "bad", [])
        for name in ("000.png", "001.png"):
            (tmp_path / "bad" / name).write_text("no picture")
        (tmp_path / "collection").mkdir()
        with pytest.raises(BadPicturesError):
            service.fit(
                tmp_path / "bad",
                tmp_path / "collection",
                grades=grades_of(tmp_path / "g.csv", ["000.png", "001.png"]),
                n_jobs=1,
            )
        assert files(tmp_path / "collection") == set()

    def test_where_all_graded_pictures_but_one_are_bad_pictures_are_kept_for_the_next(self, pictures, tmp_path):
        (pictures / "001.png").write_text("no picture")
        two, three = (grades_of(tmp_path / f"{n}.csv", [f"{i:03d}.png" for i in range(n)]) for n in (2, 4))
        with pytest.raises(InputError, match="1 picture has a grade; an order needs two different grades"):
            service.fit(pictures, tmp_path / "c", grades=two, features="pixels:2", n_jobs=1)
        with pytest.raises(CollectionError, match="has no model yet; train it with `ordrank fit"):
            service.ask(tmp_path / "c", ["000.png"])
        assert service.describe(tmp_path / "c").model is None
        fitted = service.fit(pictures, tmp_path / "c", grades=three, n_jobs=1)
        assert (fitted.pictures, fitted.graded, fitted.intake.known) == (39, 3, 39)

    def test_other_features_need_another_directory(self, trained, drawn):
        before = content(trained)
        with pytest.raises(CollectionError, match="holds features of pixels:4, not of hog; use another directory"):
            service.fit(drawn / "pictures", trained, features="hog")
        assert content(trained) == before
        service.fit(None, trained, features="pixels:4")

    def test_another_order_needs_another_directory(self, trained, drawn, tmp_path):
        words = service.Grades(drawn / "grades.csv", order=("mild", "severe"))
        with pytest.raises(CollectionError, match="holds numbers; another order needs another directory"):
            service.fit(None, trained, grades=words)

    def test_equal_pictures_cannot_be_told_apart(self, tmp_path):
        folder = tmp_path / "grey"
        folder.mkdir()
        for number in range(4):  # another size, and the same features
            draw(0).resize((1, 1)).resize((10 + number, 10)).save(folder / f"{number:03d}.png")
        grades = grades_of(tmp_path / "g.csv", [f"{number:03d}.png" for number in range(4)])
        with pytest.raises(InputError, match="all pictures give the same features"):
            service.fit(folder, tmp_path / "c", grades=grades, features="pixels:2", n_jobs=1)


class TestAdd:
    def test_places_pictures_at_once(self, trained, tmp_path):
        new = draw_files(tmp_path / "new", range(50, 56))
        model = rows(trained, "SELECT * FROM meta")
        assert service.add(trained, tmp_path / "new", n_jobs=1) == service.Intake(read=6)
        assert rows(trained, "SELECT * FROM meta") == model
        assert {name: column(trained, "estimate")[name] for name in new} == {name: int(name[:3]) % 3 for name in new}
        assert {picture.name for picture in service.ask(trained, ["005.png"], k=100)[0].results} >= set(new)

    def test_new_grades_vote_at_once(self, trained, tmp_path):
        new = draw_files(tmp_path / "new", range(50, 90))
        grades = grades_of(tmp_path / "g.csv", new, grade=lambda name: 7)
        assert "7" not in [vote.grade for vote in service.ask(trained, ["005.png"])[0].votes]
        service.add(trained, tmp_path / "new", grades=grades, n_jobs=1)
        assert service.ask(trained, ["005.png"])[0].votes[-1].share > 0.2

    def test_before_a_fit_is_refused(self, drawn, tmp_path):
        with pytest.raises(CollectionError, match="has no model yet; train it with `ordrank fit"):
            service.add(tmp_path / "c", drawn / "pictures")
        assert not (tmp_path / "c").exists()

    def test_again_changes_nothing(self, trained, tmp_path):
        draw_files(tmp_path / "new", range(50, 56))
        service.add(trained, tmp_path / "new", n_jobs=1)
        before = content(trained)
        assert service.add(trained, tmp_path / "new", n_jobs=1) == service.Intake(known=6)
        assert content(trained) == before

    def test_a_changed_picture_keeps_its_grade_and_gets_no_estimate(self, trained, pictures):
        draw(500, 0).save(pictures / "005.png")
        assert service.add(trained, pictures, n_jobs=1).read == 1
        assert (column(trained, "grade")["005.png"], column(trained, "estimate")["005.png"]) == (2, None)
        assert service.describe(trained).waiting == 0

    def test_what_is_added_is_what_a_fit_would_have_read(self, trained, tmp_path):
        draw_files(tmp_path / "new", range(50, 56))
        other = shutil.copytree(trained, tmp_path / "other")
        service.add(trained, tmp_path / "new", n_jobs=1)
        service.fit(tmp_path / "new", other, n_jobs=1)
        service.fit(None, trained)
        assert content(trained) == content(other)

    def test_strict_says_what_was_left_out(self, trained, tmp_path):
        draw_files(tmp_path / "new", [50])
        (tmp_path / "new" / "bad.png").write_text("no picture")
        with pytest.raises(BadPicturesError):
            service.add(trained, tmp_path / "new", n_jobs=1, strict=True)
        assert "050.png" in names(trained)


class TestRemove:
    def test_forgets_all_that_is_known_of_pictures(self, trained, drawn):
        assert service.remove(trained, ["000.png", "001.png", "000.png"]) == 38
        for table in ("pictures", "features", "embeddings", "thumbnails"):
            assert rows(trained, f"SELECT count(*) FROM {table}") == [(38,)]
        assert (drawn / "pictures" / "000.png").exists()

    def test_forgets_nothing_if_a_name_is_unknown(self, trained):
        before = content(trained)
        with pytest.raises(InputError, match=r"nothing was removed: .* has no picture named 'x\.png', '🍎'"):
            service.remove(trained, ["000.png", "x.png", "🍎"])
        assert content(trained) == before

    def test_what_was_forgotten_can_come_again(self, trained, drawn):
        before = {part: column(trained, part) for part in ("sha256", "estimate", "size", "mtime_ns")}
        service.remove(trained, ["000.png"])
        assert service.add(trained, drawn / "pictures", n_jobs=1) == service.Intake(read=1, known=39)
        assert {part: column(trained, part) for part in before} == before


def test_a_description_is_what_the_collection_holds(trained):
    description = service.describe(trained)
    assert (description.pictures, description.graded, description.waiting) == (40, 30, 0)
    assert description.grades == {"0": 10, "1": 10, "2": 10}
    assert description.features == "pixels:4"
    assert description.dimensions == {"features": 48, "projection": 39, "order": 2}
    assert description.bytes == sum(path.stat().st_size for path in trained.iterdir())
    assert description.fitted.endswith(" UTC")
    assert np.isfinite(description.model["locality"])


class TestRenamedFiles:
    @staticmethod
    def rename(folder, new_names):
        """Give files each other's names."""
        for old in new_names:
            (folder / old).rename(folder / f"{old}.moved")
        for old, new in new_names.items():
            (folder / f"{old}.moved").rename(folder / new)
            os.utime(folder / new)

    @pytest.mark.parametrize("work", ["fit", "add"])
    @pytest.mark.parametrize("step", [1, 7, 39])
    def test_a_name_stands_for_what_is_in_its_file_now(self, trained, pictures, step, work):
        before = {part: column(trained, part) for part in ("sha256", "id", "grade")}
        new_names = {f"{number:03d}.png": f"{(number + step) % 40:03d}.png" for number in range(40)}
        self.rename(pictures, new_names)
        done = service.fit(pictures, trained, n_jobs=1).intake if work == "fit" else service.add(trained, pictures)
        assert done == service.Intake(read=40)
        after = {part: column(trained, part) for part in before}
        assert after["sha256"] == {new: before["sha256"][old] for old, new in new_names.items()}
        assert (after["id"], after["grade"]) == (before["id"], before["grade"])

    def test_a_picture_whose_name_went_to_no_other_lives_on(self, trained, pictures):
        before = column(trained, "sha256")
        self.rename(pictures, {f"{number:03d}.png": f"{number + 1:03d}.png" for number in range(40)})
        fitted = service.fit(pictures, trained, n_jobs=1)
        assert (fitted.intake.bad, fitted.intake.missing) == ((), 1)
        later = {f"{number + 1:03d}.png": before[f"{number:03d}.png"] for number in range(40)}
        assert column(trained, "sha256") == later | {"000.png": f"outdated {before['000.png']}"}

    @pytest.mark.parametrize("work", ["fit", "add"])
    def test_a_picture_takes_its_grade_to_a_new_name(self, trained, pictures, work):
        before = {part: column(trained, part) for part in ("id", "grade", "sha256")}
        (pictures / "ward").mkdir()
        for file in pictures.glob("*.png"):
            file.rename(pictures / "ward" / file.name)
        done = service.fit(pictures, trained, n_jobs=1).intake if work == "fit" else service.add(trained, pictures)
        assert (done.read, done.bad) == (40, ())
        after = {part: column(trained, part) for part in before}
        assert after == {part: {f"ward/{name}": value for name, value in before[part].items()} for part in before}
        assert service.describe(trained).waiting == 0

    def test_a_folder_that_was_copied_is_read_again(self, trained, drawn, tmp_path):
        moved = shutil.copytree(drawn / "pictures", tmp_path / "moved")
        assert service.fit(moved, trained, n_jobs=1).intake == service.Intake(read=40)
        assert set(column(trained, "path").values()) == {str(file) for file in moved.iterdir()}

    def test_another_picture_of_the_same_name_is_not_added(self, trained, tmp_path):
        before = content(trained)
        (tmp_path / "other").mkdir()
        draw(500, 0).save(tmp_path / "other" / "005.png")
        (bad,) = service.add(trained, tmp_path / "other", n_jobs=1).bad
        assert bad.name == "005.png"
        assert "has the name of another picture of the collection" in bad.reason
        assert content(trained) == before


class TestGradesOfCopies:
    def test_a_copy_gives_its_grade_to_the_one_that_is_kept(self, pictures, tmp_path):
        shutil.copy(pictures / "000.png", pictures / "zz.png")
        graded = grades_of(tmp_path / "g.csv", ["zz.png", "001.png"], grade=lambda name: len(name))
        fitted = service.fit(pictures, tmp_path / "c", grades=graded, n_jobs=1)
        assert [bad.name for bad in fitted.intake.bad] == ["zz.png"]
        assert column(tmp_path / "c", "grade")["000.png"] == 6

    def test_copies_that_disagree_are_named(self, pictures, tmp_path):
        shutil.copy(pictures / "000.png", pictures / "zz.png")
        grade = {"zz.png": 1, "000.png": 2, "001.png": 3}.get
        grades = grades_of(tmp_path / "g.csv", ["zz.png", "000.png", "001.png"], grade=grade)
        fitted = service.fit(pictures, tmp_path / "c", grades=grades, n_jobs=1)
        (bad,) = fitted.intake.bad
        assert bad.reason == "has the same content as '000.png' but another grade, 1 instead of 2; give both the same"


class TestChangedGrades:
    def test_grades_that_would_leave_no_order_change_nothing(self, trained, drawn, tmp_path):
        before = column(trained, "grade")
        graded = [name for name, grade in before.items() if grade is not None]
        same = grades_of(tmp_path / "g.csv", graded, grade=lambda name: 1)
        with pytest.raises(InputError, match="30 pictures have a grade, all the same; an order needs two"):
            service.fit(drawn / "pictures", trained, grades=same, n_jobs=1)
        assert column(trained, "grade") == before

    def test_are_counted(self, trained, drawn, tmp_path):
        grades = grades_of(tmp_path / "g.csv", ["001.png", "002.png", "000.png"], grade=lambda name: 1)
        assert service.fit(drawn / "pictures", trained, grades=grades, n_jobs=1).intake.regraded == 1

    def test_bad_files_are_named_where_they_leave_no_order(self, pictures, tmp_path):
        (pictures / "001.png").write_text("no picture")
        grades = grades_of(tmp_path / "g.csv", ["000.png", "001.png"])
        with pytest.raises(BadPicturesError) as raised:
            service.fit(pictures, tmp_path / "c", grades=grades, n_jobs=1)
        assert [bad.name for bad in raised.value.bad] == ["001.png"]


def test_balanced_grades_are_remembered(trained):
    assert not service.describe(trained).balanced
    service.fit(None, trained, balanced=True)
    service.fit(None, trained)
    assert service.describe(trained).balanced
    service.fit(None, trained, balanced=False)
    assert not service.describe(trained).balanced


class TestTouchedFiles:
    def test_of_a_touched_file_and_its_copy_one_is_kept(self, trained, pictures):
        shutil.copy(pictures / "005.png", pictures / "001.png")
        os.utime(pictures / "005.png")
        fitted = service.fit(pictures, trained, n_jobs=1)
        assert [bad.name for bad in fitted.intake.bad] == ["005.png"]
        assert "005.png" not in names(trained)
        assert fitted.pictures == 39
