"""Commands that read: rank, evaluate, info, export."""

import json
import re

import numpy as np
import pytest

from ordrank.collection.reports import Evaluation
from ordrank.collection.types import GradeProbability, RankResult
from tests.cli.running import document, done, failed, paint, run, write_folder


class TestRank:
    def test_table_fits_80_columns(self, made):
        text = done("rank", made[0] / "collection", "p005.png", "p004.png", "-k", "4")
        assert "estimated grade 2" in text
        assert re.search(r"estimated grade 1( \(.–.\))?, given: 1", text)
        assert "█" in text
        assert re.search(r"rank +name +grade +distance +order +appearance", text)
        assert "distance² = order² + appearance²" in text
        assert max(map(len, text.splitlines())) <= 80

    def test_estimated_grades_are_marked(self, made):
        assert "≈ 2" in done("rank", made[0] / "collection", "p005.png", "-k", "35")

    def test_json_holds_hits_and_probabilities_without_thumbnails(self, made):
        found = document("rank", made[0] / "collection", "p005.png", "-k", "3")
        (result,) = found["results"]
        assert [hit["distance"] for hit in result["hits"]] == sorted(hit["distance"] for hit in result["hits"])
        assert sum(each["probability"] for each in result["probabilities"]) == pytest.approx(1)
        assert int(result["lowest"]) <= int(result["grade"]) <= int(result["highest"])
        assert result["is_novel"] is False
        assert result["explanation"].startswith("2 is the middle estimate; for 9 pictures in 10")
        assert "thumbnail" not in json.dumps(found)

    def test_query_by_file(self, made, tmp_path):
        paint(2, 999).save(tmp_path / "new.png")
        (result,) = document("rank", made[0] / "collection", tmp_path / "new.png")["results"]
        assert result["grade"] == "2"
        assert result["known_grade"] is None
        assert len(result["hits"]) == 10

    def test_range_of_grades_and_within_grade(self, made):
        found = document("rank", made[0] / "collection", "p005.png", "-k", "40", "--from", "0", "--to", "1")
        assert {hit["grade"] for hit in found["results"][0]["hits"]} == {"0", "1"}
        found = document("rank", made[0] / "collection", "p005.png", "-k", "40", "--within-grade")
        assert {hit["grade"] for hit in found["results"][0]["hits"]} == {"2"}

    def test_range_without_pictures(self, made):
        assert "No picture matches." in done("rank", made[0] / "collection", "p005.png", "--from", "7")

    def test_html_report(self, made, tmp_path):
        page = tmp_path / "deep" / "results.html"
        assert "results.html" in done("rank", made[0] / "collection", "p005.png", "--html", page).replace("\n", "")
        assert page.read_text().count("data:image/jpeg;base64,") == 11
        assert document("rank", made[0] / "collection", "p005.png", "--html", page)["html"] == str(page)

    def test_similar_name_is_suggested(self, made):
        assert "did you mean p005.png?" in failed("rank", made[0] / "collection", "p005.pgn")

    @pytest.mark.parametrize("query", ["", "{folder}"])
    def test_query_must_be_a_file_or_a_name(self, made, query):
        errors = failed("rank", made[0] / "collection", query.format(folder=made[0] / "pictures"))
        assert "give picture files, or names" in errors

    def test_html_report_must_not_be_a_folder(self, made, tmp_path):
        errors = failed("rank", made[0] / "collection", "p005.png", "--html", tmp_path)
        assert errors == f"ordrank: {tmp_path} is a folder; name a file in it with --html\n"

    @pytest.mark.parametrize("limits", [("--from", "3", "--to", "1"), ("--from", "nan"), ("--to", "inf")], ids=" ".join)
    def test_invalid_range_is_reported(self, made, limits):
        assert limits[1] in failed("rank", made[0] / "collection", "p005.png", *limits)

    def test_probability_of_the_estimated_grade_is_always_shown(self, capsys):
        from ordrank.cli.tables import show_results
        from ordrank.cli.terminal import screen

        for least in (0.01, 0.0):  # the median lies between the likely grades on both sides
            grades = tuple(GradeProbability(str(i), least if i == 7 else 1 / 15) for i in range(15))
            show_results(screen(), [RankResult("q", None, "7", 7.0, "1", "13", None, grades, None, None, 0, (), b"")])
            text = capsys.readouterr().out
            assert re.search(r"^(probability)? +7 ", text, re.MULTILINE)
            assert "3 other grades are less probable" in text
            assert "estimated grade 7 (1–13)" in text

    def test_file_that_is_not_a_picture_is_reported(self, made, tmp_path):
        (tmp_path / "text.jpg").write_text("no picture")
        assert "text.jpg is not a picture" in failed("rank", made[0] / "collection", tmp_path / "text.jpg")

    def test_invalid_grade_is_reported(self, made, named):
        assert "high is not a grade" in failed("rank", made[0] / "collection", "p005.png", "--to", "high")
        assert "mild, moderate, severe" in failed("rank", named, "p005.png", "--from", "worst")


class TestManyQueries:
    def test_files_are_read_with_progress_on_standard_error(self, made, tmp_path):
        write_folder(tmp_path / "new", count=4, first=100)
        files = sorted((tmp_path / "new").iterdir())
        result = run("rank", made[0] / "collection", *files)
        assert result.stderr == "reading 4 pictures …\n"
        printed = "".join(result.stdout.split())  # long paths are folded
        assert [printed.count(f"{file}estimatedgrade") for file in files] == [1] * 4
        assert run("rank", made[0] / "collection", files[0]).stderr == ""
        assert run("rank", made[0] / "collection", *files, "--json").stderr == ""


class TestEvaluate:
    def test_scores_and_confusion_matrix_are_printed(self, made):
        text = done("evaluate", made[0] / "collection", "--folds", "3")
        assert "30 graded pictures" in text
        assert "always the median grade" in text
        assert "Given grades (rows) and estimated ones (columns)" in text
        assert max(map(len, text.splitlines())) <= 80

    def test_json_of_scores(self, made):
        found = document("evaluate", made[0] / "collection", "--folds", "2", "--balanced")
        assert found["mae"] < found["mae_median"]
        assert sum(map(sum, found["confusion"])) == 30

    def test_pictures_from_outside_are_scored(self, made, tmp_path):
        write_folder(tmp_path / "new", count=12, first=100, table=tmp_path / "new.csv")
        paint(0, 0).save(tmp_path / "new" / "copy.png")  # as p000.png
        (tmp_path / "new" / "bad.png").write_text("no picture")
        with (tmp_path / "new.csv").open("a") as stream:
            stream.write("copy.png,0\nbad.png,1\n")
        options = ("--pictures", tmp_path / "new", "--labels", tmp_path / "new.csv")
        result = run("evaluate", made[0] / "collection", *options)
        assert "bad.png: is not a picture that can be read" in result.stderr
        for part in ("10 graded pictures from outside the collection", "Verdict: ", "±"):
            assert (part in result.stdout) == (part != "±")
        assert "1 picture is in the collection too and not scored, first copy.png" in result.stdout
        found = document("evaluate", made[0] / "collection", *options)
        assert (found["pictures"], found["folds"], found["mae_std"], found["in_collection"]) == (
            10,
            0,
            None,
            ["copy.png"],
        )
        assert found["read"]["bad"][0]["name"] == "bad.png"
        assert found["mae"] < found["mae_median"]

    @pytest.mark.parametrize(
        "options",
        [("--labels", "x.csv"), ("--skip-bad",), ("--pictures", "x", "--folds", "3"), ("--pictures", "x", "--plain")],
    )
    def test_options_of_the_other_kind_of_evaluation_exit_with_2(self, made, options):
        assert run("evaluate", made[0] / "collection", *options).exit_code == 2

    def test_too_many_folds_are_reported_in_one_sentence(self, made):
        assert "20 folds need at least 40" in failed("evaluate", made[0] / "collection", "--folds", "20")

    def test_tables_for_many_grades(self, capsys):
        from ordrank.cli.tables import show_confusion, show_scores
        from ordrank.cli.terminal import screen

        for count, expected in ((20, "mean error"), (21, "21 grades are too many")):
            grades, ones = tuple(map(str, range(count))), tuple(np.eye(count, dtype=int).tolist())
            scores = dict.fromkeys(("mae", "mae_std", "mae_median", "accuracy", "kappa", "tau", "coverage", "rps"), 0.5)
            words = {"verdict": "fair", "advice": None}
            found = Evaluation(
                pictures=count, folds=5, grades=grades, confusion=ones, mae_by_grade=(0.0,) * count, **scores, **words
            )
            show_scores(screen(), found)
            show_confusion(screen(), found)
            text = capsys.readouterr().out
            assert expected in text
            assert ("exact grades" in text) == (count == 20)
            assert "Given grades" not in text


class TestInfoAndExport:
    def test_info(self, made):
        text = done("info", made[0] / "collection")
        for part in ("36: 30 with a grade, 6 without", "pixels:8, 192 numbers", "█", "trained", "on disk"):
            assert part in text
        assert document("info", made[0] / "collection")["grades"] == [
            {"grade": "0", "value": 0.0, "pictures": 12, "estimated": 0},
            {"grade": "1", "value": 1.0, "pictures": 12, "estimated": 0},
            {"grade": "2", "value": 2.0, "pictures": 6, "estimated": 6},
        ]

    def test_info_without_a_collection(self, tmp_path):
        assert "is not a collection; create one with `ordrank fit" in failed("info", tmp_path)

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_export(self, made, tmp_path, suffix):
        import pandas

        assert "36 rows" in done("export", made[0] / "collection", "--out", tmp_path / f"t.{suffix}")
        table = getattr(pandas, f"read_{suffix}")(tmp_path / f"t.{suffix}")
        assert len(table) == 36
        assert table["grade"].isna().sum() == 6
        assert document("export", made[0] / "collection", "--out", tmp_path / f"u.{suffix}")["rows"] == 36

    def test_export_to_another_suffix_or_a_folder_fails(self, made, tmp_path):
        assert "must end in .parquet or .csv" in failed("export", made[0] / "collection", "--out", tmp_path / "t.xls")
        (tmp_path / "folder.csv").mkdir()
        errors = failed("export", made[0] / "collection", "--out", tmp_path / "folder.csv")
        assert (
            errors
            == f"ordrank: {tmp_path / 'folder.csv'} is a folder; name a file in it that ends in .parquet or .csv\n"
        )

    @pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
    def test_export_creates_the_folder(self, made, tmp_path, name):
        done("export", made[0] / "collection", "--out", tmp_path / "none" / "below" / name)
        assert (tmp_path / "none" / "below" / name).is_file()

    @pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
    def test_export_reports_a_file_that_cannot_be_written(self, made, tmp_path, name, monkeypatch):
        from ordrank.collection import export

        def fail(file, *others):
            raise PermissionError(13, f"cannot open {file}", str(file))

        monkeypatch.setattr(export, f"_write_{name[2:]}", fail)
        errors = failed("export", made[0] / "collection", "--out", tmp_path / name)
        assert errors == f"ordrank: Permission denied: {tmp_path / name}\n"


def test_named_grades_are_shown_everywhere(named, tmp_path):
    for text in (
        done("info", named),
        done("rank", named, "p005.png", "p001.png", "-k", "3"),
        done("evaluate", named, "--folds", "2"),
    ):
        assert "severe" in text
        assert not re.search(r"grade [0-9]", text)
    found = document("rank", named, "p005.png", "--from", "mild", "--to", "moderate")["results"][0]
    assert found["grade"] == "severe"
    assert [each["grade"] for each in found["probabilities"]] == ["mild", "moderate", "severe"]
    assert {hit["grade"] for hit in found["hits"]} <= {"mild", "moderate"}
    done("export", named, "--out", tmp_path / "t.csv")
    assert "severe" in (tmp_path / "t.csv").read_text()
