import os
import shutil
from functools import partial

import numpy as np
import pytest

from ordrank.collection import train
from ordrank.collection.access import read_store
from ordrank.collection.model_file import current_model
from ordrank.collection.reports import ImportReport
from ordrank.errors import BadPicturesError, CollectionError, GradesError, InputError
from ordrank.estimators import OrdinalMetric
from tests.collection.commands import add, fit, info, rank, remove
from tests.collection.pictures import column, content, draw, draw_files, files, names, rows, write_grades


class TestFit:
    def test_report_counts_pictures_and_files(self, drawn, pictures, tmp_path):
        (pictures / "notes.txt").write_text("no picture")
        events = []
        grades = drawn / "grades.csv"
        fitted = fit(
            pictures,
            tmp_path / "c",
            labels=grades,
            features="pixels:4",
            n_jobs=1,
            progress=lambda *event: events.append(event),
        )
        assert (fitted.pictures, fitted.graded) == (40, 30)
        assert fitted.imported == ImportReport(read=40, known=0, bad=(), ignored=1)
        assert fitted.error == pytest.approx(0, abs=0.2)
        assert fitted.model == info(tmp_path / "c").model
        reading = "reading 40 pictures"
        assert events == [(reading, 0, 0), (reading, 40, 40), ("learning a distance", 0, 0)]

    def test_every_picture_gets_an_estimate(self, trained):
        for name, estimate in column(trained, "estimate").items():
            assert estimate == int(name[:3]) % 3

    def test_every_picture_is_embedded(self, trained):
        assert rows(trained, "SELECT count(*) FROM embeddings") == [(40,)]
        assert info(trained).not_embedded == 0

    def test_ungraded_pictures_influence_the_model(self, trained, drawn, tmp_path):
        folder = tmp_path / "graded"
        folder.mkdir()
        for name in names(trained):
            if int(name[:3]) % 4:
                shutil.copy2(drawn / "pictures" / name, folder)
        fit(folder, tmp_path / "c", labels=drawn / "grades.csv", features="pixels:4", n_jobs=1)
        assert len(names(tmp_path / "c")) == 30
        model = "SELECT value FROM meta WHERE key = 'model'"
        assert rows(tmp_path / "c", model) != rows(trained, model)

    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    def test_stored_embeddings_are_bit_equal_to_those_of_the_model_file(self, trained, kernel, monkeypatch):
        monkeypatch.setattr(train, "OrdinalMetric", partial(OrdinalMetric, kernel=kernel))
        monkeypatch.setattr(train, "_ROWS_PER_BLOCK", 1)  # BLAS may round the product of one row differently
        assert fit(None, trained).model["kernel"] == kernel
        with read_store(trained) as store:
            model, (_, X) = current_model(store.directory, store.header), train.project(store)
            embedded = [model.embed_projected(row[None])[0] for row in X]
            assert np.stack(embedded).tobytes() == store.embeddings().vectors.tobytes()

    def test_second_fit_changes_nothing(self, trained, drawn):
        before = content(trained), files(trained)
        fitted = fit(drawn / "pictures", trained, n_jobs=1)
        assert (fitted.imported.read, fitted.imported.known) == (0, 40)
        assert (content(trained), files(trained)) == before

    def test_retraining_needs_no_pictures(self, trained):
        before = content(trained)
        assert fit(None, trained).imported == ImportReport()
        assert content(trained) == before

    def test_unchanged_files_are_not_read_again(self, trained, pictures):
        for name in names(trained):
            status = (pictures / name).stat()
            (pictures / name).write_bytes(bytes(status.st_size))
            os.utime(pictures / name, ns=(status.st_atime_ns, status.st_mtime_ns))
        fitted = fit(pictures, trained, n_jobs=1)
        assert fitted.imported == ImportReport(read=0, known=40)

    def test_changed_file_is_read_again_and_keeps_its_grade(self, trained, pictures):
        before = {part: column(trained, part) for part in ("id", "grade", "sha256", "estimate")}
        draw(500, 0).save(pictures / "005.png")
        fitted = fit(pictures, trained, n_jobs=1)
        assert (fitted.imported.read, fitted.imported.known, fitted.pictures) == (1, 39, 40)
        after = {part: column(trained, part) for part in before}
        assert after["sha256"].pop("005.png") != before["sha256"].pop("005.png")
        assert after == before | {"estimate": after["estimate"]}
        assert after["grade"]["005.png"] == 2

    def test_only_grades_in_the_table_are_changed(self, trained, drawn, tmp_path):
        before = column(trained, "grade")
        fit(None, trained, labels=write_grades(tmp_path / "g.csv", ["000.png", "001.png"], grade=lambda name: 2))
        assert column(trained, "grade") == before | {"000.png": 2, "001.png": 2}
        assert (column(trained, "estimate")["000.png"], column(trained, "estimate")["001.png"]) == (0, 1)

    def test_copies_are_stored_once_and_reported(self, pictures, drawn, tmp_path):
        shutil.copy(pictures / "005.png", pictures / "copy.png")
        fitted = fit(pictures, tmp_path / "c", labels=drawn / "grades.csv", features="pixels:4", n_jobs=1)
        ((name, reason),) = ((bad.name, bad.reason) for bad in fitted.imported.bad)
        assert (name, reason) == ("copy.png", "has the same content as '005.png' and is kept once")
        assert (fitted.pictures, fitted.imported.read) == (40, 40)

    def test_bad_files_are_skipped_and_reported(self, trained, pictures):
        (pictures / "bad.png").write_text("no picture")
        fitted = fit(pictures, trained, n_jobs=1)
        assert [(bad.name, bad.reason) for bad in fitted.imported.bad] == [
            ("bad.png", "is not a picture that can be read")
        ]
        assert fitted.pictures == 40

    def test_strict_fit_rejects_bad_files_and_keeps_the_model(self, trained, pictures):
        (pictures / "bad.png").write_text("no picture")
        model = rows(trained, "SELECT * FROM meta")
        with pytest.raises(BadPicturesError, match="1 file cannot be used") as error:
            fit(pictures, trained, n_jobs=1, strict=True)
        assert [bad.name for bad in error.value.bad] == ["bad.png"]
        assert rows(trained, "SELECT * FROM meta") == model

    def test_balanced_grades_change_the_model(self, drawn, tmp_path):
        uneven = [f"{number:03d}.png" for number in range(40) if number % 3 or number < 9]
        models = set()
        for balanced in (False, True):
            grades = write_grades(tmp_path / "g.csv", uneven)
            collection = tmp_path / str(balanced)
            fit(drawn / "pictures", collection, labels=grades, features="pixels:2", n_jobs=1, balanced=balanced)
            models |= set(rows(collection, "SELECT value FROM meta WHERE key = 'model'"))
        assert len(models) == 2

    def test_collection_is_independent_of_the_number_of_processes(self, trained, drawn, tmp_path):
        # The first 64 pictures are read by the process itself.
        draw_files(tmp_path / "more", range(50, 120))
        other = shutil.copytree(trained, tmp_path / "other")
        add(trained, tmp_path / "more", n_jobs=1)
        add(other, tmp_path / "more", n_jobs=2)
        assert content(trained) == content(other)


class TestRejectedFits:
    def test_rejected_fit_creates_no_directory(self, drawn, tmp_path):
        one = write_grades(tmp_path / "one.csv", ["000.png", "001.png"], grade=lambda name: 1)
        (tmp_path / "none.csv").write_text("file,grade\n")
        bad = tmp_path / "bad"
        bad.mkdir()
        (bad / "000.png").write_text("no picture")
        (bad / "001.png").write_text("no picture")
        cases = (
            (drawn / "pictures", one, GradesError, "all grades are the same: an order needs two different grades"),
            (
                drawn / "pictures",
                tmp_path / "none.csv",
                GradesError,
                "there is no line below the names",
            ),
            (tmp_path / "nowhere", one, InputError, "there is no folder or file"),
            (
                bad,
                write_grades(tmp_path / "two.csv", ["000.png", "001.png"]),
                BadPicturesError,
                r"none of the files could be read as a picture\. 000\.png is not a picture",
            ),
        )
        for images, grades, error, message in cases:
            with pytest.raises(error, match=message):
                fit(images, tmp_path / "collection", labels=grades, n_jobs=1)
            assert not (tmp_path / "collection").exists()

    def test_pictures_stay_stored_if_too_few_graded_ones_are_readable(self, pictures, tmp_path):
        (pictures / "001.png").write_text("no picture")
        two, four = (write_grades(tmp_path / f"{n}.csv", [f"{i:03d}.png" for i in range(n)]) for n in (2, 4))
        with pytest.raises(InputError, match="1 picture has a grade; an order needs two different grades"):
            fit(pictures, tmp_path / "c", labels=two, features="pixels:2", n_jobs=1)
        with pytest.raises(CollectionError, match="has no model yet; grade pictures, then train it with `ordrank fit"):
            rank(tmp_path / "c", ["000.png"])
        assert info(tmp_path / "c").model is None
        fitted = fit(pictures, tmp_path / "c", labels=four, n_jobs=1)
        assert (fitted.pictures, fitted.graded, fitted.imported.known) == (39, 3, 39)

    def test_another_order_needs_another_directory(self, trained, drawn, tmp_path):
        words = {"labels": drawn / "grades.csv", "order": ("mild", "severe")}
        with pytest.raises(CollectionError, match="holds numbers; another order needs another directory"):
            fit(None, trained, **words)

    def test_identical_features_are_rejected(self, tmp_path):
        folder = tmp_path / "grey"
        folder.mkdir()
        for number in range(4):  # different sizes, the same features
            draw(0).resize((1, 1)).resize((10 + number, 10)).save(folder / f"{number:03d}.png")
        grades = write_grades(tmp_path / "g.csv", [f"{number:03d}.png" for number in range(4)])
        with pytest.raises(InputError, match="all pictures give the same features"):
            fit(folder, tmp_path / "c", labels=grades, features="pixels:2", n_jobs=1)


class TestAdd:
    def test_added_pictures_are_embedded(self, trained, tmp_path):
        new = draw_files(tmp_path / "new", range(50, 56))
        model = rows(trained, "SELECT * FROM meta")
        assert add(trained, tmp_path / "new", n_jobs=1) == ImportReport(read=6)
        assert rows(trained, "SELECT * FROM meta") == model
        assert {name: column(trained, "estimate")[name] for name in new} == {name: int(name[:3]) % 3 for name in new}
        assert {picture.name for picture in rank(trained, ["005.png"], k=100)[0].hits} >= set(new)

    def test_grades_of_added_pictures_vote(self, trained, tmp_path):
        new = draw_files(tmp_path / "new", range(50, 90))
        grades = write_grades(tmp_path / "g.csv", new, grade=lambda name: 7)
        assert "7" not in [each.grade for each in rank(trained, ["005.png"])[0].probabilities]
        add(trained, tmp_path / "new", labels=grades, n_jobs=1)
        assert rank(trained, ["005.png"])[0].probabilities[-1].probability > 0

    def test_add_before_a_fit_is_rejected(self, drawn, tmp_path):
        with pytest.raises(CollectionError, match="is not a collection; create one with `ordrank fit"):
            add(tmp_path / "c", drawn / "pictures")
        assert not (tmp_path / "c").exists()

    def test_second_add_changes_nothing(self, trained, tmp_path):
        draw_files(tmp_path / "new", range(50, 56))
        add(trained, tmp_path / "new", n_jobs=1)
        before = content(trained)
        assert add(trained, tmp_path / "new", n_jobs=1) == ImportReport(known=6)
        assert content(trained) == before

    def test_changed_picture_keeps_its_grade_and_gets_a_new_estimate(self, trained, pictures):
        draw(500, 0).save(pictures / "005.png")
        assert add(trained, pictures, n_jobs=1).read == 1
        assert (column(trained, "grade")["005.png"], column(trained, "estimate")["005.png"]) == (2, 0)
        assert info(trained).not_embedded == 0

    def test_add_and_fit_equal_one_fit_of_all_pictures(self, trained, tmp_path):
        draw_files(tmp_path / "new", range(50, 56))
        other = shutil.copytree(trained, tmp_path / "other")
        add(trained, tmp_path / "new", n_jobs=1)
        fit(tmp_path / "new", other, n_jobs=1)
        fit(None, trained)
        assert content(trained) == content(other)

    def test_estimates_use_the_grades_that_come_with_the_pictures(self, trained, tmp_path):
        draw_files(tmp_path / "new", range(50, 56))
        reversed_grades = {name: 2 - grade for name, grade in column(trained, "grade").items() if grade is not None}
        add(trained, tmp_path / "new", labels=reversed_grades, n_jobs=1)
        for number in range(50, 56):
            (result,) = rank(trained, [f"{number:03d}.png"])
            assert column(trained, "estimate")[f"{number:03d}.png"] == result.value

    def test_the_only_graded_picture_may_get_new_content(self, trained, pictures):
        remove(trained, [name for name, grade in column(trained, "grade").items() if grade is not None][1:])
        draw(500, 0).save(pictures / "001.png")
        assert add(trained, pictures / "001.png", labels={"001.png": 2}, n_jobs=1).read == 1
        assert column(trained, "grade")["001.png"] == 2
        assert column(trained, "estimate")["001.png"] is not None

    def test_strict_add_raises_and_stores_the_readable_pictures(self, trained, tmp_path):
        draw_files(tmp_path / "new", [50])
        (tmp_path / "new" / "bad.png").write_text("no picture")
        with pytest.raises(BadPicturesError):
            add(trained, tmp_path / "new", n_jobs=1, strict=True)
        assert "050.png" in names(trained)


def test_info_equals_the_content_of_the_collection(trained):
    summary = info(trained)
    assert (summary.pictures, summary.graded, summary.not_embedded) == (40, 30, 0)
    assert [(count.grade, count.pictures) for count in summary.grades] == [("0", 10), ("1", 10), ("2", 10)]
    assert summary.features == "pixels:4"
    assert summary.dimensions == {"features": 48, "projection": 39, "order": 2}
    assert summary.bytes == sum(path.stat().st_size for path in trained.iterdir())
    assert summary.fitted.endswith(" UTC")
    assert np.isfinite(summary.model["locality"])


@pytest.mark.parametrize("features", ["pixels:128", "pixels:512", "hog:512"])
def test_features_with_too_many_dimensions_are_rejected_before_anything_is_read(drawn, tmp_path, features):
    with pytest.raises(InputError, match=f"{features} gives .* numbers a picture, more than 16384"):
        fit(drawn / "pictures", tmp_path / "c", labels=drawn / "grades.csv", features=features, n_jobs=1)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("labels", [None, {}, {"000.png": 1}, {"000.png": 1, "001.png": 1}])
def test_new_collection_needs_two_grades_before_anything_is_read(drawn, tmp_path, labels):
    with pytest.raises(InputError, match="needs"):
        fit(drawn / "pictures", tmp_path / "c", labels=labels, n_jobs=1)
    assert not (tmp_path / "c").exists()


class TestMissingPictures:
    @pytest.fixture
    def labels(self, tmp_path):
        return write_grades(tmp_path / "g.csv", [f"{number:03d}.png" for number in range(42)])

    @pytest.mark.parametrize("strict", [None, True])
    def test_lines_without_pictures_are_an_error_that_names_them(self, drawn, labels, tmp_path, strict):
        with pytest.raises(GradesError, match=r"(?s)line 42: '040\.png' is not among .*line 43: .*--skip-bad"):
            fit(drawn / "pictures", tmp_path / "c", labels=labels, strict=strict, n_jobs=1)
        assert not (tmp_path / "c").exists()

    def test_lines_without_pictures_are_skipped_and_counted(self, drawn, labels, tmp_path):
        fitted = fit(drawn / "pictures", tmp_path / "c", labels=labels, strict=False, features="pixels:2", n_jobs=1)
        assert (fitted.graded, fitted.imported.not_found) == (40, ("040.png", "041.png"))
        added = add(tmp_path / "c", drawn / "pictures", labels=labels, strict=False, n_jobs=1)
        assert added.not_found == ("040.png", "041.png")
        with pytest.raises(GradesError):
            add(tmp_path / "c", drawn / "pictures", labels=labels, n_jobs=1)

    def test_names_of_a_mapping_are_skipped_too(self, trained):
        labels = {"000.png": 1, "none.png": 2}
        assert fit(None, trained, labels=labels, strict=False).imported.not_found == ("none.png",)
        assert column(trained, "grade")["000.png"] == 1
        for wrong in ({"labels": labels}, {"labels": {"none.png": 2}, "strict": False}):
            with pytest.raises(InputError, match=r"labels name 1 picture that is not .*first 'none\.png'"):
                fit(None, trained, **wrong)


class TestChangedGrades:
    def test_blank_grades_leave_grades_as_they_are(self, trained, drawn, tmp_path):
        before = column(trained, "grade")
        blank = write_grades(tmp_path / "g.csv", ["000.png", "001.png", "002.png"], grade=lambda name: "")
        assert fit(drawn / "pictures", trained, labels=blank, n_jobs=1).imported.regraded == 0
        assert column(trained, "grade") == before

    def test_equal_grades_are_rejected_and_change_nothing(self, trained, drawn, tmp_path):
        before = column(trained, "grade")
        graded = [name for name, grade in before.items() if grade is not None]
        same = write_grades(tmp_path / "g.csv", graded, grade=lambda name: 1)
        with pytest.raises(InputError, match="30 pictures have a grade, all the same; an order needs two"):
            fit(drawn / "pictures", trained, labels=same, n_jobs=1)
        assert column(trained, "grade") == before

    def test_changed_grades_are_counted(self, trained, drawn, tmp_path):
        grades = write_grades(tmp_path / "g.csv", ["001.png", "002.png", "000.png"], grade=lambda name: 1)
        assert fit(drawn / "pictures", trained, labels=grades, n_jobs=1).imported.regraded == 1

    def test_bad_files_are_reported_if_too_few_grades_remain(self, pictures, tmp_path):
        (pictures / "001.png").write_text("no picture")
        grades = write_grades(tmp_path / "g.csv", ["000.png", "001.png"])
        with pytest.raises(BadPicturesError) as error:
            fit(pictures, tmp_path / "c", labels=grades, n_jobs=1)
        assert [bad.name for bad in error.value.bad] == ["001.png"]


def test_balanced_option_is_stored(trained):
    assert not info(trained).balanced
    fit(None, trained, balanced=True)
    fit(None, trained)
    assert info(trained).balanced
    fit(None, trained, balanced=False)
    assert not info(trained).balanced


def test_failed_fit_deletes_only_its_own_files(pictures, tmp_path):
    for file in pictures.iterdir():
        file.write_text("no picture")
    (tmp_path / "existing").mkdir()
    grades = write_grades(tmp_path / "g.csv", ["001.png", "002.png"])
    with pytest.raises(BadPicturesError):
        fit(pictures, tmp_path / "existing", labels=grades, n_jobs=1)
    assert list((tmp_path / "existing").iterdir()) == []
