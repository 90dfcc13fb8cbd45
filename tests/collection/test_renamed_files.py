"""Files that are renamed, moved, copied or changed between two reads of a folder."""

import os
import shutil

import pytest

from ordrank import Collection
from ordrank.collection.reports import ImportReport
from tests.collection.commands import add, fit, info
from tests.collection.pictures import column, content, draw, names, write_grades


class TestRenamedFiles:
    @staticmethod
    def rename(folder, new_names):
        """Rename files; new names may be old names of other files."""
        for old in new_names:
            (folder / old).rename(folder / f"{old}.moved")
        for old, new in new_names.items():
            (folder / f"{old}.moved").rename(folder / new)
            os.utime(folder / new)

    @pytest.mark.parametrize("command", ["fit", "add"])
    @pytest.mark.parametrize("step", [1, 7, 39])
    def test_row_of_a_name_follows_the_content_of_its_file(self, trained, pictures, step, command):
        before = {part: column(trained, part) for part in ("sha256", "id", "grade")}
        new_names = {f"{number:03d}.png": f"{(number + step) % 40:03d}.png" for number in range(40)}
        self.rename(pictures, new_names)
        report = fit(pictures, trained, n_jobs=1).imported if command == "fit" else add(trained, pictures)
        assert report == ImportReport(read=40)
        after = {part: column(trained, part) for part in before}
        assert after["sha256"] == {new: before["sha256"][old] for old, new in new_names.items()}
        assert (after["id"], after["grade"]) == (before["id"], before["grade"])

    def test_name_without_a_file_is_kept_as_outdated(self, trained, pictures):
        before = column(trained, "sha256")
        self.rename(pictures, {f"{number:03d}.png": f"{number + 1:03d}.png" for number in range(40)})
        fitted = fit(pictures, trained, n_jobs=1)
        assert (fitted.imported.bad, fitted.imported.missing) == ((), 1)
        renamed = {f"{number + 1:03d}.png": before[f"{number:03d}.png"] for number in range(40)}
        assert column(trained, "sha256") == renamed | {"000.png": f"outdated 1 {before['000.png']}"}
        table = Collection.open(trained).to_frame().set_index("name")["sha256"]
        assert table["000.png"] == table["001.png"] == before["000.png"]

    @pytest.mark.parametrize("command", ["fit", "add"])
    def test_renamed_picture_keeps_its_grade(self, trained, pictures, command):
        before = {part: column(trained, part) for part in ("id", "grade", "sha256")}
        (pictures / "ward").mkdir()
        for file in pictures.glob("*.png"):
            file.rename(pictures / "ward" / file.name)
        report = fit(pictures, trained, n_jobs=1).imported if command == "fit" else add(trained, pictures)
        assert (report.read, report.bad) == (40, ())
        after = {part: column(trained, part) for part in before}
        assert after == {part: {f"ward/{name}": value for name, value in before[part].items()} for part in before}
        assert info(trained).not_embedded == 0

    def test_renamed_picture_is_not_missing(self, trained, pictures):
        (pictures / "005.png").rename(pictures / "new.png")
        fitted = fit(pictures, trained, n_jobs=1)
        assert (fitted.imported.read, fitted.imported.missing, fitted.pictures) == (1, 0, 40)

    @pytest.mark.parametrize("command", ["fit", "add"])
    def test_grade_under_the_old_name_of_a_renamed_picture_is_kept(self, trained, pictures, command):
        (pictures / "005.png").rename(pictures / "new.png")
        report = (
            fit(pictures, trained, labels={"005.png": 0}, n_jobs=1).imported
            if command == "fit"
            else add(trained, pictures, labels={"005.png": 0}, n_jobs=1)
        )
        assert column(trained, "grade")["new.png"] == 0
        assert report.regraded == 1

    def test_content_may_move_to_another_name_again_and_again(self, trained, pictures):
        content = (pictures / "000.png").read_bytes()
        for number in range(3):
            (pictures / f"{number:03d}.png").unlink()
            (pictures / f"{number + 1:03d}.png").write_bytes(content)
            fitted = fit(pictures, trained, n_jobs=1)
            assert (fitted.pictures, fitted.imported.missing, fitted.imported.bad) == (40, number + 1, ())

    def test_folder_whose_name_is_not_utf8_is_like_any_other(self, drawn, pictures, tmp_path):
        shutil.copy(pictures / "001.png", pictures / "copy.png")
        folder = pictures.rename(os.fsdecode(os.fsencode(tmp_path) + b"/gr\xfcn"))
        labels = {"001.png": 1, "002.png": 2, "copy.png": 3}
        for _ in range(2):
            fitted = fit(folder, tmp_path / "c", labels=labels, features="pixels:4", n_jobs=1)
            assert [bad.name for bad in fitted.imported.bad] == ["copy.png"]
            assert "but another grade, 3 instead of 1" in fitted.imported.bad[0].reason
            assert fitted.pictures == 40

    def test_copied_folder_is_read_again(self, trained, drawn, tmp_path):
        moved = shutil.copytree(drawn / "pictures", tmp_path / "moved")
        assert fit(moved, trained, n_jobs=1).imported == ImportReport(read=40)
        assert set(column(trained, "path").values()) == {str(file) for file in moved.iterdir()}

    def test_other_picture_of_a_known_name_is_not_added(self, trained, tmp_path):
        before = content(trained)
        (tmp_path / "other").mkdir()
        draw(500, 0).save(tmp_path / "other" / "005.png")
        (bad,) = add(trained, tmp_path / "other", n_jobs=1).bad
        assert bad.name == "005.png"
        assert "has the name of another picture of the collection" in bad.reason
        assert content(trained) == before


class TestGradesOfCopies:
    def test_grade_of_a_copy_goes_to_the_stored_picture(self, pictures, tmp_path):
        shutil.copy(pictures / "000.png", pictures / "zz.png")
        graded = write_grades(tmp_path / "g.csv", ["zz.png", "001.png"], grade=lambda name: len(name))
        fitted = fit(pictures, tmp_path / "c", labels=graded, n_jobs=1)
        assert [bad.name for bad in fitted.imported.bad] == ["zz.png"]
        assert column(tmp_path / "c", "grade")["000.png"] == 6

    def test_grade_of_a_copy_counts_as_a_changed_grade(self, trained, drawn, tmp_path):
        (tmp_path / "new").mkdir()
        shutil.copy(drawn / "pictures" / "000.png", tmp_path / "new" / "copy.png")
        assert column(trained, "grade")["000.png"] is None
        report = add(trained, tmp_path / "new", labels={"copy.png": 2}, n_jobs=1)
        assert [bad.duplicate_of for bad in report.bad] == ["000.png"]
        assert column(trained, "grade")["000.png"] == 2
        assert info(trained).changed == 1

    def test_changed_grades_are_still_counted_when_the_file_changes(self, trained, pictures):
        with Collection.open(trained) as collection:
            collection.grade("005.png", "0")
        draw(500, 0).save(pictures / "005.png")
        add(trained, pictures, n_jobs=1)
        assert info(trained).changed == 1

    def test_copies_are_no_reason_for_strict_to_fail(self, trained, pictures):
        shutil.copy(pictures / "005.png", pictures / "copy.png")
        fitted = fit(pictures, trained, n_jobs=1, strict=True)
        assert [bad.duplicate_of for bad in fitted.imported.bad] == ["005.png"]

    def test_copies_with_different_grades_are_reported(self, pictures, tmp_path):
        shutil.copy(pictures / "000.png", pictures / "zz.png")
        grade = {"zz.png": 1, "000.png": 2, "001.png": 3}.get
        grades = write_grades(tmp_path / "g.csv", ["zz.png", "000.png", "001.png"], grade=grade)
        fitted = fit(pictures, tmp_path / "c", labels=grades, n_jobs=1)
        (bad,) = fitted.imported.bad
        assert bad.reason == "has the same content as '000.png' but another grade, 1 instead of 2; give both the same"


class TestTouchedFiles:
    def test_touched_file_and_its_copy_are_stored_once(self, trained, pictures):
        shutil.copy(pictures / "005.png", pictures / "001.png")
        os.utime(pictures / "005.png")
        fitted = fit(pictures, trained, n_jobs=1)
        assert [bad.name for bad in fitted.imported.bad] == ["005.png"]
        assert "005.png" not in names(trained)
        assert fitted.pictures == 39
