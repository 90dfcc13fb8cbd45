"""Whatever values a collection from a stranger holds, each command succeeds or fails with one sentence."""

from contextlib import suppress

import pytest

from ordrank import Collection
from ordrank.errors import InputError
from tests.cli.running import failed, run
from tests.collection.crafted import limited_time, meta, own_network, selected
from tests.collection.crafted_cases import CASES
from tests.collection.pictures import draw
from tests.features.test_onnx_check import loop


def check(*arguments):
    """Run a command, which must succeed or print one sentence."""
    with limited_time():
        result = run(*arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code in (0, 1), result.output
    assert "Traceback" not in result.output
    assert "not enough memory" not in result.stderr
    if result.exit_code == 1:
        assert result.stderr.splitlines()[-1].startswith("ordrank: ")


@pytest.mark.parametrize("case", selected(CASES, 0))
def test_commands_succeed_or_fail_with_a_sentence(case, judged, tmp_path):
    CASES[case](judged)
    draw(60).save(tmp_path / "new.png")
    check("info", judged)
    check("rank", judged, "005.png", tmp_path / "new.png")
    check("export", judged, "--out", tmp_path / "out.csv")
    check("doctor", judged)
    check("evaluate", judged, "--folds", 2)
    with limited_time(), suppress(InputError), Collection.open(judged) as collection:
        collection.grade("003.png", 1, grader="ann")
        collection.undo(grader="ann")
        collection.labeling.compare("003.png", "005.png", 1)
    check("add", judged, tmp_path / "new.png", "--jobs", 1)
    check("remove", judged, "000.png", "001.png")
    check("fit", "--out", judged)
    check("rank", judged, "006.png")


def test_a_network_with_a_loop_is_not_run(judged, tmp_path):
    own_network(judged, loop().SerializeToString())
    draw(60).save(tmp_path / "new.png")
    with limited_time():
        message = failed("add", judged, tmp_path / "new.png", "--jobs", 1)
    assert "onnx has a loop or a branch, and is not run: it may come from anyone; go back to the features" in message


@pytest.mark.parametrize("features", ["onnx:net.onnx", "onnx:./net.onnx", "hog+onnx:collection/net.onnx"])
def test_a_network_that_came_with_a_collection_is_not_run(features, judged, tmp_path, monkeypatch):
    meta("extractor", features)(judged)
    monkeypatch.chdir(judged.parent)
    draw(60).save(tmp_path / "new.png")
    assert "without its folder; that was not written by ordrank" in failed(
        "add", judged, tmp_path / "new.png", "--jobs", 1
    )
