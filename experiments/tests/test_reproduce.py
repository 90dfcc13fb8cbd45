"""The command ``reproduce``, and one finding on the real data."""

import json

import numpy as np
import pytest
from ordrank_experiments import complexity, paper_figures, paper_methods, tables
from ordrank_experiments.protocol import balanced_split
from ordrank_experiments.reproduce import prepare
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

from experiments.tests.fakes import assert_rejected, write_fgnet, write_umist
from ordrank import CMDSMetric
from ordrank.cli import app

KEYS = {"table", "dataset", "method", "n", "d", "K", "s", "mae_mean", "mae_std", "repeats", "fit_seconds"}
KEYS |= {"published_mae", "published_seconds", "mae_by_split"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_fgnet(folder)
    write_umist(folder)
    return folder


@pytest.fixture
def quick(monkeypatch):
    """Fewer iterations, candidates and timings."""
    steps = complexity._steps()[:1]
    monkeypatch.setattr(complexity, "_steps", lambda: steps)
    monkeypatch.setattr(paper_figures, "ITERATIONS", (1, 3))
    monkeypatch.setattr(paper_methods, "LITERAL_ITERATIONS", 5)
    monkeypatch.setattr(paper_methods, "SCALED_ITERATIONS", 5)
    monkeypatch.setattr(paper_methods, "RIDGES", (1e-3, 1e-2))
    monkeypatch.setattr(paper_methods, "LDMLR_WEIGHTS", (10.0,))
    monkeypatch.setattr(paper_methods, "_iterations", lambda cell: 5)


def run(*arguments):
    # One process: others would not see the patched modules.
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments), "--jobs", "1"])


def test_fgnet_end_to_end(data, tmp_path, quick, monkeypatch):
    result = run("fgnet", "--data", data, "--repeats", 2, "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert set(rows[0]) >= KEYS
    assert all(len(row["mae_by_split"]) == 2 for row in rows)
    assert any(row["method"] == tables.CMDS_SCALED for row in rows)
    assert {row["table"] for row in rows} == {"6", "7"}
    calibrated = [row for row in rows if row["method"] == "cMDS-DML calibrated"]
    assert [(row["K"], row["n"]) for row in calibrated] == [(4, 50), (5, 50), (6, 50), (5, 40), (5, 50), (5, 75)]
    euclidean = {(row["table"], row["n"], row["K"]): row["mae_mean"] for row in rows if row["method"] == "Euclidean"}
    # The ages of the drawn faces are a linear function of the landmarks.
    assert all(row["mae_mean"] <= euclidean[row["table"], row["n"], row["K"]] + 0.05 for row in calibrated)
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"report.html", "report.md", "results.json", "fgnet-embedding.png", "fgnet-embedding.pdf"}
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png") == 2
    assert "http" not in page
    assert "0.7109" in page
    monkeypatch.setattr(paper_figures, "draw_all", lambda prepared: {})
    again = run("fgnet", "--data", data, "--repeats", 2, "--out", tmp_path)
    assert "running 0 of 6 splits" in again.stderr
    assert "Open" in again.stdout


def test_figures_of_umist(data, quick):
    drawn = paper_figures.draw_all({"umist": prepare("umist", data)})
    assert set(drawn) == {name for name in paper_figures.CAPTIONS if not name.startswith("fgnet")}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["umist", "--data", "nowhere"], "nowhere does not exist. Get the cropped UMIST"),
        (["fgnet", "--data", "."], "no FG-NET landmarks in"),
        (["all", "--repeats", "1"], "repeats must be at least 2"),
    ],
)
def test_wrong_input_exits_1_with_one_sentence(arguments, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_rejected(run(*arguments), complaint)
    assert not (tmp_path / "reproduction").exists()


def test_zero_jobs_is_an_error(tmp_path):
    result = CliRunner().invoke(app, ["reproduce", "all", "--jobs", "0", "--out", str(tmp_path / "out")])
    assert_rejected(result, "jobs must be a number of processes")


def test_without_data_the_message_names_the_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("ORDRANK_DATA", raising=False)
    assert_rejected(run("umist", "--out", tmp_path / "out"), "set ORDRANK_DATA")


def test_no_step_of_the_published_size_is_accepted_on_raw_landmarks(data_dir):
    faces = prepare("fgnet", data_dir)
    train, _ = balanced_split(faces.y, 50, (0, 0))
    with pytest.warns(ConvergenceWarning, match="line search found no acceptable step"):
        metric = CMDSMetric(gamma=10.0).fit(faces.X["raw"][train], faces.y[train])
    np.testing.assert_array_equal(metric.components_, np.eye(3, 80))


def test_steps_of_the_published_size_are_accepted_on_scaled_landmarks(data_dir):
    faces = prepare("fgnet", data_dir)
    assert (faces.X["scaled"] ** 2).sum(axis=1).mean() == pytest.approx(136, rel=1e-3)  # 80 components have it all
    train, _ = balanced_split(faces.y, 50, (0, 0))
    with pytest.warns(ConvergenceWarning, match="maximum number of iterations"):
        metric = CMDSMetric(gamma=10.0, max_iter=100).fit(faces.X["scaled"][train], faces.y[train])
    assert metric.n_iter_ == 100
    assert metric.history_[-1].value < 0.1 * metric.history_[0].value
