import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from ordrank.cli import app
from ordrank.errors import InputError
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


class TestCommand:
    arguments = ("demo", "--pictures", "60", "--size", "16")

    def test_prints_a_table_and_says_what_to_open(self, tmp_path):
        result = CliRunner().invoke(app, [*self.arguments, "--out", str(tmp_path / "deep" / "down")])
        assert result.exit_code == 0
        assert "Euclidean" in result.stdout
        assert "OrdinalMetric" in result.stdout  # whole, in 80 columns
        assert "report.html" in result.stdout
        assert (tmp_path / "deep" / "down" / "report.html").exists()

    def test_json_is_one_document_and_nothing_else(self, tmp_path):
        result = CliRunner().invoke(app, [*self.arguments, "--json", "--out", str(tmp_path)])
        document = json.loads(result.stdout)
        assert [row["method"] for row in document["rows"]] == ["Euclidean", "paper", "fast", "OrdinalMetric"]
        assert len(document["files"]) == 4

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
