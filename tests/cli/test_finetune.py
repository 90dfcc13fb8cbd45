"""The command finetune."""

import builtins
import re
import sys

import pytest

from tests.cli.running import document, done, failed, run


def test_pytorch_is_named_if_it_is_missing(collection, monkeypatch):
    for name in [name for name in sys.modules if name == "ordrank.deep" or name.startswith("ordrank.deep.")]:
        monkeypatch.delitem(sys.modules, name)
    imported = builtins.__import__

    def without_torch(name, *args, **options):
        if name == "torch" or name.startswith("torch."):
            raise ImportError(f"No module named {name!r}")
        return imported(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    assert failed("finetune", collection) == "ordrank: ordrank.deep needs PyTorch: pip install 'ordrank[deep]'\n"


def test_there_is_nothing_to_undo(collection):
    assert "has no fine-tuned network; there is nothing to undo" in failed("finetune", collection, "--undo")


@pytest.mark.parametrize("option", [("--minutes", "-1"), ("--minutes", "soon"), ("--image-size", "big")])
def test_wrong_usage_exits_with_2(collection, option):
    assert run("finetune", collection, *option).exit_code == 2


class TestWithTorch:
    @pytest.fixture(autouse=True)
    def tiny(self):
        pytest.importorskip("torch")
        from tests.deep.tiny import tiny_networks

        with tiny_networks(steps=8):
            yield

    def test_a_network_that_is_adopted(self, collection, monkeypatch):
        errors = iter([0.5, 0.4])
        monkeypatch.setattr("ordrank.collection.finetune._held_out_error", lambda store, progress: next(errors))
        result = run("finetune", collection, "--backbone", "tiny", "--jobs", "1")
        assert result.exit_code == 0, result.output
        assert "has the features of a fine-tuned network" in result.stdout
        assert re.search(r"error before +0.5 mean absolute error with pixels", result.stdout)
        assert re.search(r"error after +0.4, -20 %; of pictures held out of the training", result.stdout)
        output = " ".join(result.stdout.split())
        assert re.search(r"network network-[0-9a-f]{16}\.onnx, trained on 30 pictures", output)
        assert re.search(r"trained 4 networks, .*; 32 batches in \d+ seconds?", output)
        assert "--undo` returns to pixels" in " ".join(result.stdout.split())
        assert re.search(r"training 4 networks with 32 batches in all, about \d+ seconds? …", result.stderr)
        assert "fine-tuned on 30 pictures" in " ".join(done("info", collection).split())
        assert document("info", collection)["finetuned"]["pictures"] == 30
        assert "is trained" in done("finetune", collection, "--undo", "--jobs", "1")
        assert document("info", collection)["features"].startswith("pixels")

    def test_a_network_that_is_not(self, collection):
        found = document("finetune", collection, "--backbone", "tiny", "--jobs", "1")
        assert found["adopted"] is False
        assert found["error_after"] >= found["error_before"]
        assert "keeps its features: the fine-tuned network is not better" in done(
            "finetune", collection, "--backbone", "tiny", "--jobs", "1"
        )

    def test_parameters_are_chosen(self, collection):
        options = ("--backbone", "tiny", "--jobs", "1", "--select")
        found = document("finetune", collection, *options)["selection"]
        assert len(found) == 7
        assert found[0]["parameters"] == {"loss": "cmds", "augmentation": "strong", "epochs": 20}
        result = run("finetune", collection, *options)
        lowest = min(candidate["error"] for candidate in found)
        assert re.search(rf"chosen .* of 7 candidates: error {lowest:.3g}", " ".join(result.stdout.split()))
        assert "candidate 7 of 7 (loss cmds, augmentation strong, epochs 40, about" in " ".join(result.stderr.split())

    def test_unknown_backbones_are_reported(self, collection):
        assert "there is no backbone 'alexnet'" in failed("finetune", collection, "--backbone", "alexnet")

    def test_a_gpu_that_is_not_there_is_reported(self, collection):
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is a GPU here")
        assert "device cuda needs an NVIDIA GPU" in failed("finetune", collection, "--device", "cuda")
