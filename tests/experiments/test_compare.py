"""The command from its arguments to its files, with few contenders; and a look at the real data."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from ordrank.cli import app
from ordrank.errors import PeerFailedError
from ordrank.experiments import compare, contests
from ordrank.experiments.contender import Contender, Fitted
from ordrank.experiments.ours import our_contenders
from ordrank.experiments.peers import peers
from tests.experiments.fakes import assert_refused, write_fgnet, write_tables


def unavailable(X_train, y_train, X_test, groups=None):
    raise PeerFailedError("it is not installed: make peers")


def sees_more(X_train, y_train, X_test, groups=None):
    return Fitted(np.full(len(X_test), 2.0), X_train, X_test, {}, 0.0, 0.0, 0.0)


def few(like):
    """Our default model, one that sees more, three real methods, one that is limited and one that is not there."""
    by_name = {one.name: one for one in (*our_contenders(like), *peers())}
    return [
        by_name["OrdinalMetric"],
        Contender("OrdinalMetric + unlabelled", "transductive", sees_more, "sees the test samples"),
        by_name["Euclidean"],
        by_name["Euclidean k-NN"],
        by_name["LDA"],
        Contender("small", "peer", by_name["LDA"].fit, "as LDA", largest=20),
        Contender("absent", "peer", unavailable, "none"),
    ]


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(compare, "all_contenders", few)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_tables(folder)
    write_fgnet(folder)
    return folder


def run(*arguments):
    # One process: others would not know of the contenders given here.
    return CliRunner().invoke(app, ["compare", *map(str, arguments), "--jobs", "1"])


def test_tables_end_to_end(data, tmp_path, quick):
    result = run("tables", "--data", data, "--repeats", 3, "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document == json.loads((tmp_path / "results.json").read_text())
    assert set(document) >= {"seed", "versions", "machine", "repeats", "rows", "verdicts", "summary", "choices"}
    assert document["seed"] == 2016
    rows = {(row["contest"], row["method"]): row for row in document["rows"]}
    assert len(rows) == 3 * 7
    for contest in ("car", "tae", "winequality-red"):
        ours = rows[contest, "OrdinalMetric"]
        assert (ours["repeats"], ours["n"], ours["n_test"]) == (3, 30, 10)
        assert 0 <= ours["mae_mean"] < 0.8
        assert ours["same_subject"] is None
        assert rows[contest, "absent"]["failure"] == "failed: it is not installed: make peers"
        assert rows[contest, "small"]["failure"].startswith("not run: it takes too long with more than 20")
    assert "OrdinalMetric + unlabelled" not in {verdict["method"] for verdict in document["verdicts"]}
    counts = document["summary"]["against_peers"]
    assert sum(counts.values()) == 3 * 4
    assert counts["not run"] == 3 * 2


def test_the_report_shows_what_the_document_holds(data, tmp_path, quick):
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
    # Three hold-outs are too few to decide anything.
    assert {verdict["verdict"] for verdict in document["verdicts"]} <= {"undecided", "not run"}
    assert "| undecided |" in text
    assert "OrdinalMetric + unlabelled †" in text


def test_finished_splits_are_kept_and_more_repeats_are_added(data, tmp_path, quick):
    run("tables", "--data", data, "--repeats", 2, "--out", tmp_path)
    first = (tmp_path / "results.json").read_text()
    again = run("tables", "--data", data, "--repeats", 2, "--out", tmp_path)
    assert "running 0 of 6 splits" in again.stderr
    same = [json.loads(text)["rows"] for text in (first, (tmp_path / "results.json").read_text())]
    assert same[0] == same[1]
    journal = tmp_path / "splits.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])  # killed in the middle of a line
    more = run("tables", "--data", data, "--repeats", 3, "--out", tmp_path)
    assert "running 4 of 9 splits" in more.stderr


def test_installing_a_peer_begins_anew(data, tmp_path, quick, monkeypatch):
    run("tables", "--data", data, "--repeats", 2, "--out", tmp_path)
    monkeypatch.setattr(compare, "versions_here", lambda packages: {"mord": "0.7"})
    again = run("tables", "--data", data, "--repeats", 2, "--out", tmp_path)
    assert "beginning anew" in again.stderr.replace("\n", " ")
    assert json.loads((tmp_path / "results.json").read_text())["versions"]["mord"] == "0.7"


def test_people_are_scored_only_where_they_are_in_both_parts(data, tmp_path, quick, monkeypatch):
    monkeypatch.setattr(contests, "MOST_AGES", 2)
    result = run("fgnet", "--data", data, "--repeats", 2, "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert {(row["contest"], row["rule"]) for row in rows} == {
        (contest, rule) for contest in ("fgnet", "fgnet-ages") for rule in ("random", "subject-disjoint")
    }
    for row in rows:
        if row["method"] == "Euclidean k-NN":
            assert (row["same_subject_in_grade"] is not None) == (row["rule"] == "random")
            assert row["order_kept"] is not None
        if row["method"] == "LDA":
            assert row["order_kept"] is row["same_subject"] is None
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
def test_wrong_input_is_one_sentence_and_exit_1(arguments, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(run(*arguments), complaint)
    assert not (tmp_path / "comparison").exists()


def test_an_interrupt_says_that_finished_splits_are_kept(data, tmp_path, monkeypatch):
    def interrupted(like):
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "all_contenders", interrupted)
    result = run("tables", "--data", data, "--out", tmp_path)
    assert result.exit_code == 130
    assert "what was finished is kept, and the same command goes on from there" in result.stderr.replace("\n", " ")


def test_every_contender_has_a_name_of_its_own():
    names = [one.name for one in compare.all_contenders("umist")]
    assert len(names) == len(set(names)) == 21


def test_a_real_table(data_dir, tmp_path, quick, monkeypatch):
    monkeypatch.setattr(contests, "TABLES", ("tae",))  # the others take seconds
    result = run("tables", "--data", data_dir, "--repeats", 5, "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    rows = {row["method"]: row for row in document["rows"]}
    assert rows["Euclidean k-NN"]["mae_mean"] == pytest.approx(0.495, abs=0.01)
    assert rows["LDA"]["mae_mean"] == pytest.approx(0.521, abs=0.01)
    assert {verdict["verdict"] for verdict in document["verdicts"]} <= {"win", "tie", "loss", "not run"}
