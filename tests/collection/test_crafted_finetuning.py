"""Whatever a stranger has left of an interrupted fine-tuning, the command succeeds or fails with one sentence."""

import os
import shutil

import pytest

torch = pytest.importorskip("torch")

from safetensors import safe_open  # noqa: E402
from safetensors.torch import load, save  # noqa: E402

from tests.cli.running import run  # noqa: E402
from tests.collection.commands import finetune  # noqa: E402
from tests.collection.crafted import directory, execute, limited_time, meta  # noqa: E402
from tests.deep.tiny import tiny_networks  # noqa: E402

MINUTES = 5  # more than the steps take, so that they are all trained
FIRST = "network-0.safetensors"


@pytest.fixture(scope="session")
def _interrupted_once(_trained_once, tmp_path_factory):
    def stop(stage, done, total):
        if stage.startswith("training") and done == 5:
            raise KeyboardInterrupt

    collection = shutil.copytree(_trained_once, tmp_path_factory.mktemp("interrupted") / "collection")
    with pytest.raises(KeyboardInterrupt):
        finetune(collection, minutes=MINUTES, progress=stop)
    return collection


@pytest.fixture
def interrupted(_interrupted_once, tmp_path):
    """A collection with what an interrupted fine-tuning has left: a checkpoint after 3 of 8 steps."""
    return shutil.copytree(_interrupted_once, tmp_path / "collection")


def tune(collection, *options):
    """Run the command, which must succeed or fail with one sentence; return what it printed."""
    with limited_time(), tiny_networks(steps=8):
        result = run("finetune", collection, "--backbone", "tiny", "--jobs", 1, "--minutes", MINUTES, *options)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code in (0, 1), result.output
    if result.exit_code == 1:
        assert result.stderr.splitlines()[-1].startswith("ordrank: ")
    return " ".join(result.output.split())


def written(name, content):
    return lambda work: (work / name).write_bytes(content)


def replaced(name, make):
    """A change that makes something else of a file."""

    def change(work):
        (work / name).unlink(missing_ok=True)
        make(work / name)

    return change


def tensors(edit):
    """A change of the tensors of a checkpoint, whose metadata stay."""

    def change(work):
        with safe_open(work / FIRST, "pt") as stored:
            metadata = stored.metadata()
        found = load((work / FIRST).read_bytes())
        (work / FIRST).write_bytes(save(found | edit(found), metadata))

    return change


def plan(steps):
    return written("plan.json", f'{{"minutes": {MINUTES}, "steps": {steps}}}'.encode())


def bomb(file):
    """A few bytes that unpack to a gigabyte, as the checkpoints of PyTorch may be."""
    import zipfile

    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(2**20))


RESTART = {
    "run nested": written("run.jsonl", b"[" * 1000),
    "run not text": written("run.jsonl", b"\xff"),
    "run empty": written("run.jsonl", b""),
    "run of other settings": written("run.jsonl", b"{}"),
    "run endless": lambda work: os.truncate(work / "run.jsonl", 2**40),
}
DAMAGED = {
    "checkpoint empty": written(FIRST, b""),
    "checkpoint no dict": written(FIRST, b"\x02\0\0\0\0\0\0\0[]"),
    "checkpoint packed": replaced(FIRST, bomb),
    "checkpoint with a huge header": written(FIRST, (2**62).to_bytes(8, "little")),
    "checkpoint a folder": replaced(FIRST, directory),
    "shape of a parameter": tensors(lambda found: {"parameter 0": torch.zeros(1)}),
    "type of a moment": tensors(lambda found: {"exp_avg_sq 1": found["exp_avg_sq 1"].long()}),
    "another tensor": tensors(lambda found: {"more": torch.zeros(1)}),
    "parameter not finite": tensors(lambda found: {"parameter 0": found["parameter 0"] / 0}),
    "losses of another type": tensors(lambda found: {"losses": torch.zeros(3, dtype=torch.uint8)}),
    "losses a table": tensors(lambda found: {"losses": torch.zeros(3, 3, dtype=torch.float64)}),
    "too many losses": tensors(lambda found: {"losses": torch.zeros(10_000, dtype=torch.float64)}),
    "no losses": tensors(lambda found: {"losses": torch.zeros(0, dtype=torch.float64)}),
}


@pytest.mark.parametrize("case", RESTART)
def test_a_run_that_is_none_begins_anew(case, interrupted):
    RESTART[case](interrupted / "finetuning")
    assert "beginning anew" in tune(interrupted)


@pytest.mark.parametrize("case", DAMAGED)
def test_a_checkpoint_that_is_none_is_named(case, interrupted):
    DAMAGED[case](interrupted / "finetuning")
    assert "cannot be read as a checkpoint" in tune(interrupted)


def test_huge_values_of_a_checkpoint_are_named(interrupted):
    tensors(lambda found: {name: tensor + 1e38 for name, tensor in found.items() if name.startswith("parameter")})(
        interrupted / "finetuning"
    )
    assert "with lower learning rates it might not" in tune(interrupted)


@pytest.mark.parametrize("steps", ["1e400", "1" * 50, "-1", "0", '"x"', "[" * 1000, "8" + " " * 2**20])
def test_a_plan_that_is_none_changes_nothing(steps, interrupted):
    plan(steps)(interrupted / "finetuning")
    assert "continuing an interrupted run" in (output := tune(interrupted))
    assert "with 32 batches in all" in output


@pytest.mark.parametrize("name", ["run.jsonl", "plan.json", FIRST, "candidate-0", "candidate-0/plan.json", "."])
def test_links_are_not_followed(name, interrupted, tmp_path):
    elsewhere = directory(tmp_path / "elsewhere")
    for file in ("plan.json", FIRST, "run.jsonl", "writer.lock"):
        (elsewhere / file).write_text("mine")
    path = interrupted / "finetuning" / name
    path.parent.mkdir(exist_ok=True)
    if name == ".":
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(elsewhere)
    assert "is a link" in tune(interrupted)
    assert [(elsewhere / file).read_text() for file in os.listdir(elsewhere)] == ["mine"] * 4


@pytest.mark.parametrize("name", ["run.jsonl", "plan.json", FIRST, "candidate-0", "other"])
def test_pipes_do_not_block(name, interrupted):
    replaced(name, os.mkfifo)(interrupted / "finetuning")
    assert "is a link, or no file; delete it" in tune(interrupted)


@pytest.mark.parametrize("name", ["run.jsonl", "plan.json"])
def test_folders_in_place_of_files_are_named(name, interrupted):
    replaced(name, directory)(interrupted / "finetuning")
    assert name in tune(interrupted)


def test_a_file_in_place_of_a_candidate_is_named(interrupted):
    written("candidate-0", b"x")(interrupted / "finetuning")
    assert "ordrank: Not a directory" in tune(interrupted)


@pytest.mark.parametrize("outputs", ["'text'", "zeroblob(3)", "zeroblob(4000)", "x'0000c07f0000c07f'"])
def test_outputs_of_a_network_that_are_impossible_are_named(outputs, trained, drawn, always_better):
    assert finetune(trained).adopted
    assert run("remove", trained, "001.png").exit_code == 0
    execute(f"UPDATE network_samples SET outputs = {outputs}")(trained)
    result = run("add", trained, drawn / "pictures" / "001.png", "--jobs", 1)
    assert result.exit_code == 1
    assert "is damaged (the outputs of a network are " in result.stderr


def test_features_before_that_came_with_a_collection_are_not_run(trained, always_better):
    (trained / finetune(trained).network).unlink()
    meta("features before", "onnx:collection/net.onnx")(trained)
    result = run("finetune", trained, "--undo", "--jobs", 1)
    assert result.exit_code == 1
    assert "names onnx:collection/net.onnx without its folder" in result.stderr
