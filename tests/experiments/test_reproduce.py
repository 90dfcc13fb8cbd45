import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

from ordrank import CMDSMetric
from ordrank.cli import app
from ordrank.experiments import complexity, paper_figures
from ordrank.experiments.protocol import balanced_split
from tests.experiments.fakes import assert_refused, write_fgnet, write_umist

KEYS = {"table", "dataset", "method", "n", "d", "K", "s", "mae_mean", "mae_std", "repeats", "fit_seconds"}
KEYS |= {"published_mae", "published_seconds"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_fgnet(folder)
    write_umist(folder)
    return folder


@pytest.fixture
def quick(monkeypatch):
    """Fewer timings and shorter curves; the rest is as users run it."""
    steps = complexity._steps()[:1]
    monkeypatch.setattr(complexity, "_steps", lambda: steps)
    monkeypatch.setattr(paper_figures, "ITERATIONS", (1, 3))


def run(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_fgnet_end_to_end(data, tmp_path, quick):
    result = run("fgnet", "--data", data, "--repeats", 2, "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert set(rows[0]) >= KEYS
    assert {row["table"] for row in rows} == {"6", "7"}
    calibrated = [row for row in rows if row["method"] == "cMDS-DML calibrated"]
    assert [(row["K"], row["n"]) for row in calibrated] == [(4, 50), (5, 50), (6, 50), (5, 40), (5, 50), (5, 75)]
    euclidean = {(row["table"], row["n"], row["K"]): row["mae_mean"] for row in rows if row["method"] == "Euclidean"}
    # The drawn faces differ by what a linear map finds at once.
    assert all(row["mae_mean"] <= euclidean[row["table"], row["n"], row["K"]] + 0.05 for row in calibrated)
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"report.html", "report.md", "results.json", "fgnet-embedding.png", "fgnet-embedding.pdf"}
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png") == 2
    assert "http" not in page
    assert "0.7109" in page
    again = run("fgnet", "--data", data, "--repeats", 2, "--out", tmp_path)
    assert "running 0 of 6 splits" in again.stderr
    assert "Open" in again.stdout


def test_figures_of_umist(data, quick):
    from ordrank.experiments.reproduce import prepare

    drawn = paper_figures.draw_all({"umist": prepare("umist", data)})
    assert set(drawn) == {name for name in paper_figures.CAPTIONS if not name.startswith("fgnet")}


def test_a_killed_run_goes_on_where_it_was(data, tmp_path, quick):
    """SIGKILL to the whole process group in the middle; finished splits stay and are not run again."""
    command = [sys.executable, "-m", "ordrank", "reproduce", "fgnet", "--data", str(data), "--repeats", "40"]
    process = subprocess.Popen([*command, "--out", str(tmp_path)], start_new_session=True, stderr=subprocess.DEVNULL)
    journal = tmp_path / "splits.jsonl"
    deadline = time.monotonic() + 120
    while not journal.exists() or journal.read_bytes().count(b"\n") < 4:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = journal.read_bytes().split(b"\n")[:-1]
    assert len(before) >= 4
    assert not (tmp_path / "report.html").exists()

    result = run("fgnet", "--data", data, "--repeats", 3, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    after = journal.read_bytes().split(b"\n")[:-1]
    assert after[: len(before)] == before
    units = [json.dumps(json.loads(line)["unit"]) for line in after[1:]]
    assert len(units) == len(set(units)) >= 9


def test_other_data_in_the_same_folder_begin_anew(data, tmp_path, quick):
    write_fgnet(tmp_path / "other", seed=1)
    for place in (data, tmp_path / "other"):
        result = run("fgnet", "--data", place, "--repeats", 2, "--out", tmp_path / "out")
        assert result.exit_code == 0, result.output
    assert "beginning anew" in result.stderr.replace("\n", " ")
    assert "running 6 of 6 splits" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["umist", "--data", "nowhere"], "nowhere does not exist. Get the cropped UMIST"),
        (["fgnet", "--data", "."], "no FG-NET landmarks in"),
        (["all", "--repeats", "1"], "repeats must be at least 2"),
        (["all", "--jobs", "0"], "jobs must be a number of processes"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_1(arguments, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(run(*arguments), complaint)
    assert not (tmp_path / "reproduction").exists()


def test_without_data_it_says_what_to_set(tmp_path, monkeypatch):
    monkeypatch.delenv("ORDRANK_DATA", raising=False)
    result = run("umist", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "set ORDRANK_DATA" in result.stderr


def test_the_published_first_step_moves_nothing_on_raw_landmarks(data_dir):
    from ordrank.experiments.reproduce import prepare

    faces = prepare("fgnet", data_dir)
    train, _ = balanced_split(faces.y, 50, (0, 0))
    with pytest.warns(ConvergenceWarning, match="line search found no acceptable step"):
        metric = CMDSMetric(gamma=10.0).fit(faces.X["raw"][train], faces.y[train])
    np.testing.assert_array_equal(metric.components_, np.eye(3, 80))
