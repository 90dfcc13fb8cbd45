import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ordrank.cli import app
from ordrank.errors import InputError
from ordrank.experiments import demo
from ordrank.experiments.demo import run_demo


@pytest.fixture(scope="module")
def small():
    heard = []
    return run_demo(120, size=32, seed=1, tell=heard.append), heard


def test_learning_beats_plain_distance(small):
    rows = {row.method: row for row in small[0].rows}
    assert list(rows) == ["Euclidean", "paper", "fast", "OrdinalMetric"]
    assert rows["OrdinalMetric"].mae <= rows["fast"].mae
    assert rows["OrdinalMetric"].same_plant_at_3_in_grade > rows["fast"].same_plant_at_3_in_grade
    assert rows["fast"].mae < 0.8 * rows["Euclidean"].mae
    assert rows["fast"].order_preservation > rows["Euclidean"].order_preservation + 0.1
    assert rows["fast"].same_grade_at_10 > rows["Euclidean"].same_grade_at_10


def test_it_is_reproducible(small):
    again = run_demo(120, size=32, seed=1)
    for one, other in zip(small[0].rows, again.rows, strict=True):
        assert (one.mae, one.order_preservation) == (other.mae, other.order_preservation)
    assert again.chosen == small[0].chosen


def test_it_tells_what_it_does(small):
    assert small[1][0] == "drawing 120 fruits"
    assert "fitting fast" in small[1]


def test_files_are_pictures_and_a_page_that_needs_nothing_else(small):
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


def test_too_few_pictures_are_refused():
    with pytest.raises(InputError, match="at least 60 pictures, got 59"):
        run_demo(59)


# Everything that the command writes.
NAMES = ("collection", "pictures", "grades.csv", "demo.json", "answers.html", "report.html")
NAMES += ("distances.png", "embedding.png", "ranking.png")


class TestCommand:
    arguments = ("demo", "--pictures", "60", "--size", "16")

    @pytest.fixture
    def no_comparison(self, small, monkeypatch):
        """The four distances were compared before, and that takes longest."""
        monkeypatch.setattr(demo, "run_demo", lambda *arguments, **options: small[0])

    def test_shows_the_commands_their_results_and_what_to_open(self, tmp_path, recwarn):
        out = tmp_path / "deep" / "down"
        result = CliRunner().invoke(app, [*self.arguments, "--out", str(out)])
        assert result.exit_code == 0
        shown = [line for line in result.stdout.splitlines() if line.startswith("$ ")]
        assert shown[0] == f"$ ordrank fit {out}/pictures --labels {out}/grades.csv --out {out}/collection"
        assert shown[1] == f"$ ordrank evaluate {out}/collection"
        names = "fruit-0005.jpg fruit-0017.jpg fruit-0029.jpg"
        assert shown[2] == f"$ ordrank rank {out}/collection {names} --html {out}/answers.html"
        assert "60: 50 with a grade, 10 without" in result.stdout
        assert "always the middle grade" in result.stdout
        assert "Euclidean" in result.stdout
        assert "OrdinalMetric" in result.stdout  # whole, in 80 columns
        assert {file.name for file in out.iterdir()} == set(NAMES)
        assert all(line.endswith("…") for line in result.stderr.splitlines())
        assert not [warning for warning in recwarn if issubclass(warning.category, UserWarning)]
        for page in ("report.html", "answers.html"):
            assert page in result.stdout.rpartition("Open")[2]
            assert (out / page).exists()

    @pytest.mark.usefixtures("no_comparison")
    def test_the_commands_shown_can_be_given(self, tmp_path):
        out = tmp_path / "out"
        result = CliRunner().invoke(app, [*self.arguments, "--out", str(out)])
        for line in (line for line in result.stdout.splitlines() if line.startswith("$ ")):
            again = CliRunner().invoke(app, shlex.split(line)[2:])
            assert again.exit_code == 0, again.output

    def test_json_is_one_document_and_nothing_else(self, tmp_path):
        result = CliRunner().invoke(app, [*self.arguments, "--json", "--out", str(tmp_path)])
        document = json.loads(result.stdout)
        assert [row["method"] for row in document["rows"]] == ["Euclidean", "paper", "fast", "OrdinalMetric"]
        assert document["evaluation"]["mae"] < document["evaluation"]["mae_middle"]
        assert [answer["true_grade"] for answer in document["answers"]] == ["0", "2", "4"]
        assert {Path(file).name for file in document["files"]} >= {"report.html", "answers.html", "grades.csv"}
        assert all(Path(file).is_file() for file in document["files"])

    @pytest.mark.usefixtures("no_comparison")
    def test_again_goes_on_with_its_own_folder(self, tmp_path):
        again = ("--json", "--out", str(tmp_path / "out"))
        assert CliRunner().invoke(app, [*self.arguments, *again]).exit_code == 0
        stamp = (tmp_path / "out" / "pictures" / "fruit-0000.jpg").stat().st_mtime_ns
        assert CliRunner().invoke(app, [*self.arguments, *again]).exit_code == 0
        assert (tmp_path / "out" / "pictures" / "fruit-0000.jpg").stat().st_mtime_ns == stamp

    @pytest.mark.usefixtures("no_comparison")
    def test_other_pictures_begin_anew_and_leave_what_is_not_theirs(self, tmp_path):
        out = tmp_path / "out"
        assert CliRunner().invoke(app, [*self.arguments, "--out", str(out)]).exit_code == 0
        (out / "collection" / "notes.txt").write_text("mine")
        more = ("--pictures", "72", "--seed", "3", "--out", str(out))
        result = CliRunner().invoke(app, ["demo", "--size", "16", *more])
        assert result.exit_code == 0, result.output
        assert "72: 60 with a grade, 12 without" in result.stdout
        assert (out / "collection" / "notes.txt").read_text() == "mine"

    @pytest.mark.parametrize("name", NAMES)
    def test_what_it_did_not_make_is_not_touched(self, tmp_path, name):
        (tmp_path / name).write_text('{"pictures": 3}')
        result = CliRunner().invoke(app, [*self.arguments, "--out", str(tmp_path)])
        assert result.exit_code == 1
        assert "no demonstration made it; name another folder with --out" in result.stderr
        assert [file.name for file in tmp_path.iterdir()] == [name]
        assert (tmp_path / name).read_text() == '{"pictures": 3}'

    def test_a_link_to_nothing_is_somebodys(self, tmp_path):
        (tmp_path / "report.html").symlink_to("gone")
        assert CliRunner().invoke(app, [*self.arguments, "--out", str(tmp_path)]).exit_code == 1
        assert (tmp_path / "report.html").is_symlink()

    def test_wrong_numbers_are_one_sentence_and_exit_1(self, tmp_path):
        result = CliRunner().invoke(app, ["demo", "--pictures", "3", "--out", str(tmp_path / "none")])
        assert result.exit_code == 1
        assert result.stderr.strip().splitlines()[-1].startswith("ordrank: the demonstration needs at least 60")
        assert not (tmp_path / "none").exists()

    def test_a_place_that_cannot_be_written_is_named(self, tmp_path):
        (tmp_path / "file").write_text("x")
        result = CliRunner().invoke(app, [*self.arguments, "--out", str(tmp_path / "file" / "below")])
        assert result.exit_code == 1
        assert "file/below" in result.stderr

    def test_usage_errors_exit_2(self):
        assert CliRunner().invoke(app, ["demo", "--sise", "3"]).exit_code == 2
        assert CliRunner().invoke(app, ["demo", "--size", "3"]).exit_code == 2

    def test_an_interrupt_leaves_nothing_behind(self, tmp_path):
        command = [sys.executable, "-m", "ordrank", "demo", "--pictures", "20000", "--out", str(tmp_path / "out")]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert "drawing 20000 fruits" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert errors.strip() == "ordrank: interrupted; nothing was written"
        assert not (tmp_path / "out").exists()
