"""The commands on collections: what they print, how they fail, and the documents that show them."""

import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import ordrank.service
from ordrank.cli import app
from ordrank.service import learning

ROOT = Path(__file__).parents[1]
COMMANDS = ("fit", "add", "remove", "rank", "evaluate", "info", "export")


def paint(grade, seed):
    """A small picture that is the brighter the higher its grade, and like no other."""
    noise = np.random.default_rng(seed).normal(0, 12, size=(12, 12, 3))
    return Image.fromarray(np.clip(60 + 50 * grade + noise, 0, 255).astype(np.uint8))


def write_folder(folder, count=36, first=0, table=None, names=None, every=6):
    """Pictures of three grades in turn, one in ``every`` not graded."""
    folder.mkdir()
    lines = ["file,grade"]
    for i in range(first, first + count):
        paint(i % 3, i).save(folder / f"p{i:03d}.png")
        if i % every != every - 1:
            lines.append(f"p{i:03d}.png,{i % 3 if names is None else names[i % 3]}")
    if table is not None:
        table.write_text("\n".join(lines) + "\n")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments):
    """Run a command that must succeed; return what it printed."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def failed(*arguments):
    """Run a command that must fail for its data; return what it said."""
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


def document(*arguments):
    return json.loads(done(*arguments, "--json"))


def start(*arguments, **options):
    """Start a real process."""
    command = [sys.executable, "-m", "ordrank", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder, its grades and a trained collection, not to be changed."""
    place = tmp_path_factory.mktemp("made")
    write_folder(place / "pictures", table=place / "grades.csv")
    options = ("--labels", place / "grades.csv", "--features", "pixels:8", "--out", place / "collection")
    result = run("fit", place / "pictures", *options)
    assert result.exit_code == 0, result.output
    return place, result


@pytest.fixture
def collection(made, tmp_path):
    """A copy that may be changed."""
    shutil.copytree(made[0] / "collection", tmp_path / "collection")
    return tmp_path / "collection"


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A trained collection whose grades are words."""
    place = tmp_path_factory.mktemp("named")
    write_folder(place / "pictures", table=place / "grades.csv", names=("mild", "moderate", "severe"))
    options = ("--order", "mild,moderate,severe", "--features", "pixels:8", "--out", place / "knees")
    done("fit", place / "pictures", "--labels", place / "grades.csv", *options)
    return place / "knees"


class TestFit:
    def test_says_in_words_what_was_found(self, made):
        text = made[1].stdout
        assert "is trained" in text
        assert "36: 30 with a grade, 6 without" in text
        assert "36 read, 0 known and unchanged" in text
        assert re.search(r"error +\d.* left out of the fit", text)
        assert re.search(r"order +a (curved|straight) map", text)

    def test_tells_on_standard_error_what_it_does(self, made):
        assert made[1].stderr.splitlines() == ["reading 36 pictures …", "learning a distance …"]

    def test_again_reads_nothing(self, made, collection):
        options = ("--labels", made[0] / "grades.csv", "--out", collection)
        found = document("fit", made[0] / "pictures", *options)
        assert (found["intake"]["read"], found["intake"]["known"]) == (0, 36)
        assert found["pictures"] == 36
        assert found["error"] < 0.5
        assert {"kernel", "alpha", "locality", "votes"} <= found["chosen"].keys()

    def test_without_pictures_trains_again(self, collection):
        assert "none read" in done("fit", "--out", collection, "--balanced")

    def test_it_stays_balanced_until_told_otherwise(self, collection):
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
        told = " ".join(done("fit", folder, "--out", collection).split())
        assert "36: 30 with a grade" in told
        kept = "2 pictures of the collection are not in this folder; they are kept (`ordrank remove` forgets them)"
        assert kept in told

    def test_words_for_one_and_for_several(self):
        from ordrank.cli.tables import intake_in_words, model_in_words
        from ordrank.service import Intake

        facts = intake_in_words(Intake(read=1, missing=1, regraded=1))
        assert facts["grades"] == "1 grade changed"
        assert facts["missing"].startswith("1 picture of the collection is not in this folder; it is kept")
        chosen = {"kernel": "linear", "alpha": 1.0, "nu": 0.0, "weights": "distance", "locality": 0.5}
        assert model_in_words(chosen | {"votes": 1})["votes"] == "of the nearest graded picture"
        assert model_in_words(chosen | {"votes": 2})["votes"].startswith("of the 2 nearest graded pictures, nearer")

    @pytest.mark.parametrize("jobs", ["0", "-2"])
    def test_jobs_that_are_no_number_of_processes(self, made, tmp_path, jobs):
        options = ("--labels", made[0] / "grades.csv", "--out", tmp_path / "new", "--jobs", jobs)
        result = run("fit", made[0] / "pictures", *options)
        assert result.exit_code == 2
        assert "--jobs" in result.stderr
        assert not (tmp_path / "new").exists()
        assert run("add", tmp_path, tmp_path, "--jobs", jobs).exit_code == 2

    def test_a_new_collection_needs_pictures_and_grades(self, made, tmp_path):
        assert "name the folder of pictures" in failed("fit", "--out", tmp_path / "new")
        assert "--labels" in failed("fit", made[0] / "pictures", "--out", tmp_path / "new")
        assert "there is no folder" in failed("fit", tmp_path / "none", "--out", tmp_path / "new")
        assert not (tmp_path / "new").exists()

    def test_order_needs_a_table_and_two_names(self, made, tmp_path):
        assert "--labels" in failed("fit", made[0] / "pictures", "--order", "a,b", "--out", tmp_path / "new")
        options = ("--labels", made[0] / "grades.csv", "--out", tmp_path / "new")
        assert "at least two names" in failed("fit", made[0] / "pictures", "--order", "a", *options)

    def test_other_features_need_another_directory(self, collection):
        assert "holds features of pixels:8, not of hog" in failed("fit", "--features", "hog", "--out", collection)

    def test_unknown_features_are_named(self, made, tmp_path):
        options = ("--labels", made[0] / "grades.csv", "--features", "magic", "--out", tmp_path / "new")
        assert "no features called 'magic'; there are pixels, hog, onnx" in failed(
            "fit", made[0] / "pictures", *options
        )

    def test_a_writer_at_work_is_named(self, collection):
        from ordrank.collection.writer_lock import only_writer

        with only_writer(collection):
            assert f"is being written by process {os.getpid()}" in failed("fit", "--out", collection)


CSV_TROUBLES = {
    "missing column": ("file,stage\np000.png,1\n", ["no column 'grade'", "'file', 'stage'", "--grade-column"]),
    "unknown file": ("file,grade\np000.png,1\nnope.png,2\n", ["line 3: 'nope.png' is not among the pictures"]),
    "near miss": ("file,grade\np000.png,1\nP001.png,2\n", ["line 3", "is 'p001.png' meant?"]),
    "two grades": (
        "file,grade\np000.png,1\np001.png,2\np000.png,2\n",
        ["line 4: 'p000.png' has grade '2' here and grade '1' in line 2"],
    ),
    "blank": ("file,grade\np000.png,1\np001.png,\n", ["line 3: 'p001.png' has no grade"]),
    "not a number": ("file,grade\np000.png,1\np001.png,severe\n", ["line 3: grade 'severe'", "--order"]),
    "wrong delimiter": ("file|grade\np000.png|1\n", ["no column 'file' and no column 'grade'", "commas"]),
    "one grade": ("file,grade\np000.png,1\np001.png,1\n", ["an order needs two different grades"]),
    "everything": (
        "file,grade\np000.png,1\nnope.png,2\np001.png,\np002.png,x\np003.png,1,2\n",
        ["has 4 problems", "line 3: 'nope", "line 4: 'p001", "line 5: grade 'x'", "line 6: has 3 cells"],
    ),
}


class TestTables:
    @pytest.mark.parametrize(("text", "said"), CSV_TROUBLES.values(), ids=CSV_TROUBLES)
    def test_troubles_are_found_before_any_work(self, made, tmp_path, text, said):
        (tmp_path / "bad.csv").write_text(text)
        errors = failed("fit", made[0] / "pictures", "--labels", tmp_path / "bad.csv", "--out", tmp_path / "new")
        for part in said:
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
    def test_tables_as_spreadsheets_write_them(self, made, tmp_path, change):
        (tmp_path / "t.csv").write_bytes(change((made[0] / "grades.csv").read_text()))
        options = ("--labels", tmp_path / "t.csv", "--features", "pixels:4", "--out", tmp_path / "new")
        assert document("fit", made[0] / "pictures", *options)["graded"] == 30

    def test_names_from_the_folder_above(self, made, tmp_path):
        text = (made[0] / "grades.csv").read_text().replace("\np", "\npictures/p")
        (tmp_path / "t.csv").write_text(text)
        options = ("--labels", tmp_path / "t.csv", "--features", "pixels:4", "--out", tmp_path / "new")
        assert document("fit", made[0] / "pictures", *options)["graded"] == 30

    def test_numbers_for_a_collection_of_words_are_one_sentence(self, made, named, tmp_path):
        errors = failed("fit", made[0] / "pictures", "--labels", made[0] / "grades.csv", "--out", named)
        (sentence,) = errors.splitlines()[1:]
        assert sentence == "no grade is in the order of grades 'mild', 'moderate', 'severe': there are '0', '1', '2'"

    def test_columns_have_other_names(self, made, tmp_path):
        text = (made[0] / "grades.csv").read_text().replace("file,grade", "scan,stage")
        (tmp_path / "t.csv").write_text(text)
        options = ("--labels", tmp_path / "t.csv", "--features", "pixels:4", "--out", tmp_path / "new")
        columns = ("--file-column", "scan", "--grade-column", "stage")
        assert document("fit", made[0] / "pictures", *options, *columns)["graded"] == 30

    def test_a_missing_table_is_named(self, made, tmp_path):
        options = ("--labels", tmp_path / "none.csv", "--out", tmp_path / "new")
        assert "there is no file" in failed("fit", made[0] / "pictures", *options)


class TestAddAndRemove:
    def test_added_pictures_rank_at_once(self, collection, tmp_path):
        write_folder(tmp_path / "more", count=6, first=100, table=tmp_path / "more.csv")
        text = done("add", collection, tmp_path / "more", "--labels", tmp_path / "more.csv")
        assert "6 pictures added" in text
        (answer,) = document("rank", collection, "p100.png")["answers"]
        assert answer["known_grade"] == answer["grade"] == "1"
        assert document("info", collection)["pictures"] == 42

    def test_add_twice_adds_nothing(self, made, collection):
        found = document("add", collection, made[0] / "pictures")
        assert (found["read"], found["known"], found["bad"]) == (0, 36, [])

    def test_one_picture(self, collection, tmp_path):
        paint(1, 777).save(tmp_path / "one.png")
        assert "1 picture added" in done("add", collection, tmp_path / "one.png")

    def test_remove_all_that_are_named_or_none(self, collection):
        assert "nothing was removed" in failed("remove", collection, "p000.png", "none.png")
        assert document("info", collection)["pictures"] == 36
        assert "2 removed" in done("remove", collection, "p000.png", "p001.png")
        assert document("remove", collection, "p002.png") == {
            "collection": str(collection),
            "removed": 1,
            "left": 33,
        }

    def test_remove_hints_at_what_is_meant(self, collection):
        assert "did you mean 'p005.png'?" in failed("remove", collection, "p005.pgn")

    def test_strict_adds_the_others(self, collection, tmp_path):
        write_folder(tmp_path / "more", count=3, first=100)
        (tmp_path / "more" / "empty.png").touch()
        failed("add", collection, tmp_path / "more", "--strict")
        assert document("info", collection)["pictures"] == 39

    def test_removed_pictures_come_back_with_their_folder(self, made, collection):
        done("remove", collection, "p000.png")
        done("fit", made[0] / "pictures", "--out", collection)
        assert document("info", collection)["pictures"] == 36

    def test_what_is_no_collection_is_named(self, tmp_path):
        for command in (("add", tmp_path, ROOT / "docs/images/ranking.png"), ("remove", tmp_path, "x")):
            assert "ordrank fit" in failed(*command)


class TestRank:
    def test_a_table_in_80_columns(self, made):
        text = done("rank", made[0] / "collection", "p005.png", "p004.png", "-k", "4")
        assert "estimated grade 2" in text
        assert "estimated grade 1 (given: 1)" in text
        assert "█" in text
        assert re.search(r"rank +name +grade +distance +order +appearance", text)
        assert "distance² = order² + appearance²" in text
        assert max(map(len, text.splitlines())) <= 80

    def test_an_estimated_grade_is_marked(self, made):
        assert "≈ 2" in done("rank", made[0] / "collection", "p005.png", "-k", "35")

    def test_json_has_everything_but_pictures(self, made):
        found = document("rank", made[0] / "collection", "p005.png", "-k", "3")
        (answer,) = found["answers"]
        assert [result["distance"] for result in answer["results"]] == sorted(r["distance"] for r in answer["results"])
        assert sum(vote["share"] for vote in answer["votes"]) == pytest.approx(1)
        assert "thumbnail" not in json.dumps(found)

    def test_by_file(self, made, tmp_path):
        paint(2, 999).save(tmp_path / "new.png")
        (answer,) = document("rank", made[0] / "collection", tmp_path / "new.png")["answers"]
        assert answer["grade"] == "2"
        assert answer["known_grade"] is None
        assert len(answer["results"]) == 10

    def test_limits(self, made):
        found = document("rank", made[0] / "collection", "p005.png", "-k", "40", "--from", "0", "--to", "1")
        assert {result["grade"] for result in found["answers"][0]["results"]} == {"0", "1"}
        found = document("rank", made[0] / "collection", "p005.png", "-k", "40", "--within-grade")
        assert {result["grade"] for result in found["answers"][0]["results"]} == {"2"}

    def test_nothing_qualifies(self, made):
        assert "No picture qualifies." in done("rank", made[0] / "collection", "p005.png", "--from", "7")

    def test_a_page(self, made, tmp_path):
        page = tmp_path / "deep" / "answers.html"
        assert "answers.html" in done("rank", made[0] / "collection", "p005.png", "--html", page).replace("\n", "")
        assert page.read_text().count("data:image/jpeg;base64,") == 11
        assert document("rank", made[0] / "collection", "p005.png", "--html", page)["html"] == str(page)

    def test_what_is_not_there_is_hinted_at(self, made):
        assert "did you mean p005.png?" in failed("rank", made[0] / "collection", "p005.pgn")

    @pytest.mark.parametrize("query", ["", "{folder}"])
    def test_what_is_no_file_is_no_query(self, made, query):
        errors = failed("rank", made[0] / "collection", query.format(folder=made[0] / "pictures"))
        assert "give picture files, or names" in errors

    def test_a_page_that_is_a_folder(self, made, tmp_path):
        errors = failed("rank", made[0] / "collection", "p005.png", "--html", tmp_path)
        assert errors == f"ordrank: {tmp_path} is a folder; name a file in it with --html\n"

    @pytest.mark.parametrize("limits", [("--from", "3", "--to", "1"), ("--from", "nan"), ("--to", "inf")], ids=" ".join)
    def test_limits_that_make_no_sense(self, made, limits):
        assert limits[1] in failed("rank", made[0] / "collection", "p005.png", *limits)

    def test_the_estimated_grade_is_always_among_the_votes_shown(self, capsys):
        from ordrank._types import Answer, Vote
        from ordrank.cli.collection import screen
        from ordrank.cli.tables import show_answers

        for share in (0.01, 0.0):  # least of all: the median of votes on both sides
            votes = [Vote(str(i), share if i == 7 else 1 / 15) for i in range(15)]
            show_answers(screen(), [Answer("q", b"", "7", 7.0, None, tuple(votes), ())])
            text = capsys.readouterr().out
            assert re.search(r"^(votes)? +7 ", text, re.MULTILINE)
            assert "3 other grades have fewer votes or none" in text

    def test_what_is_no_picture_is_named(self, made, tmp_path):
        (tmp_path / "text.jpg").write_text("no picture")
        assert "text.jpg is not a picture" in failed("rank", made[0] / "collection", tmp_path / "text.jpg")

    def test_what_is_no_grade_is_named(self, made, named):
        assert "high is no grade" in failed("rank", made[0] / "collection", "p005.png", "--to", "high")
        assert "mild, moderate, severe" in failed("rank", named, "p005.png", "--from", "worst")


class TestEvaluate:
    def test_scores_and_confusion(self, made):
        text = done("evaluate", made[0] / "collection", "--folds", "3")
        assert "30 graded pictures" in text
        assert "always the middle grade" in text
        assert "Given grades (rows) and estimated ones (columns)" in text
        assert max(map(len, text.splitlines())) <= 80

    def test_json(self, made):
        found = document("evaluate", made[0] / "collection", "--folds", "2", "--balanced")
        assert found["mae"] < found["mae_middle"]
        assert sum(map(sum, found["confusion"])) == 30

    def test_too_many_folds_are_one_sentence(self, made):
        assert "20 folds need at least 40" in failed("evaluate", made[0] / "collection", "--folds", "20")

    def test_tables_for_many_grades(self, capsys):
        from ordrank.cli.collection import screen
        from ordrank.cli.tables import show_confusion, show_scores

        for count, said in ((20, "mean error"), (21, "21 grades are too many")):
            grades, ones = tuple(map(str, range(count))), tuple(np.eye(count, dtype=int).tolist())
            scores = dict.fromkeys(("mae", "mae_std", "mae_middle", "accuracy", "kappa", "tau"), 0.5)
            found = ordrank.service.Evaluation(
                pictures=count, folds=5, grades=grades, confusion=ones, mae_by_grade=(0.0,) * count, **scores
            )
            show_scores(screen(), found)
            show_confusion(screen(), found)
            text = capsys.readouterr().out
            assert said in text
            assert ("right grades" in text) == (count == 20)
            assert "Given grades" not in text


class TestInfoAndExport:
    def test_info(self, made):
        text = done("info", made[0] / "collection")
        for part in ("36: 30 with a grade, 6 without", "pixels:8, 192 numbers", "█", "trained", "on disk"):
            assert part in text
        assert document("info", made[0] / "collection")["grades"] == {"0": 12, "1": 12, "2": 6}

    def test_info_of_what_is_none(self, tmp_path):
        assert "is not a collection; make one with `ordrank fit" in failed("info", tmp_path)

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_export(self, made, tmp_path, suffix):
        import pandas

        assert "36 rows" in done("export", made[0] / "collection", "--out", tmp_path / f"t.{suffix}")
        table = getattr(pandas, f"read_{suffix}")(tmp_path / f"t.{suffix}")
        assert len(table) == 36
        assert table["grade"].isna().sum() == 6
        assert document("export", made[0] / "collection", "--out", tmp_path / f"u.{suffix}")["rows"] == 36

    def test_export_to_something_else(self, made, tmp_path):
        assert "must end in .parquet or .csv" in failed("export", made[0] / "collection", "--out", tmp_path / "t.xls")
        (tmp_path / "folder.csv").mkdir()
        errors = failed("export", made[0] / "collection", "--out", tmp_path / "folder.csv")
        assert (
            errors
            == f"ordrank: {tmp_path / 'folder.csv'} is a folder; name a file in it that ends in .parquet or .csv\n"
        )

    @pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
    def test_export_makes_the_folder(self, made, tmp_path, name):
        done("export", made[0] / "collection", "--out", tmp_path / "none" / "below" / name)
        assert (tmp_path / "none" / "below" / name).is_file()

    @pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
    def test_export_names_the_file_that_cannot_be_written(self, made, tmp_path, name, monkeypatch):
        from ordrank.service import exporting

        def refuse(file, *others):
            raise PermissionError(13, f"cannot open {file}", str(file))

        monkeypatch.setattr(exporting, f"_write_{name[2:]}", refuse)
        errors = failed("export", made[0] / "collection", "--out", tmp_path / name)
        assert errors == f"ordrank: Permission denied: {tmp_path / name}\n"


def test_named_grades_are_shown_wherever_a_grade_is(named, tmp_path):
    for text in (
        done("info", named),
        done("rank", named, "p005.png", "p001.png", "-k", "3"),
        done("evaluate", named, "--folds", "2"),
    ):
        assert "severe" in text
        assert not re.search(r"grade [0-9]", text)
    found = document("rank", named, "p005.png", "--from", "mild", "--to", "moderate")["answers"][0]
    assert found["grade"] == "severe"
    assert [vote["grade"] for vote in found["votes"]] == ["mild", "moderate", "severe"]
    assert {result["grade"] for result in found["results"]} <= {"mild", "moderate"}
    done("export", named, "--out", tmp_path / "t.csv")
    assert "severe" in (tmp_path / "t.csv").read_text()


def png_that_claims(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


STRANGE = "new\nline 'and' \"quotes\" \x1b[31m 🍏.png"
BAD = {
    "empty.jpg": "is empty",
    "cut.jpg": "is cut off",
    "checksum.png": "is damaged: a checksum is wrong",
    "text.jpg": "is not a picture that can be read",
    "bomb.png": "3600 million pixels",
    "pipe.png": "is not a regular file",
    "nowhere.png": "is a link to nothing",
    "itself.png": "is a link that leads back to itself",
    "back": "is a link that leads back to a folder above it",
    "q-copy.png": "has the same content as 'p000.png'",
    "vanishing.png": "vanished before it was read",
}
GOOD = ("dot.png", "wide.png", "cmyk.jpg", "deep.tif", "moving.gif", STRANGE)


def write_hostile(folder):
    write_folder(folder, table=folder.parent / "grades.csv")
    paint(1, 500).save(folder / "cut.jpg")
    whole = (folder / "cut.jpg").read_bytes()
    (folder / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    damaged = bytearray((folder / "p001.png").read_bytes())
    damaged[-20] ^= 1
    (folder / "checksum.png").write_bytes(damaged)
    (folder / "empty.jpg").touch()
    (folder / "text.jpg").write_text("no picture")
    (folder / "bomb.png").write_bytes(png_that_claims(60000, 60000))
    os.mkfifo(folder / "pipe.png")
    (folder / "nowhere.png").symlink_to("gone.png")
    (folder / "itself.png").symlink_to("itself.png")
    (folder / "back").symlink_to(folder, target_is_directory=True)
    shutil.copy(folder / "p000.png", folder / "q-copy.png")
    paint(1, 501).save(folder / "vanishing.png")
    (folder / "notes.txt").write_text("passed over")
    write_odd_but_good(folder)


def write_odd_but_good(folder):
    Image.new("RGB", (1, 1), "red").save(folder / "dot.png")
    Image.new("RGB", (20000, 3), "blue").save(folder / "wide.png")
    paint(2, 502).convert("CMYK").save(folder / "cmyk.jpg")
    Image.fromarray((np.arange(400, dtype=np.uint16) * 160).reshape(20, 20)).save(folder / "deep.tif")
    paint(0, 503).save(folder / "moving.gif", save_all=True, append_images=[paint(2, 504)])
    paint(0, 505).save(folder / STRANGE)


class TestHostileFolder:
    @pytest.fixture
    def fit(self, tmp_path, monkeypatch):
        """Run ``ordrank fit`` on such a folder, one file of which is gone when its turn comes."""
        write_hostile(tmp_path / "folder")

        def vanishing(place):
            listing = learning_list_pictures(place)
            (place / "vanishing.png").unlink(missing_ok=True)
            return listing

        learning_list_pictures = learning.list_pictures
        monkeypatch.setattr(learning, "list_pictures", vanishing)
        options = ("--labels", tmp_path / "grades.csv", "--features", "pixels:8", "--out", tmp_path / "out")
        return lambda *more: run("fit", tmp_path / "folder", *options, *more)

    def test_every_bad_file_is_named_with_its_reason_and_the_others_are_used(self, fit, tmp_path):
        result = fit()
        assert result.exit_code == 0
        lines = [line for line in result.stderr.splitlines() if not line.endswith("…")]
        assert len(lines) == len(BAD)
        for name, reason in BAD.items():
            assert any(line.startswith(f"{name}: ") and reason in line for line in lines), name
        told = " ".join(result.stdout.split())
        assert "1 copy of another, 10 could not be used, 1 passed over" in told
        assert document("info", tmp_path / "out")["pictures"] == 36 + len(GOOD)

    def test_strange_names_are_shown_on_one_line(self, fit, tmp_path):
        assert fit("--json").exit_code == 0
        text = done("rank", tmp_path / "out", STRANGE, "-k", "50")
        assert "new\\nline" in text
        assert "\x1b[31m" not in text
        assert document("rank", tmp_path / "out", STRANGE)["answers"][0]["query"] == STRANGE

    def test_json_lists_them_all(self, fit):
        result = fit("--json")
        assert result.exit_code == 0
        found = json.loads(result.stdout)
        assert {bad["name"] for bad in found["intake"]["bad"]} == set(BAD)
        assert result.stderr == ""

    def test_strict_fails_and_lists_them_too(self, fit, tmp_path):
        result = fit("--strict")
        assert result.exit_code == 1
        assert result.stdout == ""
        assert result.stderr.splitlines()[-1] == "ordrank: 11 files cannot be used"
        for name in BAD:
            assert f"{name}: " in result.stderr
        assert "no model yet" in failed("rank", tmp_path / "out", "p000.png")
        assert fit().exit_code == 0  # goes on from there

    def test_nothing_usable(self, tmp_path):
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "a.jpg").touch()
        (tmp_path / "folder" / "b.jpg").touch()
        (tmp_path / "grades.csv").write_text("file,grade\na.jpg,1\nb.jpg,2\n")
        options = ("--labels", tmp_path / "grades.csv", "--out", tmp_path / "out")
        assert "none of the files could be read" in failed("fit", tmp_path / "folder", *options)
        assert not (tmp_path / "out").exists()

    def test_many_bad_files_are_cut_short(self, collection, tmp_path):
        (tmp_path / "folder").mkdir()
        for i in range(60):
            (tmp_path / "folder" / f"{i}.jpg").touch()
        lines = run("add", collection, tmp_path / "folder").stderr.splitlines()
        assert lines[-1] == "… and 10 more"
        assert len(document("add", collection, tmp_path / "folder")["bad"]) == 60
        strict = failed("add", collection, tmp_path / "folder", "--strict", "--json").splitlines()
        assert len(strict) == 61


class TestUsage:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("fit", "folder"),
            ("add", "collection"),
            ("remove", "collection"),
            ("rank", "collection"),
            ("rank", "collection", "x", "-k", "0"),
            ("evaluate", "collection", "--folds", "1"),
            ("export", "collection"),
            ("info",),
            ("info", "collection", "--yaml"),
        ],
        ids=" ".join,
    )
    def test_wrong_usage_exits_with_2(self, arguments):
        assert run(*arguments).exit_code == 2

    @pytest.mark.parametrize("command", COMMANDS)
    def test_help_has_examples_a_line_each(self, command, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        lines = [line.strip() for line in done(command, "--help").strip().splitlines()]
        shown = lines[lines.index("Examples:") + 1 :]
        assert len(shown) >= 2
        assert all(line.startswith(f"ordrank {command} ") for line in shown)

    def test_help_loads_nothing_heavy(self):
        code = (
            "import sys; from typer.testing import CliRunner; from ordrank.cli import app; "
            f"[CliRunner().invoke(app, [*c, '--help']) for c in ([], *[[c] for c in {COMMANDS!r}])]; "
            "print([m for m in ('numpy', 'scipy', 'sklearn', 'PIL', 'matplotlib', 'sqlite3') if m in sys.modules])"
        )
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

    def test_want_of_memory_is_one_sentence(self, monkeypatch, tmp_path):
        def describe(collection):
            raise MemoryError

        monkeypatch.setattr(ordrank.service, "describe", describe)
        assert failed("info", tmp_path).startswith("ordrank: there is not enough memory")


class TestTerminals:
    @pytest.mark.parametrize("columns", ["1", "12", "40"])
    def test_narrow(self, named, columns, monkeypatch):
        monkeypatch.setenv("COLUMNS", columns)
        for command in (("rank", named, "p005.png"), ("info", named), ("evaluate", named, "--folds", "2")):
            done(*command)

    def test_narrow_tables_keep_names_and_grades(self, named, monkeypatch):
        monkeypatch.setenv("COLUMNS", "40")
        text = done("rank", named, "p005.png", "-k", "2")
        assert re.search(r"1 +p\d\d\d.png +(≈ )?severe +\d", text)
        assert max(map(len, text.splitlines())) <= 40

    def test_ascii_only(self, named, tmp_path):
        strange = tmp_path / "grün 🍏.png"
        paint(2, 4711).save(strange)
        environment = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
        out, errors = start("rank", named, "p005.png", strange, "-k", "30", env=environment).communicate(timeout=60)
        assert errors == ""
        assert out.isascii()
        assert "distance^2 = order^2" in out
        assert "~ severe" in out
        assert "#####" in out
        assert "gr\\xfcn \\U0001f34f.png" in out

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
    @pytest.mark.parametrize("more", [(), ("--json",)], ids=["table", "json"])
    def test_an_output_that_cannot_be_written(self, named, more):
        with open("/dev/full", "w") as full:
            command = [sys.executable, "-m", "ordrank", "info", str(named), *more]
            process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert process.returncode == 1
        assert process.stderr.splitlines()[0] == "ordrank: No space left on device"

    def test_a_reader_that_has_seen_enough(self, named):
        process = start("rank", named, *["p005.png"] * 300, "-k", "30")
        process.stdout.readline()
        process.stdout.close()
        assert "ordrank" not in process.stderr.read()
        process.wait(timeout=60)

    def test_a_real_terminal_sees_a_bar(self, made, tmp_path):
        pty = pytest.importorskip("pty")
        parent, child = pty.openpty()
        options = ("--labels", made[0] / "grades.csv", "--features", "pixels:4", "--out", tmp_path / "new")
        process = start("fit", made[0] / "pictures", *options)
        process.communicate(timeout=60)
        command = [sys.executable, "-m", "ordrank", "evaluate", str(tmp_path / "new"), "--folds", "2"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=child, env=os.environ | {"TERM": "xterm"})
        out, _ = process.communicate(timeout=60)
        os.close(child)
        assert process.returncode == 0
        assert b"\x1b" not in out
        assert re.search(rb"[01]/2", os.read(parent, 100_000))
        os.close(parent)


def test_an_interrupted_fit_goes_on_from_there(tmp_path):
    write_folder(tmp_path / "pictures", count=300, table=tmp_path / "grades.csv")
    command = ("fit", tmp_path / "pictures", "--labels", tmp_path / "grades.csv", "--out", tmp_path / "out")
    process = start(*command, start_new_session=True)
    while "learning" not in process.stderr.readline():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the processes that read pictures, too
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    said = "ordrank: interrupted; what was read is kept, and the same command goes on from there"
    assert errors.strip() == said
    assert out == ""
    assert document("info", tmp_path / "out")["waiting"] == 300
    assert "300 pictures read since" in done("info", tmp_path / "out")
    found = document(*command)
    assert (found["intake"]["read"], found["intake"]["known"]) == (0, 300)


def write_network(file):
    """A network that passes on what it is given, averaged a little."""
    from onnx import TensorProto, helper, save

    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])]
    exits = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[28, 28], strides=[28, 28])
    graph = helper.make_graph([node], "small", ends, exits)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), file)


def test_the_page_on_collections_can_be_followed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "collection.md").read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for block in (block for kind, block in blocks if kind == "python"):
        exec(compile(block, "docs/collection.md", "exec"), {})  # each on its own
    write_network(tmp_path / "network.onnx")
    (tmp_path / "network.json").write_text(next(block for kind, block in blocks if kind == "json"))
    lines = [line for kind, block in blocks if kind == "sh" for line in block.splitlines()]
    assert {shlex.split(line)[1] for line in lines} == set(COMMANDS)
    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        assert program == "ordrank"
        done(*arguments)
    assert (tmp_path / "answers.html").exists()
