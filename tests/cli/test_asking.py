"""Commands that read: rank, evaluate, info, export."""

import json
import re

import numpy as np
import pytest

import ordrank.service
from tests.cli.running import document, done, failed, paint


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
