"""The command ``compare`` with few methods, and one real table."""

import json

import numpy as np
import pytest
from ordrank_experiments import compare, conditions, reproduce
from ordrank_experiments.baselines import baselines
from ordrank_experiments.method import BaselineFailedError, Method, MethodResult
from ordrank_experiments.own_methods import own_methods
from typer.testing import CliRunner

from experiments.tests.fakes import assert_rejected, write_fgnet, write_tables
from ordrank.cli import app


def unavailable(X_train, y_train, X_test, groups=None):
    raise BaselineFailedError("it is not installed: make baselines")


def transductive(X_train, y_train, X_test, groups=None):
    return MethodResult(np.full(len(X_test), 2.0), X_train, X_test, {}, 0.0, 0.0, 0.0)


def few_methods(settings_of):
    """The default model, a transductive one, three others, one with a limit and one that is not installed."""
    by_name = {one.name: one for one in (*own_methods(settings_of), *baselines())}
    return [
        by_name["OrdinalMetric"],
        Method("OrdinalMetric + unlabelled", "transductive", transductive, "fitted with the test samples"),
        by_name["Euclidean"],
        by_name["Euclidean k-NN"],
        by_name["LDA"],
        Method("small", "baseline", by_name["LDA"].fit, "as LDA", max_samples=20),
        Method("absent", "baseline", unavailable, "none"),
    ]


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(compare, "all_methods", few_methods)


@pytest.fixture
def one_table(quick, monkeypatch):
    monkeypatch.setattr(conditions, "TABLES", ("tae",))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_tables(folder)
    write_fgnet(folder)
    return folder


def run(*arguments):
    # One process: others would not see the patched methods.
    return CliRunner().invoke(app, ["compare", *map(str, arguments), "--jobs", "1"])


def test_tables_end_to_end(data, tmp_path, quick):
    result = run("tables", "--data", data, "--repeats", 3, "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document == json.loads((tmp_path / "results.json").read_text())
    assert set(document) >= {"seed", "versions", "machine", "repeats", "rows", "tests", "summary", "choices"}
    assert document["seed"] == conditions.SEED
    rows = {(row["benchmark"], row["method"]): row for row in document["rows"]}
    assert len(rows) == 3 * 7
    for table in ("car", "tae", "winequality-red"):
        default = rows[table, "OrdinalMetric"]
        assert (default["repeats"], default["n"], default["n_test"]) == (3, 30, 10)
        assert 0 <= default["mae_mean"] < 0.8
        assert default["same_subject"] is None
        assert rows[table, "absent"]["failure"] == "failed: it is not installed: make baselines"
        assert rows[table, "small"]["failure"].startswith("not run: it takes too long with more than 20")
    assert "OrdinalMetric + unlabelled" not in {test["method"] for test in document["tests"]}
    counts = document["summary"]["against_baselines"]
    assert sum(counts.values()) == 3 * 4
    assert counts["not run"] == 3 * 2


def test_the_report_shows_all_results(data, tmp_path, quick):
    result = run("tables", "--data", data, "--repeats", 2, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "best or tied for best in" in result.stdout
    assert "Open" in result.stdout
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "report.html", "report.md", "results.json", "splits.jsonl",
        "mae-car.png", "mae-tae.png", "mae-winequality-red.png",
    }  # fmt: skip
    page, text = (tmp_path / "report.html").read_text(), (tmp_path / "report.md").read_text()
    document = json.loads((tmp_path / "results.json").read_text())
    assert page.count("data:image/png") == 3
    assert "http" not in page
    for row in document["rows"]:
        assert f"{row['mae_mean']:.4f}" in text if row["mae_mean"] is not None else row["failure"] in text
    for name, choices in document["choices"].items():
        assert f"| {name} | {choices.replace('|', chr(92) + '|')} |" in text
    # Two hold-outs are too few for a test.
    assert {test["outcome"] for test in document["tests"]} <= {"undecided", "not run"}
    assert "| undecided |" in text
    assert "OrdinalMetric + unlabelled †" in text


def test_small_and_drawn_tables(data, tmp_path, one_table, monkeypatch):
    monkeypatch.setattr(conditions, "SMALL_SIZES", (9, 24))
    monkeypatch.setattr(conditions, "DRAWN_TABLES", conditions.DRAWN_TABLES[:1])
    monkeypatch.setattr(conditions, "DRAWN_SIZES", (24,))
    documents = {}
    for name in ("small-tables", "drawn"):
        result = run(name, "--data", data, "--repeats", 3, "--out", tmp_path / name, "--json")
        assert result.exit_code == 0, result.output
        documents[name] = json.loads(result.stdout)
    rows = [row for row in documents["small-tables"]["rows"] if row["method"] == "LDA"]
    assert [(row["benchmark"], row["n"], row["n_test"]) for row in rows] == [
        ("tae-small", 9, 10),
        ("tae-small", 24, 10),
    ]
    (lda,) = [row for row in documents["drawn"]["rows"] if row["method"] == "LDA"]
    assert (lda["benchmark"], lda["n"], lda["n_test"]) == ("drawn-scale", 24, 400)
    assert 0 < lda["rps"] < lda["mae_mean"]
    assert 0 < lda["calibration"] < 1
    assert "calibration error" in (tmp_path / "drawn" / "report.md").read_text()


def test_a_run_resumes_and_adds_repeats(data, tmp_path, one_table):
    run("tables", "--data", data, "--repeats", 2, "--out", tmp_path)
    first = (tmp_path / "results.json").read_text()
    again = run("tables", "--data", data, "--repeats", 2, "--out", tmp_path)
    assert "running 0 of 2 splits" in again.stderr
    same = [json.loads(text)["rows"] for text in (first, (tmp_path / "results.json").read_text())]
    assert same[0] == same[1]
    checkpoint = tmp_path / "splits.jsonl"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-20])  # truncated by a kill
    more = run("tables", "--data", data, "--repeats", 3, "--out", tmp_path)
    assert "running 2 of 3 splits" in more.stderr


def test_installing_a_baseline_starts_over(data, tmp_path, one_table, monkeypatch):
    run("tables", "--data", data, "--repeats", 2, "--out", tmp_path)
    monkeypatch.setattr(compare, "installed_versions", lambda packages: {"mord": "0.7"})
    again = run("tables", "--data", data, "--repeats", 2, "--out", tmp_path)
    assert "starting over" in again.stderr.replace("\n", " ")
    assert json.loads((tmp_path / "results.json").read_text())["versions"]["mord"] == "0.7"


def test_subjects_are_scored_only_if_shared(data, tmp_path, quick, monkeypatch):
    five_ages = conditions._faces("fgnet", "FG-NET", reproduce.prepare("fgnet", data), (40,), 80)
    monkeypatch.setattr(conditions, "_five_ages", lambda path: five_ages)
    result = run("fgnet", "--data", data, "--repeats", 2, "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert {(row["benchmark"], row["rule"]) for row in rows} == {
        (name, rule) for name in ("fgnet", "fgnet-ages") for rule in ("random", "subject-disjoint")
    }
    for row in rows:
        if row["method"] == "Euclidean k-NN":
            assert (row["same_subject_in_grade"] is not None) == (row["rule"] == "random")
            assert row["order_preservation"] is not None
        if row["method"] == "LDA":
            assert row["order_preservation"] is row["same_subject"] is None
    assert (tmp_path / "mae-fgnet-ages.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["umist", "--data", "nowhere"], "nowhere does not exist. Get the cropped UMIST"),
        (["retinamnist", "--data", "."], "no retinamnist.npz in"),
        (["tables", "--data", "."], "no car.npz in"),
        (["all", "--repeats", "1"], "repeats must be at least 2"),
    ],
)
def test_wrong_input_exits_1_with_one_sentence(arguments, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_rejected(run(*arguments), complaint)
    assert not (tmp_path / "comparison").exists()


def test_an_interrupt_keeps_finished_splits(data, tmp_path, monkeypatch):
    def interrupted(settings_of):
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "all_methods", interrupted)
    result = run("tables", "--data", data, "--out", tmp_path)
    assert result.exit_code == 130
    assert "finished splits are kept, and the same command resumes" in result.stderr.replace("\n", " ")


def test_names_of_methods_are_unique():
    names = [one.name for one in compare.all_methods("umist")]
    assert len(names) == len(set(names)) == 24


def test_a_real_table(data_dir, tmp_path, one_table):
    result = run("tables", "--data", data_dir, "--repeats", 5, "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    rows = {row["method"]: row for row in document["rows"]}
    assert rows["Euclidean k-NN"]["mae_mean"] == pytest.approx(0.479, abs=0.01)
    assert rows["LDA"]["mae_mean"] == pytest.approx(0.521, abs=0.01)
    assert {test["outcome"] for test in document["tests"]} <= {"win", "tie", "loss", "not run"}
