"""Commands that write: fit, add, remove, and their errors for wrong CSV files."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.running import document, done, failed, paint, run, write_folder

ROOT = Path(__file__).parents[2]


class TestFit:
    def test_fit_prints_a_summary(self, made):
        text = made[1].stdout
        assert "is trained" in text
        assert "36: 30 with a grade, 6 without" in text
        assert "36 read, 0 known and unchanged" in text
        assert re.search(r"error +\d.* mean absolute error, leave-one-out; optimistic for so few\s+grades", text)
        assert re.search(r"order +(Gaussian kernel|linear map)", text)

    def test_fit_prints_its_stages_on_standard_error(self, made):
        assert made[1].stderr.splitlines() == ["reading 36 pictures …", "learning a distance …"]

    def test_second_fit_reads_no_picture_again(self, made, collection):
        options = ("--labels", made[0] / "grades.csv", "--out", collection)
        found = document("fit", made[0] / "pictures", *options)
        assert (found["imported"]["read"], found["imported"]["known"]) == (0, 36)
        assert found["pictures"] == 36
        assert found["error"] < 0.5
        assert {"kernel", "alpha", "locality", "votes"} <= found["model"].keys()

    def test_fit_without_pictures_trains_again(self, collection):
        assert "none read" in done("fit", "--out", collection, "--balanced")

    def test_balanced_setting_is_kept_until_changed(self, collection):
        for option, balanced in (((), False), (("--balanced",), True), ((), True), (("--plain",), False)):
            done("fit", "--out", collection, *option)
            assert document("info", collection)["balanced"] == balanced
            assert ("every grade counts the same" in done("info", collection)) == balanced

    def test_changed_grades_are_counted(self, made, collection, tmp_path):
        table = tmp_path / "t.csv"
        text = (made[0] / "grades.csv").read_text()
        table.write_text(text.replace("p000.png,0", "p000.png,1").replace("p001.png,1", "p001.png,2"))
        assert "2 grades changed" in done("fit", made[0] / "pictures", "--labels", table, "--out", collection)
        assert "grades changed" not in done("fit", made[0] / "pictures", "--labels", table, "--out", collection)
        table.write_text("file,grade\np000.png,0\n")
        assert "1 grade changed" in done("add", collection, made[0] / "pictures", "--labels", table)

    def test_pictures_that_are_not_in_the_folder_are_kept(self, made, collection, tmp_path):
        folder = tmp_path / "fewer"
        shutil.copytree(made[0] / "pictures", folder)
        for name in ("p035.png", "p029.png"):
            (folder / name).unlink()
        printed = " ".join(done("fit", folder, "--out", collection).split())
        assert "36: 30 with a grade" in printed
        kept = "2 pictures of the collection are not in this folder; they are kept (`ordrank remove` removes them)"
        assert kept in printed

    def test_singular_and_plural(self):
        from ordrank.cli.tables import import_facts, model_facts
        from ordrank.collection.reports import ImportReport

        facts = import_facts(ImportReport(read=1, missing=1, regraded=1, not_found=("a.jpg",)))
        assert facts["grades"] == "1 grade changed"
        assert facts["table"] == "1 line skipped, whose picture is missing"
        assert facts["missing"].startswith("1 picture of the collection is not in this folder; it is kept")
        model = {"kernel": "linear", "alpha": 1.0, "nu": 0.0, "weights": "distance", "locality": 0.5}
        assert model_facts(model | {"votes": 1})["votes"] == "of the nearest graded picture"
        assert model_facts(model | {"votes": 2})["votes"].startswith("of the 2 nearest graded pictures, weighted")

    @pytest.mark.parametrize("jobs", ["0", "-2"])
    def test_invalid_number_of_jobs_exits_with_2(self, made, tmp_path, jobs):
        options = ("--labels", made[0] / "grades.csv", "--out", tmp_path / "new", "--jobs", jobs)
        result = run("fit", made[0] / "pictures", *options)
        assert result.exit_code == 2
        assert "--jobs" in result.stderr
        assert not (tmp_path / "new").exists()
        assert run("add", tmp_path, tmp_path, "--jobs", jobs).exit_code == 2

    def test_folders_are_the_grades_without_a_csv_file(self, tmp_path):
        for i in range(24):
            folder = tmp_path / "pictures" / ("mild", "moderate", "severe", "ungraded")[i % 4]
            folder.mkdir(parents=True, exist_ok=True)
            paint(i % 4, i).save(folder / f"{i}.png")
        options = ("--features", "pixels:4", "--out", tmp_path / "new")
        error = failed("fit", tmp_path / "pictures", *options)
        assert "'mild', 'moderate', 'severe' are not numbers; name grades that are words with --order" in error
        result = run("fit", tmp_path / "pictures", "--order", "mild,moderate,severe", *options)
        assert "24: 18 with a grade, 6 without" in result.stdout
        assert result.stderr.splitlines()[0] == "grading by folder: mild, moderate, severe …"

    def test_lines_of_missing_pictures_are_skipped_on_request(self, made, tmp_path):
        table = tmp_path / "t.csv"
        table.write_text((made[0] / "grades.csv").read_text() + "p900.png,1\nx/p901.png,2\n")
        options = ("--labels", table, "--features", "pixels:4", "--out", tmp_path / "new")
        for strict in ((), ("--strict",)):
            error = failed("fit", made[0] / "pictures", *options, *strict)
            assert "line 32: 'p900.png' is not among the pictures" in error
            assert "--skip-bad" in error
        result = run("fit", made[0] / "pictures", *options, "--skip-bad")
        assert "2 lines skipped, whose pictures are missing" in result.stdout
        assert result.stderr.splitlines()[-2:] == [
            "p900.png: is in the CSV file, but not among the pictures",
            "x/p901.png: is in the CSV file, but not among the pictures",
        ]
        found = document("add", tmp_path / "new", made[0] / "pictures", "--labels", table, "--skip-bad")
        assert found["not_found"] == ["p900.png", "x/p901.png"]

    def test_a_new_collection_needs_pictures_and_grades(self, made, tmp_path):
        assert "name the folder of pictures" in failed("fit", "--out", tmp_path / "new")
        assert "--labels" in failed("fit", made[0] / "pictures", "--out", tmp_path / "new")
        assert "there is no folder" in failed(
            "fit", tmp_path / "none", "--labels", made[0] / "grades.csv", "--out", tmp_path / "new"
        )
        assert not (tmp_path / "new").exists()

    def test_order_needs_a_csv_file_and_two_names(self, made, tmp_path):
        assert "--labels" in failed("fit", made[0] / "pictures", "--order", "a,b", "--out", tmp_path / "new")
        options = ("--labels", made[0] / "grades.csv", "--out", tmp_path / "new")
        assert "at least two names" in failed("fit", made[0] / "pictures", "--order", "a", *options)

    def test_features_are_switched(self, collection):
        done("fit", "--features", "hog:16", "--out", collection)
        assert "hog:16" in done("info", collection)

    def test_unknown_features_are_reported(self, made, tmp_path):
        options = ("--labels", made[0] / "grades.csv", "--features", "magic", "--out", tmp_path / "new")
        assert "no features called 'magic'; there are pixels, hog, efficientnet-lite0" in failed(
            "fit", made[0] / "pictures", *options
        )

    @pytest.mark.parametrize(
        ("device", "sentence"), [("cuda", "pixels is computed on the CPU"), ("gpu", "no device 'gpu'")]
    )
    def test_wrong_devices_are_reported(self, made, collection, tmp_path, device, sentence):
        labels, out = ("--labels", made[0] / "grades.csv"), ("--out", tmp_path / "new")
        options = (*labels, "--features", "pixels", "--device", device, *out)
        assert sentence in failed("fit", made[0] / "pictures", *options)
        assert not (tmp_path / "new").exists()
        assert sentence in failed("add", collection, made[0] / "pictures", "--device", device)

    def test_process_that_is_writing_is_reported(self, collection):
        from ordrank.collection.writer_lock import writer_lock

        with writer_lock(collection):
            assert f"is being written by process {os.getpid()}" in failed("fit", "--out", collection)


BAD_CSV_FILES = {
    "missing column": ("file,stage\np000.png,1\n", ["no column 'grade'", "'file', 'stage'", "--grade-column"]),
    "unknown file": ("file,grade\np000.png,1\nnope.png,2\n", ["line 3: 'nope.png' is not among the pictures"]),
    "near miss": ("file,grade\np000.png,1\nP001.png,2\n", ["line 3", "is 'p001.png' meant?"]),
    "two grades": (
        "file,grade\np000.png,1\np001.png,2\np000.png,2\n",
        ["line 4: 'p000.png' has grade '2' here and grade '1' in line 2"],
    ),
    "blank": ("file,grade\np000.png,\np001.png,\n", ["no line has a grade: an order needs two different grades"]),
    "not a number": ("file,grade\np000.png,1\np001.png,severe\n", ["line 3: grade 'severe'", "--order"]),
    "wrong delimiter": ("file|grade\np000.png|1\n", ["no column 'file' and no column 'grade'", "commas"]),
    "one grade": ("file,grade\np000.png,1\np001.png,1\n", ["an order needs two different grades"]),
    "everything": (
        "file,grade\np000.png,1\nnope.png,2\np002.png,x\np003.png,1,2\n",
        ["has 3 problems", "line 3: 'nope", "line 4: grade 'x'", "line 5: has 3 cells", "--skip-bad"],
    ),
}


class TestLabels:
    @pytest.mark.parametrize(("text", "messages"), BAD_CSV_FILES.values(), ids=BAD_CSV_FILES)
    def test_problems_are_reported_before_any_picture_is_read(self, made, tmp_path, text, messages):
        (tmp_path / "bad.csv").write_text(text)
        errors = failed("fit", made[0] / "pictures", "--labels", tmp_path / "bad.csv", "--out", tmp_path / "new")
        for part in messages:
            assert part in errors
        assert "reading" not in errors
        assert not (tmp_path / "new").exists()

    @pytest.mark.parametrize(
        "change",
        [
            lambda text: b"\xef\xbb\xbf" + text.encode(),
            lambda text: text.replace("\n", "\r\n").encode(),
            lambda text: text.replace(",", ";").encode("utf-16"),
        ],
        ids=["mark", "CR LF", "semicolons in UTF-16"],
    )
    def test_csv_files_of_spreadsheets_are_read(self, made, tmp_path, change):
        (tmp_path / "t.csv").write_bytes(change((made[0] / "grades.csv").read_text()))
        options = ("--labels", tmp_path / "t.csv", "--features", "pixels:4", "--out", tmp_path / "new")
        assert document("fit", made[0] / "pictures", *options)["graded"] == 30

    def test_names_relative_to_the_parent_folder(self, made, tmp_path):
        text = (made[0] / "grades.csv").read_text().replace("\np", "\npictures/p")
        (tmp_path / "t.csv").write_text(text)
        options = ("--labels", tmp_path / "t.csv", "--features", "pixels:4", "--out", tmp_path / "new")
        assert document("fit", made[0] / "pictures", *options)["graded"] == 30

    def test_numeric_grades_for_named_grades_are_reported_in_one_sentence(self, made, named, tmp_path):
        errors = failed("fit", made[0] / "pictures", "--labels", made[0] / "grades.csv", "--out", named)
        (sentence,) = errors.splitlines()[1:]
        assert sentence == "no grade is in the order of grades 'mild', 'moderate', 'severe': there are '0', '1', '2'"

    def test_columns_with_other_names(self, made, tmp_path):
        text = (made[0] / "grades.csv").read_text().replace("file,grade", "scan,stage")
        (tmp_path / "t.csv").write_text(text)
        options = ("--labels", tmp_path / "t.csv", "--features", "pixels:4", "--out", tmp_path / "new")
        columns = ("--file-column", "scan", "--grade-column", "stage")
        assert document("fit", made[0] / "pictures", *options, *columns)["graded"] == 30

    def test_missing_csv_file_is_reported(self, made, tmp_path):
        options = ("--labels", tmp_path / "none.csv", "--out", tmp_path / "new")
        assert "there is no file" in failed("fit", made[0] / "pictures", *options)


class TestAddAndRemove:
    def test_added_pictures_can_be_ranked_at_once(self, collection, tmp_path):
        write_folder(tmp_path / "more", count=6, first=100, table=tmp_path / "more.csv")
        text = done("add", collection, tmp_path / "more", "--labels", tmp_path / "more.csv")
        assert "6 pictures added" in text
        (result,) = document("rank", collection, "p100.png")["results"]
        assert result["known_grade"] == result["grade"] == "1"
        assert document("info", collection)["pictures"] == 42

    def test_adding_the_same_pictures_again_reads_nothing(self, made, collection):
        found = document("add", collection, made[0] / "pictures")
        assert (found["read"], found["known"], found["bad"]) == (0, 36, [])

    def test_adding_one_file(self, collection, tmp_path):
        paint(1, 777).save(tmp_path / "one.png")
        assert "1 picture added" in done("add", collection, tmp_path / "one.png")

    def test_remove_is_all_or_nothing(self, collection):
        assert "nothing was removed" in failed("remove", collection, "p000.png", "none.png")
        assert document("info", collection)["pictures"] == 36
        assert "2 removed" in done("remove", collection, "p000.png", "p001.png")
        assert document("remove", collection, "p002.png") == {
            "collection": str(collection),
            "removed": 1,
            "left": 33,
        }

    def test_remove_takes_patterns_and_says_how_many(self, collection):
        assert "no picture whose name matches 'q*'" in failed("remove", collection, "q*")
        assert "10 removed" in done("remove", collection, "p01?.png")
        assert document("remove", collection, "p*.png")["removed"] == 26

    def test_info_says_what_waits_for_training(self, made, collection, tmp_path):
        assert "since;" not in done("info", collection)
        write_folder(tmp_path / "more", count=6, first=100)
        done("add", collection, tmp_path / "more")
        text = " ".join(done("info", collection).split())
        assert "6 pictures added since; `ordrank fit --out" in text
        (tmp_path / "t.csv").write_text("file,grade\np000.png,2\n")
        done("add", collection, made[0] / "pictures", "--labels", tmp_path / "t.csv")
        done("remove", collection, "p100.png")
        found = document("info", collection)
        assert (found["added"], found["changed"], found["not_embedded"]) == (5, 1, 0)
        assert "5 pictures added, 1 grade changed since" in " ".join(done("info", collection).split())
        done("remove", collection, "p000.png", "p001.png", "p101.png")  # the last one was never trained with
        found = document("info", collection)
        assert (found["added"], found["removed"], found["changed"]) == (4, 2, 0)
        assert "4 pictures added, 2 pictures removed since" in " ".join(done("info", collection).split())
        done("fit", "--out", collection)
        assert "since;" not in done("info", collection)

    def test_groups_of_added_pictures_are_counted(self, collection, tmp_path):
        write_folder(tmp_path / "more", count=6, first=100)
        lines = "".join(f"p{i}.png,1,{i % 2}\n" for i in range(100, 106))
        (tmp_path / "t.csv").write_text(f"file,grade,person\n{lines}")
        done("add", collection, tmp_path / "more", "--labels", tmp_path / "t.csv", "--groups", "person")
        assert document("info", collection)["groups"] == 2

    def test_remove_suggests_a_similar_name(self, collection):
        assert "did you mean 'p005.png'?" in failed("remove", collection, "p005.pgn")

    def test_strict_add_keeps_the_readable_pictures(self, collection, tmp_path):
        write_folder(tmp_path / "more", count=3, first=100)
        (tmp_path / "more" / "empty.png").touch()
        failed("add", collection, tmp_path / "more", "--strict")
        assert document("info", collection)["pictures"] == 39

    def test_fit_of_the_folder_reads_removed_pictures_again(self, made, collection):
        done("remove", collection, "p000.png")
        done("fit", made[0] / "pictures", "--out", collection)
        assert document("info", collection)["pictures"] == 36

    def test_directory_without_a_collection_is_reported(self, tmp_path):
        for command in (("add", tmp_path, ROOT / "docs/images/ranking.png"), ("remove", tmp_path, "x")):
            assert "ordrank fit" in failed(*command)


class TestUngraded:
    def test_pictures_without_grades_are_graded_later(self, tmp_path):
        write_folder(tmp_path / "pictures", 12, table=tmp_path / "g.csv")
        text = done("fit", tmp_path / "pictures", "--out", tmp_path / "c", "--ungraded", "--features", "pixels:4")
        assert "12 pictures added" in text
        assert "12 pictures without grades" in text
        assert "ordrank serve" in text
        paint(0, 12).save(tmp_path / "pictures" / "p012.png")
        (tmp_path / "pictures" / "broken.png").write_bytes(b"no picture")
        found = document("fit", tmp_path / "pictures", "--out", tmp_path / "c", "--ungraded")
        assert (found["imported"]["read"], [bad["name"] for bad in found["imported"]["bad"]]) == (1, ["broken.png"])
        assert "needs two different grades" in failed("fit", "--out", tmp_path / "c")
        fitted = document("fit", tmp_path / "pictures", "--labels", tmp_path / "g.csv", "--out", tmp_path / "c")
        assert (fitted["pictures"], fitted["graded"]) == (13, 10)

    def test_labels_and_no_folder_are_errors(self, tmp_path):
        write_folder(tmp_path / "pictures", 3, table=tmp_path / "g.csv")
        options = ("--out", tmp_path / "c", "--ungraded")
        assert "needs a folder" in failed("fit", *options)
        for unused in (("--labels", tmp_path / "g.csv"), ("--balanced",), ("--groups", "who"), ("--workers", "2")):
            error = failed("fit", tmp_path / "pictures", *unused, *options)
            assert f"{unused[0]} has no effect with --ungraded" in error
        assert not (tmp_path / "c").exists()
