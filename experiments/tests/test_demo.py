"""The command ``demo`` and the comparison of four distances in it."""

import json
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from ordrank_experiments import demo
from ordrank_experiments.demo import run_demo
from typer.testing import CliRunner

from ordrank.cli import app
from ordrank.errors import InputError


@pytest.fixture(scope="module")
def small():
    stages = []
    return run_demo(120, size=32, seed=1, progress=lambda stage, *_: stages.append(stage)), stages


def test_learned_distances_beat_the_euclidean_one(small):
    rows = {row.method: row for row in small[0].rows}
    assert list(rows) == ["Euclidean", "paper", "fast", "OrdinalMetric"]
    assert rows["OrdinalMetric"].mae <= rows["fast"].mae
    assert rows["OrdinalMetric"].same_plant_at_3_in_grade > rows["fast"].same_plant_at_3_in_grade
    assert rows["fast"].mae < 0.8 * rows["Euclidean"].mae
    assert rows["fast"].order_preservation > rows["Euclidean"].order_preservation + 0.1
    assert rows["fast"].same_grade_at_10 > rows["Euclidean"].same_grade_at_10


def test_is_reproducible(small):
    again = run_demo(120, size=32, seed=1)
    for one, other in zip(small[0].rows, again.rows, strict=True):
        assert (one.mae, one.order_preservation) == (other.mae, other.order_preservation)
    assert again.chosen == small[0].chosen


def test_reports_progress(small):
    assert small[1][0] == "drawing 120 fruits"
    assert "fitting fast" in small[1]


def test_files_are_pictures_and_a_self_contained_page(small):
    files = small[0].files
    assert set(files) == {"distances.png", "embedding.png", "ranking.png", "report.html"}
    assert all(files[name].startswith(b"\x89PNG") for name in files if name.endswith("png"))
    page = files["report.html"].decode()
    assert page.count("data:image/png;base64,") == 3
    assert "http" not in page


def test_the_document_is_json_with_versions(small):
    document = json.loads(json.dumps(small[0].as_document()))
    assert document["versions"]["numpy"] == np.__version__
    assert document["settings"]["seed"] == 1


def test_too_few_pictures_are_an_error():
    with pytest.raises(InputError, match="at least 60 pictures, got 59"):
        run_demo(59)


# All files and folders that the command writes.
NAMES = ("collection", "pictures", "grades.csv", "demo.json", "results.html", "report.html")
NAMES += ("distances.png", "embedding.png", "ranking.png")


def run(*arguments, pictures=60):
    return CliRunner().invoke(app, ["demo", "--size", "16", "--pictures", str(pictures), *map(str, arguments)])


class TestCommand:
    @pytest.fixture
    def no_comparison(self, small, monkeypatch):
        """Skip the comparison, which takes longest."""
        monkeypatch.setattr(demo, "run_demo", lambda *arguments, **options: small[0])

    def test_shows_commands_that_can_be_repeated_and_pages_to_open(self, tmp_path, recwarn):
        out = tmp_path / "deep" / "down"
        result = run("--out", out)
        assert result.exit_code == 0, result.output
        shown = [line for line in result.stdout.splitlines() if line.startswith("$ ")]
        assert shown[0] == f"$ ordrank fit {out}/pictures --labels {out}/grades.csv --out {out}/collection"
        assert shown[1] == f"$ ordrank evaluate {out}/collection"
        names = "fruit-0005.jpg fruit-0017.jpg fruit-0029.jpg"
        assert shown[2] == f"$ ordrank rank {out}/collection {names} --html {out}/results.html"
        assert "60: 50 with a grade, 10 without" in result.stdout
        assert "Euclidean" in result.stdout
        assert "OrdinalMetric" in result.stdout  # not truncated in 80 columns
        assert {file.name for file in out.iterdir()} == set(NAMES)
        assert all(line.endswith("…") for line in result.stderr.splitlines())
        assert not [warning for warning in recwarn if issubclass(warning.category, UserWarning)]
        for page in ("report.html", "results.html"):
            assert page in result.stdout.rpartition("Open")[2]
            assert (out / page).exists()
        for line in shown:
            again = CliRunner().invoke(app, shlex.split(line)[2:])
            assert again.exit_code == 0, again.output

    @pytest.mark.usefixtures("no_comparison")
    def test_json_is_one_document_and_nothing_else(self, tmp_path):
        result = run("--json", "--out", tmp_path)
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert [row["method"] for row in document["rows"]] == ["Euclidean", "paper", "fast", "OrdinalMetric"]
        assert document["evaluation"]["mae"] < document["evaluation"]["mae_median"]
        assert [result["true_grade"] for result in document["results"]] == ["0", "2", "4"]
        assert {Path(file).name for file in document["files"]} >= {"report.html", "results.html", "grades.csv"}
        assert all(Path(file).is_file() for file in document["files"])

    @pytest.mark.usefixtures("no_comparison")
    def test_reruns_update_the_folder_and_delete_nothing(self, tmp_path):
        assert run("--json", "--out", tmp_path).exit_code == 0
        unchanged = tmp_path / "pictures" / "fruit-0000.jpg"
        stamp = unchanged.stat().st_mtime_ns
        foreign = tmp_path / "pictures" / "notes.txt", tmp_path / "collection" / "model-card.md"
        for file in foreign:
            file.write_text("mine")
        assert run("--json", "--out", tmp_path).exit_code == 0
        assert unchanged.stat().st_mtime_ns == stamp
        more = run("--seed", 3, "--out", tmp_path, pictures=72)
        assert more.exit_code == 0, more.output
        assert "72: 60 with a grade, 12 without" in more.stdout
        fewer = run("--out", tmp_path)
        assert fewer.exit_code == 1
        assert "holds a demonstration of 72 pictures" in fewer.stderr.replace("\n", " ")
        assert [file.read_text() for file in foreign] == ["mine", "mine"]

    @pytest.mark.parametrize("name", NAMES)
    def test_foreign_files_are_not_touched(self, tmp_path, name):
        (tmp_path / name).write_text('{"pictures": 3}')
        result = run("--out", tmp_path)
        assert result.exit_code == 1
        assert "is not of a demonstration; name another folder with --out" in result.stderr.replace("\n", " ")
        assert [file.name for file in tmp_path.iterdir()] == [name]
        assert (tmp_path / name).read_text() == '{"pictures": 3}'

    def test_a_dangling_link_is_not_overwritten(self, tmp_path):
        (tmp_path / "report.html").symlink_to("gone")
        assert run("--out", tmp_path).exit_code == 1
        assert (tmp_path / "report.html").is_symlink()

    def test_wrong_numbers_exit_1_with_one_sentence(self, tmp_path):
        result = run("--out", tmp_path / "none", pictures=3)
        assert result.exit_code == 1
        assert result.stderr.strip().splitlines()[-1].startswith("ordrank: the demonstration needs at least 60")
        assert not (tmp_path / "none").exists()

    def test_an_unwritable_folder_is_named(self, tmp_path):
        (tmp_path / "file").write_text("x")
        result = run("--out", tmp_path / "file" / "below")
        assert result.exit_code == 1
        assert "file/below" in result.stderr

    @pytest.mark.parametrize("option", ["--sise", "--size"])
    def test_usage_errors_exit_2(self, option):
        assert CliRunner().invoke(app, ["demo", option, "3"]).exit_code == 2

    def test_an_interrupt_leaves_no_files(self, tmp_path):
        command = [sys.executable, "-m", "ordrank", "demo", "--pictures", "20000", "--out", str(tmp_path / "out")]
        # A parent without a terminal may ignore SIGINT, which children inherit.
        default = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=default)
        assert "drawing 20000 fruits" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert errors.strip() == "ordrank: interrupted; nothing was written"
        assert not (tmp_path / "out").exists()
